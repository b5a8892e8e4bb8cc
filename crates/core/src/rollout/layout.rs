//! What a configuration looks like on a disk.

use std::collections::BTreeMap;

use super::config::{File, Spec, Unit};

/// Where units are.
pub const UNITS: &str = "/etc/systemd/system";
/// Where kernel arguments are, read by the boot loader's configuration. After it changed, that is made anew.
pub const KERNEL_ARGUMENTS: &str = "/etc/default/grub.d/90-netferry.cfg";

/// What is at a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Entry {
    /// A file.
    File {
        /// Its permissions.
        mode: u32,
        /// What is in it.
        contents: Vec<u8>,
    },
    /// A symbolic link.
    Symlink(String),
}

/// What a configuration puts where.
pub type Layout = BTreeMap<String, Entry>;

/// The layout of a configuration: its files, its units as files and links, its kernel arguments as a file.
pub fn layout(spec: &Spec) -> Layout {
    let mut layout = Layout::new();
    for File { path, mode, contents } in &spec.files {
        layout.insert(path.clone(), Entry::File { mode: *mode, contents: contents.clone() });
    }
    spec.units.iter().for_each(|unit| layout.extend(of_unit(unit)));
    layout.extend(of_arguments(&spec.kernel_arguments));
    layout
}

fn text(text: &str) -> Entry {
    Entry::File { mode: File::DEFAULT_MODE, contents: text.as_bytes().to_vec() }
}

/// What a unit puts where.
pub(super) fn of_unit(unit: &Unit) -> Layout {
    let mut layout = Layout::new();
    let Unit { name, enabled, masked, contents, dropins } = unit;
    if *masked {
        layout.insert(format!("{UNITS}/{name}"), Entry::Symlink("/dev/null".into()));
    } else if let Some(contents) = contents {
        layout.insert(format!("{UNITS}/{name}"), text(contents));
    }
    for (dropin, contents) in dropins {
        layout.insert(format!("{UNITS}/{name}.d/{dropin}"), text(contents));
    }
    if let (Some(true), false, Some(contents)) = (enabled, masked, contents) {
        for link in installs(name, contents) {
            layout.insert(link, Entry::Symlink(format!("{UNITS}/{name}")));
        }
    }
    layout
}

/// Where kernel arguments are put, if there are any.
pub(super) fn of_arguments(arguments: &[String]) -> Option<(String, Entry)> {
    let joined = arguments.join(" ");
    let line = format!("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {joined}\"\n");
    (!arguments.is_empty()).then(|| (KERNEL_ARGUMENTS.into(), text(&line)))
}

/// The links that enable a unit, as its `[Install]` section says.
pub fn installs(name: &str, contents: &str) -> Vec<String> {
    let link = |(key, by): (&str, &str)| match key {
        "WantedBy" => Some(format!("{UNITS}/{by}.wants/{name}")),
        "RequiredBy" => Some(format!("{UNITS}/{by}.requires/{name}")),
        "Alias" => Some(format!("{UNITS}/{by}")),
        _ => None,
    };
    install_names(contents).into_iter().filter_map(link).collect()
}

/// The names of units in an `[Install]` section, each with its key. A path is made of each of them, here or by
/// `systemctl enable`.
pub(super) fn install_names(contents: &str) -> Vec<(&str, &str)> {
    const KEYS: [&str; 5] = ["WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also"];
    let mut section = "";
    let mut found = Vec::new();
    for line in contents.lines().map(str::trim) {
        if let Some(inner) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = inner;
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| section == "Install") else { continue };
        if let Some(key) = KEYS.into_iter().find(|known| *known == key.trim()) {
            found.extend(value.split_whitespace().map(|name| (key, name)));
        }
    }
    found
}

/// A managed path that is not as it should be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Drift {
    /// It is not there.
    #[error("{0} is missing")]
    Missing(String),
    /// It is a link, a directory or something else.
    #[error("{0} is not what it should be: it is of another kind")]
    Kind(String),
    /// Other permissions.
    #[error("{path} has mode {is:o}, not {shall:o}")]
    Mode {
        /// Which.
        path: String,
        /// What it has.
        is: u32,
        /// What it should have.
        shall: u32,
    },
    /// Other contents.
    #[error("{0} has other contents")]
    Contents(String),
    /// Another target.
    #[error("{path} leads to {is}, not {shall}")]
    Target {
        /// Which.
        path: String,
        /// Where it leads.
        is: String,
        /// Where it should.
        shall: String,
    },
}

/// What is at a path, as far as drift goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A file or a link.
    Entry(Entry),
    /// Something else.
    Other,
}

/// Compares a layout with what is there. Times do not count: touching a file is no drift.
pub fn drift(layout: &Layout, found: impl Fn(&str) -> Found) -> Vec<Drift> {
    let mut drifts = Vec::new();
    for (path, shall) in layout {
        let path = path.clone();
        match (shall, found(&path)) {
            (_, Found::Nothing) => drifts.push(Drift::Missing(path)),
            (Entry::Symlink(shall), Found::Entry(Entry::Symlink(is))) => {
                if is != *shall {
                    drifts.push(Drift::Target { path, is, shall: shall.clone() });
                }
            }
            (Entry::File { mode, contents }, Found::Entry(Entry::File { mode: is, contents: has })) => {
                if is != *mode {
                    drifts.push(Drift::Mode { path: path.clone(), is, shall: *mode });
                }
                if has != *contents {
                    drifts.push(Drift::Contents(path));
                }
            }
            (Entry::File { .. }, Found::Entry(Entry::Symlink(_)) | Found::Other)
            | (Entry::Symlink(_), Found::Entry(Entry::File { .. }) | Found::Other) => {
                drifts.push(Drift::Kind(path))
            }
        }
    }
    drifts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = "[Service]\nWantedBy=nobody\n[Install]\nWantedBy=multi-user.target a.target\nRequiredBy=b.target\nAlias=d.service\n";

    fn spec() -> Spec {
        let unit = |name: &str| Unit { name: name.into(), ..Unit::default() };
        Spec {
            files: vec![File { path: "/etc/a".into(), mode: 0o600, contents: b"a".to_vec() }],
            units: vec![
                Unit {
                    enabled: Some(true),
                    contents: Some(SERVICE.into()),
                    dropins: BTreeMap::from([("10-x.conf".into(), "x".into())]),
                    ..unit("a.service")
                },
                Unit { masked: true, enabled: Some(true), ..unit("b.service") },
                Unit { enabled: Some(false), contents: Some(SERVICE.into()), ..unit("c.service") },
            ],
            kernel_arguments: vec!["quiet".into(), "debug".into()],
            ..Spec::default()
        }
    }

    #[test]
    fn units_are_files_and_enabling_and_masking_are_links() {
        let shown: Vec<String> = layout(&spec())
            .iter()
            .map(|(path, entry)| match entry {
                Entry::File { mode, contents } => format!("{path} {mode:o} {}", contents.len()),
                Entry::Symlink(to) => format!("{path} -> {to}"),
            })
            .collect();
        let service = SERVICE.len();
        assert_eq!(
            shown,
            [
                "/etc/a 600 1".to_owned(),
                "/etc/default/grub.d/90-netferry.cfg 644 53".to_owned(),
                format!("/etc/systemd/system/a.service 644 {service}"),
                "/etc/systemd/system/a.service.d/10-x.conf 644 1".to_owned(),
                "/etc/systemd/system/a.target.wants/a.service -> /etc/systemd/system/a.service".to_owned(),
                "/etc/systemd/system/b.service -> /dev/null".to_owned(),
                "/etc/systemd/system/b.target.requires/a.service -> /etc/systemd/system/a.service".to_owned(),
                format!("/etc/systemd/system/c.service 644 {service}"),
                "/etc/systemd/system/d.service -> /etc/systemd/system/a.service".to_owned(),
                "/etc/systemd/system/multi-user.target.wants/a.service -> /etc/systemd/system/a.service"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn every_way_a_managed_path_can_stray_is_seen_and_a_touch_is_not() {
        let layout = layout(&spec());
        let as_it_should = |path: &str| Found::Entry(layout[path].clone());
        assert_eq!(drift(&layout, as_it_should), []);
        let file = |mode, contents: &[u8]| Found::Entry(Entry::File { mode, contents: contents.to_vec() });
        for (path, found, said) in [
            ("/etc/a", Found::Nothing, "/etc/a is missing"),
            ("/etc/a", Found::Other, "/etc/a is not what it should be: it is of another kind"),
            ("/etc/a", file(0o644, b"a"), "/etc/a has mode 644, not 600"),
            ("/etc/a", file(0o600, b"b"), "/etc/a has other contents"),
            (
                "/etc/systemd/system/b.service",
                Found::Entry(Entry::Symlink("/x".into())),
                "/etc/systemd/system/b.service leads to /x, not /dev/null",
            ),
            (
                "/etc/systemd/system/b.service",
                file(0o644, b""),
                "/etc/systemd/system/b.service is not what it should be: it is of another kind",
            ),
            (
                "/etc/systemd/system/a.service.d/10-x.conf",
                Found::Nothing,
                "/etc/systemd/system/a.service.d/10-x.conf is missing",
            ),
        ] {
            let at = |asked: &str| if asked == path { found.clone() } else { as_it_should(asked) };
            assert_eq!(drift(&layout, at).iter().map(Drift::to_string).collect::<Vec<_>>(), [said]);
        }
    }
}
