//! The rows that follow from pods.

use super::Zone;
use super::node::{address_of, nb_map};
use crate::overlay::cluster::Pod;
use crate::overlay::names::{self, marked};
use crate::overlay::rows::{Interface, LogicalSwitchPort, Map, PortKind, Rows};

impl Zone<'_> {
    /// The port of a pod; nothing for a pod of another node or of the host's own network.
    pub fn rows_of_pod(&self, pod: &Pod) -> Rows {
        if !self.has_port(pod) {
            return Rows::default();
        }
        let address = address_of(&pod.addresses);
        Rows::default().with(LogicalSwitchPort {
            name: names::pod_port(&pod.name),
            switch: self.node.name.to_string(),
            kind: PortKind::Interface,
            addresses: vec![address.clone()],
            port_security: vec![address],
            // Of two pods of one name only the one with this UID is let in, whichever asks first.
            options: nb_map([
                ("requested-chassis", self.node.chassis.as_str()),
                ("iface-id-ver", pod.uid.as_str()),
            ]),
            external_ids: marked([("namespace", pod.name.namespace.to_string()), ("pod", "true".to_owned())]),
        })
    }

    /// How the pod's end of `link` is put on the local switch for the sandbox that asked.
    pub fn interface_of_pod(&self, pod: &Pod, link: &str, sandbox: &str) -> Interface {
        let ips: Vec<String> =
            self.node.assignment.subnets().around(&pod.addresses).iter().map(|a| a.to_string()).collect();
        Interface {
            name: link.to_owned(),
            bridge: names::INTEGRATION_BRIDGE.to_owned(),
            kind: String::new(),
            mac: None,
            mtu: None,
            // a port that is left over from before a reboot is removed by the switch itself
            port_other_config: nb_map([("transient", "true")]),
            external_ids: Map::from_iter(marked([
                ("iface-id", names::pod_port(&pod.name)),
                ("iface-id-ver", pod.uid.clone()),
                ("attached_mac", pod.addresses.mac().to_string()),
                ("ip_addresses", ips.join(",")),
                ("sandbox", sandbox.to_owned()),
            ])),
        }
    }
}
