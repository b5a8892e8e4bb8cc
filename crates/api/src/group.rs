//! The API groups and versions, in one place.

/// One version of one API group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupVersion {
    /// The group, such as `nmstate.io`.
    pub group: &'static str,
    /// The version, such as `v1beta1`.
    pub version: &'static str,
}

impl std::fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.group, self.version)
    }
}

const fn v1(group: &'static str) -> GroupVersion {
    GroupVersion { group, version: "v1" }
}

/// `Network`: how the operator runs the pod network.
pub const OPERATOR: GroupVersion = v1("operator.openshift.io");
/// `Network`: what the cluster's network is, and the truth others consume.
pub const CONFIG: GroupVersion = v1("config.openshift.io");
/// `MachineConfig`, `MachineConfigPool`.
pub const MACHINE_CONFIGURATION: GroupVersion = v1("machineconfiguration.openshift.io");
/// `NodeNetworkConfigurationPolicy`, `NMState`.
pub const NMSTATE: GroupVersion = v1("nmstate.io");
/// `NodeNetworkConfigurationEnactment`, `NodeNetworkState`; older policies.
pub const NMSTATE_BETA: GroupVersion = GroupVersion { group: "nmstate.io", version: "v1beta1" };
/// `EgressIP`, `EgressFirewall`.
pub const OVN: GroupVersion = v1("k8s.ovn.org");
/// `ClusterNetwork`, `HostSubnet`, `NetNamespace`, `EgressNetworkPolicy`.
pub const SDN: GroupVersion = v1("network.openshift.io");

/// The prefix of everything that is ours alone.
pub const OURS: &str = "netferry.dev";
