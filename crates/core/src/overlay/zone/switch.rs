//! What the local switch is told about itself.

use std::net::{IpAddr, Ipv4Addr};

use super::Zone;
use super::node::nb_map;
use crate::overlay::names::{self, marked};
use crate::overlay::rows::{Interface, Map, Rows, SwitchSettings};

/// Who moves the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datapath {
    /// The kernel's module.
    Kernel,
    /// The switch's own process.
    Userspace,
}

/// What the node's daemons are set up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchFacts {
    /// Where the zone's southbound database listens, such as `unix:/run/ovn/ovnsb_db.sock`.
    pub southbound: String,
    /// Who moves the packets.
    pub datapath: Datapath,
    /// The datapath has flows of this zone. A controller that starts anew leaves them alone until it has computed its
    /// own; where there are none, that would only be a wait without a network.
    pub has_flows: bool,
    /// The switch takes its routes from the kernel. One that is told them instead knows of no address that it is its
    /// own, and sends nothing from one it is asked to use.
    pub follows_routes: bool,
}

/// The state of the switch's process. It changes when the process is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchProcess {
    /// As [`SwitchFacts::has_flows`].
    pub has_flows: bool,
    /// As [`SwitchFacts::follows_routes`].
    pub follows_routes: bool,
}

impl Zone<'_> {
    /// The settings of the local switch and the management port on it.
    pub fn rows_of_switch(&self, facts: &SwitchFacts) -> Rows {
        let name = self.node.name.to_string();
        // A controller does not start without one. Where nothing is wrapped it is an address that no change of the
        // uplink takes away.
        let encap = match self.topology.way_out.tunnels {
            true => self.node.encap,
            false => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let mut external_ids = marked([
            ("system-id", self.node.chassis.clone()),
            ("hostname", name.clone()),
            ("ovn-remote", facts.southbound.clone()),
            ("ovn-encap-type", "geneve".to_owned()),
            ("ovn-encap-ip", encap.to_string()),
            // every row of the zone is this node's, and choosing among them costs more than it saves
            ("ovn-monitor-all", "true".to_owned()),
            (names::WAIT_BEFORE_CLEAR, if facts.has_flows { "8000" } else { "0" }.to_owned()),
            ("ovn-remote-probe-interval", "180000".to_owned()),
            ("ovn-openflow-probe-interval", "180".to_owned()),
        ]);
        if self.topology.way_out.tunnels {
            // without it no tunnel to a remote chassis is made
            external_ids.insert("ovn-is-interconn".to_owned(), "true".to_owned());
            external_ids.insert("ovn-set-local-ip".to_owned(), facts.follows_routes.to_string());
        }
        match facts.datapath {
            Datapath::Kernel => {}
            Datapath::Userspace => {
                external_ids.insert("ovn-bridge-datapath-type".to_owned(), "netdev".to_owned());
            }
        }
        Rows::default().with(SwitchSettings { external_ids }).with(Interface {
            name: names::MANAGEMENT_LINK.to_owned(),
            bridge: names::INTEGRATION_BRIDGE.to_owned(),
            kind: "internal".to_owned(),
            mac: Some(self.node.assignment.management().mac()),
            mtu: Some(self.mtu),
            port_other_config: Map::new(),
            external_ids: {
                let mut ids = marked([]);
                ids.extend(nb_map([("iface-id", names::management_port(&self.node.name))]));
                ids
            },
        })
    }
}
