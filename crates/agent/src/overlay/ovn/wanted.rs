//! From the rows `core` decides on to rows of the databases.
//!
//! In `core` a child names its parent; in a database the parent lists its children. A parent is therefore written
//! without the columns its children appear in: those are filled by the children themselves.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use netferry_core::net::Family;
use netferry_core::overlay::names;
use netferry_core::overlay::rows::{self as core, AclOn, PortKind, Row, RowName, Rows};
use netferry_ovs::tables::northbound as nb;
use netferry_ovs::tables::southbound as sb;
use netferry_ovs::tables::vswitch as vs;
use netferry_ovs::{Desired, Hold, Owner, Ref, RowKey, Table, Wanted};

/// The table whose rows have no place for a mark: all of them are ours.
pub(crate) const WITHOUT_MARK: &str = core::LoadBalancerGroup::TABLE;

/// Which rows are ours.
pub(crate) fn owner() -> Owner {
    Owner::new(names::MARK.0, names::MARK.1, names::ID).with_whole_table(WITHOUT_MARK)
}

fn own<T: Table>(key: &str) -> Wanted {
    Wanted::dynamic(T::DECL, key, Hold::Own)
}

/// The northbound rows.
pub(crate) fn northbound(rows: &Rows) -> Desired {
    let mut desired = Desired::new();
    for row in rows.globals.values() {
        // `ovn-northd` makes the row too, and writes into its options.
        let wanted = Wanted::ensure::<nb::NbGlobal>("").set(&nb::NbGlobal::name(), &row.name);
        let puts = |wanted: Wanted, (key, value): (&String, &String)| wanted.put("options", key, value);
        desired.add(row.options.iter().fold(wanted, puts));
    }
    desired.extend(rows.switches.values().map(switch));
    desired.extend(rows.switch_ports.values().map(switch_port));
    desired.extend(rows.routers.values().map(router));
    desired.extend(rows.router_ports.values().map(router_port));
    desired.extend(rows.gateway_chassis.values().map(gateway_chassis));
    desired.extend(rows.static_routes.values().map(static_route));
    desired.extend(rows.router_policies.values().map(router_policy));
    desired.extend(rows.nats.values().map(nat));
    desired.extend(rows.load_balancers.values().map(load_balancer));
    desired.extend(rows.load_balancer_groups.values().map(|row| own::<nb::LoadBalancerGroup>(&row.name)));
    desired.extend(rows.acls.values().map(acl));
    desired.extend(rows.port_groups.values().map(port_group));
    desired.extend(rows.address_sets.values().map(address_set));
    desired
}

fn switch(row: &core::LogicalSwitch) -> Wanted {
    let groups = refs::<nb::LoadBalancerGroup>(&row.load_balancer_groups);
    own::<nb::LogicalSwitch>(&row.name)
        .set(&nb::LogicalSwitch::other_config(), &row.other_config)
        .set(&nb::LogicalSwitch::load_balancer_group(), &groups)
        .set(&nb::LogicalSwitch::external_ids(), &row.external_ids)
}

fn switch_port(row: &core::LogicalSwitchPort) -> Wanted {
    let mut options = row.options.clone();
    let kind = match &row.kind {
        PortKind::Interface => "",
        PortKind::Remote => "remote",
        PortKind::Router { peer } => {
            options.insert("router-port".to_owned(), peer.clone());
            "router"
        }
    };
    own::<nb::LogicalSwitchPort>(&row.name)
        .set(&nb::LogicalSwitchPort::kind(), &kind.to_owned())
        .set(&nb::LogicalSwitchPort::addresses(), &texts(&row.addresses))
        .set(&nb::LogicalSwitchPort::port_security(), &texts(&row.port_security))
        .set(&nb::LogicalSwitchPort::options(), &options)
        .set(&nb::LogicalSwitchPort::external_ids(), &row.external_ids)
        .under::<nb::LogicalSwitch>(&row.switch, &nb::LogicalSwitch::ports())
}

fn router(row: &core::LogicalRouter) -> Wanted {
    own::<nb::LogicalRouter>(&row.name)
        .set(&nb::LogicalRouter::options(), &row.options)
        .set(&nb::LogicalRouter::external_ids(), &row.external_ids)
}

fn router_port(row: &core::LogicalRouterPort) -> Wanted {
    own::<nb::LogicalRouterPort>(&row.name)
        .set(&nb::LogicalRouterPort::mac(), &row.mac.to_string())
        .set(&nb::LogicalRouterPort::networks(), &texts(&row.networks))
        .set(&nb::LogicalRouterPort::options(), &row.options)
        .set(&nb::LogicalRouterPort::external_ids(), &row.external_ids)
        .under::<nb::LogicalRouter>(&row.router, &nb::LogicalRouter::ports())
}

fn gateway_chassis(row: &core::GatewayChassis) -> Wanted {
    own::<nb::GatewayChassis>(&row.name)
        .set(&nb::GatewayChassis::chassis_name(), &row.chassis)
        .set(&nb::GatewayChassis::priority(), &i64::from(row.priority))
        .set(&nb::GatewayChassis::external_ids(), &row.external_ids)
        .under::<nb::LogicalRouterPort>(&row.port, &nb::LogicalRouterPort::gateway_chassis())
}

fn static_route(row: &core::StaticRoute) -> Wanted {
    own::<nb::LogicalRouterStaticRoute>(&row.key())
        .set(&nb::LogicalRouterStaticRoute::ip_prefix(), &row.prefix.to_string())
        .set(&nb::LogicalRouterStaticRoute::nexthop(), &row.next_hop.to_string())
        .set(&nb::LogicalRouterStaticRoute::policy(), &Some(row.by.ovn().to_owned()))
        .set(&nb::LogicalRouterStaticRoute::external_ids(), &row.external_ids)
        .under::<nb::LogicalRouter>(&row.router, &nb::LogicalRouter::static_routes())
}

fn router_policy(row: &core::RouterPolicy) -> Wanted {
    own::<nb::LogicalRouterPolicy>(&row.key())
        .set(&nb::LogicalRouterPolicy::priority(), &i64::from(row.priority))
        .set(&nb::LogicalRouterPolicy::matches(), &row.matches)
        .set(&nb::LogicalRouterPolicy::action(), &row.action.ovn().to_owned())
        .set(&nb::LogicalRouterPolicy::nexthops(), &texts(row.action.next_hops()))
        .set(&nb::LogicalRouterPolicy::external_ids(), &row.external_ids)
        .under::<nb::LogicalRouter>(&row.router, &nb::LogicalRouter::policies())
}

fn nat(row: &core::Nat) -> Wanted {
    let exempted = row.exempted.as_deref().map(Ref::key::<nb::AddressSet>);
    own::<nb::Nat>(&row.key())
        .set(&nb::Nat::kind(), &"snat".to_owned())
        .set(&nb::Nat::external_ip(), &row.external_ip.to_string())
        .set(&nb::Nat::logical_ip(), &row.logical_ip.to_string())
        .set(&nb::Nat::exempted_ext_ips(), &exempted)
        .set(&nb::Nat::external_ids(), &row.external_ids)
        .under::<nb::LogicalRouter>(&row.router, &nb::LogicalRouter::nat())
}

fn load_balancer(row: &core::LoadBalancer) -> Wanted {
    let list = |to: &BTreeSet<std::net::SocketAddr>| {
        to.iter().map(|backend| backend.to_string()).collect::<Vec<_>>().join(",")
    };
    let vips: BTreeMap<String, String> =
        row.vips.iter().map(|(vip, to)| (vip.to_string(), list(to))).collect();
    let mut wanted = own::<nb::LoadBalancer>(&row.name)
        .set(&nb::LoadBalancer::protocol(), &Some(row.protocol.lower().to_owned()))
        .set(&nb::LoadBalancer::vips(), &vips)
        .set(&nb::LoadBalancer::selection_fields(), &row.selection_fields)
        .set(&nb::LoadBalancer::options(), &row.options)
        .set(&nb::LoadBalancer::external_ids(), &row.external_ids);
    for group in &row.groups {
        wanted = wanted.under::<nb::LoadBalancerGroup>(group, &nb::LoadBalancerGroup::load_balancer());
    }
    for switch in &row.switches {
        wanted = wanted.under::<nb::LogicalSwitch>(switch, &nb::LogicalSwitch::load_balancer());
    }
    wanted
}

fn acl(row: &core::Acl) -> Wanted {
    let wanted = own::<nb::Acl>(&row.id)
        .set(&nb::Acl::name(), &Some(row.name.clone()))
        .set(&nb::Acl::direction(), &row.direction.ovn().to_owned())
        .set(&nb::Acl::priority(), &i64::from(row.priority))
        .set(&nb::Acl::matches(), &row.matches)
        .set(&nb::Acl::action(), &row.action.ovn().to_owned())
        .set(&nb::Acl::options(), &row.options)
        .set(&nb::Acl::external_ids(), &row.external_ids);
    match &row.on {
        AclOn::Switch(switch) => wanted.under::<nb::LogicalSwitch>(switch, &nb::LogicalSwitch::acls()),
        AclOn::PortGroup(group) => wanted.under::<nb::PortGroup>(group, &nb::PortGroup::acls()),
    }
}

fn port_group(row: &core::PortGroup) -> Wanted {
    own::<nb::PortGroup>(&row.name)
        .set(&nb::PortGroup::ports(), &refs::<nb::LogicalSwitchPort>(&row.ports))
        .set(&nb::PortGroup::external_ids(), &row.external_ids)
}

fn address_set(row: &core::AddressSet) -> Wanted {
    let addresses: BTreeSet<String> = row.addresses.iter().map(short).collect();
    own::<nb::AddressSet>(&row.name)
        .set(&nb::AddressSet::addresses(), &addresses)
        .set(&nb::AddressSet::external_ids(), &row.external_ids)
}

/// A single address without its length, as everybody else writes it.
fn short(net: &IpNet) -> String {
    if net.prefix_len() == Family::of_net(*net).bits() { net.addr().to_string() } else { net.to_string() }
}

/// The southbound rows.
pub(crate) fn southbound(rows: &Rows) -> Desired {
    let mut desired = Desired::new();
    for row in rows.remote_chassis.values() {
        let encap = sb::Encap {
            kind: core::RemoteChassis::ENCAP.to_owned(),
            ip: row.encap.to_string(),
            chassis_name: row.name.clone(),
            options: row.encap_options.clone(),
        };
        desired.add(Wanted::own(&encap).under::<sb::Chassis>(&row.name, &sb::Chassis::encaps()));
        desired.add(
            own::<sb::Chassis>(&row.name)
                .set(&sb::Chassis::hostname(), &row.hostname)
                .set(&sb::Chassis::other_config(), &row.other_config)
                .set(&sb::Chassis::external_ids(), &row.external_ids),
        );
    }
    for row in rows.remote_bindings.values() {
        let chassis = Some(Ref::key::<sb::Chassis>(row.chassis.as_str()));
        desired.add(
            Wanted::if_there::<sb::PortBinding>(&row.port)
                .set(&sb::PortBinding::chassis(), &chassis)
                .set(&sb::PortBinding::up(), &Some(true)),
        );
    }
    desired
}

/// The rows of the local switch. Of the integration bridge only its existence is ours: `ovn-controller` makes it as
/// well, and knows how.
pub(crate) fn switch_rows(rows: &Rows, datapath_type: &str) -> Desired {
    let mut desired = Desired::new();
    let mut bridges = BTreeSet::new();
    for row in rows.switch_settings.values() {
        let puts = |wanted: Wanted, (key, value): (&String, &String)| wanted.put("external_ids", key, value);
        desired.add(row.external_ids.iter().fold(Wanted::ensure::<vs::OpenVSwitch>(""), puts));
    }
    for row in rows.interfaces.values() {
        bridges.insert(row.bridge.as_str());
        // A management port of that name is what it is, whoever made it.
        desired.extend(interface(row).map(Wanted::adopt));
    }
    for bridge in bridges {
        let secure = Some("secure".to_owned());
        let internal = "internal".to_owned();
        let local = Wanted::ensure::<vs::Interface>(bridge).set(&vs::Interface::kind(), &internal);
        desired.add(local.under::<vs::Port>(bridge, &vs::Port::interfaces()));
        desired.add(Wanted::ensure::<vs::Port>(bridge).under::<vs::Bridge>(bridge, &vs::Bridge::ports()));
        desired.add(
            Wanted::ensure::<vs::Bridge>(bridge)
                .set(&vs::Bridge::datapath_type(), &datapath_type.to_owned())
                .set(&vs::Bridge::fail_mode(), &secure)
                .under::<vs::OpenVSwitch>("", &vs::OpenVSwitch::bridges()),
        );
    }
    desired
}

/// A port of the local switch and its interface.
pub(crate) fn interface(row: &core::Interface) -> [Wanted; 2] {
    let interface = own::<vs::Interface>(&row.name)
        .set(&vs::Interface::kind(), &row.kind)
        .set(&vs::Interface::mac(), &row.mac.map(|mac| mac.to_string()))
        .set(&vs::Interface::mtu_request(), &row.mtu.map(|mtu| i64::from(mtu.bytes())))
        .set(&vs::Interface::external_ids(), &row.external_ids)
        .under::<vs::Port>(&row.name, &vs::Port::interfaces());
    let port = own::<vs::Port>(&row.name)
        .set(&vs::Port::other_config(), &row.port_other_config)
        .under::<vs::Bridge>(&row.bridge, &vs::Bridge::ports());
    [interface, port]
}

/// How the databases call a row of `core` that is wanted no more.
pub(crate) fn key_of_gone((table, key): &RowName) -> Option<RowKey> {
    // Bindings and settings are in rows of others: there is nothing to remove.
    let shared = [core::RemoteBinding::TABLE, core::SwitchSettings::TABLE, core::NbGlobal::TABLE];
    (!shared.contains(table)).then(|| RowKey::new(*table, key.clone()))
}

fn refs<T: Table>(keys: &BTreeSet<String>) -> BTreeSet<Ref> {
    keys.iter().map(|key| Ref::key::<T>(key.as_str())).collect()
}

fn texts<T: ToString>(values: &[T]) -> BTreeSet<String> {
    values.iter().map(T::to_string).collect()
}
