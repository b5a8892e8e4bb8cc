//! What a node is given, as annotations.

use std::collections::BTreeMap;

use ipnet::IpNet;
use netferry_api::annotation::{Annotation, FamilyPair};
use netferry_api::overlay::annotations::{
    DEFAULT_NETWORK, GatewayRouterLrpIfAddrs, MasqueradeSubnet, NetworkIds, NodeId as IdAnnotation,
    NodeSubnets, OverlayRunning, TransitSwitchPortIfAddr,
};
use netferry_core::net::{Addresses, Stack, Subnets};
use netferry_core::overlay::allocate::{Assignment, NodeId};
use netferry_core::overlay::networks::Networks;

/// The number of the network every pod is on.
const DEFAULT_NETWORK_ID: u32 = 0;

/// The annotations a node is missing: those that do not yet say what it is given, with the text they must have.
///
/// What annotations say of other networks than the default one stays. An annotation that says the right thing in an
/// older form, or with other spaces, is left as it is; writing it again would wake everybody for nothing.
pub fn missing(
    networks: &Networks,
    assignment: &Assignment,
    annotations: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let transit = pair(networks.transit(), assignment.transit());
    let join = pair(networks.join(), assignment.join());
    let mut missing = BTreeMap::new();
    let mut ask = |entry: Option<(String, String)>| missing.extend(entry);

    ask(unless_said(annotations, |said: Option<NodeSubnets>| {
        let mut all = said.map(|said| said.networks().clone()).unwrap_or_default();
        all.insert(DEFAULT_NETWORK.to_owned(), assignment.subnets().iter().collect());
        NodeSubnets::new(all).expect("a node has a subnet, and what could be read has no empty network")
    }));
    let id = IdAnnotation::from(u32::from(assignment.id().number()));
    ask(unless_said(annotations, |_| id));
    ask(unless_said(annotations, |said: Option<NetworkIds>| {
        let mut all = said.unwrap_or_default();
        all.0.insert(DEFAULT_NETWORK.to_owned(), DEFAULT_NETWORK_ID);
        all
    }));
    ask(unless_said(annotations, |_| TransitSwitchPortIfAddr(transit)));
    ask(unless_said(annotations, |said: Option<GatewayRouterLrpIfAddrs>| {
        let mut all = said.unwrap_or_default();
        all.0.insert(DEFAULT_NETWORK.to_owned(), join);
        all
    }));
    missing
}

/// What a node's annotations assign it in these networks, if they are complete and fit together.
///
/// `None` is a node whose place is not decided, or half written: it is not there yet.
pub fn assigned(networks: &Networks, annotations: &BTreeMap<String, String>) -> Option<Assignment> {
    let id = NodeId::new(u64::from(*IdAnnotation::read(annotations).ok()??.get()))?;
    let subnets = stack(NodeSubnets::read(annotations).ok()??.default_network())?;
    let assignment = Assignment::new(networks, id, subnets)?;
    missing(networks, &assignment, annotations).is_empty().then_some(assignment)
}

/// The annotation by which a node reports what its zone runs with.
pub fn running(assignment: &Assignment) -> OverlayRunning {
    OverlayRunning::new(u32::from(assignment.id().number()), assignment.subnets().iter())
        .expect("an assignment has one subnet per family")
}

/// The annotation by which a node says which networks it uses between its host and Services.
pub fn masquerade(networks: &Networks) -> MasqueradeSubnet {
    let nets = networks.masquerade();
    MasqueradeSubnet(FamilyPair::new(nets.v4(), nets.v6()).expect("a cluster speaks a family"))
}

/// One prefix per family; `None` for none, and for two of a family.
fn stack(nets: &[IpNet]) -> Option<Subnets> {
    let (mut v4, mut v6) = (None, None);
    for net in nets {
        let twice = match net {
            IpNet::V4(net) => v4.replace(*net).is_some(),
            IpNet::V6(net) => v6.replace(*net).is_some(),
        };
        if twice {
            return None;
        }
    }
    Stack::from_parts(v4, v6)
}

fn unless_said<A: Annotation + PartialEq + Clone>(
    annotations: &BTreeMap<String, String>,
    wanted: impl FnOnce(Option<A>) -> A,
) -> Option<(String, String)> {
    let said = A::read(annotations).ok().flatten();
    let wanted = wanted(said.clone());
    (said.as_ref() != Some(&wanted)).then(|| wanted.entry())
}

fn pair(networks: Subnets, addresses: Addresses) -> FamilyPair {
    let (mut v4, mut v6) = (None, None);
    for net in networks.around(&addresses) {
        match net {
            IpNet::V4(net) => v4 = Some(net),
            IpNet::V6(net) => v6 = Some(net),
        }
    }
    FamilyPair::new(v4, v6).expect("an assignment has an address of the cluster's families")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applicant::applicant;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use netferry_core::overlay::allocate::allocate;
    use netferry_core::overlay::networks::{ClusterRange, Internal};

    fn networks(cluster: &[(&str, u8)], service: &[&str]) -> Networks {
        let range = |(net, prefix): &(&str, u8)| ClusterRange::new(net.parse().unwrap(), *prefix).unwrap();
        let service = service.iter().map(|net| net.parse().unwrap()).collect();
        Networks::new(cluster.iter().map(range).collect(), service, Internal::default()).unwrap()
    }

    fn dual() -> Networks {
        networks(&[("10.244.0.0/16", 24), ("fd00:10:244::/48", 64)], &["10.96.0.0/16", "fd00:10:96::/112"])
    }

    fn given(networks: &Networks, annotations: &BTreeMap<String, String>) -> Assignment {
        let metadata = ObjectMeta {
            name: Some("a".into()),
            annotations: Some(annotations.clone()),
            ..ObjectMeta::default()
        };
        let allocation = allocate(networks, &[applicant(&metadata).unwrap()]);
        allocation.nodes[&"a".parse().unwrap()]
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_new_node_is_annotated_as_ovn_kubernetes_annotates_it() {
        let networks = dual();
        let annotations = missing(&networks, &given(&networks, &BTreeMap::new()), &BTreeMap::new());
        let expected = map(&[
            ("k8s.ovn.org/node-subnets", r#"{"default":["10.244.0.0/24","fd00:10:244::/64"]}"#),
            ("k8s.ovn.org/node-id", "2"),
            ("k8s.ovn.org/network-ids", r#"{"default":"0"}"#),
            (
                "k8s.ovn.org/node-transit-switch-port-ifaddr",
                r#"{"ipv4":"100.88.0.2/16","ipv6":"fd97::2/64"}"#,
            ),
            (
                "k8s.ovn.org/node-gateway-router-lrp-ifaddrs",
                r#"{"default":{"ipv4":"100.64.0.2/16","ipv6":"fd98::2/64"}}"#,
            ),
        ]);
        assert_eq!(annotations, expected);
    }

    #[test]
    fn what_was_written_is_read_back_as_the_same_assignment_and_nothing_is_missing() {
        for networks in [
            dual(),
            networks(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]),
            networks(&[("fd01::/48", 64)], &["fd02::/112"]),
        ] {
            let assignment = given(&networks, &BTreeMap::new());
            let annotations = missing(&networks, &assignment, &BTreeMap::new());
            assert_eq!(given(&networks, &annotations), assignment);
            assert_eq!(assigned(&networks, &annotations), Some(assignment));
            assert!(missing(&networks, &assignment, &annotations).is_empty());
        }
    }

    #[test]
    fn an_older_form_of_the_right_thing_is_left_alone_and_other_networks_stay() {
        let networks = networks(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"]);
        let older = map(&[
            ("k8s.ovn.org/node-subnets", r#"{"default":"10.244.7.0/24"}"#),
            ("k8s.ovn.org/network-ids", r#"{"blue":"4"}"#),
        ]);
        let missing = missing(&networks, &given(&networks, &older), &older);
        assert!(!missing.contains_key("k8s.ovn.org/node-subnets"), "{missing:?}");
        assert_eq!(missing["k8s.ovn.org/network-ids"], r#"{"blue":"4","default":"0"}"#);
        let blue = map(&[("k8s.ovn.org/node-subnets", r#"{"blue":["10.9.0.0/24"]}"#)]);
        let missing = super::missing(&networks, &given(&networks, &blue), &blue);
        let says = r#"{"blue":["10.9.0.0/24"],"default":["10.244.0.0/24"]}"#;
        assert_eq!(missing["k8s.ovn.org/node-subnets"], says);
    }

    #[test]
    fn a_node_with_half_its_annotations_or_with_some_that_do_not_fit_is_not_assigned_yet() {
        let networks = dual();
        let whole = missing(&networks, &given(&networks, &BTreeMap::new()), &BTreeMap::new());
        for key in whole.keys() {
            let mut half = whole.clone();
            half.remove(key);
            assert_eq!(assigned(&networks, &half), None, "without {key}");
            half.insert(key.clone(), "{".into());
            assert_eq!(assigned(&networks, &half), None, "with {key} mangled");
        }
        let mut other = whole.clone();
        other.insert("k8s.ovn.org/node-id".into(), "3".into());
        assert_eq!(assigned(&networks, &other), None, "addresses of another id");
    }

    #[test]
    fn what_a_zone_reports_gives_a_node_with_mangled_annotations_its_place_back() {
        let networks = dual();
        let elsewhere = Assignment::new(
            &networks,
            NodeId::new(40).unwrap(),
            stack(&["10.244.9.0/24".parse().unwrap(), "fd00:10:244:9::/64".parse().unwrap()]).unwrap(),
        );
        let report = BTreeMap::from([running(&elsewhere.unwrap()).entry()]);
        let mut mangled = map(&[("k8s.ovn.org/node-subnets", "{"), ("k8s.ovn.org/node-id", "x")]);
        mangled.extend(report);
        assert_eq!(Some(given(&networks, &mangled)), elsewhere);
    }
}
