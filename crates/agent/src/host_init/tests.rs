use std::collections::BTreeSet;

use netferry_kernel::IfName;
use netferry_kernel::address::{Address, Lifetime};
use netferry_kernel::link::Link;
use netferry_kernel::route::{Hop, Route};

use super::transfer::{Load, load};
use super::uplink::{NoUplink, Sight, choose};
use crate::fixtures::{link, name};

fn links() -> Vec<Link> {
    ["lo", "eth0", "eth1", "br-ex", "port"].iter().zip(1..).map(|(text, index)| link(index, text)).collect()
}

fn default_over(index: u32, metric: u32) -> Route {
    let via = Hop::via(index, "192.0.2.254".parse().unwrap());
    Route::new("0.0.0.0/0".parse().unwrap(), vec![via]).metric(metric)
}

fn address(link: u32, net: &str) -> Address {
    Address::new(link, net.parse().unwrap())
}

struct Host {
    links: Vec<Link>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    in_use: Option<IfName>,
}

fn host() -> Host {
    Host { links: links(), addresses: vec![], routes: vec![], in_use: None }
}

impl Host {
    fn choose(&self, asked: Option<&str>) -> Result<IfName, NoUplink> {
        let made = BTreeSet::from([name("port")]);
        let sight = Sight {
            links: &self.links,
            addresses: &self.addresses,
            routes: &self.routes,
            of_the_switch: &made,
            in_use: self.in_use.as_ref(),
        };
        choose(&name("br-ex"), asked.map(name).as_ref(), &sight)
    }
}

#[test]
fn the_uplink_is_the_link_with_the_best_default_route() {
    let mut host = host();
    assert_eq!(host.choose(None), Err(NoUplink::None));
    host.addresses = vec![address(3, "192.0.2.1/24")];
    assert_eq!(host.choose(None), Ok(name("eth1")), "the only one with an address");
    host.routes = vec![default_over(3, 200), default_over(2, 100)];
    assert_eq!(host.choose(None), Ok(name("eth0")), "the other one is a spare");
    assert_eq!(host.choose(Some("eth1")), Ok(name("eth1")), "who asks is given");
}

#[test]
fn what_is_not_certain_is_refused_with_a_way_out() {
    let mut host = host();
    host.routes = vec![default_over(2, 100), default_over(3, 100)];
    let refused = host.choose(None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "eth0, eth1 all look like the way to the other nodes: choose one with --uplink"
    );
    assert_eq!(host.choose(Some("eth9")), Err(NoUplink::Missing { asked: name("eth9") }));
    host.links[1].master = Some(3);
    host.links[2].mac = None;
    for bad in ["lo", "br-ex", "port", "eth0", "eth1"] {
        assert!(matches!(host.choose(Some(bad)), Err(NoUplink::Unfit { .. })), "{bad}");
    }
}

#[test]
fn a_link_that_is_a_port_already_stays_it() {
    let mut host = host();
    host.in_use = Some(name("eth1"));
    host.routes = vec![default_over(2, 100)];
    assert_eq!(host.choose(None), Ok(name("eth1")));
    assert!(matches!(host.choose(Some("eth0")), Err(NoUplink::Taken { .. })));
    host.in_use = Some(name("eth7"));
    assert_eq!(host.choose(None), Ok(name("eth0")), "a card that was taken out counts no more");
}

#[test]
fn what_was_configured_moves_as_it_is_and_what_links_make_themselves_stays() {
    let (eth0, bridge) = (link(2, "eth0"), link(4, "br-ex"));
    let own = address(2, "192.0.2.1/24").labelled("eth0");
    let alias = address(2, "192.0.2.7/24").labelled("eth0:7");
    let leased = Address { valid: Lifetime::Seconds(60), ..address(2, "198.51.100.1/24") };
    let of_wire = Address { scope: 253, ..address(2, "fe80::1/64") };
    let from_router = Address { valid: Lifetime::Seconds(60), protocol: 2, ..address(2, "2001:db8::1/64") };
    let elsewhere = address(3, "203.0.113.1/24");
    let addresses = [own.clone(), alias, leased.clone(), of_wire, from_router, elsewhere];
    let kernels = |net: &str| Route { protocol: 2, ..Route::new(net.parse().unwrap(), vec![Hop::on(2)]) };
    let learned = Route { protocol: 9, ..Route::new("::/0".parse().unwrap(), vec![Hop::on(2)]) };
    let routes = [
        default_over(2, 100),
        kernels("192.0.2.0/24"),
        kernels("203.0.113.0/25"),
        kernels("fe80::/64"),
        learned.clone(),
        default_over(3, 7),
    ];
    let Load { add, remove, routes, forget } = load(&eth0, &bridge, &addresses, &routes, true);

    assert_eq!(remove.len(), 4);
    assert!(add.iter().all(|a| a.link == 4));
    let nets: Vec<String> = add.iter().map(|a| a.net.to_string()).collect();
    assert_eq!(nets, ["192.0.2.1/24", "192.0.2.7/24", "198.51.100.1/24", "2001:db8::1/64"]);
    let labels: Vec<Option<&str>> = add.iter().map(|a| a.label.as_deref()).collect();
    assert_eq!(labels, [None, Some("br-ex:7"), None, None]);
    assert_eq!(add[2].valid, Lifetime::Seconds(60), "a lease stays one");
    assert_eq!(add[3].valid, Lifetime::Forever, "nobody would renew it");
    assert!(add[3].no_dad);

    let moved: Vec<(String, Option<u32>, u32)> =
        routes.iter().map(|(_, r)| (r.to.to_string(), r.hops[0].link, r.metric)).collect();
    // the first of them under the kernel's name, but of no address that would bring it along
    let expected = [("203.0.113.0/25", 0), ("0.0.0.0/0", 100)];
    assert_eq!(moved, expected.map(|(to, metric)| (to.to_owned(), Some(4), metric)));
    assert_eq!(forget, std::slice::from_ref(&learned));

    let learned = [Route { lifetime: Lifetime::Seconds(600), ..learned }];
    let Load { routes, forget, .. } = load(&eth0, &bridge, &[], &learned, false);
    let [(_, moved)] = routes.as_slice() else { panic!("{routes:?}") };
    assert_eq!((moved.hops[0].link, moved.lifetime), (Some(4), Lifetime::Seconds(600)));
    assert_eq!(forget, [], "what a network service made nobody makes again");
}

#[test]
fn what_has_moved_already_is_not_moved_again_but_still_taken_off() {
    let (eth0, bridge) = (link(2, "eth0"), link(4, "br-ex"));
    let addresses = [address(2, "192.0.2.1/24"), address(4, "192.0.2.1/24")];
    let left = load(&eth0, &bridge, &addresses, &[], true);
    assert_eq!((left.add.len(), left.remove.len()), (0, 1));
    assert!(load(&eth0, &bridge, &addresses[1..], &[default_over(4, 0)], true).is_empty());

    let lease =
        |link, seconds| Address { valid: Lifetime::Seconds(seconds), ..address(link, "192.0.2.1/24") };
    assert_eq!(load(&eth0, &bridge, &[lease(2, 60), lease(4, 5)], &[], true).add.len(), 1, "it was renewed");
    assert_eq!(load(&eth0, &bridge, &[lease(2, 5), lease(4, 60)], &[], true).add.len(), 0);
}
