//! The append log behind `--data FILE`.
//!
//! One JSON record per line. A record is written with one `write` before the change becomes visible to
//! anybody, so a killed server comes back with everything it acknowledged. A line without its newline is
//! a write the kill interrupted: nobody has seen it, and it is cut off at the next start. The file is
//! rewritten to the live objects when it is opened and most of it is history.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use super::Key;

/// Records read per live object above which the file is rewritten at start.
const REWRITE_ABOVE: usize = 4;
/// The data file holds Secrets: only its owner may read it.
const MODE: u32 = 0o600;
/// What every record begins with.
const HEAD: &[u8] = b"{\"op\":\"";

/// Why the log could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file could not be opened.
    #[error("opening the data file {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file could not be read.
    #[error("reading the data file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A complete line is not a record: the file is damaged or not ours.
    #[error("line {line} of the data file {path} is not a record; move the file away to start empty")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// A change could not be written. Nothing was changed.
    #[error("writing to the data file {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// What every cluster starts with could not be written.
    #[error("making what every cluster starts with: {reason}")]
    Unmade {
        /// Why not.
        reason: String,
    },
    /// Another server has the file.
    #[error("the data file {path} is in use by another server")]
    InUse {
        /// The file.
        path: PathBuf,
    },
}

/// One line of the log.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Record {
    /// The counter stands at least here.
    Revision { revision: u64 },
    /// An object was stored.
    Put { revision: u64, table: String, object: Value },
    /// An object was removed.
    Delete { revision: u64, table: String, namespace: String, name: String },
}

pub(super) struct Log {
    path: PathBuf,
    file: File,
    length: u64,
    /// A failed write may have left half a line behind that could not be cut off yet.
    torn: bool,
}

impl Log {
    pub(super) fn open(path: &Path, mut replay: impl FnMut(Record)) -> Result<Log, LogError> {
        let open = |source| LogError::Open { path: path.to_owned(), source };
        let read = |source| LogError::Read { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let file = options.open(path).map_err(open)?;
        match file.try_lock() {
            // Whoever rewrote the file since we opened it holds the new one; ours has no name any more.
            Ok(()) if !is_at(&file, path) => return Err(LogError::InUse { path: path.to_owned() }),
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(LogError::InUse { path: path.to_owned() }),
            Err(std::fs::TryLockError::Error(source)) => return Err(open(source)),
        }
        let mut reader = BufReader::new(&file);
        let (mut length, mut line, mut records) = (0_u64, Vec::new(), 0);
        let mut live = std::collections::BTreeMap::new();
        let mut revision = 0;
        loop {
            line.clear();
            let taken = reader.read_until(b'\n', &mut line).map_err(read)?;
            let whole = line.last() == Some(&b'\n');
            if taken == 0 || (!whole && (line.starts_with(HEAD) || HEAD.starts_with(&line))) {
                break;
            }
            records += 1;
            // The last words of a file that was never ours are refused too: cutting them off would destroy it.
            let record: Record = serde_json::from_slice(&line).map_err(|source| LogError::Damaged {
                path: path.to_owned(),
                line: records,
                source,
            })?;
            // Only what a rewrite needs is kept: where the newest line of each object starts.
            match &record {
                Record::Revision { revision: at } => revision = revision.max(*at),
                Record::Put { revision: at, table, object } => {
                    revision = revision.max(*at);
                    let text = |k: &str| object["metadata"][k].as_str().unwrap_or_default().to_owned();
                    live.insert((table.clone(), text("namespace"), text("name")), (length, taken));
                }
                Record::Delete { revision: at, table, namespace, name } => {
                    revision = revision.max(*at);
                    live.remove(&(table.clone(), namespace.clone(), name.clone()));
                }
            }
            length += taken as u64;
            replay(record);
        }
        drop(reader);
        // An earlier version let others read it.
        file.set_permissions(Permissions::from_mode(MODE)).map_err(open)?;
        let mut log = Log { path: path.to_owned(), file, length, torn: false };
        log.cut().map_err(|source| log.failed(source))?;
        if records > 64 && records > live.len() * REWRITE_ABOVE {
            let mut fresh = path.as_os_str().to_owned();
            fresh.push(".rewriting");
            let fresh = PathBuf::from(fresh);
            let mut lines: Vec<(u64, usize)> = live.into_values().collect();
            lines.sort_unstable();
            match log.rewritten(&fresh, revision, &lines) {
                Ok((file, length)) => log = Log { path: path.to_owned(), file, length, torn: false },
                Err(error) => {
                    // No space, most likely. The old file is whole, only longer than it need be.
                    tracing::warn!(%error, path = %path.display(), "the data file could not be rewritten shorter");
                    let _ = std::fs::remove_file(&fresh);
                    log.cut().map_err(|source| log.failed(source))?;
                }
            }
        }
        Ok(log)
    }

    /// A fresh file with the newest line of every live object, put in the old one's place in one step.
    fn rewritten(
        &mut self,
        fresh: &Path,
        revision: u64,
        lines: &[(u64, usize)],
    ) -> std::io::Result<(File, u64)> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(MODE).open(fresh)?;
        // An interrupted rewrite may have left one.
        file.set_permissions(Permissions::from_mode(MODE))?;
        file.lock()?;
        let mut out = BufWriter::new(&file);
        let head = format!("{{\"op\":\"revision\",\"revision\":{revision}}}\n");
        out.write_all(head.as_bytes())?;
        let mut length = head.len() as u64;
        for (start, taken) in lines {
            let mut line = vec![0; *taken];
            self.file.seek(SeekFrom::Start(*start))?;
            self.file.read_exact(&mut line)?;
            out.write_all(&line)?;
            length += *taken as u64;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;
        std::fs::rename(fresh, &self.path)?;
        Ok((file, length))
    }

    pub(super) fn put(&mut self, revision: u64, table: &str, json: &Bytes) -> Result<(), LogError> {
        let mut line =
            format!("{{\"op\":\"put\",\"revision\":{revision},\"table\":{},\"object\":", quoted(table))
                .into_bytes();
        line.extend_from_slice(json);
        line.extend_from_slice(b"}\n");
        self.append(&line)
    }

    pub(super) fn delete(&mut self, revision: u64, table: &str, key: &Key) -> Result<(), LogError> {
        let line = format!(
            "{{\"op\":\"delete\",\"revision\":{revision},\"table\":{},\"namespace\":{},\"name\":{}}}\n",
            quoted(table),
            quoted(&key.namespace),
            quoted(&key.name)
        );
        self.append(line.as_bytes())
    }

    /// Writes one line, or nothing: on a full disk the part that fitted is taken back. While it cannot be
    /// taken back nothing more is written, for a line after half a line would be lost with it.
    fn append(&mut self, line: &[u8]) -> Result<(), LogError> {
        if self.torn {
            self.cut().map_err(|source| self.failed(source))?;
        }
        match self.file.write_all(line) {
            Ok(()) => {
                self.length += line.len() as u64;
                Ok(())
            }
            Err(source) => {
                self.torn = self.cut().is_err();
                Err(self.failed(source))
            }
        }
    }

    fn cut(&mut self) -> std::io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        self.torn = false;
        Ok(())
    }

    fn failed(&self, source: std::io::Error) -> LogError {
        LogError::Write { path: self.path.clone(), source }
    }
}

/// A JSON string. (Rust's own quoting is not JSON for letters that cannot be seen.)
fn quoted(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// Whether the open file is still the one of that name.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
