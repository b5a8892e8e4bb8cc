use netferry_api::annotation::Annotation as _;
use netferry_core::size::Mtu;
use netferry_kernel::Mark;
use netferry_kernel::route::Hop;

use super::*;
use crate::fixtures::{self, name};

/// A card that takes up to 9216 bytes, and has `mtu`.
fn link(index: u32, called: &str, mtu: u32) -> Link {
    Link { mtu, min_mtu: 68, max_mtu: 9216, ..fixtures::link(index, called) }
}

#[test]
fn what_is_observed_says_what_every_managed_link_and_route_has() {
    let size = |bytes| Mtu::new(bytes).unwrap();
    let links = [
        link(2, "eth0", 9000),
        link(3, "br-ex", 9000),
        link(4, names::MANAGEMENT_LINK, 8900),
        link(5, "eth1", 1500),
    ];
    let route = |to: &str, link, mtu: Option<u32>| {
        let route = Route::new(to.parse().unwrap(), vec![Hop::on(link)]);
        mtu.map_or(route.clone(), |mtu| route.mtu(mtu))
    };
    let routes = [
        route("0.0.0.0/0", 3, Some(1500)),
        route("::/0", 3, None),
        route("10.0.0.0/8", 3, Some(1300)),
        route("10.0.0.0/8", 3, Some(1400)).metric(50),
        Route {
            protocol: Mark::default().protocol,
            hops: vec![Hop::via(4, "10.244.1.1".parse().unwrap())],
            ..route("10.244.0.0/16", 4, Some(1400))
        },
        route("192.0.2.0/24", 5, None),
    ];
    let running = Booted {
        epoch: 4,
        network: None,
        host: Envelope::spanning(size(1500), size(9000)),
        own: size(9000),
        original: size(1500),
    };
    let advertised = BTreeMap::from([(name("br-ex"), 1500)]);
    let (uplink, port) = (name("br-ex"), name("eth0"));
    let sight =
        Sight { links: &links, routes: &routes, uplink: &uplink, port: Some(&port), advertised: &advertised };
    let observed = look(&sight, &running).unwrap();
    assert_eq!(observed.epoch(), Some(4));
    let interfaces: Vec<String> =
        observed.interfaces().iter().map(|i| format!("{} {:?} {}", i.name, i.role, i.mtu)).collect();
    let management = format!("{} Management 8900", names::MANAGEMENT_LINK);
    assert_eq!(interfaces, ["br-ex Uplink 9000", "eth0 Parent 9000", management.as_str()]);
    let routes: Vec<String> =
        observed.routes().iter().map(|r| format!("{} {} {:?}", r.to, r.interface, r.mtu)).collect();
    assert_eq!(
        routes,
        [
            "0.0.0.0/0 br-ex Some(1500)".to_owned(),
            "10.0.0.0/8 br-ex Some(1400)".to_owned(),
            format!("10.244.0.0/16 {} Some(1400)", names::MANAGEMENT_LINK),
            "::/0 br-ex Some(1500)".to_owned(),
        ]
    );
    let annotations = BTreeMap::from([observed.entry()]);
    let read = netferry_translate::mtu::observed(Some(&annotations)).unwrap().unwrap();
    assert_eq!((read.epoch, read.host), (4, running.host), "the operator reads what this boot runs at");
    assert_eq!(read.network, Some(Envelope::spanning(size(1400), size(8900))));
    assert_eq!(
        features(&observed),
        "netferry-mtu.pods=8900\nnetferry-mtu.pods-routable=1400\nnetferry-mtu.uplink=9000\n\
         netferry-mtu.uplink-max=9216\nnetferry-mtu.uplink-min=68\nnetferry-mtu.uplink-routable=1500\n"
    );
}

#[test]
fn node_feature_discovery_finds_its_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("etc")).unwrap();
    let disk = Disk::open(dir.path()).unwrap();
    for text in ["a=1\n", "a=2\n"] {
        write_features(&disk, text).unwrap();
        let file = dir.path().join(&FEATURES[1..]);
        assert_eq!(std::fs::read_to_string(file).unwrap(), text);
    }
}

#[test]
fn a_change_that_was_made_to_another_link_is_not_observed_on_this_one() {
    let size = |bytes| Mtu::new(bytes).unwrap();
    let settled = |own| Booted {
        epoch: 4,
        network: None,
        host: Envelope::settled(size(own)),
        own: size(own),
        original: size(1500),
    };
    let under_way = Booted { host: Envelope::spanning(size(1500), size(9000)), ..settled(9000) };
    let (eth0, eth1) = (name("eth0"), name("eth1"));
    for (sized, link, running, is) in [
        (&eth0, &eth0, under_way, false),
        (&eth0, &eth1, under_way, true),
        (&eth0, &eth1, settled(9000), true),
        // Nobody asks anything of the host's own links.
        (&eth0, &eth1, settled(1500), false),
    ] {
        assert_eq!(is_astray(sized, link, &running), is, "{sized} {link} {running:?}");
    }
}
