//! ifupdown: `/etc/network/interfaces` and what it sources. Pure.

/// What is written for methods that know no `mtu` of their own, such as `dhcp`.
const PRE_UP: &str = "pre-up ip link set dev $IFACE mtu";
/// The methods whose `mtu` ifupdown carries out.
const WITH_MTU: [&str; 2] = ["static", "manual"];

/// What one file says of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) mtu: Option<u32>,
}

/// What a file says of an interface; nothing if it does not describe it.
pub(super) fn read(text: &str, link: &str) -> Option<Said> {
    let mut said = None;
    for (line, stanza) in lines(text) {
        if let Some(stanza) = stanza.filter(|stanza| stanza.link == link) {
            let said = said.get_or_insert(Said { mtu: None });
            if stanza.inside {
                said.mtu = said.mtu.or(mtu_of(line));
            }
        }
    }
    said
}

/// The same file saying another MTU of an interface, or none.
pub(super) fn write(text: &str, link: &str, mtu: Option<u32>) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let stanzas = || lines(text).filter_map(|(line, stanza)| Some((line, stanza?)));
    let said = stanzas().any(|(line, stanza)| stanza.link == link && stanza.inside && mtu_of(line).is_some());
    let mut written = false;
    for (line, stanza) in lines(text) {
        let of_ours = stanza.filter(|stanza| stanza.link == link);
        match (of_ours, mtu) {
            (Some(stanza), _) if stanza.inside && mtu_of(line).is_some() => {
                let indent = &line[..line.len() - line.trim_start().len()];
                if let Some(mtu) = mtu {
                    out += &format!("{indent}{}\n", option(stanza.method, mtu));
                }
            }
            (Some(stanza), Some(mtu)) if !stanza.inside && !said && !written => {
                written = true;
                out += &format!("{line}\n    {}\n", option(stanza.method, mtu));
            }
            (Some(_) | None, _) => out += &format!("{line}\n"),
        }
    }
    out
}

fn option(method: &str, mtu: u32) -> String {
    if WITH_MTU.contains(&method) { format!("mtu {mtu}") } else { format!("{PRE_UP} {mtu}") }
}

fn mtu_of(line: &str) -> Option<u32> {
    let line = line.trim();
    let plain = line.strip_prefix("mtu").filter(|value| value.starts_with(char::is_whitespace));
    plain.or_else(|| line.strip_prefix(PRE_UP))?.trim().parse().ok()
}

/// The part of a file that describes one interface.
#[derive(Clone, Copy)]
struct Stanza<'t> {
    link: &'t str,
    method: &'t str,
    /// Not its first line.
    inside: bool,
}

/// The lines of a file, each with the interface it describes.
fn lines(text: &str) -> impl Iterator<Item = (&str, Option<Stanza<'_>>)> {
    let mut stanza: Option<Stanza<'_>> = None;
    text.lines().map(move |line| {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("iface") => {
                let link = words.next().unwrap_or_default();
                stanza = Some(Stanza { link, method: words.nth(1).unwrap_or_default(), inside: false });
            }
            Some(
                "auto" | "mapping" | "source" | "source-directory" | "template" | "rename" | "no-auto-down",
            )
            | Some("no-scripts") => stanza = None,
            Some(word) if word.starts_with("allow-") => stanza = None,
            Some(_) | None => {
                if let Some(stanza) = &mut stanza {
                    stanza.inside = true;
                }
            }
        }
        (line, stanza)
    })
}

/// Patterns of further files a file sources, as they are written.
pub(super) fn sources(text: &str) -> Vec<String> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter_map(|words| match words[..] {
            ["source", path] => Some(path.to_owned()),
            ["source-directory", path] => Some(format!("{}/*", path.trim_end_matches('/'))),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
source /etc/network/interfaces.d/*

auto eth0
iface eth0 inet static
    address 192.0.2.1/24
    mtu 1500
    gateway 192.0.2.254
iface eth0 inet6 static
    address fd00::1/64
    mtu 1500

auto eth1
iface eth1 inet dhcp
iface eth2 inet static
\taddress 198.51.100.1/24
";

    #[test]
    fn an_mtu_is_found_in_any_of_an_interfaces_stanzas() {
        for (link, said) in [
            ("eth0", Some(Said { mtu: Some(1500) })),
            ("eth1", Some(Said { mtu: None })),
            ("eth2", Some(Said { mtu: None })),
            ("eth3", None),
        ] {
            assert_eq!(read(TEXT, link), said, "{link}");
        }
        assert_eq!(sources(TEXT), ["/etc/network/interfaces.d/*"]);
    }

    #[test]
    fn an_mtu_is_found_however_it_is_set_off_and_said_once() {
        let tabbed = "iface eth0 inet static\n\tmtu\t1500\n\tmtux 9\n";
        assert_eq!(read(tabbed, "eth0"), Some(Said { mtu: Some(1500) }));
        assert_eq!(write(tabbed, "eth0", Some(9000)), "iface eth0 inet static\n\tmtu 9000\n\tmtux 9\n");
    }

    #[test]
    fn every_stanza_that_says_one_says_the_new_one_and_nothing_else_changes() {
        assert_eq!(write(TEXT, "eth0", Some(9000)), TEXT.replace("1500", "9000"));
        assert_eq!(write(TEXT, "eth0", None), TEXT.replace("    mtu 1500\n", ""));
        assert_eq!(write(TEXT, "eth3", Some(9000)), TEXT);
    }

    #[test]
    fn a_stanza_that_says_none_gets_one_its_method_understands_and_loses_it_again() {
        for (link, line) in [("eth1", "    pre-up ip link set dev $IFACE mtu 9000"), ("eth2", "    mtu 9000")]
        {
            let written = write(TEXT, link, Some(9000));
            assert!(written.lines().any(|l| l == line), "{written}");
            assert_eq!(read(&written, link), Some(Said { mtu: Some(9000) }));
            assert_eq!(read(&written, "eth0"), read(TEXT, "eth0"));
            assert_eq!(write(&written, link, None), TEXT, "{link}");
        }
    }
}
