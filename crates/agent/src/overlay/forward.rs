//! What the host forwards to Services, remembered: a node that boots without the API, or an agent that starts without
//! it, must not forget where NodePorts lead.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use ipnet::IpNet;
use netferry_core::net::Family;
use netferry_core::overlay::service::{Entrance, Forward};
use netferry_core::port::{Port, Protocol};
use serde::{Deserialize, Serialize};

use crate::cluster::{CacheError, write_whole};

const FILE: &str = "forward.json";

#[derive(Serialize, Deserialize)]
struct Door {
    ipv6: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    protocol: String,
    port: u16,
}

impl Door {
    fn of(entrance: &Entrance) -> Door {
        Door {
            ipv6: entrance.family == Family::V6,
            address: entrance.address,
            protocol: entrance.protocol.upper().to_owned(),
            port: entrance.port.number(),
        }
    }

    fn entrance(&self) -> Option<Entrance> {
        Some(Entrance {
            family: if self.ipv6 { Family::V6 } else { Family::V4 },
            address: self.address,
            protocol: Protocol::ALL.into_iter().find(|protocol| protocol.upper() == self.protocol)?,
            port: Port::new(self.port.into()).ok()?,
        })
    }
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Kept {
    any: Vec<(Door, SocketAddr)>,
    local: Vec<(Door, SocketAddr)>,
    host_backed: Vec<Door>,
    guarded: Vec<(Door, Vec<IpNet>)>,
    processes: Vec<Door>,
}

/// Remembers this, whole or not at all.
pub fn write(directory: &Path, forward: &Forward) -> Result<(), CacheError> {
    let doors = |all: &std::collections::BTreeMap<Entrance, SocketAddr>| {
        all.iter().map(|(entrance, to)| (Door::of(entrance), *to)).collect()
    };
    let kept = Kept {
        any: doors(&forward.any),
        local: doors(&forward.local),
        host_backed: forward.host_backed.iter().map(Door::of).collect(),
        guarded: forward.guarded.iter().map(|(entrance, nets)| (Door::of(entrance), nets.clone())).collect(),
        processes: forward.processes.iter().map(Door::of).collect(),
    };
    write_whole(directory, FILE, &kept)
}

/// What was remembered last. The run directory, empty at boot, has what the host has got in this one; the disk is
/// spared, and may be behind: an agent killed soon after a Service came would take the Service away once more.
pub fn newest(run: &Path, data: &Path) -> Option<Forward> {
    read(run).or_else(|| read(data))
}

/// What was remembered; `None` if nothing was, or it cannot be read.
pub fn read(directory: &Path) -> Option<Forward> {
    let text = std::fs::read(directory.join(FILE)).ok()?;
    let kept: Kept = serde_json::from_slice(&text).ok()?;
    let read = |doors: Vec<(Door, SocketAddr)>| {
        doors.into_iter().map(|(door, to)| Some((door.entrance()?, to))).collect::<Option<_>>()
    };
    Some(Forward {
        any: read(kept.any)?,
        local: read(kept.local)?,
        host_backed: kept.host_backed.iter().map(Door::entrance).collect::<Option<_>>()?,
        guarded: kept
            .guarded
            .into_iter()
            .map(|(door, nets)| Some((door.entrance()?, nets)))
            .collect::<Option<_>>()?,
        processes: kept.processes.iter().map(Door::entrance).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_true() {
        let entrance = |family, address, protocol, port| Entrance {
            family,
            address,
            protocol,
            port: Port::new(port).unwrap(),
        };
        let outside = "2001:db8::1".parse().unwrap();
        let forward = Forward {
            any: [
                (entrance(Family::V4, None, Protocol::Tcp, 30080), "10.96.0.10:80".parse().unwrap()),
                (entrance(Family::V6, Some(outside), Protocol::Udp, 53), "[fd00::1]:53".parse().unwrap()),
            ]
            .into(),
            local: [(
                entrance(Family::V4, None, Protocol::Sctp, 30081),
                "169.254.169.3:30081".parse().unwrap(),
            )]
            .into(),
            host_backed: [entrance(Family::V4, None, Protocol::Tcp, 30080)].into(),
            guarded: [(
                entrance(Family::V6, Some(outside), Protocol::Udp, 53),
                vec!["2001:db8:51::/64".parse().unwrap()],
            )]
            .into(),
            processes: [entrance(Family::V6, Some(outside), Protocol::Tcp, 9090)].into(),
        };
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        write(dir.path(), &forward).unwrap();
        assert_eq!(read(dir.path()), Some(forward.clone()));
        let run = tempfile::tempdir().unwrap();
        assert_eq!(newest(run.path(), dir.path()), Some(forward), "the first of a boot");
        write(run.path(), &Forward::default()).unwrap();
        assert_eq!(newest(run.path(), dir.path()), Some(Forward::default()), "another of the same");
        std::fs::write(dir.path().join(FILE), "{\"any\": [[").unwrap();
        assert_eq!(read(dir.path()), None, "half a file is nothing");
    }
}
