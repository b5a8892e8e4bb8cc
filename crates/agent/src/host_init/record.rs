//! What host-init did at this boot, for whoever comes after it.

use std::io;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use netferry_core::overlay::zone::Datapath;
use serde::{Deserialize, Serialize};

use crate::kept;

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
    /// The link that was given its size, where there is no bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sized: Option<String>,
    /// Why no link was, where there is no bridge: it was not asked for at this boot, and could not have been done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsized_because: Option<String>,
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
        kept::read(run, FILE)
    }

    /// [`Record::read`] for an agent, which does without a record that cannot be read.
    pub fn of_this_boot(run: &Path) -> Option<Record> {
        Record::read(run).unwrap_or_else(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "reading the record of host-init");
            None
        })
    }

    pub(super) fn write(&self, run: &Path) -> io::Result<()> {
        kept::write(run, FILE, self)
    }

    pub(super) fn remove(run: &Path) -> io::Result<()> {
        kept::remove(&path(run))
    }
}

fn path(run: &Path) -> PathBuf {
    run.join(FILE)
}
