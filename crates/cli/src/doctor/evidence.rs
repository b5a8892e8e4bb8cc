//! What the kernel's own files say about a feature, where it cannot be tried.

use std::collections::BTreeMap;

use super::host::Host;

/// How a feature comes with the running kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provided {
    /// Part of the kernel image.
    BuiltIn,
    /// A module, and it is loaded.
    Loaded,
    /// A module that can be loaded.
    Loadable,
    /// The kernel's configuration has it off.
    Off,
    /// No file says anything about it.
    Unknown,
}

/// The kernel's files, read once.
#[derive(Debug)]
pub(super) struct Evidence {
    config: BTreeMap<String, String>,
    loaded: Vec<String>,
    built_in: Vec<String>,
    loadable: Vec<String>,
}

impl Evidence {
    pub(super) fn gather(host: &Host) -> Self {
        let release = host.kernel_release();
        let config = host
            .read_gz("/proc/config.gz")
            .or_else(|| host.read(&format!("/boot/config-{release}")))
            .or_else(|| host.read(&format!("/lib/modules/{release}/config")))
            .unwrap_or_default();
        let names = |file: &str| {
            host.read(&format!("/lib/modules/{release}/{file}"))
                .map(|text| text.lines().filter_map(module_name).collect())
                .unwrap_or_default()
        };
        Self {
            config: parse_config(&config),
            loaded: host
                .read("/proc/modules")
                .map(|text| text.lines().filter_map(|l| l.split(' ').next()).map(str::to_owned).collect())
                .unwrap_or_default(),
            built_in: names("modules.builtin"),
            loadable: names("modules.dep"),
        }
    }

    /// What is known of a feature by its module and its configuration option.
    pub(super) fn of(&self, module: &str, option: &str) -> Provided {
        let has = |names: &[String]| names.iter().any(|n| n == module);
        match self.config.get(option).map(String::as_str) {
            Some("n") => Provided::Off,
            Some("y") => Provided::BuiltIn,
            _ if has(&self.loaded) => Provided::Loaded,
            _ if has(&self.built_in) => Provided::BuiltIn,
            _ if has(&self.loadable) => Provided::Loadable,
            _ => Provided::Unknown,
        }
    }
}

/// `kernel/net/openvswitch/openvswitch.ko.zst: …` names `openvswitch`; the kernel writes `-` as `_`.
fn module_name(line: &str) -> Option<String> {
    let path = line.split(':').next()?;
    let file = path.rsplit('/').next()?;
    let name = file.split(".ko").next()?;
    (!name.is_empty()).then(|| name.replace('-', "_"))
}

fn parse_config(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            if let Some(off) = line.strip_prefix("# ").and_then(|l| l.strip_suffix(" is not set")) {
                return Some((off.to_owned(), "n".to_owned()));
            }
            line.split_once('=').map(|(option, value)| (option.to_owned(), value.to_owned()))
        })
        .collect()
}
