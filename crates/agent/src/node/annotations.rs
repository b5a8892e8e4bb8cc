//! Prints this node's facts and its place as annotations.

use std::collections::BTreeMap;

use netferry_api::annotation::{Annotation, Mac};
use netferry_api::overlay::annotations::{
    ChassisId, DEFAULT_NETWORK, Gateway, GatewayBridge, GatewayMode, HostCidrs, L3GatewayConfig,
    ManagementPortMacs, MasqueradeSubnet, OverlayRunning, PrimaryIfAddr, ZoneName,
};
use netferry_core::overlay::names;
use netferry_translate::assignment::{masquerade, running};

use super::NodeFacts;
use crate::overlay::pods::Place;

/// The keys of [`of_facts`].
pub const FACT_KEYS: [&str; 6] = [
    PrimaryIfAddr::KEY,
    HostCidrs::KEY,
    L3GatewayConfig::KEY,
    ZoneName::KEY,
    ChassisId::KEY,
    ManagementPortMacs::KEY,
];

/// The keys of [`of_place`].
pub const PLACE_KEYS: [&str; 2] = [OverlayRunning::KEY, MasqueradeSubnet::KEY];

/// Prints a node's facts, which is how other nodes learn where to send.
pub fn of_facts(node: &str, facts: &NodeFacts) -> BTreeMap<String, String> {
    let host = &facts.host;
    let bridge = (host.link.as_str() == names::EXTERNAL_BRIDGE).then(|| host.link.to_string());
    let gateway = Gateway::Bridge(GatewayBridge {
        mode: GatewayMode::Local,
        bridge_id: bridge,
        interface_id: format!("{}_{node}", host.link),
        mac_address: Mac(host.mac.0),
        ip_addresses: host.primary.iter().collect(),
        next_hops: host.gateways.clone(),
        node_port_enable: true,
        vlan_id: Some(0),
    });
    let mut all = BTreeMap::from([
        PrimaryIfAddr(host.primary).entry(),
        HostCidrs::new(host.addresses.iter().copied()).entry(),
        L3GatewayConfig::of_default(gateway).entry(),
    ]);
    // Plain text, which cannot be wrong unless it is empty; and an identity that is empty is none.
    all.extend(ZoneName::parse(node).ok().map(|zone| zone.entry()));
    all.extend(ChassisId::parse(&facts.chassis).ok().map(|chassis| chassis.entry()));
    if let Some(mac) = host.management {
        let macs = BTreeMap::from([(DEFAULT_NETWORK.to_owned(), Mac(mac.0))]);
        all.extend([ManagementPortMacs(macs).entry()]);
    }
    all
}

/// Prints what the zone runs with. By it a node whose annotations were edited by hand gets back the subnet its pods live in.
pub fn of_place(place: &Place) -> BTreeMap<String, String> {
    BTreeMap::from([running(&place.node.assignment).entry(), masquerade(&place.networks).entry()])
}
