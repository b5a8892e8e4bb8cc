//! Database `OVN_Northbound`: the logical network that `ovn-northd` compiles.

use super::{Refs, StringSet, Strings};
use crate::shape::Ref;
use crate::table::Key;

/// Name of the database.
pub const DATABASE: &str = "OVN_Northbound";

crate::tables! { "OVN_Northbound";
    /// Settings of the whole zone, and how far the daemons have followed.
    NbGlobal = "NB_Global" by Key::Singleton => {
        name: String,
        nb_cfg: i64,
        options: Strings [merge],
        external_ids: Strings [merge],
        ipsec: bool,
        sb_cfg: i64 [status],
        hv_cfg: i64 [status],
        nb_cfg_timestamp: i64 [status],
        sb_cfg_timestamp: i64 [status],
        hv_cfg_timestamp: i64 [status],
    }

    /// A logical switch.
    LogicalSwitch = "Logical_Switch" by Key::Columns(&["name"]) => {
        name: String,
        ports: Refs,
        acls: Refs,
        load_balancer: Refs,
        load_balancer_group: Refs,
        other_config: Strings,
        external_ids: Strings,
    }

    /// A port of a logical switch.
    LogicalSwitchPort = "Logical_Switch_Port" by Key::Columns(&["name"]) => {
        name: String,
        kind = "type": String,
        addresses: StringSet,
        port_security: StringSet,
        options: Strings,
        enabled: Option<bool>,
        parent_name: Option<String>,
        tag_request: Option<i64>,
        dhcpv4_options: Option<Ref>,
        dhcpv6_options: Option<Ref>,
        external_ids: Strings,
        up: Option<bool> [status],
        tag: Option<i64> [status],
        dynamic_addresses: Option<String> [status],
        peer: Option<String> [optional],
    }

    /// A logical router.
    LogicalRouter = "Logical_Router" by Key::Columns(&["name"]) => {
        name: String,
        ports: Refs,
        static_routes: Refs,
        policies: Refs,
        nat: Refs,
        load_balancer: Refs,
        load_balancer_group: Refs,
        enabled: Option<bool>,
        options: Strings,
        external_ids: Strings,
    }

    /// A port of a logical router.
    LogicalRouterPort = "Logical_Router_Port" by Key::Columns(&["name"]) => {
        name: String,
        mac: String,
        networks: StringSet,
        peer: Option<String>,
        enabled: Option<bool>,
        gateway_chassis: Refs,
        ipv6_ra_configs: Strings,
        options: Strings,
        external_ids: Strings,
    }

    /// A static route of a logical router.
    LogicalRouterStaticRoute = "Logical_Router_Static_Route" by Key::ExternalId => {
        ip_prefix: String,
        nexthop: String,
        policy: Option<String>,
        output_port: Option<String>,
        route_table: String,
        options: Strings,
        external_ids: Strings,
    }

    /// A routing policy of a logical router.
    LogicalRouterPolicy = "Logical_Router_Policy" by Key::ExternalId => {
        priority: i64,
        matches = "match": String,
        action: String,
        nexthop: Option<String>,
        nexthops: StringSet,
        options: Strings,
        external_ids: Strings,
    }

    /// An address translation of a logical router.
    Nat = "NAT" by Key::ExternalId => {
        kind = "type": String,
        external_ip: String,
        logical_ip: String,
        external_mac: Option<String>,
        logical_port: Option<String>,
        external_port_range: String,
        allowed_ext_ips: Option<Ref>,
        exempted_ext_ips: Option<Ref>,
        gateway_port: Option<Ref>,
        matches = "match": String [optional],
        priority: i64 [optional],
        options: Strings,
        external_ids: Strings,
    }

    /// A load balancer: virtual addresses to backends.
    LoadBalancer = "Load_Balancer" by Key::Columns(&["name"]) => {
        name: String,
        vips: Strings,
        protocol: Option<String>,
        selection_fields: StringSet,
        ip_port_mappings: Strings,
        options: Strings,
        external_ids: Strings,
    }

    /// Load balancers that several switches and routers share. Has no `external_ids`, hence no mark.
    LoadBalancerGroup = "Load_Balancer_Group" by Key::Columns(&["name"]) => {
        name: String,
        load_balancer: Refs,
    }

    /// A rule about which packets pass.
    Acl = "ACL" by Key::ExternalId => {
        name: Option<String>,
        priority: i64,
        direction: String,
        matches = "match": String,
        action: String,
        tier: i64 [optional],
        log: bool,
        severity: Option<String>,
        meter: Option<String>,
        label: i64,
        options: Strings,
        external_ids: Strings,
    }

    /// Ports that rules name together.
    PortGroup = "Port_Group" by Key::Columns(&["name"]) => {
        name: String,
        ports: Refs,
        acls: Refs,
        external_ids: Strings,
    }

    /// Addresses that rules name together.
    AddressSet = "Address_Set" by Key::Columns(&["name"]) => {
        name: String,
        addresses: StringSet,
        external_ids: Strings,
    }

    /// On which chassis a router port may sit.
    GatewayChassis = "Gateway_Chassis" by Key::Columns(&["name"]) => {
        name: String,
        chassis_name: String,
        priority: i64,
        options: Strings,
        external_ids: Strings,
    }

    /// Answers that OVN gives to DHCP clients.
    DhcpOptions = "DHCP_Options" by Key::ExternalId => {
        cidr: String,
        options: Strings,
        external_ids: Strings,
    }

    /// A neighbour that routers need not ask for. Has no `external_ids`, hence no mark.
    StaticMacBinding = "Static_MAC_Binding" by Key::Columns(&["logical_port", "ip"]) => {
        logical_port: String,
        ip: String,
        mac: String,
        override_dynamic_mac: bool,
    }

    /// Values of template variables on one chassis.
    ChassisTemplateVar = "Chassis_Template_Var" by Key::Columns(&["chassis"]) => {
        chassis: String,
        variables: Strings,
        external_ids: Strings,
    }

    /// Limits on packets sent to the controller.
    Copp = "Copp" by Key::Columns(&["name"]) => {
        name: String,
        meters: Strings,
        external_ids: Strings,
    }
}
