//! Annotations and labels of a change of plugin.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::annotation::{
    Mac, Wired, address, any_text, any_value, json_annotation, text_annotation, truncated,
};

text_annotation! {
    /// `network.openshift.io/network-type-migration`, on the cluster's `Network`: a changed
    /// `networkType` is a live migration. Its presence counts, not its value.
    NetworkTypeMigration(String), "network.openshift.io/network-type-migration", any_text
}
any_value!(NetworkTypeMigration(String));

text_annotation! {
    /// `k8s.ovn.org/hybrid-overlay-node-subnet`: the pod subnet of a node that does not run OVN yet.
    HybridOverlayNodeSubnet(IpNet), "k8s.ovn.org/hybrid-overlay-node-subnet", truncated
}
text_annotation! {
    /// `k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac`: where frames for the node's pods
    /// are sent; on an SDN node the hardware address of its uplink.
    HybridOverlayDrMac(Mac), "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac",
    |value| value.parse::<Mac>().map_err(|e| e.to_string())
}
text_annotation! {
    /// `k8s.ovn.org/hybrid-overlay-distributed-router-gateway-ip`: the node's hybrid overlay port.
    HybridOverlayDrIp(IpAddr), "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-ip", address
}
any_value!(HybridOverlayDrMac(Mac), HybridOverlayDrIp(IpAddr));

impl From<IpNet> for HybridOverlayNodeSubnet {
    fn from(subnet: IpNet) -> Self {
        Self(subnet.trunc())
    }
}

/// `networkoperator.openshift.io/sdn-to-ovn-migration`, on a node: what its HostSubnet said before
/// it was emptied, so that going back can restore it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SdnToOvnMigration {
    /// Networks of egress addresses the node could be given.
    pub egress_cidrs: Vec<IpNet>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct SdnToOvnMigrationWire {
    #[serde(rename = "EgressCIDRs", default)]
    egress_cidrs: Vec<String>,
}

impl Wired for SdnToOvnMigration {
    type Wire = SdnToOvnMigrationWire;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        let cidrs = wire.egress_cidrs.iter().map(|text| truncated(text)).collect::<Result<_, _>>();
        Ok(SdnToOvnMigration { egress_cidrs: cidrs.map_err(|problem| format!("EgressCIDRs: {problem}"))? })
    }

    fn to_wire(&self) -> Self::Wire {
        SdnToOvnMigrationWire {
            egress_cidrs: self.egress_cidrs.iter().map(|c| c.trunc().to_string()).collect(),
        }
    }
}

json_annotation!(SdnToOvnMigration, "networkoperator.openshift.io/sdn-to-ovn-migration");

/// Label of a node that still runs the SDN plugin during a migration; its value is empty.
pub const SDN_NODE_LABEL: &str = "migration.network.openshift.io/plugin";

/// Label every namespace carries with its own name; egress addresses of one namespace select by it.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";
