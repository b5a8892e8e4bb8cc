//! The names of things in OVN and on the host, as an OVN-Kubernetes user knows them.

use std::collections::BTreeMap;

use crate::name::{NodeName, ObjectName};

/// The key and value by which every row of ours is known.
pub const MARK: (&str, &str) = ("netferry.dev/owner", "overlay");
/// The identity of a row whose table has no name, or whose name says too little.
pub const ID: &str = "k8s.ovn.org/id";

/// The router of a zone.
pub const CLUSTER_ROUTER: &str = "ovn_cluster_router";
/// The switch that joins the zones.
pub const TRANSIT_SWITCH: &str = "transit_switch";
/// The key of the transit switch's tunnels; the same in every zone, or packets end in the wrong switch.
pub const TRANSIT_TUNNEL_KEY: u32 = 16_711_683;
/// Load balancers that every switch and router of the zone has.
pub const CLUSTER_LB_GROUP: &str = "clusterLBGroup";
/// Load balancers that every node switch of the zone has.
pub const SWITCH_LB_GROUP: &str = "clusterSwitchLBGroup";
/// The management port of the zone's node: what is attached to it applies to the node switch as a whole.
pub const CLUSTER_PORT_GROUP: &str = "clusterPortGroup";
/// The management port as the host sees it.
pub const MANAGEMENT_LINK: &str = "ovn-k8s-mp0";
/// The integration bridge.
pub const INTEGRATION_BRIDGE: &str = "br-int";
/// Key of the switch's settings: for how long, in milliseconds, a controller that starts leaves flows alone.
pub const WAIT_BEFORE_CLEAR: &str = "ovn-ofctrl-wait-before-clear";
/// The switch with the host's uplink.
pub const EXTERNAL_BRIDGE: &str = "br-ex";

/// The router's port towards a node's switch.
pub fn router_to_switch(node: &NodeName) -> String {
    format!("rtos-{node}")
}

/// The switch's port towards the router.
pub fn switch_to_router(node: &NodeName) -> String {
    format!("stor-{node}")
}

/// The node's own port.
pub fn management_port(node: &NodeName) -> String {
    format!("k8s-{node}")
}

/// The router's port towards the transit switch.
pub fn router_to_transit(node: &NodeName) -> String {
    format!("rtots-{node}")
}

/// A node's port on the transit switch.
pub fn transit_to_router(node: &NodeName) -> String {
    format!("tstor-{node}")
}

/// A pod's port.
pub fn pod_port(pod: &ObjectName) -> String {
    format!("{}_{}", pod.namespace, pod.name)
}

/// The identity of an object as several parts, kept one by one and together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectId(Vec<(&'static str, String)>);

impl ObjectId {
    /// The identity of something that belongs to an owner of this kind and name.
    pub fn new(owner_type: &str, name: impl Into<String>) -> ObjectId {
        ObjectId(vec![
            ("k8s.ovn.org/owner-controller", "netferry".to_owned()),
            ("k8s.ovn.org/owner-type", owner_type.to_owned()),
            ("k8s.ovn.org/name", name.into()),
        ])
    }

    /// The same with one more part.
    #[must_use]
    pub fn and(mut self, key: &'static str, value: impl Into<String>) -> ObjectId {
        self.0.push((key, value.into()));
        self
    }

    /// All parts together: unique among objects of one table.
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(":")
    }

    /// A name OVN accepts where it demands an identifier.
    pub fn hashed(&self) -> String {
        format!("a{}", fnv1a(self.text().as_bytes()))
    }

    /// As external ids, with our mark.
    pub fn external_ids(&self) -> BTreeMap<String, String> {
        let mut ids = marked([]);
        ids.extend(self.0.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        ids.insert(ID.to_owned(), self.text());
        ids
    }
}

/// External ids with our mark.
pub fn marked<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    let mut ids = BTreeMap::from([(MARK.0.to_owned(), MARK.1.to_owned())]);
    ids.extend(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)));
    ids
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        // test vectors of the function's authors
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn an_identity_is_kept_in_parts_and_as_a_whole() {
        let id = ObjectId::new("NetworkPolicy", "default:web").and("direction", "Ingress");
        assert_eq!(id.text(), "netferry:NetworkPolicy:default:web:Ingress");
        let ids = id.external_ids();
        assert_eq!(ids[ID], id.text());
        assert_eq!(ids["direction"], "Ingress");
        assert_eq!(ids[MARK.0], MARK.1);
    }
}
