//! What an agent is told at its start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netferry_core::name::NodeName;
use netferry_core::overlay::zone::Datapath;

use crate::ownership::PROBE_PORT;

/// Where things are on a node. The defaults are those of the distribution's packages and of `deploy/`.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Open vSwitch's run directory: its database's socket, the pidfile and control socket of `ovs-vswitchd`.
    pub ovs_run: PathBuf,
    /// OVN's run directory: sockets and pidfiles of the zone's daemons.
    pub ovn_run: PathBuf,
    /// The zone's databases.
    pub ovn_data: PathBuf,
    /// Logs of the zone's daemons.
    pub ovn_log: PathBuf,
    /// Schemas of the zone's databases, as packaged.
    pub ovn_schemas: PathBuf,
    /// Ours, gone with a reboot.
    pub run: PathBuf,
    /// The CNI configuration runtimes read.
    pub cni_config: PathBuf,
    /// Ours, kept: what a node needs to heal itself without the API.
    pub data: PathBuf,
    /// The host's root, where machine configurations are written.
    pub root: PathBuf,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths::below(Path::new("/"))
    }
}

impl Paths {
    /// The usual places, below another root.
    pub fn below(root: &Path) -> Paths {
        Paths {
            ovs_run: root.join("run/openvswitch"),
            ovn_run: root.join("run/ovn"),
            ovn_data: root.join("var/lib/ovn"),
            ovn_log: root.join("var/log/ovn"),
            ovn_schemas: PathBuf::from("/usr/share/ovn"),
            run: root.join("run/netferry"),
            cni_config: root.join("etc/cni/net.d/10-netferry.conflist"),
            data: root.join("var/lib/netferry"),
            root: root.to_owned(),
        }
    }

    /// The socket the CNI plugin asks at.
    pub fn cni_socket(&self) -> PathBuf {
        self.run.join("cni.sock")
    }

    /// The socket of the switch's database.
    pub fn switch_socket(&self) -> PathBuf {
        self.ovs_run.join("db.sock")
    }

    /// The socket of the northbound database.
    pub fn northbound_socket(&self) -> PathBuf {
        self.ovn_run.join("ovnnb_db.sock")
    }

    /// The socket of the southbound database.
    pub fn southbound_socket(&self) -> PathBuf {
        self.ovn_run.join("ovnsb_db.sock")
    }
}

/// What an agent is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node it is on.
    pub node: NodeName,
    /// Where things are.
    pub paths: Paths,
    /// How often everything is compared although nothing was heard: the backstop behind notifications.
    pub resync: Duration,
    /// Who moves the packets; found out where it is not said.
    pub datapath: Option<Datapath>,
    /// The operator's namespace, where it keeps what is applied.
    pub namespace: String,
    /// The UDP port at which nodes try whether packets get through between them; the same on all.
    pub probe_port: u16,
    /// Where health and metrics are served over HTTP; nowhere if `None`.
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// The usual settings for a node.
    pub fn new(node: NodeName) -> Config {
        Config {
            node,
            paths: Paths::default(),
            resync: Duration::from_secs(300),
            datapath: None,
            namespace: "netferry".to_owned(),
            probe_port: PROBE_PORT,
            listen: None,
        }
    }
}
