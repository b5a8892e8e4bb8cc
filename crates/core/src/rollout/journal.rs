//! Writing a configuration to a disk that may lose power at any instruction.
//!
//! What is about to be done is written down first (the intent). New contents are put beside their places, what is there
//! now gets a second name beside it, and only when all of that is on the disk is anything replaced; so a disk that is
//! full is found out before anything has changed, and undoing needs no space. One small file says which configuration
//! is in force; its replacement is the one instant at which the node goes from the old to the new.
//!
//! Everything here is a list of operations for the daemon to carry out. A crash after any of them, with whatever was
//! not yet synchronised lost or not, is mended by [`recover`] before anything reads the files again.

use std::collections::BTreeSet;
use std::fmt;

use super::layout::{Entry, Found, Layout, UNITS};

/// Where the daemon keeps what it must remember.
pub const STATE: &str = "/var/lib/netferry/machine";
/// The file that says which configuration is in force.
pub const CURRENT: &str = "/var/lib/netferry/machine/current";
/// The file that says what is being done.
pub const INTENT: &str = "/var/lib/netferry/machine/intent";

/// One operation on a file system. Those that say so find nothing wrong with what is already so.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    /// Makes a directory; one that is there is fine.
    MakeDir(String),
    /// Makes a file or a link anew, removing what is there by that name first.
    Make {
        /// Where.
        path: String,
        /// What.
        entry: Entry,
    },
    /// Puts a file's contents on the disk.
    SyncFile(String),
    /// Gives what is at `from` a second name, replacing nothing; one that is there already is fine.
    Link {
        /// Where it is. A symbolic link is linked itself, not what it leads to.
        from: String,
        /// The second name.
        to: String,
    },
    /// Renames, replacing what is there. When both are names of one file, nothing happens: POSIX says so.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Removes a file or link; one that is not there is fine.
    Remove(String),
    /// Removes a directory if it is empty; one that is not, or is not there, is fine.
    RemoveDir(String),
    /// Puts the names in a directory on the disk; one that is not there is fine.
    SyncDir(String),
}

/// What happens to one path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Nothing is there; something will be.
    New,
    /// What a configuration put there is replaced.
    Replace,
    /// What the host has there is replaced, and kept.
    Take,
    /// What a configuration put there goes.
    Remove,
    /// What a configuration put there goes, and what the host had comes back.
    Restore,
    /// What a configuration put there is gone already; what the host had comes back.
    Return,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::New, "new"),
    (Kind::Replace, "replace"),
    (Kind::Take, "take"),
    (Kind::Remove, "remove"),
    (Kind::Restore, "restore"),
    (Kind::Return, "return"),
];

/// What is about to be done, as it is written down.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Intent {
    /// The configuration that will be in force.
    pub to: String,
    /// Directories that will be made, outer ones first.
    pub dirs: Vec<String>,
    /// What happens to which path.
    pub changes: Vec<(Kind, String)>,
}

/// An intent that cannot be understood. It is only ever replaced as a whole, so somebody else wrote there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} of {INTENT} is not ours: {text:?}")]
pub struct NotAnIntent {
    /// Which line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

const FIRST_LINE: &str = "netferry intent 1";

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}\nto {}", self.to)?;
        self.dirs.iter().try_for_each(|dir| writeln!(f, "dir {dir}"))?;
        for (kind, path) in &self.changes {
            let word = KINDS.iter().find(|(k, _)| k == kind).map_or("", |(_, word)| *word);
            writeln!(f, "{word} {path}")?;
        }
        Ok(())
    }
}

impl Intent {
    /// Reads what was written down.
    ///
    /// # Errors
    /// If it is not an intent.
    pub fn parse(text: &str) -> Result<Intent, NotAnIntent> {
        let mut intent = Intent { to: String::new(), dirs: Vec::new(), changes: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let wrong = || NotAnIntent { line: number + 1, text: line.to_owned() };
            let (word, rest) = line.split_once(' ').ok_or_else(wrong)?;
            match (number, word) {
                (0, _) if line == FIRST_LINE => {}
                (1, "to") => intent.to = rest.to_owned(),
                (2.., "dir") => intent.dirs.push(rest.to_owned()),
                (2.., word) => {
                    let kind = KINDS.iter().find(|(_, w)| *w == word).map(|(kind, _)| *kind);
                    intent.changes.push((kind.ok_or_else(wrong)?, rest.to_owned()));
                }
                (0 | 1, _) => return Err(wrong()),
            }
        }
        if intent.to.is_empty() {
            return Err(NotAnIntent { line: text.lines().count() + 1, text: String::new() });
        }
        Ok(intent)
    }
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

fn beside(path: &str, what: &str) -> String {
    // A leading dot, because many programs read every file of a directory whose name does not have one.
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{dir}/.{name}.netferry-{what}")
}

fn staged(path: &str) -> String {
    beside(path, "new")
}

fn former(path: &str) -> String {
    beside(path, "old")
}

/// Where what the host had at a path is kept for as long as a configuration has it.
pub fn original(path: &str) -> String {
    beside(path, "orig")
}

/// What must be done to get from one layout to another, whatever somebody did to managed paths meanwhile; `found` says
/// what is at a path.
pub fn intend(old: &Layout, new: &Layout, to: &str, found: impl Fn(&str) -> Found) -> Intent {
    let present = |path: &str| found(path) != Found::Nothing;
    let mut changes = Vec::new();
    let mut dirs: BTreeSet<String> = BTreeSet::new();
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for path in paths {
        let now = found(path);
        let there = now != Found::Nothing;
        let kind = match (old.get(path), new.get(path)) {
            // As it was written, and not merely there: whoever goes on regardless wants what is told.
            (Some(was), Some(is)) if was == is && now == Found::Entry(is.clone()) => continue,
            (_, Some(_)) if !there => Kind::New,
            (Some(_), Some(_)) => Kind::Replace,
            (None, Some(_)) => Kind::Take,
            (_, None) if present(&original(path)) && there => Kind::Restore,
            (_, None) if present(&original(path)) => Kind::Return,
            (_, None) if !there => continue,
            (_, None) => Kind::Remove,
        };
        if matches!(kind, Kind::New) {
            let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
            dirs.extend(above.filter(|dir| !present(dir)).map(ToOwned::to_owned));
        }
        changes.push((kind, path.clone()));
    }
    Intent { to: to.to_owned(), dirs: dirs.into_iter().collect(), changes }
}

/// Replaces a small file as a whole.
fn replace(path: &str, text: String, ops: &mut Vec<Op>) {
    let entry = Entry::File { mode: 0o600, contents: text.into_bytes() };
    ops.push(Op::Make { path: staged(path), entry });
    ops.push(Op::SyncFile(staged(path)));
    ops.push(Op::Rename { from: staged(path), to: path.to_owned() });
    ops.push(Op::SyncDir(parent(path).to_owned()));
}

fn sync_dirs<'a>(paths: impl Iterator<Item = &'a String>, ops: &mut Vec<Op>) {
    let dirs: BTreeSet<&str> = paths.map(|path| parent(path)).collect();
    ops.extend(dirs.into_iter().map(|dir| Op::SyncDir(dir.to_owned())));
}

/// The operations that carry an intent out. `new` is the layout it leads to.
///
/// If one of them fails, what [`recover`] answers puts everything back, in the reverse order.
pub fn carry_out(intent: &Intent, new: &Layout) -> Vec<Op> {
    let mut ops = Vec::new();
    replace(INTENT, intent.to_string(), &mut ops);
    for dir in &intent.dirs {
        ops.push(Op::MakeDir(dir.clone()));
        ops.push(Op::SyncDir(parent(dir).to_owned()));
    }
    let paths = || intent.changes.iter().map(|(_, path)| path);
    for (kind, path) in &intent.changes {
        match (kind, new.get(path)) {
            (Kind::Restore | Kind::Return, _) => {
                ops.push(Op::Link { from: original(path), to: staged(path) })
            }
            (Kind::New | Kind::Replace | Kind::Take, Some(entry)) => {
                ops.push(Op::Make { path: staged(path), entry: entry.clone() });
                if matches!(entry, Entry::File { .. }) {
                    ops.push(Op::SyncFile(staged(path)));
                }
            }
            (Kind::New | Kind::Replace | Kind::Take, None) | (Kind::Remove, _) => {}
        }
        match kind {
            Kind::New | Kind::Return => {}
            Kind::Take => {
                ops.push(Op::Link { from: path.clone(), to: former(path) });
                ops.push(Op::Link { from: path.clone(), to: original(path) });
            }
            Kind::Replace | Kind::Remove | Kind::Restore => {
                ops.push(Op::Link { from: path.clone(), to: former(path) });
            }
        }
    }
    sync_dirs(paths(), &mut ops);
    for (kind, path) in &intent.changes {
        ops.push(match kind {
            Kind::Remove => Op::Remove(path.clone()),
            Kind::New | Kind::Replace | Kind::Take | Kind::Restore | Kind::Return => {
                Op::Rename { from: staged(path), to: path.clone() }
            }
        });
    }
    sync_dirs(paths(), &mut ops);
    replace(CURRENT, intent.to.clone(), &mut ops);
    ops.extend(tidy(intent));
    ops
}

/// After the new configuration is in force: what was kept for undoing goes.
fn tidy(intent: &Intent) -> Vec<Op> {
    let mut ops = Vec::new();
    for (kind, path) in &intent.changes {
        ops.push(Op::Remove(former(path)));
        match kind {
            Kind::Restore | Kind::Return => ops.push(Op::Remove(original(path))),
            Kind::Remove if path.starts_with(UNITS) && parent(path) != UNITS => {
                ops.push(Op::RemoveDir(parent(path).to_owned()));
            }
            Kind::New | Kind::Replace | Kind::Take | Kind::Remove => {}
        }
    }
    sync_dirs(intent.changes.iter().map(|(_, path)| path), &mut ops);
    ops.extend([Op::Remove(INTENT.into()), Op::SyncDir(STATE.into())]);
    ops
}

/// The operations that put everything back, in the reverse order, after one of [`carry_out`] failed or the power did.
/// None of them needs space.
fn undo(intent: &Intent, present: impl Fn(&str) -> bool) -> Vec<Op> {
    let mut ops = vec![Op::Remove(staged(CURRENT)), Op::SyncDir(STATE.into())];
    for (kind, path) in intent.changes.iter().rev() {
        if present(&former(path)) {
            ops.push(Op::Rename { from: former(path), to: path.clone() });
            ops.push(Op::Remove(former(path)));
        } else if matches!(kind, Kind::New | Kind::Return) {
            ops.push(Op::Remove(path.clone()));
        }
        ops.push(Op::Remove(staged(path)));
        if *kind == Kind::Take {
            ops.push(Op::Remove(original(path)));
        }
    }
    sync_dirs(intent.changes.iter().map(|(_, path)| path), &mut ops);
    for dir in intent.dirs.iter().rev() {
        ops.push(Op::RemoveDir(dir.clone()));
        ops.push(Op::SyncDir(parent(dir).to_owned()));
    }
    ops.extend([Op::Remove(INTENT.into()), Op::SyncDir(STATE.into())]);
    ops
}

/// The operations that mend what a loss of power or a failure left: done at boot before anything reads a managed file,
/// and when an operation of [`carry_out`] failed. `present` says whether something is at a path.
///
/// `current` is what [`CURRENT`] says: if it already names the configuration the intent leads to, everything is in
/// place and only tidying is left; if not, everything is put back.
pub fn recover(intent: Option<&Intent>, current: Option<&str>, present: impl Fn(&str) -> bool) -> Vec<Op> {
    match intent {
        Some(intent) if current == Some(intent.to.as_str()) => tidy(intent),
        Some(intent) => undo(intent, present),
        None if present(&staged(INTENT)) => vec![Op::Remove(staged(INTENT)), Op::SyncDir(STATE.into())],
        None => Vec::new(),
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
