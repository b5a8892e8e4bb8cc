//! The rows that follow from nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Zone;
use crate::net::{Addresses, Family};
use crate::overlay::cluster::Node;
use crate::overlay::names::{self, ObjectId, marked};
use crate::overlay::rows::*;
use crate::overlay::topology::Part;

/// Above the drop of a policy, on a par with what a policy allows.
pub(crate) const ALLOW_PRIORITY: u16 = 1001;

/// Above everything that policies allow.
const NO_SERVICE_PRIORITY: u16 = 2000;

impl Zone<'_> {
    pub(super) fn rows_of_part(&self, part: Part, rows: Rows) -> Rows {
        match part {
            Part::ClusterRouter => self.cluster_router(rows),
            Part::NodeSwitch => self.node_switch(rows),
            Part::ManagementPort => self.management_port(rows),
            Part::Transit => self.transit(rows),
            Part::HostRoute => self.host_route(rows),
            Part::HostReturn => self.host_return(rows),
            Part::LoadBalancerGroups => [names::CLUSTER_LB_GROUP, names::SWITCH_LB_GROUP]
                .into_iter()
                .fold(self.no_service(rows), |rows, name| {
                    rows.with(LoadBalancerGroup { name: name.to_owned() })
                }),
            Part::AlwaysAllowed => self.always_allowed(rows),
        }
    }

    pub(super) fn rows_of_peer_in(&self, part: Part, peer: &Node, rows: Rows) -> Rows {
        match part {
            Part::Transit => self.transit_peer(peer, rows),
            Part::ClusterRouter
            | Part::NodeSwitch
            | Part::ManagementPort
            | Part::HostRoute
            | Part::HostReturn
            | Part::LoadBalancerGroups
            | Part::AlwaysAllowed => rows,
        }
    }

    fn cluster_router(&self, rows: Rows) -> Rows {
        let name = self.node.name.to_string();
        rows.with(NbGlobal { name: name.clone(), options: nb_map([("name", name)]) }).with(LogicalRouter {
            name: names::CLUSTER_ROUTER.to_owned(),
            options: nb_map([("always_learn_from_arp_request", "false")]),
            external_ids: marked([("k8s-cluster-router", "yes".to_owned())]),
        })
    }

    fn node_switch(&self, rows: Rows) -> Rows {
        let name = &self.node.name;
        let place = &self.node.assignment;
        let port = names::router_to_switch(name);
        let mut other_config = Map::new();
        if let (Some(net), Some(management)) = (place.subnets().v4(), place.management().v4()) {
            other_config.insert("subnet".to_owned(), net.to_string());
            other_config.insert("exclude_ips".to_owned(), management.to_string());
        }
        if let Some(net) = place.subnets().v6() {
            other_config.insert("ipv6_prefix".to_owned(), net.network().to_string());
        }
        let groups = [names::CLUSTER_LB_GROUP, names::SWITCH_LB_GROUP];
        rows.with(LogicalSwitch {
            name: name.to_string(),
            other_config,
            load_balancer_groups: groups.into_iter().map(str::to_owned).collect(),
            external_ids: marked([]),
        })
        .with(LogicalRouterPort {
            name: port.clone(),
            router: names::CLUSTER_ROUTER.to_owned(),
            mac: place.router().mac(),
            networks: place.subnets().around(&place.router()),
            options: Map::new(),
            external_ids: marked([]),
        })
        .with(GatewayChassis {
            name: format!("{port}-{}", self.node.chassis),
            port: port.clone(),
            chassis: self.node.chassis.clone(),
            priority: 1,
            external_ids: marked([]),
        })
        .with(router_end(names::switch_to_router(name), name.to_string(), port))
    }

    fn management_port(&self, rows: Rows) -> Rows {
        let name = names::management_port(&self.node.name);
        let management = self.node.assignment.management();
        rows.with(LogicalSwitchPort {
            name: name.clone(),
            switch: self.node.name.to_string(),
            kind: PortKind::Interface,
            addresses: vec![address_of(&management)],
            port_security: vec![],
            options: Map::new(),
            external_ids: marked([]),
        })
        .with(PortGroup {
            name: names::CLUSTER_PORT_GROUP.to_owned(),
            ports: BTreeSet::from([name]),
            external_ids: marked([]),
        })
    }

    fn transit(&self, rows: Rows) -> Rows {
        let place = &self.node.assignment;
        let port = names::router_to_transit(&self.node.name);
        let mut end = router_end(
            names::transit_to_router(&self.node.name),
            names::TRANSIT_SWITCH.to_owned(),
            port.clone(),
        );
        end.options = nb_map([("requested-tnl-key", place.id().to_string())]);
        end.external_ids = marked([("node", self.node.name.to_string())]);
        rows.with(LogicalSwitch {
            name: names::TRANSIT_SWITCH.to_owned(),
            other_config: nb_map([
                ("interconn-ts", names::TRANSIT_SWITCH.to_owned()),
                ("requested-tnl-key", names::TRANSIT_TUNNEL_KEY.to_string()),
                ("mcast_snoop", "true".to_owned()),
                ("mcast_querier", "false".to_owned()),
                ("mcast_flood_unregistered", "true".to_owned()),
            ]),
            load_balancer_groups: BTreeSet::new(),
            external_ids: marked([]),
        })
        .with(LogicalRouterPort {
            name: port,
            router: names::CLUSTER_ROUTER.to_owned(),
            mac: place.transit().mac(),
            networks: self.networks.transit().around(&place.transit()),
            options: Map::new(),
            external_ids: marked([]),
        })
        .with(end)
    }

    fn transit_peer(&self, peer: &Node, rows: Rows) -> Rows {
        let place = &peer.assignment;
        let port = names::transit_to_router(&peer.name);
        let networks = self.networks.transit().around(&place.transit());
        let mut rows = rows
            .with(LogicalSwitchPort {
                name: port.clone(),
                switch: names::TRANSIT_SWITCH.to_owned(),
                kind: PortKind::Remote,
                addresses: vec![PortAddress::Of {
                    mac: place.transit().mac(),
                    ips: networks.iter().map(IpNet::to_string).collect(),
                }],
                port_security: vec![],
                options: nb_map([
                    ("requested-tnl-key", place.id().to_string()),
                    ("requested-chassis", peer.chassis.clone()),
                ]),
                external_ids: marked([("node", peer.name.to_string())]),
            })
            .with(RemoteChassis {
                name: peer.chassis.clone(),
                hostname: peer.name.to_string(),
                encap: peer.encap,
                encap_options: nb_map([("csum", "true")]),
                other_config: nb_map([("is-remote", "true")]),
                external_ids: marked([]),
            })
            .with(RemoteBinding { port, chassis: peer.chassis.clone() });
        for family in self.networks.families() {
            let Some(next_hop) = place.transit().get(*family) else { continue };
            let join = place.join().get(*family).map(IpNet::from);
            for prefix in place.subnets().get(*family).into_iter().chain(join) {
                rows.put(route(prefix, next_hop, marked([("ic-node", peer.name.to_string())])));
            }
        }
        rows
    }

    /// A default route, where OVN-Kubernetes routes by source: a source route of a longer prefix would win over the
    /// route to a node with a larger subnet, and it would not cover the join address.
    fn host_route(&self, rows: Rows) -> Rows {
        let place = &self.node.assignment;
        self.networks.families().iter().fold(rows, |rows, family| {
            let (Some(management), Some(join)) = (place.management().get(*family), place.join().get(*family))
            else {
                return rows;
            };
            let everything = IpNet::new(unspecified(*family), 0).expect("no prefix is shorter than 0");
            rows.with(route(everything, management, marked([]))).with(route(
                IpNet::from(join),
                management,
                marked([]),
            ))
        })
    }

    fn host_return(&self, rows: Rows) -> Rows {
        let place = &self.node.assignment;
        self.networks.families().iter().fold(rows, |mut rows, family| {
            let id = ObjectId::new("ClusterNetworks", "pods").and("family", family.ovn());
            let pods = id.hashed();
            rows.put(AddressSet {
                name: pods.clone(),
                addresses: self.networks.cluster_of(*family).map(|range| range.net()).collect(),
                external_ids: id.external_ids(),
            });
            let Some(external_ip) = place.router().get(*family) else { return rows };
            for source in [place.management(), place.join()].iter().filter_map(|a| a.get(*family)) {
                rows.put(Nat {
                    router: names::CLUSTER_ROUTER.to_owned(),
                    logical_ip: source,
                    external_ip,
                    exempted: Some(pods.clone()),
                    external_ids: marked([]),
                });
            }
            rows
        })
    }

    /// What still goes to the range of Services after load balancing is for a Service that is not there, or not yet. It
    /// leads nowhere, and as a tracked connection it would go on to lead there when the Service has come.
    fn no_service(&self, rows: Rows) -> Rows {
        self.networks.service().iter().fold(rows, |rows, net| {
            let family = Family::of_net(net).ovn();
            let id = ObjectId::new("NoService", "services").and("family", family);
            rows.with(Acl {
                id: id.text(),
                name: "NoService".to_owned(),
                on: AclOn::Switch(self.node.name.to_string()),
                direction: AclDirection::FromPort,
                priority: NO_SERVICE_PRIORITY,
                matches: format!("{family}.dst == {net}"),
                action: AclAction::Drop,
                options: options_for(AclDirection::FromPort),
                external_ids: id.external_ids(),
            })
        })
    }

    fn always_allowed(&self, rows: Rows) -> Rows {
        let allow = |rows: Rows, name: &str, on: AclOn, direction, source: IpAddr| {
            let family = Family::of(source).ovn();
            let id = ObjectId::new("AlwaysAllowed", name)
                .and("direction", AclDirection::ovn(direction))
                .and("family", family);
            rows.with(Acl {
                id: id.text(),
                name: name.to_owned(),
                on,
                direction,
                priority: ALLOW_PRIORITY,
                matches: format!("{family}.src == {source}"),
                action: AclAction::AllowRelated,
                options: options_for(direction),
                external_ids: id.external_ids(),
            })
        };
        let own = AclOn::Switch(self.node.name.to_string());
        let group = AclOn::PortGroup(names::CLUSTER_PORT_GROUP.to_owned());
        let mut rows = rows;
        for source in self.node.assignment.management().iter() {
            rows = allow(rows, "NetpolNode", own.clone(), AclDirection::ToPort, source);
        }
        for source in self.networks.hairpin().iter() {
            for direction in [AclDirection::ToPort, AclDirection::FromPort] {
                rows = allow(rows, "NetpolHairpin", group.clone(), direction, source);
            }
        }
        rows
    }
}

/// What leaves a pod is judged after load balancing, by the backend it really goes to.
pub(crate) fn options_for(direction: AclDirection) -> Map {
    match direction {
        AclDirection::FromPort => nb_map([("apply-after-lb", "true")]),
        AclDirection::ToPort => Map::new(),
    }
}

pub(super) fn address_of(addresses: &Addresses) -> PortAddress {
    PortAddress::Of { mac: addresses.mac(), ips: addresses.iter().map(|a| a.to_string()).collect() }
}

fn router_end(name: String, switch: String, peer: String) -> LogicalSwitchPort {
    LogicalSwitchPort {
        name,
        switch,
        kind: PortKind::Router { peer },
        addresses: vec![PortAddress::Router],
        port_security: vec![],
        options: Map::new(),
        external_ids: marked([]),
    }
}

fn route(prefix: IpNet, next_hop: IpAddr, external_ids: Map) -> StaticRoute {
    let router = names::CLUSTER_ROUTER.to_owned();
    StaticRoute { router, by: RouteBy::Destination, prefix, next_hop, external_ids }
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

pub(crate) fn nb_map<V: Into<String>, const N: usize>(pairs: [(&str, V); N]) -> Map {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}
