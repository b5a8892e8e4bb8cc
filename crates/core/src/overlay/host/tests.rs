use super::*;
use crate::overlay::service::Entrance;
use crate::overlay::topology::Topology;
use crate::overlay::zone::testing::{Speaks, lab, lab_of};
use crate::port::{Port, Protocol};

fn plan(speaks: Speaks) -> HostPlan {
    let lab = lab_of(speaks, 2, 0);
    lab.zone("n0").host(None, Forward::default())
}

#[test]
fn the_host_reaches_pods_and_services_through_its_router() {
    let routes: Vec<String> =
        plan(Speaks::Dual).routes.iter().map(|r| format!("{} via {} from {}", r.to, r.via, r.from)).collect();
    assert_eq!(
        routes,
        [
            "10.96.0.0/16 via 10.244.0.1 from 10.244.0.2",
            "10.244.0.0/16 via 10.244.0.1 from 10.244.0.2",
            "100.64.0.0/16 via 10.244.0.1 from 10.244.0.2",
            "169.254.169.0/29 via 10.244.0.1 from 10.244.0.2",
            "fd01::/48 via fd01::1 from fd01::2",
            "fd02::/112 via fd01::1 from fd01::2",
            "fd69::/125 via fd01::1 from fd01::2",
            "fd98::/64 via fd01::1 from fd01::2",
        ]
    );
}

#[test]
fn only_the_route_to_services_has_an_mtu_unless_routes_are_held_back() {
    let lab = lab(1, 0);
    let mtus = |routable: Option<u32>| -> Vec<Option<u32>> {
        let routable = routable.map(|bytes| Mtu::new(bytes).unwrap());
        let plan = lab.zone("n0").host(routable, Forward::default());
        plan.routes.iter().map(|route| route.mtu.map(Mtu::bytes)).collect()
    };
    assert_eq!(mtus(None), [Some(1400), None, None, None]);
    assert_eq!(mtus(Some(1300)), [Some(1300); 4]);
}

#[test]
fn the_router_is_a_known_neighbour() {
    let neighbours = plan(Speaks::Dual).neighbours;
    let mac: Mac = "0a:58:0a:f4:00:01".parse().unwrap();
    assert_eq!(
        neighbours,
        BTreeMap::from([("10.244.0.1".parse().unwrap(), mac), ("fd01::1".parse().unwrap(), mac)])
    );
}

fn chain(plan: &HostPlan, name: &str) -> Vec<String> {
    let text = plan.filter.to_string();
    let start = text.find(&format!("chain {name} {{")).unwrap();
    let body = text[start..].split('}').next().unwrap();
    // a rule with a set of protocols has braces of its own; those chains are read from the whole text
    body.lines().skip(2).map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn what_is_forwarded_to_a_service_comes_from_the_join_address_and_never_from_the_management_port() {
    assert_eq!(
        chain(&plan(Speaks::V4), "postrouting"),
        [
            "oifname \"ovn-k8s-mp0\" ct status dnat meta nfproto ipv4 ip daddr . meta l4proto . th dport != @kept_addresses_v4 snat ip to 100.64.0.2",
            "oifname \"ovn-k8s-mp0\" ct status dnat ip saddr 10.244.0.0/24 snat ip to 100.64.0.2",
            "oifname \"ovn-k8s-mp0\" ip saddr 10.244.0.2/32 return",
            "oifname \"ovn-k8s-mp0\" meta nfproto ipv4 fib saddr type local snat ip to 10.244.0.2",
            "oifname != \"ovn-k8s-mp0\" ip saddr 10.244.0.0/24 masquerade",
        ]
    );
}

#[test]
fn a_client_is_kept_on_the_way_to_this_nodes_own_backends() {
    let lab = lab(1, 0);
    let entrance = |address: Option<&str>| Entrance {
        family: Family::V4,
        address: address.map(|ip| ip.parse().unwrap()),
        protocol: Protocol::Udp,
        port: Port::new(30080).unwrap(),
    };
    let mut forward = Forward::default();
    forward.local.insert(entrance(None), "169.254.169.3:30080".parse().unwrap());
    forward.local.insert(entrance(Some("203.0.113.9")), "10.96.0.10:65535".parse().unwrap());
    let text = lab.zone("n0").host(None, forward).filter.to_string();
    let kept = text.split("set kept_addresses_v4 {").nth(1).unwrap().lines().nth(2).unwrap();
    assert_eq!(kept.trim(), "elements = { 10.96.0.10 . udp . 65535, 169.254.169.3 . udp . 30080 }");
}

#[test]
fn whom_a_service_does_not_name_is_stopped_before_anything_is_translated() {
    let lab = lab(1, 0);
    let entrance = Entrance {
        family: Family::V4,
        address: Some("203.0.113.9".parse().unwrap()),
        protocol: Protocol::Tcp,
        port: Port::new(80).unwrap(),
    };
    let mut forward = Forward::default();
    forward.guarded.insert(entrance, vec!["192.0.2.0/24".parse().unwrap()]);
    let text = lab.zone("n0").host(None, forward).filter.to_string();
    assert!(text.contains("elements = { 203.0.113.9 . tcp . 80 . 192.0.2.0/24 }"), "{text}");
    let guard = text.split("chain guard {").nth(1).unwrap();
    let lines: Vec<&str> = guard.lines().skip(1).take(2).map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "type filter hook prerouting priority -150; policy accept;",
            "meta nfproto ipv4 meta l4proto { tcp, udp, sctp } \
             ip daddr . meta l4proto . th dport @guarded_addresses_v4 \
             ip daddr . meta l4proto . th dport . ip saddr != @admitted_addresses_v4 drop",
        ]
    );
    assert!(!plan(Speaks::Dual).filter.chains.contains_key("guard"));
}

#[test]
fn what_comes_out_of_the_overlay_does_not_go_back_in_by_itself() {
    assert_eq!(
        chain(&plan(Speaks::V4), "forward"),
        [
            "iifname \"ovn-k8s-mp0\" oifname \"ovn-k8s-mp0\" ct status dnat accept",
            "iifname \"ovn-k8s-mp0\" oifname \"ovn-k8s-mp0\" drop",
        ]
    );
}

#[test]
fn the_host_itself_is_never_bound_to_local_backends() {
    let text = plan(Speaks::Dual).filter.to_string();
    let of = |name: &str| {
        let start = text.find(&format!("chain {name} {{")).unwrap();
        text[start..].split("  chain ").next().unwrap().to_owned()
    };
    assert!(of("prerouting").contains("@local_nodeports_v4"));
    assert!(of("prerouting").find("@local_nodeports_v4") < of("prerouting").find("@any_nodeports_v4"));
    assert!(!of("output").contains("@local_"));
    assert!(of("output").contains("@any_addresses_v6"));
}

fn single(speaks: Speaks) -> HostPlan {
    let mut lab = lab_of(speaks, 1, 0);
    lab.topology = Topology::single_node();
    lab.zone("n0").host(None, Forward::default())
}

#[test]
fn on_one_machine_the_client_is_kept_unless_a_process_of_the_host_answers() {
    let plan = single(Speaks::V4);
    assert_eq!(
        chain(&plan, "postrouting"),
        [
            "oifname \"ovn-k8s-mp0\" ip saddr 10.244.0.2/32 return",
            "oifname \"ovn-k8s-mp0\" meta nfproto ipv4 fib saddr type local snat ip to 10.244.0.2",
            "oifname \"ovn-k8s-mp0\" meta nfproto ipv4 ct mark 0x1745ed snat ip to 100.64.0.2",
            "oifname \"ovn-k8s-mp0\" ct status dnat ip saddr 10.244.0.0/24 snat ip to 100.64.0.2",
            "oifname != \"ovn-k8s-mp0\" ip saddr 10.244.0.0/24 masquerade",
        ]
    );
    assert!(!plan.filter.chains.contains_key("raw_output"), "nothing is wrapped");
    assert!(plan.filter.to_string().contains("@host_backed_nodeports_v4 ct mark set 0x1745ed"));
}

#[test]
fn nothing_but_the_host_itself_is_ever_given_the_address_every_policy_admits() {
    for (speaks, own) in [(Speaks::V4, "10.244.0.2"), (Speaks::V6, "fd01::2")] {
        for plan in [single(speaks), plan(speaks)] {
            let own: IpAddr = own.parse().unwrap();
            let given = plan.filter.chains["postrouting"].rules.iter();
            let given: Vec<_> = given.filter(|rule| rule.then == nft::Then::SourceTo(own)).collect();
            assert_eq!(given.len(), 1);
            assert!(given[0].when.contains(&nft::When::FromHost), "{given:?}");
        }
    }
}

#[test]
fn nothing_the_host_has_for_one_machine_names_an_address_of_the_uplink() {
    let (here, mut moved) = (lab_of(Speaks::Dual, 1, 0), lab_of(Speaks::Dual, 1, 0));
    let node = moved.cluster.nodes.values_mut().next().unwrap();
    node.encap = "203.0.113.7".parse().unwrap();
    node.host_addresses = ["203.0.113.7".parse().unwrap()].into();
    let plan = |lab: &crate::overlay::zone::testing::Lab| {
        let lab = crate::overlay::zone::testing::Lab { topology: Topology::single_node(), ..lab.clone() };
        lab.zone("n0").host(None, Forward::default())
    };
    assert_eq!(plan(&here), plan(&moved));
}

#[test]
fn a_process_of_the_host_answers_for_its_service_when_the_uplink_took_its_address() {
    let text = single(Speaks::Dual).filter.to_string();
    let start = text.find("chain prerouting {").unwrap();
    let chain = text[start..].split("  chain ").next().unwrap();
    let last: Vec<&str> = chain.lines().map(str::trim).filter(|line| line.contains("iifname")).collect();
    let of = |word: &str, ip: &str, own: &str| {
        let from = format!("iifname \"ovn-k8s-mp0\" meta nfproto {word} meta l4proto {{ tcp, udp, sctp }} ");
        let key = format!("{ip} daddr . meta l4proto . th dport @processes_addresses_");
        let set = if ip == "ip" { "v4" } else { "v6" };
        [format!("{from}fib daddr type local return"), format!("{from}{key}{set} dnat {ip} to {own}")]
    };
    assert_eq!(last[..2], of("ipv4", "ip", "10.244.0.2"));
    assert_eq!(last[2..], of("ipv6", "ip6", "fd01::2"));
    assert!(
        !plan(Speaks::Dual).filter.to_string().contains("processes"),
        "elsewhere somebody else may have it"
    );
}
