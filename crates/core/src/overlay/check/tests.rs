use super::*;
use crate::overlay::rows::{RouterAction, RouterPolicy};
use crate::overlay::zone::testing::{Lab, lab};

fn sound() -> Rows {
    let Lab { cluster, .. } = lab(3, 2);
    lab(3, 2).rows_of("n0", &cluster)
}

#[test]
fn the_rows_of_a_plain_zone_are_sound() {
    assert_eq!(zone(&sound()), BTreeSet::new());
}

/// Breaks one thing and expects the finding that names it.
#[test]
fn every_kind_of_damage_is_found() {
    type Damage = fn(&mut Rows);
    let table: [(&str, Damage); 15] = [
        ("Logical_Switch_Port ns_n0p0 refers to Logical_Switch n0", |r| {
            r.switches.remove("n0");
        }),
        ("rtos-n0, which is not there", |r| {
            r.router_ports.remove("rtos-n0");
        }),
        ("refers to Chassis chassis-n1", |r| {
            r.remote_chassis.remove("chassis-n1");
        }),
        ("refers to Port_Binding tstor-n2", |r| {
            r.remote_bindings.remove("tstor-n2");
        }),
        ("Logical_Router_Port rtots-n0 is used by nothing", |r| {
            r.switch_ports.remove("tstor-n0");
        }),
        ("ns_n0p1 have the same Mac", |r| {
            let taken = r.switch_ports["ns_n0p0"].addresses.clone();
            r.switch_ports.get_mut("ns_n0p1").unwrap().addresses = taken;
        }),
        ("have the same TunnelKey", |r| {
            let key = r.switch_ports["tstor-n1"].options["requested-tnl-key"].clone();
            r.switch_ports.get_mut("tstor-n2").unwrap().options.insert("requested-tnl-key".into(), key);
        }),
        ("have the same Encap", |r| {
            let encap = r.remote_chassis["chassis-n1"].encap;
            r.remote_chassis.get_mut("chassis-n2").unwrap().encap = encap;
        }),
        ("have the same Prefix 10.244.1.0/25", |r| {
            let mut route = r.static_routes["ovn_cluster_router dst-ip 10.244.1.0/24"].clone();
            route.prefix = "10.244.1.0/25".parse().unwrap();
            r.put(route);
        }),
        ("lies behind no port", |r| {
            for route in r.static_routes.values_mut() {
                route.next_hop = "192.0.2.1".parse().unwrap();
            }
        }),
        ("NAT ovn_cluster_router snat 10.244.0.2 is used by nothing", |r| r.gateway_chassis.clear()),
        ("it reroutes to no next hop", |r| {
            r.put(RouterPolicy {
                router: "ovn_cluster_router".into(),
                priority: 100,
                matches: "ip4.src == 10.244.0.3".into(),
                action: RouterAction::Reroute(Vec::new()),
                external_ids: BTreeMap::default(),
            });
        }),
        ("does not carry our mark", |r| r.switches.get_mut("n0").unwrap().external_ids.clear()),
        ("filed under another's key", |r| r.switches.get_mut("n0").unwrap().name = "other".into()),
        ("ACL", |r| {
            r.port_groups.clear();
        }),
    ];
    for (expected, damage) in table {
        let mut rows = sound();
        damage(&mut rows);
        let found: Vec<String> = zone(&rows).iter().map(Finding::to_string).collect();
        assert!(found.iter().any(|f| f.contains(expected)), "{expected:?} is not among {found:#?}");
    }
}
