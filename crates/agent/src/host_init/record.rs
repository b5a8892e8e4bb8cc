//! What host-init did at this boot, for whoever comes after it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use netferry_core::overlay::zone::Datapath;
use serde::{Deserialize, Serialize};

/// The file's name in our run directory, which is empty at boot.
const FILE: &str = "host-init.json";

/// What host-init did at this boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Who moves packets: `kernel` or `userspace`.
    pub datapath: Moves,
    /// The bridge with the uplink; none where there is no need for one.
    pub bridge: Option<BridgeRecord>,
}

/// The bridge with the uplink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BridgeRecord {
    /// The bridge.
    pub name: String,
    /// The link that is its way out.
    pub uplink: String,
    /// The bridge's own hardware address.
    pub mac: String,
    /// The largest packet of both.
    pub mtu: u32,
    /// The host's addresses, which are on the bridge now.
    pub addresses: Vec<IpNet>,
}

/// Who moves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moves {
    /// The kernel's module.
    Kernel,
    /// The switch's own process.
    Userspace,
}

impl From<Datapath> for Moves {
    fn from(datapath: Datapath) -> Moves {
        match datapath {
            Datapath::Kernel => Moves::Kernel,
            Datapath::Userspace => Moves::Userspace,
        }
    }
}

impl From<Moves> for Datapath {
    fn from(moves: Moves) -> Datapath {
        match moves {
            Moves::Kernel => Datapath::Kernel,
            Moves::Userspace => Datapath::Userspace,
        }
    }
}

impl Record {
    /// Reads it; none if host-init did not finish at this boot.
    pub fn read(run: &Path) -> io::Result<Option<Record>> {
        match fs::read(path(run)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it whole or not at all: a reader must never meet half of it.
    pub(super) fn write(&self, run: &Path) -> io::Result<()> {
        fs::create_dir_all(run)?;
        let new = run.join(format!(".{FILE}.new"));
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(new, path(run))
    }

    pub(super) fn remove(run: &Path) -> io::Result<()> {
        match fs::remove_file(path(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn path(run: &Path) -> PathBuf {
    run.join(FILE)
}
