//! What a node is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::cluster::interface;
use crate::options::{Name, NewNode, Options, Parts, Role};

/// More nodes than this share processors as everybody does. Losses are measured with fewer.
const CROWD: u16 = 32;

/// What a node is; enough to boot it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: Name,
    /// Its number in the lab.
    pub number: u16,
    /// See [`Role`].
    pub role: Role,
    /// The pool it is in.
    pub pool: String,
    /// Labels its Node object has besides those that follow from the rest.
    pub labels: BTreeMap<String, String>,
    /// Where its files are, outside of it.
    pub directory: PathBuf,
    /// The `netferry` executable, outside of it.
    pub program: PathBuf,
    /// The `netferry-cni` executable, outside of it.
    pub cni: PathBuf,
    /// Its interfaces; the first is the one it is known by.
    pub interfaces: Vec<Interface>,
    /// Where everything else is.
    pub gateways: Vec<IpNet>,
    /// Which of our programs run on it.
    pub parts: Parts,
    /// Its agent is the operator too.
    #[serde(default)]
    pub solo: bool,
    /// There are so many that none of them may come before everything else.
    #[serde(default)]
    pub crowded: bool,
}

/// An interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Its largest packet.
    pub mtu: u32,
}

impl Spec {
    /// A node of a lab.
    pub fn new(options: &Options, directory: PathBuf, name: Name, number: u16, new: &NewNode) -> Spec {
        let interfaces = (0..=options.networks).map(|network| Interface {
            name: interface(network).to_string(),
            addresses: options.families.node(network, number),
            mtu: options.host_mtu(),
        });
        Spec {
            name,
            number,
            role: new.role,
            pool: new.pool.as_ref().map_or_else(|| new.role.pool().to_owned(), ToString::to_string),
            labels: new.labels.clone(),
            directory,
            program: options.program.clone(),
            cni: options.cni.clone(),
            interfaces: interfaces.collect(),
            gateways: options.families.router(),
            // The uplink of a single node stays as it is.
            parts: Parts { host_init: options.parts.host_init && !options.single_node, ..options.parts },
            solo: options.solo(),
            crowded: options.nodes > CROWD,
        }
    }

    /// The addresses it is known by.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.interfaces.iter().take(1).flat_map(|interface| &interface.addresses).map(IpNet::addr)
    }

    /// What survives its reboot.
    pub fn disk(&self) -> PathBuf {
        self.directory.join("disk")
    }

    /// The `netferry` executable, inside of it.
    pub fn program_inside(&self) -> &'static Path {
        Path::new("/opt/netferry/bin/netferry")
    }
}
