//! References that lead nowhere, and rows nothing leads to.

use std::collections::BTreeSet;

use super::Finding;
use crate::overlay::rows::*;

pub(super) fn check(rows: &Rows, found: &mut BTreeSet<Finding>) {
    ports(rows, found);
    routers(rows, found);
    load_balancers(rows, found);
    acls(rows, found);
    remotes(rows, found);
}

fn refer<T: Row, U: Row>(found: &mut BTreeSet<Finding>, from: &T, to: &Table<U>, key: &str) {
    if !to.contains_key(key) {
        let (row, missing) = (from.key(), key.to_owned());
        found.insert(Finding::Dangling { table: T::TABLE, row, to: U::TABLE, missing });
    }
}

fn ports(rows: &Rows, found: &mut BTreeSet<Finding>) {
    for port in rows.switch_ports.values() {
        refer(found, port, &rows.switches, &port.switch);
        match &port.kind {
            PortKind::Router { peer } => refer(found, port, &rows.router_ports, peer),
            PortKind::Remote => refer(found, port, &rows.remote_bindings, &port.name),
            PortKind::Interface => {}
        }
    }
    for switch in rows.switches.values() {
        for group in &switch.load_balancer_groups {
            refer(found, switch, &rows.load_balancer_groups, group);
        }
        if !rows.switch_ports.values().any(|port| port.switch == switch.name) {
            found.insert(Finding::Useless { table: LogicalSwitch::TABLE, row: switch.name.clone() });
        }
    }
    for interface in rows.interfaces.values() {
        if let Some(port) = interface.external_ids.get("iface-id") {
            refer(found, interface, &rows.switch_ports, port);
        }
    }
}

fn routers(rows: &Rows, found: &mut BTreeSet<Finding>) {
    for port in rows.router_ports.values() {
        refer(found, port, &rows.routers, &port.router);
        let is_end =
            |end: &LogicalSwitchPort| matches!(&end.kind, PortKind::Router { peer } if *peer == port.name);
        if !rows.switch_ports.values().any(is_end) {
            found.insert(Finding::Useless { table: LogicalRouterPort::TABLE, row: port.name.clone() });
        }
    }
    for chassis in rows.gateway_chassis.values() {
        refer(found, chassis, &rows.router_ports, &chassis.port);
    }
    for route in rows.static_routes.values() {
        refer(found, route, &rows.routers, &route.router);
    }
    for policy in rows.router_policies.values() {
        refer(found, policy, &rows.routers, &policy.router);
        if policy.action == RouterAction::Reroute(Vec::new()) {
            let why = "it reroutes to no next hop, which drops packets without a word";
            found.insert(Finding::Malformed { table: RouterPolicy::TABLE, row: policy.key(), why });
        }
    }
    for nat in rows.nats.values() {
        refer(found, nat, &rows.routers, &nat.router);
        if let Some(set) = &nat.exempted {
            refer(found, nat, &rows.address_sets, set);
        }
        // a distributed router ignores translation unless one of its ports is bound to a chassis
        let bound = rows.gateway_chassis.values().any(|chassis| {
            rows.router_ports.get(&chassis.port).is_some_and(|port| port.router == nat.router)
        });
        if !bound {
            found.insert(Finding::Useless { table: Nat::TABLE, row: nat.key() });
        }
    }
}

fn load_balancers(rows: &Rows, found: &mut BTreeSet<Finding>) {
    for lb in rows.load_balancers.values() {
        for group in &lb.groups {
            refer(found, lb, &rows.load_balancer_groups, group);
        }
        for switch in &lb.switches {
            refer(found, lb, &rows.switches, switch);
        }
        let on_a_switch =
            |group: &String| rows.switches.values().any(|s| s.load_balancer_groups.contains(group));
        if lb.switches.is_empty() && !lb.groups.iter().any(on_a_switch) {
            found.insert(Finding::Useless { table: LoadBalancer::TABLE, row: lb.name.clone() });
        }
    }
}

fn acls(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let mut groups_in_use = BTreeSet::new();
    let mut sets_in_use: BTreeSet<&str> =
        rows.nats.values().filter_map(|nat| nat.exempted.as_deref()).collect();
    for acl in rows.acls.values() {
        match &acl.on {
            AclOn::Switch(switch) => refer(found, acl, &rows.switches, switch),
            AclOn::PortGroup(group) => {
                groups_in_use.insert(group.as_str());
                refer(found, acl, &rows.port_groups, group);
            }
        }
        for set in named(&acl.matches, '$') {
            sets_in_use.insert(set);
            refer(found, acl, &rows.address_sets, set);
        }
        for group in named(&acl.matches, '@') {
            groups_in_use.insert(group);
            refer(found, acl, &rows.port_groups, group);
        }
    }
    for group in rows.port_groups.values() {
        for port in &group.ports {
            refer(found, group, &rows.switch_ports, port);
        }
        if !groups_in_use.contains(group.name.as_str()) {
            found.insert(Finding::Useless { table: PortGroup::TABLE, row: group.name.clone() });
        }
    }
    for set in rows.address_sets.keys().filter(|set| !sets_in_use.contains(set.as_str())) {
        found.insert(Finding::Useless { table: AddressSet::TABLE, row: set.clone() });
    }
}

/// The names that follow a sign in a match.
fn named(matches: &str, sign: char) -> impl Iterator<Item = &str> {
    let end = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.');
    matches.split(sign).skip(1).map(move |rest| rest.split(end).next().unwrap_or(rest))
}

fn remotes(rows: &Rows, found: &mut BTreeSet<Finding>) {
    for binding in rows.remote_bindings.values() {
        refer(found, binding, &rows.switch_ports, &binding.port);
        refer(found, binding, &rows.remote_chassis, &binding.chassis);
    }
    for chassis in rows.remote_chassis.values() {
        if !rows.remote_bindings.values().any(|binding| binding.chassis == chassis.name) {
            found.insert(Finding::Useless { table: RemoteChassis::TABLE, row: chassis.name.clone() });
        }
    }
}
