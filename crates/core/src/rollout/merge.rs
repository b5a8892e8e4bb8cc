//! The one configuration of a pool, merged from all that are for it.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::config::{File, MachineConfig, Spec, Unit, Unsupported};
use super::epochs::Epochs;
use super::layout;
use super::legal;

/// A merged configuration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rendered {
    /// `rendered-<pool>-<hash>`: the same for the same contents, so rendering twice makes nothing new.
    pub name: String,
    /// What it holds; each path and unit once, in order.
    pub spec: Spec,
    /// The names of those it was merged from, in the order of merging.
    pub sources: Vec<String>,
    /// The newest rendering of each capability in it.
    pub epochs: Epochs,
}

/// Why configurations cannot be merged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[error("MachineConfig {config}: {problem}")]
pub struct Refusal {
    /// Which one is at fault.
    pub config: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a configuration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum Problem {
    /// It asks for something we do not do.
    #[error("{0} is not supported; remove it")]
    Unsupported(Unsupported),
    /// A path that is not one.
    #[error("{path:?} cannot be the path of a file: {why}")]
    Path {
        /// The path.
        path: String,
        /// Why not.
        why: &'static str,
    },
    /// The same thing twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// A mode beyond the permission bits.
    #[error("mode {mode:o} of {path} is not one of a file")]
    Mode {
        /// The file.
        path: String,
        /// Its mode.
        mode: u32,
    },
    /// A unit's name that is not one.
    #[error("{0:?} cannot be the name of a unit or of an addition to one")]
    UnitName(String),
    /// An `[Install]` section with a name that is no unit's.
    #[error(
        "{key}={name:?} in the [Install] section of unit {unit} is not the name of a unit; correct or remove it"
    )]
    InstallName {
        /// The unit.
        unit: String,
        /// The key in its section.
        key: String,
        /// The name.
        name: String,
    },
    /// Masked and described at once.
    #[error("unit {0} is masked and has contents; one of them must go")]
    MaskedContents(String),
    /// Enabled without saying where it belongs.
    #[error("unit {0} is to be enabled, but its [Install] section names nothing that wants or requires it")]
    NoInstall(String),
    /// Enabled or disabled without being described: only of what is described here it is known where it belongs.
    #[error(
        "unit {0} is to be enabled or disabled, but has no contents: give them too, mask the unit, or leave it to the host"
    )]
    NoContents(String),
    /// A kernel argument that would be several, or none.
    #[error("{0:?} is not a kernel argument")]
    KernelArgument(String),
    /// A kernel argument that decides what the host boots.
    #[error("kernel argument {0:?} decides what the host boots; set it in the host's own boot loader")]
    BootArgument(String),
    /// More kernel arguments than a kernel reads.
    #[error("kernelArguments are {0} bytes together; at most {most} are allowed", most = legal::LONGEST_ARGUMENTS)]
    KernelArguments(usize),
    /// One file is where another needs a directory.
    #[error("{file} is a file, but {inside} needs it to be a directory")]
    Inside {
        /// The file.
        file: String,
        /// The path below it.
        inside: String,
    },
}

/// Merges the configurations of a pool.
///
/// Those for `worker` come first, then the others, each by name; a later one overrides an earlier one, file by file and
/// unit by unit; kernel arguments add up.
///
/// # Errors
/// All that is wrong with any of them. Nothing is rendered then, and nodes stay on what they have.
pub fn merge(pool: &str, configs: &[MachineConfig]) -> Result<Rendered, Vec<Refusal>> {
    let mut configs: Vec<&MachineConfig> = configs.iter().collect();
    configs.sort_by(|a, b| (a.role != "worker", &a.name).cmp(&(b.role != "worker", &b.name)));
    let mut refusals = Vec::new();
    let mut files: BTreeMap<&str, (&MachineConfig, &File)> = BTreeMap::new();
    let mut units: BTreeMap<&str, Unit> = BTreeMap::new();
    let mut owners: BTreeMap<&str, &MachineConfig> = BTreeMap::new();
    let mut kernel_arguments = Vec::new();
    for config in &configs {
        let problems = alone(&config.spec).into_iter();
        refusals.extend(problems.map(|problem| Refusal { config: config.name.clone(), problem }));
        for file in &config.spec.files {
            files.insert(&file.path, (config, file));
        }
        for unit in &config.spec.units {
            overlay(units.entry(&unit.name).or_default(), unit);
            owners.insert(&unit.name, config);
        }
        kernel_arguments.extend(config.spec.kernel_arguments.iter().cloned());
    }
    for (name, unit) in &units {
        let refuse = |problem| Refusal { config: owners[name].name.clone(), problem };
        if unit.masked && unit.contents.is_some() {
            refusals.push(refuse(Problem::MaskedContents((*name).to_owned())));
        }
        if unit.enabled.is_some() && !unit.masked && unit.contents.is_none() {
            refusals.push(refuse(Problem::NoContents((*name).to_owned())));
        }
        let described = unit.enabled == Some(true) && !unit.masked;
        if described && unit.contents.as_ref().is_some_and(|text| layout::installs(name, text).is_empty()) {
            refusals.push(refuse(Problem::NoInstall((*name).to_owned())));
        }
    }
    let length = kernel_arguments.iter().map(|argument: &String| argument.len() + 1).sum::<usize>();
    let last_with_arguments = configs.iter().rfind(|config| !config.spec.kernel_arguments.is_empty());
    if let Some(config) = last_with_arguments.filter(|_| length > legal::LONGEST_ARGUMENTS) {
        let problem = Problem::KernelArguments(length);
        refusals.push(Refusal { config: config.name.clone(), problem });
    }
    let mut paths = Paths::default();
    files.iter().for_each(|(path, (config, _))| paths.claim(path, &config.name));
    for (name, unit) in &units {
        layout::of_unit(unit).keys().for_each(|path| paths.claim(path, &owners[name].name));
    }
    if let (Some(config), Some((path, _))) = (last_with_arguments, layout::of_arguments(&kernel_arguments)) {
        paths.claim(&path, &config.name);
    }
    refusals.extend(paths.refusals());
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let files = files.into_values().map(|(_, file)| file.clone()).collect();
    let units = units.into_values().collect();
    let spec = Spec { files, units, kernel_arguments, unsupported: BTreeSet::new() };
    let name = format!("rendered-{pool}-{}", hash(&spec));
    let sources = configs.iter().map(|config| config.name.clone()).collect();
    let mut epochs = Epochs::default();
    for config in &configs {
        epochs.add(&config.epochs);
    }
    Ok(Rendered { name, spec, sources, epochs })
}

fn overlay(unit: &mut Unit, over: &Unit) {
    unit.name.clone_from(&over.name);
    unit.enabled = over.enabled.or(unit.enabled);
    unit.masked = over.masked;
    if over.contents.is_some() {
        unit.contents.clone_from(&over.contents);
    }
    unit.dropins.extend(over.dropins.clone());
}

/// What is wrong with a configuration by itself.
fn alone(spec: &Spec) -> Vec<Problem> {
    let mut problems: Vec<Problem> =
        spec.unsupported.iter().map(|what| Problem::Unsupported(*what)).collect();
    let mut seen = BTreeSet::new();
    for file in &spec.files {
        if let Err(why) = legal::path(&file.path) {
            problems.push(Problem::Path { path: file.path.clone(), why });
        }
        if file.mode > 0o7777 {
            problems.push(Problem::Mode { path: file.path.clone(), mode: file.mode });
        }
        if !seen.insert(&file.path) {
            problems.push(Problem::Twice(file.path.clone()));
        }
    }
    let mut seen = BTreeSet::new();
    for unit in &spec.units {
        let names = unit.dropins.keys().filter(|name| !legal::dropin_name(name));
        problems.extend(names.map(|name| Problem::UnitName(name.clone())));
        if !legal::unit_name(&unit.name) {
            problems.push(Problem::UnitName(unit.name.clone()));
        }
        if !seen.insert(&unit.name) {
            problems.push(Problem::Twice(unit.name.clone()));
        }
        let install = unit.contents.as_deref().map(layout::install_names).unwrap_or_default();
        let wrong = install.into_iter().filter(|(_, name)| !legal::unit_name(name));
        problems.extend(wrong.map(|(key, name)| Problem::InstallName {
            unit: unit.name.clone(),
            key: key.to_owned(),
            name: name.to_owned(),
        }));
    }
    for argument in &spec.kernel_arguments {
        if !legal::kernel_argument(argument) {
            problems.push(Problem::KernelArgument(argument.clone()));
        } else if legal::decides_boot(argument) {
            problems.push(Problem::BootArgument(argument.clone()));
        }
    }
    problems
}

/// The paths of files, units, links and kernel arguments, and the configuration each comes from.
#[derive(Default)]
struct Paths {
    owners: BTreeMap<String, String>,
    twice: Vec<Refusal>,
}

impl Paths {
    fn claim(&mut self, path: &str, config: &str) {
        if self.owners.insert(path.to_owned(), config.to_owned()).is_some() {
            let problem = Problem::Twice(path.to_owned());
            self.twice.push(Refusal { config: config.to_owned(), problem });
        }
    }

    /// Those that are there twice, and those that need a file to be a directory.
    fn refusals(self) -> Vec<Refusal> {
        let mut found = self.twice;
        for (path, config) in &self.owners {
            let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
            for file in above.filter(|above| self.owners.contains_key(*above)) {
                let problem = Problem::Inside { file: file.to_owned(), inside: path.clone() };
                found.push(Refusal { config: config.clone(), problem });
            }
        }
        found
    }
}

/// Returns true if the name of a rendered configuration is the one its contents have. Otherwise a change of the object
/// would reach nodes without having been rendered.
///
/// # Errors
/// What is wrong with the configuration by itself.
pub fn is_named_by_contents(rendered: &Rendered) -> Result<bool, Vec<Refusal>> {
    let alone = MachineConfig {
        name: rendered.name.clone(),
        role: String::new(),
        spec: rendered.spec.clone(),
        epochs: rendered.epochs.clone(),
    };
    let hash = hash(&merge("", &[alone])?.spec);
    let stem = rendered.name.strip_suffix(&hash).and_then(|stem| stem.strip_suffix('-'));
    Ok(stem.is_some_and(|stem| stem.starts_with("rendered-")))
}

/// A name for contents. Every part is preceded by its length, so that no two contents are written alike.
fn hash(spec: &Spec) -> String {
    let mut hasher = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    put(b"netferry machine configuration 1");
    for File { path, mode, contents } in &spec.files {
        put(b"file");
        put(path.as_bytes());
        put(&mode.to_be_bytes());
        put(contents);
    }
    for Unit { name, enabled, masked, contents, dropins } in &spec.units {
        put(b"unit");
        put(name.as_bytes());
        put(&[enabled.map_or(2, u8::from), u8::from(*masked), u8::from(contents.is_some())]);
        put(contents.as_deref().unwrap_or_default().as_bytes());
        for (name, text) in dropins {
            put(b"dropin");
            put(name.as_bytes());
            put(text.as_bytes());
        }
    }
    for argument in &spec.kernel_arguments {
        put(b"argument");
        put(argument.as_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, role: &str, spec: Spec) -> MachineConfig {
        MachineConfig { name: name.into(), role: role.into(), spec, epochs: Epochs::default() }
    }

    fn file(path: &str, contents: &str) -> File {
        File { path: path.into(), mode: File::DEFAULT_MODE, contents: contents.as_bytes().to_vec() }
    }

    fn files(list: &[(&str, &str)]) -> Spec {
        Spec { files: list.iter().map(|(path, text)| file(path, text)).collect(), ..Spec::default() }
    }

    fn unit(name: &str) -> Unit {
        Unit { name: name.into(), ..Unit::default() }
    }

    fn said(spec: Spec) -> Vec<String> {
        let refused = merge("worker", &[config("99-x", "worker", spec)]);
        refused.map_or_else(|all| all.iter().map(Refusal::to_string).collect(), |_| Vec::new())
    }

    #[test]
    fn a_pools_own_overrides_what_is_for_workers_and_a_later_name_an_earlier_one() {
        let merged = merge(
            "infra",
            &[
                config("00-infra", "infra", files(&[("/etc/a", "infra 0")])),
                config("99-worker", "worker", files(&[("/etc/a", "worker 99"), ("/etc/b", "worker 99")])),
                config("01-worker", "worker", files(&[("/etc/b", "worker 1"), ("/etc/c", "worker 1")])),
            ],
        )
        .unwrap();
        let texts: Vec<_> = merged.spec.files.iter().map(|f| String::from_utf8_lossy(&f.contents)).collect();
        assert_eq!(texts, ["infra 0", "worker 99", "worker 1"]);
        assert_eq!(merged.sources, ["01-worker", "99-worker", "00-infra"]);
    }

    #[test]
    fn units_are_merged_field_by_field_and_kernel_arguments_add_up() {
        let base = Unit {
            enabled: Some(true),
            contents: Some("[Install]\nWantedBy=multi-user.target\n".into()),
            dropins: BTreeMap::from([("10-a.conf".into(), "a".into())]),
            ..unit("x.service")
        };
        let over = Unit { dropins: BTreeMap::from([("20-b.conf".into(), "b".into())]), ..unit("x.service") };
        let spec = |unit, argument: &str| Spec {
            units: vec![unit],
            kernel_arguments: vec![argument.into()],
            ..Spec::default()
        };
        let merged = merge(
            "worker",
            &[
                config("a", "worker", spec(base.clone(), "quiet")),
                config("b", "worker", spec(over, "mitigations=off")),
            ],
        )
        .unwrap();
        let both = [("10-a.conf".into(), "a".into()), ("20-b.conf".into(), "b".into())];
        assert_eq!(merged.spec.units, [Unit { dropins: BTreeMap::from(both), ..base }]);
        assert_eq!(merged.spec.kernel_arguments, ["quiet", "mitigations=off"]);
    }

    #[test]
    fn the_name_follows_the_contents_and_nothing_else() {
        let of = |configs: &[MachineConfig]| merge("worker", configs).unwrap().name;
        let a = config("a", "worker", files(&[("/etc/a", "1")]));
        let b = config("b", "worker", files(&[("/etc/b", "2")]));
        let both = config("z", "worker", files(&[("/etc/b", "2"), ("/etc/a", "1")]));
        assert_eq!(of(&[a.clone(), b.clone()]), of(&[b.clone(), a.clone()]));
        assert_eq!(of(&[a.clone(), b.clone()]), of(&[both]));
        assert_ne!(of(std::slice::from_ref(&a)), of(&[b]));
        let moved = config("a", "worker", files(&[("/etc/a1", "")]));
        assert_ne!(
            of(&[a]),
            of(&[moved]),
            "a byte that moves from contents to path is another configuration"
        );
        let fixed = of(&[config("a", "worker", files(&[("/etc/a", "1")]))]);
        assert_eq!(fixed, "rendered-worker-8d8fe5d56af4d288773fbc1d0c4b7a52", "names outlive releases");
    }

    #[test]
    fn a_rendered_configuration_whose_contents_changed_is_not_the_one_of_its_name() {
        let made =
            merge("worker", &[config("a", "worker", files(&[("/etc/b", "2"), ("/etc/a", "1")]))]).unwrap();
        assert_eq!(is_named_by_contents(&made), Ok(true));
        let changed = Rendered { spec: files(&[("/etc/a", "1"), ("/etc/b", "3")]), ..made.clone() };
        assert_eq!(is_named_by_contents(&changed), Ok(false));
        for name in ["", "worker", "rendered-worker-1", made.name.trim_start_matches("rendered-")] {
            assert_eq!(
                is_named_by_contents(&Rendered { name: name.into(), ..made.clone() }),
                Ok(false),
                "{name}"
            );
        }
        let unreadable = Rendered { spec: files(&[("/run/x", "")]), ..made };
        assert!(is_named_by_contents(&unreadable).is_err());
    }

    #[test]
    fn what_we_do_not_do_is_refused_by_name() {
        for (what, name) in [
            (Unsupported::OsImageUrl, "osImageURL"),
            (Unsupported::KernelType, "kernelType"),
            (Unsupported::Extensions, "extensions"),
            (Unsupported::Fips, "fips"),
            (Unsupported::Passwd, "config.passwd"),
            (Unsupported::Disks, "config.storage.disks"),
            (Unsupported::Filesystems, "config.storage.filesystems"),
            (Unsupported::Raid, "config.storage.raid"),
            (Unsupported::Directories, "config.storage.directories"),
            (Unsupported::Links, "config.storage.links"),
            (Unsupported::Append, "config.storage.files[].append"),
            (Unsupported::IgnitionKernelArguments, "config.kernelArguments"),
        ] {
            let spec = Spec { unsupported: BTreeSet::from([what]), ..Spec::default() };
            assert_eq!(said(spec), [format!("MachineConfig 99-x: {name} is not supported; remove it")]);
        }
    }

    #[test]
    fn a_path_that_leads_astray_is_refused() {
        for (path, why) in [
            ("etc/a", "it does not begin with /"),
            ("/etc//a", "a part of it is empty, . or .."),
            ("/etc/../a", "a part of it is empty, . or .."),
            ("/etc/a/", "a part of it is empty, . or .."),
            ("/", "a part of it is empty, . or .."),
            ("/etc/a\nb", "it contains a control character"),
            ("/run/machine-config-daemon-force", "it is not for configurations to write"),
            ("/var/run/machine-config-daemon-force", "it is not for configurations to write"),
            ("/var/lib/netferry", "it is not for configurations to write"),
            ("/var/lib/netferry/machine/current", "it is not for configurations to write"),
            ("/etc/.a.netferry-new", "the name is one we use while writing"),
        ] {
            assert_eq!(
                said(files(&[(path, "")])),
                [format!("MachineConfig 99-x: {path:?} cannot be the path of a file: {why}")]
            );
        }
        assert_eq!(said(files(&[("/var/lib/netferryx/a", ""), ("/etc/.a", "")])), Vec::<String>::new());
    }

    #[test]
    fn contradictions_are_refused_with_the_configuration_at_fault() {
        let units = |units: Vec<Unit>| Spec { units, ..Spec::default() };
        let masked = Unit { masked: true, contents: Some(String::new()), ..unit("x.service") };
        let homeless =
            Unit { enabled: Some(true), contents: Some("[Service]\n".into()), ..unit("x.service") };
        let dropin =
            Unit { dropins: BTreeMap::from([("../a.conf".into(), String::new())]), ..unit("x.service") };
        for (spec, problem) in [
            (files(&[("/etc/a", "1"), ("/etc/a", "2")]), "/etc/a is there twice"),
            (
                files(&[("/etc/a", "1"), ("/etc/a/b", "2")]),
                "/etc/a is a file, but /etc/a/b needs it to be a directory",
            ),
            (units(vec![unit("x.service"), unit("x.service")]), "x.service is there twice"),
            (units(vec![unit("x")]), "\"x\" cannot be the name of a unit or of an addition to one"),
            (
                units(vec![unit("../x.service")]),
                "\"../x.service\" cannot be the name of a unit or of an addition to one",
            ),
            (
                units(vec![unit(".service")]),
                "\".service\" cannot be the name of a unit or of an addition to one",
            ),
            (units(vec![dropin]), "\"../a.conf\" cannot be the name of a unit or of an addition to one"),
            (
                units(vec![Unit {
                    contents: Some("[Install]\nWantedBy=../../../proc/sys/x\n".into()),
                    ..unit("x.service")
                }]),
                "WantedBy=\"../../../proc/sys/x\" in the [Install] section of unit x.service is not the name of a unit; correct or remove it",
            ),
            (
                Spec {
                    units: vec![Unit { masked: true, ..unit("x.service") }],
                    ..files(&[("/etc/systemd/system/x.service", "")])
                },
                "/etc/systemd/system/x.service is there twice",
            ),
            (
                Spec { kernel_arguments: vec!["init=/bin/false".into()], ..Spec::default() },
                "kernel argument \"init=/bin/false\" decides what the host boots; set it in the host's own boot loader",
            ),
            (
                Spec { kernel_arguments: vec!["a".repeat(1024)], ..Spec::default() },
                "kernelArguments are 1025 bytes together; at most 1024 are allowed",
            ),
            (units(vec![masked]), "unit x.service is masked and has contents; one of them must go"),
            (
                units(vec![Unit { enabled: Some(true), ..unit("x.service") }]),
                "unit x.service is to be enabled or disabled, but has no contents: give them too, mask the unit, or leave it to the host",
            ),
            (
                units(vec![Unit { enabled: Some(false), ..unit("x.service") }]),
                "unit x.service is to be enabled or disabled, but has no contents: give them too, mask the unit, or leave it to the host",
            ),
            (
                units(vec![homeless]),
                "unit x.service is to be enabled, but its [Install] section names nothing that wants or requires it",
            ),
            (
                Spec { kernel_arguments: vec!["a b".into()], ..Spec::default() },
                "\"a b\" is not a kernel argument",
            ),
            (
                Spec { files: vec![File { mode: 0o10644, ..file("/etc/a", "") }], ..Spec::default() },
                "mode 10644 of /etc/a is not one of a file",
            ),
        ] {
            assert_eq!(said(spec), [format!("MachineConfig 99-x: {problem}")]);
        }
    }
}
