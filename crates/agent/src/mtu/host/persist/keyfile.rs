//! Files of sections and `key=value` lines: NetworkManager's keyfiles and systemd-networkd's units. Pure.

/// The value of a key, the last one if it is there more than once.
pub(super) fn get<'t>(text: &'t str, sections: &[&str], key: &str) -> Option<&'t str> {
    let found = entries(text).filter(|(section, entry, _)| sections.contains(section) && *entry == key);
    found.last().map(|(_, _, value)| value)
}

/// Every value of a key.
pub(super) fn all<'t>(text: &'t str, section: &str, key: &str) -> Vec<&'t str> {
    entries(text).filter(|(s, k, _)| *s == section && *k == key).map(|(_, _, value)| value).collect()
}

/// The same text with a key in the first of the sections that is there, or without it in any of them.
pub(super) fn set(text: &str, sections: &[&str], key: &str, value: Option<&str>) -> String {
    let home = sections.iter().find(|home| text.lines().any(|line| section_of(line) == Some(*home)));
    let home = home.or(sections.first()).copied().unwrap_or_default();
    let mut out = String::with_capacity(text.len() + 32);
    let mut section = "";
    let mut written = value.is_none();
    let line_of = |value: &str| format!("{key}={value}\n");
    for line in text.lines() {
        if let Some(next) = section_of(line) {
            section = next;
            out += &format!("{line}\n");
            if let (true, false, Some(value)) = (section == home, written, value) {
                out += &line_of(value);
                written = true;
            }
            continue;
        }
        let ours = sections.contains(&section) && line.split_once('=').is_some_and(|(k, _)| k.trim() == key);
        if !ours {
            out += &format!("{line}\n");
        }
    }
    if value.is_none() {
        // A section that was made for the key goes with it.
        for section in sections {
            if let Some(rest) = out.trim_end().strip_suffix(&format!("[{section}]")) {
                out = format!("{}\n", rest.trim_end());
            }
        }
    }
    if let (false, Some(value)) = (written, value) {
        if !out.is_empty() && !out.ends_with("\n\n") {
            out.push('\n');
        }
        out += &format!("[{home}]\n{}", line_of(value));
    }
    out
}

fn section_of(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.strip_suffix(']')
}

fn entries(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut section = "";
    text.lines().filter_map(move |line| {
        if let Some(next) = section_of(line) {
            section = next;
            return None;
        }
        let line = line.trim();
        let (key, value) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))?;
        Some((section, key.trim(), value.trim()))
    })
}

/// Whether a shell pattern with `*` and `?` matches.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.split_at_checked(1), name.chars().next()) {
        (None, first) => first.is_none(),
        (Some(("*", rest)), None) => matches(rest, name),
        (Some(("*", rest)), Some(first)) => {
            matches(rest, name) || matches(pattern, &name[first.len_utf8()..])
        }
        (Some(("?", rest)), Some(first)) => matches(rest, &name[first.len_utf8()..]),
        (Some((one, rest)), Some(first)) => {
            one.starts_with(first) && matches(rest, &name[first.len_utf8()..])
        }
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "[connection]\nid=a\n# mtu=1\ninterface-name=eth0\n\n[ethernet]\ncloned-mac-address=stable\n\n[ipv4]\nmethod=auto\n";

    #[test]
    fn a_key_is_set_changed_and_taken_away_and_nothing_else_changes() {
        let sections = ["ethernet", "802-3-ethernet"];
        assert_eq!(get(PROFILE, &sections, "mtu"), None);
        let set_once = set(PROFILE, &sections, "mtu", Some("9000"));
        assert_eq!(get(&set_once, &sections, "mtu"), Some("9000"));
        assert_eq!(set_once, PROFILE.replace("[ethernet]\n", "[ethernet]\nmtu=9000\n"));
        let changed = set(&set_once, &sections, "mtu", Some("1500"));
        assert_eq!(changed, PROFILE.replace("[ethernet]\n", "[ethernet]\nmtu=1500\n"));
        assert_eq!(set(&changed, &sections, "mtu", None), PROFILE);
        let without = "[connection]\nid=a\n";
        let made = set(without, &sections, "mtu", Some("9"));
        assert_eq!(made, "[connection]\nid=a\n\n[ethernet]\nmtu=9\n");
        assert_eq!(set(&made, &sections, "mtu", None), without);
        let old = "[802-3-ethernet]\nmtu = 1400\n";
        assert_eq!(get(old, &sections, "mtu"), Some("1400"));
        assert_eq!(set(old, &sections, "mtu", Some("9")), "[802-3-ethernet]\nmtu=9\n");
    }

    #[test]
    fn names_are_matched_as_a_shell_would() {
        for (pattern, name, is) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth*", "eth01", true),
            ("*", "", true),
            ("e?h0", "eth0", true),
            ("e?h0", "eh0", false),
            ("*0", "eth0", true),
            ("", "eth0", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }
}
