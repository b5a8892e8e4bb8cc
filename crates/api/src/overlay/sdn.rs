//! The resources of the SDN plugin. They hold their data at the top level, not under `spec`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest network identity a packet can carry.
pub const MAX_NETID: u32 = (1 << 24) - 1;

const IPV4: &str = r"^(([0-9]|[0-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\.){3}([0-9]|[0-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$";
const IPV4_NETWORK: &str = r"^(([0-9]|[0-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\.){3}([0-9]|[0-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])/([0-9]|[12][0-9]|3[0-2])$";
const NAME: &str = "^[a-z0-9.-]+$";

fn addresses(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "items": { "type": "string", "pattern": IPV4 } })
}

fn networks(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "array", "items": { "type": "string", "pattern": IPV4_NETWORK } })
}

/// Settings of the SDN plugin in the operator's `Network`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenShiftSdnConfig {
    /// `NetworkPolicy`, `Subnet` or `Multitenant`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// UDP port of the tunnels. Unset, 4789.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vxlan_port: Option<u32>,
    /// MTU of the pods' interfaces. Unset, the hosts' MTU less the tunnel's overhead of 50 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Kept for objects that carry it; not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_external_openvswitch: Option<bool>,
    /// Wakes idled Services; unset, it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_unidling: Option<bool>,
}

/// The SDN plugin's view of the whole network. There is one, named `default`.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "network.openshift.io",
    version = "v1",
    kind = "ClusterNetwork",
    plural = "clusternetworks",
    no_spec,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "The SDN plugin's view of the whole network.",
    printcolumn(
        name = "Cluster Network",
        type_ = "string",
        json_path = ".network",
        description = "Where pod addresses come from"
    ),
    printcolumn(
        name = "Service Network",
        type_ = "string",
        json_path = ".serviceNetwork",
        description = "Where Service addresses come from"
    ),
    printcolumn(
        name = "Plugin Name",
        type_ = "string",
        json_path = ".pluginName",
        description = "The plugin's full name"
    )
)]
pub struct ClusterNetworkData {
    /// The first network of pod addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = IPV4_NETWORK))]
    pub network: Option<String>,
    /// How many bits of an address number the pods of a node, in the first network.
    #[serde(rename = "hostsubnetlength", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 30))]
    pub host_subnet_length: Option<u32>,
    /// Where Service addresses come from.
    #[schemars(regex(pattern = IPV4_NETWORK))]
    pub service_network: String,
    /// `redhat/openshift-ovs-networkpolicy`, `-subnet` or `-multitenant`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_name: Option<String>,
    /// All networks of pod addresses.
    pub cluster_networks: Vec<ClusterNetworkRange>,
    /// UDP port of the tunnels. Unset, 4789.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub vxlan_port: Option<u32>,
    /// MTU of the pods' interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65536))]
    pub mtu: Option<u32>,
}

/// One network of pod addresses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetworkRange {
    /// The whole range.
    #[serde(rename = "CIDR")]
    #[schemars(regex(pattern = IPV4_NETWORK))]
    pub cidr: String,
    /// How many bits of an address number the pods of a node.
    #[schemars(range(min = 2, max = 30))]
    pub host_subnet_length: u32,
}

/// The piece of the pod network one node holds. Named as the node.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "network.openshift.io",
    version = "v1",
    kind = "HostSubnet",
    plural = "hostsubnets",
    no_spec,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "The piece of the pod network one node holds.",
    printcolumn(name = "Host", type_ = "string", json_path = ".host", description = "The node"),
    printcolumn(
        name = "Host IP",
        type_ = "string",
        json_path = ".hostIP",
        description = "Where the other nodes send its tunnels"
    ),
    printcolumn(
        name = "Subnet",
        type_ = "string",
        json_path = ".subnet",
        description = "The addresses of its pods"
    ),
    printcolumn(
        name = "Egress CIDRs",
        type_ = "string",
        json_path = ".egressCIDRs",
        description = "Networks of egress addresses it may be given"
    ),
    printcolumn(
        name = "Egress IPs",
        type_ = "string",
        json_path = ".egressIPs",
        description = "Egress addresses it holds"
    )
)]
pub struct HostSubnetData {
    /// The node; the same as the object's name.
    #[schemars(regex(pattern = NAME))]
    pub host: String,
    /// Where the other nodes send its tunnels.
    #[serde(rename = "hostIP")]
    #[schemars(regex(pattern = IPV4))]
    pub host_ip: String,
    /// The addresses of its pods.
    #[schemars(regex(pattern = IPV4_NETWORK))]
    pub subnet: String,
    /// Egress addresses it holds.
    #[serde(rename = "egressIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addresses")]
    pub egress_ips: Vec<String>,
    /// Networks of egress addresses it may be given; with these, `egressIPs` is the controller's to write.
    #[serde(rename = "egressCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "networks")]
    pub egress_cidrs: Vec<String>,
}

/// The network identity of one namespace. Named as the namespace.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "network.openshift.io",
    version = "v1",
    kind = "NetNamespace",
    plural = "netnamespaces",
    no_spec,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "The network identity of one namespace.",
    printcolumn(
        name = "NetID",
        type_ = "integer",
        json_path = ".netid",
        description = "The number packets of this namespace carry"
    ),
    printcolumn(
        name = "Egress IPs",
        type_ = "string",
        json_path = ".egressIPs",
        description = "Source addresses of its traffic to the outside"
    )
)]
pub struct NetNamespaceData {
    /// The namespace; the same as the object's name.
    #[schemars(regex(pattern = NAME))]
    pub netname: String,
    /// The number packets of this namespace carry; 0 may talk to all.
    #[schemars(range(min = 0, max = MAX_NETID))]
    pub netid: u32,
    /// Source addresses of its traffic to the outside.
    #[serde(rename = "egressIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addresses")]
    pub egress_ips: Vec<String>,
}

/// Where the pods of a namespace may connect to, under the SDN plugin.
#[derive(CustomResource, Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "network.openshift.io",
    version = "v1",
    kind = "EgressNetworkPolicy",
    plural = "egressnetworkpolicies",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default",
    doc = "Where the pods of a namespace may connect to, under the SDN plugin."
)]
pub struct EgressNetworkPolicySpec {
    /// The rules, in order; the first that matches decides.
    pub egress: Vec<EgressNetworkPolicyRule>,
}

/// One rule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressNetworkPolicyRule {
    /// `Allow` or `Deny`.
    #[serde(rename = "type")]
    #[schemars(regex(pattern = "^(Allow|Deny)$"))]
    pub kind: String,
    /// What it is about.
    pub to: EgressNetworkPolicyPeer,
}

/// What a rule is about: a network or a name.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressNetworkPolicyPeer {
    /// An IPv4 network.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = IPV4_NETWORK))]
    pub cidr_selector: Option<String>,
    /// A DNS name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+\.?$"))]
    pub dns_name: Option<String>,
}

/// Annotations of the SDN plugin's resources, and of the pods it serves.
pub mod sdn_annotations {
    use crate::annotation::{any_text, any_value, decimal, flag, nonempty, text_annotation};

    text_annotation! {
        /// `pod.network.openshift.io/node-uid`, on a HostSubnet: the node it was made for. A later
        /// node of the same name has another uid.
        NodeUid(String), "pod.network.openshift.io/node-uid", nonempty
    }
    text_annotation! {
        /// `pod.network.openshift.io/assign-subnet`, on a HostSubnet: the controller is to choose the subnet.
        AssignSubnet(bool), "pod.network.openshift.io/assign-subnet", flag
    }
    text_annotation! {
        /// `pod.network.openshift.io/fixed-vnid-host`, on a HostSubnet of a host outside the cluster:
        /// its traffic carries this network identity.
        FixedVnidHost(u32), "pod.network.openshift.io/fixed-vnid-host", |value| match decimal(value) {
            Ok(vnid) if vnid <= super::MAX_NETID => Ok(vnid),
            Ok(vnid) => Err(format!("{vnid} is above {}", super::MAX_NETID)),
            Err(problem) => Err(problem),
        }
    }
    text_annotation! {
        /// `netnamespace.network.openshift.io/multicast-enabled`, on a NetNamespace: its pods may use multicast.
        NetNamespaceMulticast(bool), "netnamespace.network.openshift.io/multicast-enabled", flag
    }
    text_annotation! {
        /// `pod.network.openshift.io/assign-macvlan`, on a pod: it is an egress router, which no
        /// change of plugin can carry over. Its presence counts, not its value.
        AssignMacvlan(String), "pod.network.openshift.io/assign-macvlan", any_text
    }
    any_value!(AssignSubnet(bool), NetNamespaceMulticast(bool));
}
