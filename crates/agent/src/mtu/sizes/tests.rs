use std::sync::Arc;

use netferry_kernel::link::{Make, VethPeer};
use netferry_kernel::route::Hop;
use netferry_kernel::{Namespace, Objects as _};
use netferry_testkit::wait;

use super::*;
use crate::fixtures::{self, name};

pub(super) fn size(bytes: u32) -> Mtu {
    Mtu::new(bytes).unwrap()
}

fn link(index: u32, called: &str, kind: LinkKind, lower: Option<u32>, master: Option<u32>) -> Link {
    Link { kind, lower, master, ..fixtures::link(index, called) }
}

#[test]
fn what_an_uplink_stands_on_is_managed_and_nothing_else() {
    let other = |kind: &str| LinkKind::Other(kind.to_owned());
    let links = [
        link(1, "eth0", LinkKind::Device, None, Some(3)),
        link(2, "eth1", LinkKind::Device, None, Some(3)),
        link(3, "bond0", other("bond"), None, None),
        link(4, "bond0.5", other("vlan"), Some(3), None),
        link(5, "bond0.6", other("vlan"), Some(3), None),
        link(6, "eth2", LinkKind::Device, None, None),
        link(7, "veth0", LinkKind::Veth, Some(6), None),
    ];
    let shown = |uplink: &str| -> Vec<String> {
        let found = managed(&links, &[&name(uplink)]);
        found
            .iter()
            .map(|m| format!("{} {}{}", m.link.name, m.height, if m.below { " below" } else { "" }))
            .collect()
    };
    assert_eq!(shown("bond0.5"), ["bond0 1 below", "bond0.5 2", "eth0 0 below", "eth1 0 below"]);
    assert_eq!(shown("eth2"), ["eth2 0"]);
    assert_eq!(shown("veth0"), ["veth0 0"], "its other end is somebody else's");
    assert_eq!(shown("none"), Vec::<String>::new());
}

/// A host with `eth0`, an address and a router of each family, and what somebody set up by hand.
pub(super) struct Host {
    pub(super) kernel: Arc<Kernel>,
    pub(super) run: tempfile::TempDir,
    pub(super) index: u32,
}

const V4: &str = "10.9.0.0/16";
const V6: &str = "2001:db8:9::/48";
const SMALL: &str = "10.8.0.0/16";
pub(super) const DEFAULT: &str = "0.0.0.0/0";

impl Host {
    pub(super) fn new() -> Host {
        let namespace = Namespace::anonymous().expect("these tests need root to make network namespaces");
        let kernel = Kernel::inside(namespace).unwrap();
        let made = Want::make(name("eth0"), Make::Veth(VethPeer::named(name("wire")))).up();
        let wire = Want::adjust(name("wire")).up();
        kernel.links().converge(&[made], &Mark::default()).unwrap();
        kernel.links().converge(&[wire], &Mark { link_alias: "other".into(), ..Mark::default() }).unwrap();
        let index = kernel.links().named(&name("eth0")).unwrap().unwrap().index;
        let host = Host { kernel: Arc::new(kernel), run: tempfile::tempdir().unwrap(), index };
        for address in ["172.30.0.2/16", "fd00:172:30::2/64"] {
            let address = netferry_kernel::address::Address {
                no_dad: address.contains(':'),
                ..netferry_kernel::address::Address::new(index, address.parse().unwrap())
            };
            let add = Changes { add: vec![address], ..Changes::default() };
            host.kernel.addresses().apply(&add).unwrap();
        }
        let (v4, v6) = ("172.30.255.254".parse().unwrap(), "fd00:172:30::fffe".parse().unwrap());
        for (to, via) in [(DEFAULT, v4), (V4, v4), (V6, v6)] {
            host.add(Route::new(to.parse().unwrap(), vec![Hop::via(index, via)]));
        }
        host.add(Route::new(SMALL.parse().unwrap(), vec![Hop::via(index, v4)]).mtu(1300));
        host
    }

    pub(super) fn add(&self, route: Route) {
        let route = Route { protocol: 3, ..route };
        self.kernel.routes().apply(&Changes { add: vec![route], ..Changes::default() }).unwrap();
    }

    fn take(&self, a: u32, b: u32) -> Result<()> {
        run(&self.kernel, &[&name("eth0")], Envelope::spanning(size(a), size(b)), self.run.path())
    }

    pub(super) fn mtu(&self) -> u32 {
        self.kernel.links().named(&name("eth0")).unwrap().unwrap().mtu
    }

    /// The MTU of a route out of `eth0`, with `!` if it is locked.
    pub(super) fn route(&self, to: &str) -> String {
        let to: IpNet = to.parse().unwrap();
        let routes = self.kernel.routes().observe().unwrap();
        let found = routes.iter().find(|r| r.to == to && leads_out(r, &[self.index].into()));
        match found.map(|route| route.mtu) {
            None => "gone".to_owned(),
            Some(None) => "-".to_owned(),
            Some(Some(mtu)) => format!("{}{}", mtu.bytes, if mtu.locked { "!" } else { "" }),
        }
    }

    pub(super) fn routes(&self) -> [String; 6] {
        [DEFAULT, V4, V6, SMALL, "172.30.0.0/16", "fd00:172:30::/64"].map(|to| self.route(to))
    }

    pub(super) fn advertised(&self) -> u32 {
        let key = advertised::size_of(&name("eth0"));
        self.kernel.sysctls().read(std::slice::from_ref(&key)).unwrap()[&key].parse().unwrap()
    }
}

#[test]
fn a_link_grows_while_every_route_out_of_it_is_held_and_then_let_go() {
    let host = Host::new();
    host.take(1500, 9000).unwrap();
    assert_eq!(host.mtu(), 9000);
    assert_eq!(
        host.routes(),
        ["1500", "1500", "1500", "1300", "1500", "1500"],
        "a smaller one of their own is kept"
    );
    assert_eq!(host.advertised(), 1500, "routes from advertisements are held by the interface");
    host.take(1500, 9000).unwrap();
    assert_eq!(host.routes(), ["1500", "1500", "1500", "1300", "1500", "1500"], "again it changes nothing");
    host.take(9000, 9000).unwrap();
    assert_eq!((host.mtu(), host.routes()), (9000, ["-", "-", "-", "1300", "-", "-"].map(str::to_owned)));
}

#[test]
fn a_link_keeps_its_size_while_routes_are_held_lower_and_shrinks_after() {
    let host = Host::new();
    host.take(1500, 1380).unwrap();
    assert_eq!((host.mtu(), host.route(DEFAULT).as_str(), host.route(V6).as_str()), (1500, "1380", "1380"));
    assert_eq!(host.route(SMALL), "1300");
    host.take(1380, 1380).unwrap();
    assert_eq!((host.mtu(), host.routes()), (1380, ["-", "-", "-", "1300", "-", "-"].map(str::to_owned)));
}

#[test]
fn routes_of_tunnels_are_not_held_for_what_goes_through_them_has_a_pods_size() {
    let host = Host::new();
    let to: IpNet = "198.18.0.0/15".parse().unwrap();
    host.add(Route::new(to, vec![Hop::on(host.index)]).table(TUNNEL_ROUTE_TABLE));
    host.take(1500, 1380).unwrap();
    let routes = host.kernel.routes().observe().unwrap();
    let route = routes.into_iter().find(|route| route.to == to).unwrap();
    assert_eq!((host.route(DEFAULT).as_str(), route.mtu), ("1380", None));
}

#[test]
fn a_run_that_was_cut_off_while_routes_were_locked_is_finished_by_the_next() {
    let host = Host::new();
    host.take(1500, 9000).unwrap();
    for to in [V6, DEFAULT] {
        let to: IpNet = to.parse().unwrap();
        let routes = host.kernel.routes().observe().unwrap();
        let route = routes.into_iter().find(|route| route.to == to).unwrap();
        let locked = Route { mtu: Some(RouteMtu { bytes: 1500, locked: true }), ..route };
        replace(&host.kernel, &locked).unwrap();
    }
    assert_eq!(host.route(V6), "1500!");
    host.take(1500, 9000).unwrap();
    assert_eq!((host.route(V6), host.route(DEFAULT)), ("1500".to_owned(), "1500".to_owned()));
}

#[test]
fn a_size_the_driver_does_not_take_is_refused_before_anything_changes() {
    let host = Host::new();
    let before = host.routes();
    let refused = host.take(1500, 65536).unwrap_err().to_string();
    assert_eq!(refused, "link eth0 takes an MTU of at most 65535, and 65536 is asked");
    assert_eq!((host.mtu(), host.routes()), (1500, before));
}

#[tokio::test]
async fn routes_that_appear_during_a_change_are_held_when_the_kernel_announces_them() {
    let host = Host::new();
    host.take(1500, 9000).unwrap();
    let wanted = Envelope::spanning(size(1500), size(9000));
    let keeping =
        tokio::spawn(keep(Arc::clone(&host.kernel), vec![name("eth0")], wanted, host.run.path().into()));
    let (v4, v6): (std::net::IpAddr, std::net::IpAddr) =
        ("172.30.255.254".parse().unwrap(), "fd00:172:30::fffe".parse().unwrap());
    let until = async |to: &str, shall: &str| {
        wait::until(&format!("the route to {to} has {shall}"), async || {
            let has = host.route(to);
            if has == shall { Ok(()) } else { Err(has) }
        })
        .await;
    };
    host.add(Route::new("10.7.0.0/16".parse().unwrap(), vec![Hop::via(host.index, v4)]));
    until("10.7.0.0/16", "1500").await;
    host.add(Route::new("2001:db8:7::/48".parse().unwrap(), vec![Hop::via(host.index, v6)]));
    until("2001:db8:7::/48", "1500").await;
    host.add(Route::new("10.6.0.0/16".parse().unwrap(), vec![Hop::via(host.index, v4)]).mtu(4000));
    until("10.6.0.0/16", "1500").await;
    host.add(Route::new("10.5.0.0/16".parse().unwrap(), vec![Hop::via(host.index, v4)]).mtu(1200));
    until("10.5.0.0/16", "1200").await;
    keeping.abort();
}

#[tokio::test]
async fn a_link_that_somebody_gives_another_size_during_a_change_gets_its_own_back() {
    let host = Host::new();
    host.take(1500, 9000).unwrap();
    let wanted = Envelope::spanning(size(1500), size(9000));
    let keeping =
        tokio::spawn(keep(Arc::clone(&host.kernel), vec![name("eth0")], wanted, host.run.path().into()));
    for other in [8000, 9500, 1400] {
        set_link(&host.kernel, "eth0", size(other)).unwrap();
        // The kernel forgets what advertised routes may send when an interface's size is set.
        let held = (9000, 1500, ["1500", "1500", "1500", "1300", "1500", "1500"].map(str::to_owned));
        wait::until(&format!("everything is as it was before {other}"), async || {
            let has = (host.mtu(), host.advertised(), host.routes());
            if has == held { Ok(()) } else { Err(format!("{has:?}")) }
        })
        .await;
    }
    keeping.abort();
}
