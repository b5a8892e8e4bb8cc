//! The configurations a host holds: the one in force, and those it may still need.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use netferry_api::rollout::MachineConfig;
use netferry_core::error::chain;
use netferry_core::rollout::config::Spec;
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::journal::{self, CURRENT, INTENT, Intent, NotAnIntent, Op};
use netferry_core::rollout::layout::{Drift, Entry, Found, Layout, UNITS, drift, layout};
use netferry_core::rollout::legal;
use netferry_core::rollout::merge::Rendered;
use netferry_translate::machine_config;

use super::disk::{Disk, DiskError};
use crate::kept;

/// Where configurations are kept as they were told, by name.
const CONFIGS: &str = "/var/lib/netferry/machine/configs";

/// The file's name in our run directory that says which configuration a boot found in force.
const BOOTED: &str = "machine-booted.json";
/// The name of a configuration of nothing.
const NOTHING: &str = "nothing";
/// Where the next one is written before it has its name.
const STAGED: &str = "/var/lib/netferry/machine/configs/.new";

/// Why what a host holds could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Somebody wrote what only we write.
    #[error(transparent)]
    Intent(#[from] NotAnIntent),
    /// A configuration that was kept cannot be read any more.
    #[error(
        "{CONFIGS}/{name}.json cannot be read: {why}; the node must be installed anew, or the file brought back"
    )]
    Kept {
        /// Which.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// Taking a configuration failed, and everything was put back.
    #[error("taking {name} failed and what was there was put back")]
    Taking {
        /// Which.
        name: String,
        /// What failed.
        #[source]
        source: DiskError,
    },
    /// Taking a configuration failed, and so did putting everything back. A boot mends it.
    #[error("taking {name} failed ({first}), and so did putting back what was there; a restart mends it")]
    Undoing {
        /// Which.
        name: String,
        /// What failed first.
        first: String,
        /// What failed then.
        #[source]
        source: DiskError,
    },
    /// A path of a configuration leads, on this host, to where configurations may not write.
    #[error("{path} cannot be written: on this host it leads to {leads_to}, and {why}")]
    Astray {
        /// The path.
        path: String,
        /// Where it leads.
        leads_to: String,
        /// Why not.
        why: &'static str,
    },
    /// Taking a configuration was cut off, and not all of it could be undone.
    #[error("a configuration that was cut off could not be undone: {}; repair these, the agent tries again", listed(.0))]
    Left(Vec<DiskError>),
    /// A configuration was taken, and what was kept for undoing is still there. A boot removes it.
    #[error("{name} was taken, but what was kept beside its files could not be removed; a restart does")]
    Tidying {
        /// Which.
        name: String,
        /// What failed.
        #[source]
        source: DiskError,
    },
    /// What a boot found in force could not be written down or read.
    #[error("using {}", file.display())]
    Run {
        /// Where.
        file: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A name that no configuration has.
    #[error("{0:?} cannot be the name of a configuration")]
    Name(String),
}

type Result<T> = std::result::Result<T, StoreError>;

/// The configuration in force; nothing on a host that never took one.
pub fn current(disk: &Disk) -> Result<Option<Rendered>> {
    match current_name(disk)? {
        None => Ok(None),
        Some(name) => kept(disk, &name).map(Some),
    }
}

/// The name of the configuration in force.
pub fn current_name(disk: &Disk) -> Result<Option<String>> {
    let text = disk.read(CURRENT)?;
    Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()).filter(|name| !name.is_empty()))
}

/// A configuration that was kept.
pub fn kept(disk: &Disk, name: &str) -> Result<Rendered> {
    let wrong = |why: String| StoreError::Kept { name: name.to_owned(), why };
    let text = disk.read(&kept_at(name)?)?.ok_or_else(|| wrong("it is not there".to_owned()))?;
    let object: MachineConfig = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let rendered = machine_config::rendered(&object).map_err(|error| wrong(chain(&error)))?;
    match rendered.name == name {
        true => Ok(rendered),
        false => Err(wrong(format!("it is {:?}", rendered.name))),
    }
}

/// The configuration of a host that never took one.
pub fn none() -> Rendered {
    Rendered { name: String::new(), spec: Spec::default(), sources: Vec::new(), epochs: Epochs::default() }
}

/// Takes a configuration: keeps it, writes its files and units, removes those that only the former one had. Power loss
/// at any instruction leaves the old or the new one whole, once [`recover`] has run.
///
/// # Errors
/// If something cannot be written. Everything is then as it was before, unless the error says otherwise.
pub fn take(disk: &Disk, new: &Rendered) -> Result<()> {
    recover(disk)?.complete()?;
    check(disk, new)?;
    carry_out(disk, new)
}

/// [`take`], on a disk in order, without the check.
pub(super) fn carry_out(disk: &Disk, new: &Rendered) -> Result<()> {
    let old = current(disk)?;
    let old = old.as_ref().map(|old| layout(&old.spec)).unwrap_or_default();
    let wanted = layout(&new.spec);
    let ops = take_ops(disk, new, &old, &wanted)?;
    if let Err(source) = disk.run(&ops) {
        let (name, first) = (new.name.clone(), chain(&source));
        // Half of it would take the room that everything else needs.
        let _ = disk.apply(&Op::Remove(STAGED.to_owned()));
        let taken = current_name(disk)?.as_deref() == Some(name.as_str());
        return match mend(disk)?.left.into_iter().next() {
            // It is in force; what failed was tidying up, and that is done by now.
            None if taken => Ok(()),
            None => Err(StoreError::Taking { name, source }),
            Some(source) if taken => Err(StoreError::Tidying { name, source }),
            Some(source) => Err(StoreError::Undoing { name, first, source }),
        };
    }
    Ok(())
}

/// Takes every file and unit away again that a configuration brought; what the host had there comes back.
///
/// # Errors
/// As [`take`].
pub fn leave(disk: &Disk) -> Result<()> {
    recover(disk)?.complete()?;
    match current_name(disk)? {
        None => Ok(()),
        Some(_) => take(disk, &Rendered { name: NOTHING.to_owned(), ..none() }),
    }
}

fn take_ops(disk: &Disk, new: &Rendered, old: &Layout, wanted: &Layout) -> Result<Vec<Op>> {
    let mut ops = disk.make_dirs(CONFIGS)?;
    // Whole before anything names it: the name of a configuration that is in force must lead to it.
    let (place, staged) = (kept_at(&new.name)?, STAGED.to_owned());
    ops.push(Op::Make { path: staged.clone(), entry: Entry::File { mode: 0o600, contents: printed(new) } });
    ops.push(Op::SyncFile(staged.clone()));
    ops.push(Op::Rename { from: staged, to: place });
    ops.push(Op::SyncDir(CONFIGS.to_owned()));
    let present = Presence::on(disk);
    let intent = journal::intend(old, wanted, &new.name, |path| present.found(path));
    present.trouble()?;
    ops.extend(journal::carry_out(&intent, wanted));
    Ok(ops)
}

/// Checks that no path of a configuration is, or leads by a symbolic link of this host to, one that configurations may not
/// write.
///
/// # Errors
/// The first path that does.
pub fn check(disk: &Disk, new: &Rendered) -> Result<()> {
    for path in layout(&new.spec).into_keys() {
        let leads_to = match legal::path(&path) {
            Ok(()) => disk.resolved(&path)?,
            Err(_) => path.clone(),
        };
        if let Err(why) = legal::path(&leads_to) {
            return Err(StoreError::Astray { path, leads_to, why });
        }
    }
    Ok(())
}

/// What [`recover`] did.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Whether units changed: the host's service manager has read those already.
    pub units: bool,
    /// What could not be undone. It is tried again by the next call.
    pub left: Vec<DiskError>,
}

impl Recovered {
    /// # Errors
    /// If something could not be undone.
    pub fn complete(self) -> Result<()> {
        if self.left.is_empty() { Ok(()) } else { Err(StoreError::Left(self.left)) }
    }
}

fn listed(left: &[DiskError]) -> String {
    left.iter().map(|error| chain(error)).collect::<Vec<_>>().join("; ")
}

/// Mends what a loss of power left half done: to be called at boot before anything reads a managed file. Nothing to
/// mend is fine. An operation that fails stops none of the others.
///
/// # Errors
/// If a file cannot be read, or what was written down is not ours.
pub fn recover(disk: &Disk) -> Result<Recovered> {
    if disk.read(INTENT)?.is_some() {
        tracing::warn!("taking a configuration was cut off; putting it in order");
    }
    mend(disk)
}

fn mend(disk: &Disk) -> Result<Recovered> {
    let intent = match disk.read(INTENT)? {
        None => None,
        Some(text) => Some(Intent::parse(&String::from_utf8_lossy(&text))?),
    };
    let current = current_name(disk)?;
    let present = Presence::on(disk);
    let ops = journal::recover(intent.as_ref(), current.as_deref(), |path| present.of(path));
    present.trouble()?;
    let mut left = Vec::new();
    for op in &ops {
        // While the intent is there, what is left is tried again.
        if !left.is_empty() && *op == Op::Remove(INTENT.to_owned()) {
            continue;
        }
        left.extend(disk.apply(op).err());
    }
    let undone = intent.filter(|intent| current.as_deref() != Some(intent.to.as_str()));
    let units = undone.is_some_and(|intent| intent.changes.iter().any(|(_, path)| path.starts_with(UNITS)));
    Ok(Recovered { units, left })
}

/// Forgets configurations that nobody needs any more.
pub fn forget_others(disk: &Disk, needed: &BTreeSet<&str>) -> Result<()> {
    for file in disk.list(CONFIGS)? {
        let name = file.strip_suffix(".json");
        if name.is_some_and(|name| !needed.contains(name)) {
            disk.apply(&Op::Remove(format!("{CONFIGS}/{file}")))?;
        }
    }
    Ok(())
}

/// Writes down which configuration this boot found in force, once: what is taken later is in force only after the next.
pub fn note_boot(disk: &Disk, run: &Path) -> Result<()> {
    if run.join(BOOTED).exists() {
        return Ok(());
    }
    let name = current_name(disk)?.unwrap_or_default();
    kept::write(run, BOOTED, &name).map_err(|source| StoreError::Run { file: run.join(BOOTED), source })
}

/// The configuration this boot found in force; see [`note_boot`].
pub fn booted(disk: &Disk, run: &Path) -> Result<Rendered> {
    let failed = |source| StoreError::Run { file: run.join(BOOTED), source };
    let name = kept::read::<String>(run, BOOTED).map_err(failed)?;
    let name = name.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    if name.is_empty() { Ok(none()) } else { kept(disk, &name) }
}

/// Managed paths that are not as the configuration says.
pub fn strayed(disk: &Disk, config: &Rendered) -> Result<Vec<Drift>> {
    let layout = layout(&config.spec);
    let mut found: BTreeMap<&str, Found> = BTreeMap::new();
    for path in layout.keys() {
        found.insert(path, disk.found(path)?);
    }
    Ok(drift(&layout, |path| found.get(path).cloned().unwrap_or(Found::Nothing)))
}

/// Where a configuration is kept. Its name comes from the API and becomes part of a path.
fn kept_at(name: &str) -> Result<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(legal) {
        return Err(StoreError::Name(name.to_owned()));
    }
    Ok(format!("{CONFIGS}/{name}.json"))
}

fn printed(config: &Rendered) -> Vec<u8> {
    let mut object = MachineConfig::new(&config.name, machine_config::printed(&config.spec));
    let epochs = machine_config::printed_epochs(&config.epochs);
    object.metadata.annotations = Some(BTreeMap::from([epochs]));
    serde_json::to_vec(&object).expect("an object of the API is JSON")
}

/// Asks what is at paths, for planners that know no errors; one that cannot be asked is remembered.
struct Presence<'d> {
    disk: &'d Disk,
    trouble: RefCell<Option<DiskError>>,
}

impl<'d> Presence<'d> {
    fn on(disk: &'d Disk) -> Presence<'d> {
        Presence { disk, trouble: RefCell::default() }
    }

    fn of(&self, path: &str) -> bool {
        self.noted(self.disk.present(path), true)
    }

    fn found(&self, path: &str) -> Found {
        self.noted(self.disk.found(path), Found::Other)
    }

    fn noted<T>(&self, answer: std::result::Result<T, DiskError>, without: T) -> T {
        answer.unwrap_or_else(|error| {
            self.trouble.borrow_mut().get_or_insert(error);
            without
        })
    }

    fn trouble(self) -> Result<()> {
        self.trouble.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }
}
