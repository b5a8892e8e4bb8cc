//! Room in the machine's table of neighbours.
//!
//! The kernel keeps one table per family for all network namespaces, with limits made for one host. A lab is many: each
//! of its nodes talks to all others, and beyond the limits they forget each other and at last cannot find each other. So a
//! large lab raises the limits while it runs. They are settings of the whole machine, hence the ledger: who needs how much,
//! what they were before, what we made of them. The last lab gives them back; the next one to come or go does so for one
//! that was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use netferry_kernel::sysctl::{Key, Sysctls};
use netferry_kernel::{Kernel, Objects};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::{During, LabError, Result};
use crate::options::Options;
use crate::state::State;

/// Beside the directories of labs, which may be anywhere: the limit is the machine's. Gone with the last large lab, and
/// with a reboot, as the limit is.
pub const LEDGER: &str = "/run/netferry-neighbours.json";
/// As much fits beside what the machine itself needs: a lab of a few nodes leaves the limit alone.
const FITS: u32 = 512;
/// What a node has besides the other nodes: its pods and what they talk to.
const OF_A_NODE: u32 = 32;

/// Sees to it that the neighbours of a running lab find room when it has this many nodes.
pub(crate) fn make_room(lab: &State, options: &Options, nodes: usize) -> Result<()> {
    let neighbours = of(options, nodes);
    if neighbours <= FITS {
        return Ok(());
    }
    let Some(mut book) = Book::open(Path::new(LEDGER), true)? else { return Ok(()) };
    book.ledger.labs.insert(lab.path().to_owned(), neighbours);
    book.settle()
}

/// How many neighbours a lab has, per family; rounded up, so that one that grows node by node seldom moves the limit.
fn of(options: &Options, nodes: usize) -> u32 {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let of_a_node = nodes.saturating_add(OF_A_NODE).saturating_mul(u32::from(options.networks) + 1);
    nodes.saturating_mul(of_a_node).checked_next_power_of_two().unwrap_or(MOST)
}

/// Takes back what was made for a lab that ends, and for all that have ended.
pub(crate) fn give_back(lab: &State) -> Result<()> {
    let Some(mut book) = Book::open(Path::new(LEDGER), false)? else { return Ok(()) };
    book.ledger.labs.remove(lab.path());
    book.settle()
}

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ledger {
    /// Who needs how much.
    labs: BTreeMap<PathBuf, u32>,
    /// The limits, by the names of their settings.
    limits: BTreeMap<String, Limit>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Limit {
    /// Before the first lab came.
    before: u32,
    /// What was written since; noted first, so that a value found is known as ours after a crash too.
    written: BTreeSet<u32>,
}

impl Limit {
    /// Somebody else decided meanwhile, and that holds.
    fn is_ours(&self, now: u32) -> bool {
        now == self.before || self.written.contains(&now)
    }
}

impl Ledger {
    /// What to write where these limits are found. Only the last to go lowers them: until then somebody may have
    /// filled what was given.
    fn decide(&mut self, now: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
        let needed: u32 = self.labs.values().fold(0, |sum, need| sum.saturating_add(*need));
        let mut changes = BTreeMap::new();
        for (name, &now) in now {
            if needed == 0 {
                let ours = self.limits.get(name).filter(|limit| limit.is_ours(now) && limit.before != now);
                changes.extend(ours.map(|limit| (name.clone(), limit.before)));
                continue;
            }
            let limit = self
                .limits
                .entry(name.clone())
                .or_insert_with(|| Limit { before: now, written: BTreeSet::new() });
            let want = limit.before.saturating_add(needed).min(MOST);
            if want > now && limit.is_ours(now) {
                limit.written.insert(want);
                changes.insert(name.clone(), want);
            }
        }
        changes
    }
}

/// The kernel reads the limits as signed numbers.
const MOST: u32 = i32::MAX.cast_unsigned();

/// The ledger in one hand: nobody else reads or writes it meanwhile.
struct Book {
    path: PathBuf,
    file: Flock<File>,
    ledger: Ledger,
}

impl Book {
    /// None if there is none and none is to be made.
    fn open(path: &Path, make: bool) -> Result<Option<Book>> {
        let attempt = format!("opening {}", path.display());
        loop {
            let file = match OpenOptions::new().read(true).write(true).create(make).mode(0o600).open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).during(attempt),
            };
            let mut file = Flock::lock(file, FlockArg::LockExclusive)
                .map_err(|(_, errno)| errno)
                .during(format!("locking {}", path.display()))?;
            // Whoever had it before us may have removed it; then this is no longer the one others see.
            let mine = file.metadata().during(attempt.clone())?.ino();
            if fs::metadata(path).map(|seen| seen.ino()).ok() != Some(mine) {
                continue;
            }
            let mut text = String::new();
            file.read_to_string(&mut text).during(format!("reading {}", path.display()))?;
            let ledger = match text.as_str() {
                "" => Ledger::default(),
                text => serde_json::from_str(text).during(format!(
                    "reading {}; if it is past mending, remove it and set net.ipv4 and net.ipv6 \
                     neigh.default.gc_thresh1, 2 and 3 by hand",
                    path.display()
                ))?,
            };
            return Ok(Some(Book { path: path.to_owned(), file, ledger }));
        }
    }

    /// Brings the limits in line with who is there, and the ledger first.
    fn settle(mut self) -> Result<()> {
        self.ledger.labs.retain(|directory, _| State::at(directory).is_running());
        let kernel = Kernel::here().during("reaching the machine's kernel")?;
        let now = limits(&kernel.sysctls())?;
        if now.is_empty() && !self.ledger.labs.is_empty() {
            return Err(LabError::failed(
                "making room for a large lab's neighbours",
                "net.ipv4.neigh.default.gc_thresh3 is not to be seen in this network namespace; raise it outside",
            ));
        }
        let changes = self.ledger.decide(&now);
        if self.ledger.labs.is_empty() {
            write(&kernel.sysctls(), changes)?;
            return fs::remove_file(&self.path).during(format!("removing {}", self.path.display()));
        }
        self.keep().during(format!("writing {}", self.path.display()))?;
        write(&kernel.sysctls(), changes)
    }

    fn keep(&mut self) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.ledger)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(&text)
    }
}

/// The limits there are: a kernel without IPv6 has one family's.
///
/// Above the first of each family neighbours nobody asked for lately are forgotten: each of them is then looked for by a
/// broadcast, which every switch of the lab has to carry, and a hundred of them do little else. Above the second others are
/// forgotten for new ones, above the third new ones refused.
fn limits(sysctls: &Sysctls<'_>) -> Result<BTreeMap<String, u32>> {
    let mut keys = vec![];
    for family in ["ipv4", "ipv6"] {
        for name in ["gc_thresh1", "gc_thresh2", "gc_thresh3"] {
            keys.push(Key::new([family, "neigh", "default", name]).during("naming a limit")?);
        }
    }
    let found = sysctls.read(&keys).during("reading the limits of the table of neighbours")?;
    let number = |(key, text): (Key, String)| {
        text.parse().map(|value| (key.name(), value)).during(format!("reading {key}, which is {text:?}"))
    };
    found.into_iter().map(number).collect()
}

fn write(sysctls: &Sysctls<'_>, changes: BTreeMap<String, u32>) -> Result<()> {
    let named = |(name, value): (String, u32)| Ok((Key::new(name.split('/'))?, value.to_string()));
    let changes: netferry_kernel::Result<BTreeMap<Key, String>> = changes.into_iter().map(named).collect();
    changes
        .and_then(|changes| sysctls.apply(&changes))
        .during("setting the limits of the machine's table of neighbours")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(limit: u32) -> BTreeMap<String, u32> {
        BTreeMap::from([("ipv4/neigh/default/gc_thresh3".to_owned(), limit)])
    }

    fn needing(labs: &[(&str, u32)]) -> Ledger {
        let labs = labs.iter().map(|(name, need)| (PathBuf::from(name), *need)).collect();
        Ledger { labs, limits: BTreeMap::new() }
    }

    #[test]
    fn labs_get_what_they_need_together_and_the_last_gives_it_back() {
        let mut ledger = needing(&[("/a", 4096)]);
        assert_eq!(ledger.decide(&at(1024)), at(5120));
        ledger.labs.insert("/b".into(), 2048);
        assert_eq!(ledger.decide(&at(5120)), at(7168));
        ledger.labs.remove(Path::new("/a"));
        assert_eq!(ledger.decide(&at(7168)), BTreeMap::new(), "lowered under a running lab");
        ledger.labs.clear();
        assert_eq!(ledger.decide(&at(7168)), at(1024));
    }

    #[test]
    fn a_limit_that_somebody_else_set_is_theirs() {
        let mut ledger = needing(&[("/a", 4096)]);
        ledger.decide(&at(1024));
        ledger.labs.insert("/b".into(), 2048);
        assert_eq!(ledger.decide(&at(6000)), BTreeMap::new());
        ledger.labs.clear();
        assert_eq!(ledger.decide(&at(6000)), BTreeMap::new());
    }

    #[test]
    fn a_limit_that_is_large_enough_is_left_and_stays() {
        let mut ledger = needing(&[("/a", 4096)]);
        ledger.limits.insert(
            "ipv4/neigh/default/gc_thresh3".into(),
            Limit { before: 1024, written: [100_000].into() },
        );
        assert_eq!(ledger.decide(&at(100_000)), BTreeMap::new());
        ledger.labs.clear();
        assert_eq!(ledger.decide(&at(1024)), BTreeMap::new());
    }

    #[test]
    fn a_crash_between_the_ledger_and_the_limit_does_not_make_it_somebody_elses() {
        let mut ledger = needing(&[("/a", 4096)]);
        ledger.decide(&at(1024));
        // Never written; the next lab finds what was there before.
        ledger.labs.insert("/b".into(), 4096);
        assert_eq!(ledger.decide(&at(1024)), at(9216));
        ledger.labs.clear();
        assert_eq!(ledger.decide(&at(5120)), at(1024), "the second was not written either");
    }

    #[test]
    fn a_lab_too_large_to_count_asks_for_what_the_kernel_can_hold() {
        let mut ledger = needing(&[("/a", u32::MAX), ("/b", u32::MAX)]);
        assert_eq!(ledger.decide(&at(1024)), at(MOST));
    }

    #[test]
    fn a_ledger_that_was_removed_while_it_was_waited_for_is_not_used() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("ledger");
        assert!(Book::open(&path, false).unwrap().is_none());
        let first = Book::open(&path, true).unwrap().unwrap();
        std::thread::scope(|threads| {
            let second = threads.spawn(|| {
                let mut book = Book::open(&path, true).unwrap().unwrap();
                book.ledger.labs.insert("/b".into(), 1);
                book.keep().unwrap();
            });
            fs::remove_file(&path).unwrap();
            drop(first);
            second.join().unwrap();
        });
        let read = Book::open(&path, false).unwrap().expect("the second's is where others look");
        assert_eq!(read.ledger.labs, BTreeMap::from([("/b".into(), 1)]));
    }

    #[test]
    fn a_mangled_ledger_is_refused_and_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("ledger");
        fs::write(&path, "{]").unwrap();
        let error = Book::open(&path, true).err().expect("refused").chain();
        assert!(error.contains("remove it and set"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{]");
    }
}
