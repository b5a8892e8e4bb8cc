use std::collections::BTreeSet;

use netferry_kernel::link::{Bridge, Kind, MacvlanMode, Make, VethPeer, Vxlan, Want};
use netferry_kernel::{Error, Mac, Objects, Then, TunMode};
use nix::errno::Errno;

use crate::world::{ip, json, kernel, mark, name, net, pair, run};

fn veth(a: &str, b: &str) -> Want {
    Want::make(name(a), Make::Veth(VethPeer::named(name(b))))
}

#[test]
fn every_kind_of_link_is_made_read_back_and_removed() {
    let kernel = kernel();
    let vxlan = Vxlan { id: 42, port: 4790, local: Some(ip("10.0.0.1")), learning: false };
    let bridge = Bridge { stp: false, multicast_snooping: false, forward_delay: 1500 };
    let wants = [
        veth("v0", "v1").up().mtu(1400).mac(Mac([2, 0, 0, 0, 0, 9])),
        Want::make(name("br"), Make::Bridge(bridge)).up(),
        Want::make(name("vx"), Make::Vxlan(vxlan)),
        Want::make(name("zmac"), Make::Macvlan { parent: name("v0"), mode: MacvlanMode::Bridge }),
        Want::make(name("tap0"), Make::Tun(TunMode::Tap)),
        Want::make(name("tun0"), Make::Tun(TunMode::Tun)).mtu(1300),
    ];
    let links = kernel.links();
    let changes = links.converge(&wants, &mark()).unwrap();
    assert_eq!(changes.create.len(), wants.len());
    let kind = |of: &str| links.named(&name(of)).unwrap().unwrap().kind;
    assert_eq!(kind("v0"), Kind::Veth);
    assert_eq!(kind("br"), Kind::Bridge(bridge));
    assert_eq!(kind("vx"), Kind::Vxlan(vxlan));
    assert_eq!(kind("zmac"), Kind::Macvlan(MacvlanMode::Bridge));
    assert_eq!(kind("tap0"), Kind::Tun(TunMode::Tap));
    assert_eq!(kind("tun0"), Kind::Tun(TunMode::Tun));

    let seen = json(&kernel, "ip -j -d link show v0");
    assert_eq!(seen[0]["mtu"], 1400);
    assert_eq!(seen[0]["address"], "02:00:00:00:00:09");
    assert_eq!(seen[0]["ifalias"], "netferry");
    assert_eq!(seen[0]["linkinfo"]["info_kind"], "veth");
    assert!(seen[0]["flags"].as_array().unwrap().contains(&"UP".into()));
    let seen = json(&kernel, "ip -j -d link show vx");
    assert_eq!(seen[0]["linkinfo"]["info_data"]["id"], 42);
    assert_eq!(seen[0]["linkinfo"]["info_data"]["port"], 4790);
    assert_eq!(seen[0]["linkinfo"]["info_data"]["local"], "10.0.0.1");
    assert_eq!(json(&kernel, "ip -j -d link show br")[0]["linkinfo"]["info_data"]["forward_delay"], 1500);
    assert_eq!(json(&kernel, "ip -j -d link show tap0")[0]["linkinfo"]["info_data"]["type"], "tap");
    assert_eq!(json(&kernel, "ip -j link show tun0")[0]["mtu"], 1300);

    let again = links.converge(&wants, &mark()).unwrap();
    assert!(again.is_empty(), "{again:?}");
    links.converge(&[], &mark()).unwrap();
    let left: Vec<_> = links.observe().unwrap().into_iter().map(|l| l.name.to_string()).collect();
    assert_eq!(left, ["lo"]);
}

#[test]
fn a_link_is_adjusted_without_being_made_again() {
    let kernel = kernel();
    let links = kernel.links();
    let bridge = || Want::make(name("br"), Make::Bridge(Bridge::default()));
    links.converge(&[veth("v0", "v1"), bridge()], &mark()).unwrap();
    let before = links.named(&name("v0")).unwrap().unwrap();

    let mut want = veth("v0", "v1").up().mtu(9000).port_of(name("br")).note("pod a/b");
    want.group = Some(7);
    want.alt_names = BTreeSet::from(["a-name-longer-than-fifteen-bytes".to_owned()]);
    let changes = links.converge(&[want.clone(), bridge()], &mark()).unwrap();
    assert_eq!((changes.create.len(), changes.remove.len(), changes.set.len()), (0, 0, 1));
    let after = links.named(&name("v0")).unwrap().unwrap();
    assert_eq!(after.index, before.index);
    assert_eq!((after.mtu, after.up, after.group), (9000, true, 7));
    assert_eq!(after.alt_names, want.alt_names);
    assert_eq!(after.min_mtu, 68);
    assert_eq!(after.max_mtu, 65535);
    let seen = json(&kernel, "ip -j link show v0");
    assert_eq!(seen[0]["master"], "br");
    assert_eq!(seen[0]["group"], "7");
    assert_eq!(seen[0]["ifalias"], "netferry: pod a/b");
    assert_eq!(seen[0]["altnames"][0], "a-name-longer-than-fifteen-bytes");
    assert!(links.converge(&[want.clone(), bridge()], &mark()).unwrap().is_empty());

    want.master = Some(None);
    want.up = Some(false);
    links.converge(&[want, bridge()], &mark()).unwrap();
    let after = links.named(&name("v0")).unwrap().unwrap();
    assert_eq!((after.master, after.up), (None, false));
}

#[test]
fn links_of_others_are_adjusted_when_asked_and_never_removed() {
    let kernel = kernel();
    run(&kernel, "ip link add eth0 type veth peer name eth1");
    run(&kernel, "ip link add other type bridge");
    let links = kernel.links();
    let changes = links.converge(&[Want::adjust(name("eth0")).mtu(1300)], &mark()).unwrap();
    assert_eq!((changes.set.len(), changes.remove.len()), (1, 0));
    assert_eq!(json(&kernel, "ip -j link show eth0")[0]["mtu"], 1300);
    let changes = links.converge(&[Want::make(name("other"), Make::Tun(TunMode::Tap))], &mark()).unwrap();
    assert_eq!(changes.conflicts.len(), 1);
    assert!(changes.is_empty());
    assert_eq!(links.observe().unwrap().len(), 4);
    let missing = links.converge(&[Want::adjust(name("nosuch")).up()], &mark()).unwrap();
    assert_eq!(missing.missing, [name("nosuch")]);
}

#[test]
fn a_link_of_ours_of_the_wrong_kind_is_made_again() {
    let kernel = kernel();
    let links = kernel.links();
    let vxlan =
        |id| Want::make(name("vx"), Make::Vxlan(Vxlan { id, port: 4789, local: None, learning: true }));
    links.converge(&[vxlan(1)], &mark()).unwrap();
    let changes = links.converge(&[vxlan(2)], &mark()).unwrap();
    assert_eq!((changes.remove.len(), changes.create.len()), (1, 1));
    assert_eq!(json(&kernel, "ip -j -d link show vx")[0]["linkinfo"]["info_data"]["id"], 2);
}

#[test]
fn refusals_leave_every_link_as_it_was() {
    let kernel = kernel();
    let links = kernel.links();
    links.converge(&[veth("v0", "v1")], &mark()).unwrap();
    let before = links.observe().unwrap();
    // A name that is taken: planned for a world in which it was free.
    let changes = netferry_kernel::link::diff(&[veth("v0", "v9")], &[], &mark());
    let error = links.apply(&changes).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::EEXIST));
    assert_eq!(error.then(), Then::Replan);
    assert!(error.to_string().starts_with("adding link v0"), "{error}");
    // A parent that is not there.
    let orphan = Want::make(name("m"), Make::Macvlan { parent: name("gone"), mode: MacvlanMode::Bridge });
    let error = links.converge(&[veth("v0", "v1"), orphan], &mark()).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENODEV));
    // An MTU the driver does not take.
    let error = links.converge(&[veth("v0", "v1").mtu(10)], &mark()).unwrap_err();
    assert_eq!(error.then(), Then::Bug);
    let Error::Refused { explained, .. } = &error else { panic!("{error:?}") };
    assert_eq!(explained.as_deref(), Some("mtu less than device minimum"));
    assert_eq!(links.observe().unwrap(), before);
}

#[test]
fn a_pair_is_born_across_two_namespaces_and_carries_packets() {
    let pair = pair();
    let address = |index, of: &str| netferry_kernel::address::Address::new(index, net(of));
    pair.here.addresses().converge(&[address(pair.index, "10.9.0.1/24")], &mark()).unwrap();
    pair.there.addresses().converge(&[address(pair.index_there, "10.9.0.2/24")], &mark()).unwrap();
    let socket = pair.there.namespace().run(|| std::net::UdpSocket::bind("10.9.0.2:7")).unwrap().unwrap();
    let sender = pair.here.namespace().run(|| std::net::UdpSocket::bind("10.9.0.1:0")).unwrap().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    sender.send_to(b"hello", "10.9.0.2:7").unwrap();
    let mut buffer = [0; 16];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"hello");
    assert_eq!(from.ip(), ip("10.9.0.1"));
}
