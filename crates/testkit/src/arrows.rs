//! Which folders may not name which modules. A capability is a folder in each role; what several need is shared. The table
//! follows from that, and keeps a new capability from being written into an existing one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const CAPABILITIES: [&str; 5] = ["mtu", "migration", "hostnet", "singlenode", "egressip"];
const PLUGINS: [&str; 2] = ["ovn", "sdn"];

/// Folders of shared machinery, and what none of their files may name.
const SHARED: [(&str, &[&str]); 14] = [
    ("api/src/rollout", &CAPABILITIES),
    ("core/src/rollout", &CAPABILITIES),
    ("core/src/probe", &CAPABILITIES),
    ("core/src/overlay", &["mtu", "migration", "hostnet", "egressip"]),
    ("core/src/overlay/policy", &PLUGINS),
    ("core/src/overlay/host", &PLUGINS),
    ("operator/src/rollout", &CAPABILITIES),
    ("operator/src/cluster", &CAPABILITIES),
    ("operator/src/lead", &CAPABILITIES),
    ("agent/src/machine", &CAPABILITIES),
    ("agent/src/node", &CAPABILITIES),
    ("agent/src/cluster", &CAPABILITIES),
    ("agent/src/host_init", &CAPABILITIES),
    ("agent/src/overlay/pods", &PLUGINS),
];

/// The roles in which a capability may not name another.
const ROLES: [&str; 5] = ["api/src", "core/src", "translate/src", "operator/src", "agent/src"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The names of modules in the paths of a text: identifiers before or after `::`, and in the braces of a `use`. The last
/// part of a `use` may be a function, so it counts only if it ends a path to a module of that name.
fn named(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        let code = line.split(" // ").next().unwrap_or_default();
        let mut rest = code;
        while let Some(at) = rest.find("::") {
            let before = rest[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
            found.extend(before);
            rest = &rest[at + 2..];
        }
        if let Some((_, group)) = code.split_once("::{") {
            let parts = group.split(['{', '}', ',', ';']).map(str::trim);
            found.extend(parts.filter_map(|part| part.strip_suffix(" as _").or(Some(part))));
            found.extend(group.split([',', '{']).filter_map(|part| part.trim().split("::").next()));
        } else if let Some(path) = code.strip_prefix("use ").and_then(|path| path.strip_suffix(';')) {
            found.extend(path.rsplit("::").next().and_then(|last| last.split(" as ").next()));
        }
    }
    found
}

/// Files below a folder that name one of these modules.
fn offenders(folder: &Path, forbidden: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(folder) {
        let text = fs::read_to_string(&file).unwrap();
        // The functions `mtu` and `name` of core's tests are no modules.
        let text = text.replace("fixtures::{mtu, name}", "").replace("fixtures::mtu", "");
        let named = named(&text);
        let wrong: Vec<&&str> = forbidden.iter().filter(|name| named.contains(**name)).collect();
        if !wrong.is_empty() {
            found.push(format!("{} names {wrong:?}", file.display()));
        }
    }
    found
}

#[test]
fn shared_folders_name_no_capability() {
    let found: Vec<String> = SHARED
        .iter()
        .flat_map(|(folder, forbidden)| {
            let folder = crates().join(folder);
            assert!(!sources(&folder).is_empty(), "{} has moved; so must its line here", folder.display());
            offenders(&folder, forbidden)
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_capability_names_another() {
    let mut found = Vec::new();
    for role in ROLES {
        for capability in CAPABILITIES {
            // A change of the plugin is made of changes of the MTU.
            let may = |other: &&str| *other == capability || (capability == "migration" && *other == "mtu");
            let others: Vec<&str> = CAPABILITIES.iter().copied().filter(|other| !may(other)).collect();
            found.extend(offenders(&crates().join(role).join(capability), &others));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_arrow_in_the_wrong_direction_is_noticed() {
    for wrong in [
        "use crate::mtu::record::Record;",
        "use netferry_core::mtu;",
        "use netferry_core::{mtu, name::NodeName};",
        "use netferry_core::{name::NodeName, mtu::check};",
        "    let epoch = netferry_core::mtu::SOURCE;",
    ] {
        assert!(named(wrong).contains("mtu"), "{wrong}");
    }
    for fine in
        ["// see crate::mtu", "let mtu = link.mtu;", "Epochs::of(\"mtu\", 3)", "use crate::size::Mtu;"]
    {
        assert!(!named(fine).contains("mtu"), "{fine}");
    }
}
