//! What this boot runs at: decided and written down once by host-init, read by everything after it.
//!
//! An agent that restarts uses what is written here, never a newer object, so that nothing runs ahead of its reboot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netferry_api::mtu::CniMtu;
use netferry_core::mtu::boot::{Booted, Saved};
use netferry_core::rollout::journal::Op;
use netferry_core::size::{Envelope, Mtu};
use netferry_translate::mtu as translate;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::kept;
use crate::machine::{Disk, DiskError};

/// The file's name in our run directory, which is empty at boot.
const FILE: &str = "booted.json";
/// The hosts' size before a change, for as long as the change lasts.
const SAVED: &str = "/var/lib/netferry/mtu-original.json";
const DATA: &str = "/var/lib/netferry";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    network: Option<CniMtu>,
    host: CniMtu,
    own: u32,
    original: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireSaved {
    original: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configured: Option<u32>,
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn mtu(bytes: u32) -> io::Result<Mtu> {
    Mtu::new(bytes).map_err(invalid)
}

fn envelope(sizes: CniMtu) -> io::Result<Envelope> {
    translate::envelope(sizes).map_err(invalid)
}

/// What this boot runs at; nothing if host-init did not get so far.
///
/// # Errors
/// If what is there cannot be read.
pub fn read(run: &Path) -> io::Result<Option<Booted>> {
    let Some(wire) = kept::read::<Wire>(run, FILE)? else { return Ok(None) };
    Ok(Some(Booted {
        epoch: wire.epoch,
        network: wire.network.map(envelope).transpose()?,
        host: envelope(wire.host)?,
        own: mtu(wire.own)?,
        original: mtu(wire.original)?,
    }))
}

/// Writes it down.
///
/// # Errors
/// If it cannot be written.
pub fn write(run: &Path, booted: &Booted) -> io::Result<()> {
    let wire = Wire {
        epoch: booted.epoch,
        network: booted.network.map(translate::printed_envelope),
        host: translate::printed_envelope(booted.host),
        own: booted.own.bytes(),
        original: booted.original.bytes(),
    };
    kept::write(run, FILE, &wire)
}

/// Why the size before a change could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// A file.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It is not what we write. Without it nobody knows what the host ran at before.
    #[error(
        "{SAVED} is not what it should be; write {{\"original\": MTU}} there, the host's MTU before the change"
    )]
    Unreadable(#[source] io::Error),
}

/// The hosts' size before the change, if it is kept.
///
/// # Errors
/// If it cannot be read.
pub fn saved(disk: &Disk) -> Result<Option<Saved>, SavedError> {
    let Some(text) = disk.read(SAVED)? else { return Ok(None) };
    let read = || {
        let wire: WireSaved = serde_json::from_slice(&text)?;
        Ok(Saved { original: mtu(wire.original)?, configured: wire.configured.map(mtu).transpose()? })
    };
    read().map(Some).map_err(SavedError::Unreadable)
}

/// Keeps the hosts' size before the change. Durable when it returns.
///
/// # Errors
/// If it cannot be written.
pub fn save(disk: &Disk, saved: &Saved) -> Result<(), DiskError> {
    let wire = WireSaved { original: saved.original.bytes(), configured: saved.configured.map(Mtu::bytes) };
    let contents = serde_json::to_vec(&wire).expect("numbers are JSON");
    disk.replace(SAVED, contents, 0o600)
}

/// Forgets the hosts' size before the change: it has ended.
///
/// # Errors
/// If it cannot be removed.
pub fn forget(disk: &Disk) -> Result<(), DiskError> {
    disk.run(&[Op::Remove(SAVED.to_owned()), Op::SyncDir(DATA.to_owned())])
}

/// What this boot runs at, shared by the parts of an agent that learn and tell it.
#[derive(Clone, Debug)]
pub struct Running {
    run: PathBuf,
    now: Arc<watch::Sender<Option<Booted>>>,
}

impl Running {
    /// What is written in the run directory. What cannot be read is nothing, and said so.
    pub fn open(run: &Path) -> Running {
        let booted = read(run).unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "what this boot runs at cannot be read; it is found out anew");
            None
        });
        Running { run: run.to_owned(), now: Arc::new(watch::Sender::new(booted)) }
    }

    /// What it is now.
    pub fn get(&self) -> Option<Booted> {
        *self.now.borrow()
    }

    /// Hears what it becomes.
    pub fn subscribe(&self) -> watch::Receiver<Option<Booted>> {
        self.now.subscribe()
    }

    /// Writes down something else, first where an agent that restarts finds it.
    ///
    /// # Errors
    /// If it cannot be written; then nothing is different.
    pub fn set(&self, booted: Booted) -> io::Result<()> {
        if self.get() != Some(booted) {
            write(&self.run, &booted)?;
            self.now.send_replace(Some(booted));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(bytes: u32) -> Mtu {
        Mtu::new(bytes).unwrap()
    }

    #[test]
    fn what_a_boot_runs_at_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("netferry");
        assert_eq!(read(&run).unwrap(), None);
        let mut booted = Booted {
            epoch: 3,
            network: None,
            host: Envelope::spanning(size(1500), size(9000)),
            own: size(9000),
            original: size(1500),
        };
        for network in
            [None, Some(Envelope::settled(size(1400))), Some(Envelope::spanning(size(1400), size(8900)))]
        {
            booted.network = network;
            write(&run, &booted).unwrap();
            assert_eq!(read(&run).unwrap(), Some(booted));
            assert_eq!(Running::open(&run).get(), Some(booted));
        }
        for wrong in ["", "{}", r#"{"epoch":1,"host":{"mtu":12},"own":1500,"original":1500}"#] {
            std::fs::write(run.join(FILE), wrong).unwrap();
            assert!(read(&run).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_size_before_a_change_is_kept_and_forgotten_and_refused_when_it_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        assert_eq!(saved(&disk).unwrap(), None);
        for configured in [None, Some(size(1500))] {
            let kept = Saved { original: size(1500), configured };
            save(&disk, &kept).unwrap();
            assert_eq!(saved(&disk).unwrap(), Some(kept));
        }
        std::fs::write(dir.path().join(&SAVED[1..]), "{\"original\": 9}").unwrap();
        let said = saved(&disk).unwrap_err().to_string();
        assert!(said.starts_with("/var/lib/netferry/mtu-original.json is not what it should be"), "{said}");
        forget(&disk).unwrap();
        assert_eq!(saved(&disk).unwrap(), None);
        forget(&disk).unwrap();
    }
}
