//! A disk that loses what was not synchronised: contents of files, and names in directories, apart.
//!
//! Whoever means to survive a loss of power does to it what it does to a real one, and tries every disk that may be left.

use std::collections::{BTreeMap, BTreeSet};

/// A disk whose files hold an `E` each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Disk<E> {
    /// Every file there ever was: what is in it, and whether that is on the disk.
    files: Vec<(E, bool)>,
    now: Names,
    /// What is on the disk.
    durable: Names,
    /// Changes of names that are not yet on the disk, with the directory they are in.
    pending: Vec<(String, Change)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Names {
    files: BTreeMap<String, usize>,
    dirs: BTreeSet<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Change {
    Set(String, usize),
    Rename(String, String),
    Remove(String),
    MakeDir(String),
    RemoveDir(String),
}

/// Which choices of what was lost are tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Losses {
    /// Everything or nothing.
    Few,
    /// Also each alone, and all from each on.
    Some,
    /// Every choice, while there are few changes; then as [`Losses::Some`], and all but each.
    Many,
}

impl Losses {
    /// For so many changes, which of them are kept.
    fn kept(self, count: usize) -> Vec<Vec<bool>> {
        if self == Losses::Many && count <= 6 {
            let bits = |mask: usize| (0..count).map(|bit| mask >> bit & 1 == 1).collect();
            return (0..1 << count).map(bits).collect();
        }
        let mut kept = vec![vec![true; count], vec![false; count]];
        for at in 0..count {
            if self != Losses::Few {
                kept.push((0..count).map(|i| i != at).collect());
                kept.push((0..count).map(|i| i < at).collect());
            }
            if self == Losses::Many {
                kept.push((0..count).map(|i| i == at).collect());
            }
        }
        kept
    }
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Set(path, file) => _ = self.files.insert(path.clone(), *file),
            Change::Rename(from, to) => {
                if let Some(file) = self.files.remove(from) {
                    self.files.insert(to.clone(), file);
                }
            }
            Change::Remove(path) => _ = self.files.remove(path),
            Change::MakeDir(path) => _ = self.dirs.insert(path.clone()),
            Change::RemoveDir(path) => _ = self.dirs.remove(path),
        }
    }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((dir, _)) => dir,
    }
}

impl<E: Clone + Ord> Disk<E> {
    /// A disk with these, all of it synchronised.
    pub fn new(
        dirs: impl IntoIterator<Item = impl Into<String>>,
        files: impl IntoIterator<Item = (impl Into<String>, E)>,
    ) -> Disk<E> {
        let mut now = Names { files: BTreeMap::new(), dirs: dirs.into_iter().map(Into::into).collect() };
        now.dirs.insert("/".to_owned());
        let mut all = Vec::new();
        for (path, entry) in files {
            now.files.insert(path.into(), all.len());
            all.push((entry, true));
        }
        Disk { files: all, durable: now.clone(), now, pending: Vec::new() }
    }

    /// What is at a path, unless it is a directory or nothing.
    pub fn entry(&self, path: &str) -> Option<&E> {
        self.now.files.get(path).map(|file| &self.files[*file].0)
    }

    /// Whether anything is at a path.
    pub fn contains(&self, path: &str) -> bool {
        self.now.files.contains_key(path) || self.now.dirs.contains(path)
    }

    /// All files, by path.
    pub fn files(&self) -> BTreeMap<String, E> {
        self.now.files.iter().map(|(path, file)| (path.clone(), self.files[*file].0.clone())).collect()
    }

    /// All directories.
    pub fn dirs(&self) -> &BTreeSet<String> {
        &self.now.dirs
    }

    /// Whether no change of a name could still be lost.
    pub fn is_durable(&self) -> bool {
        self.pending.is_empty()
    }

    fn change(&mut self, path: &str, change: Change) {
        self.now.apply(&change);
        self.pending.push((parent(path).to_owned(), change));
    }

    fn is_made_somewhere(&self, path: &str) {
        assert!(self.now.dirs.contains(parent(path)), "{path} is made in a directory that is not there");
    }

    /// Makes a directory, if it is not there.
    pub fn make_dir(&mut self, path: &str) {
        self.is_made_somewhere(path);
        if !self.now.dirs.contains(path) {
            self.change(path, Change::MakeDir(path.to_owned()));
        }
    }

    /// Makes a file; `whole` says that it has no contents that could be lost apart from its name.
    pub fn make(&mut self, path: &str, entry: E, whole: bool) {
        self.is_made_somewhere(path);
        self.files.push((entry, whole));
        self.change(path, Change::Set(path.to_owned(), self.files.len() - 1));
    }

    /// Brings a file's contents to the disk.
    pub fn sync_file(&mut self, path: &str) {
        let file = self.now.files[path];
        self.files[file].1 = true;
    }

    /// Gives a file a second name, if that is free.
    pub fn link(&mut self, from: &str, to: &str) {
        if !self.now.files.contains_key(to) {
            self.change(to, Change::Set(to.to_owned(), self.now.files[from]));
        }
    }

    /// Gives a file another name; nothing happens if it has it already.
    pub fn rename(&mut self, from: &str, to: &str) {
        assert_eq!(parent(from), parent(to), "a rename across directories is not one operation");
        if self.now.files.get(to) != Some(&self.now.files[from]) {
            self.change(to, Change::Rename(from.to_owned(), to.to_owned()));
        }
    }

    /// Removes a file, if it is there.
    pub fn remove(&mut self, path: &str) {
        if self.now.files.contains_key(path) {
            self.change(path, Change::Remove(path.to_owned()));
        }
    }

    /// Removes a directory, if it is there and empty.
    pub fn remove_dir(&mut self, path: &str) {
        let inside = format!("{path}/");
        let mut names = self.now.files.keys().chain(&self.now.dirs);
        if self.now.dirs.contains(path) && !names.any(|name| name.starts_with(&inside)) {
            self.change(path, Change::RemoveDir(path.to_owned()));
        }
    }

    /// Brings the names in a directory to the disk.
    pub fn sync_dir(&mut self, dir: &str) {
        let pending = std::mem::take(&mut self.pending);
        let (now, later): (Vec<_>, Vec<_>) = pending.into_iter().partition(|(of, _)| of == dir);
        now.iter().for_each(|(_, change)| self.durable.apply(change));
        self.pending = later;
    }

    /// What may be on the disk after the power failed now; `torn` is what is left of a file whose contents were lost.
    pub fn crashes(&self, losses: Losses, torn: impl Fn(&E) -> E) -> BTreeSet<Disk<E>> {
        let mut found = BTreeSet::new();
        for kept in losses.kept(self.pending.len()) {
            let mut names = self.durable.clone();
            for ((_, change), _) in self.pending.iter().zip(&kept).filter(|(_, kept)| **kept) {
                names.apply(change);
            }
            for lost in [false, true] {
                found.insert(self.booted(
                    &names,
                    |(entry, synced): &(E, bool)| {
                        if lost && !synced { torn(entry) } else { entry.clone() }
                    },
                ));
            }
        }
        found
    }

    /// A disk with these names alone, so that equal disks are equal: files without a name are forgotten.
    fn booted(&self, names: &Names, contents: impl Fn(&(E, bool)) -> E) -> Disk<E> {
        let mut files = Vec::new();
        let mut moved = BTreeMap::new();
        let renumbered = names.files.iter().map(|(path, file)| {
            let at = *moved.entry(*file).or_insert_with(|| {
                files.push((contents(&self.files[*file]), true));
                files.len() - 1
            });
            (path.clone(), at)
        });
        let now = Names { files: renumbered.collect(), dirs: names.dirs.clone() };
        Disk { files, durable: now.clone(), now, pending: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(disk: &Disk<&'static str>, losses: Losses) -> BTreeSet<String> {
        let shown = |disk: Disk<&'static str>| {
            disk.files().iter().map(|(path, is)| format!("{path}={is}")).collect::<Vec<_>>().join(" ")
        };
        disk.crashes(losses, |_| "").into_iter().map(shown).collect()
    }

    fn of<const N: usize>(disks: [&str; N]) -> BTreeSet<String> {
        disks.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn names_and_contents_are_lost_apart_until_each_was_synchronised() {
        let mut disk = Disk::new(["/etc"], [("/etc/a", "old")]);
        disk.make("/etc/.a", "new", false);
        assert_eq!(
            left(&disk, Losses::Few),
            of(["/etc/a=old", "/etc/.a=new /etc/a=old", "/etc/.a= /etc/a=old"])
        );
        disk.rename("/etc/.a", "/etc/a");
        assert_eq!(left(&disk, Losses::Few), of(["/etc/a=old", "/etc/a=new", "/etc/a="]));
        disk.sync_file("/etc/a");
        assert_eq!(left(&disk, Losses::Few), of(["/etc/a=old", "/etc/a=new"]));
        assert!(!disk.is_durable());
        disk.sync_dir("/etc");
        assert_eq!(left(&disk, Losses::Many), of(["/etc/a=new"]));
        assert!(disk.is_durable());
    }

    #[test]
    fn the_more_losses_are_tried_the_more_disks_are_found() {
        let mut disk = Disk::new(["/etc"], [("", ""); 0]);
        for path in ["/etc/a", "/etc/b", "/etc/c"] {
            disk.make(path, "x", true);
        }
        let found = [Losses::Few, Losses::Some, Losses::Many].map(|losses| left(&disk, losses).len());
        assert_eq!(found, [2, 6, 8]);
    }
}
