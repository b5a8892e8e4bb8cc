//! Settings, offloads, announcements, tracked connections.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::Duration;

use netferry_kernel::announce::Announcement;
use netferry_kernel::conntrack::Filter;
use netferry_kernel::nft::{Chain, HookKind, HookPoint, NatTo, Rule, Source, Table, TableFamily};
use netferry_kernel::offload::{Offload, Switches};
use netferry_kernel::packets::PacketSockets;
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Family, IfName, Kernel, Mac, Objects, Then, Tun, TunMode};
use netferry_testkit::wait::until_blocking;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, setsockopt, socket, sockopt};

use crate::world::{Pair, ip, json, kernel, mark, name, net, pair, run};

#[test]
fn settings_are_those_of_the_namespace() {
    let (one, two) = (kernel(), kernel());
    // New namespaces have what the machine's own has, which is not ours to know.
    for namespace in [&one, &two] {
        let off = [Key::ip_forward(), Key::forwarding(Family::V6, &Of::All)].map(|key| (key, "0".to_owned()));
        namespace.sysctls().converge(&BTreeMap::from(off), &mark()).unwrap();
    }
    let lo = Of::Link(name("lo"));
    let want = BTreeMap::from([
        (Key::ip_forward(), "1".to_owned()),
        (Key::rp_filter(&lo), "2".to_owned()),
        (Key::forwarding(Family::V6, &Of::All), "1".to_owned()),
        (Key::keep_addr_on_down(&Of::Default), "1".to_owned()),
    ]);
    let written = one.sysctls().converge(&want, &mark()).unwrap();
    assert_eq!(written, want);
    assert!(one.sysctls().converge(&want, &mark()).unwrap().is_empty());
    assert_eq!(run(&one, "cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
    assert_eq!(run(&one, "cat /proc/sys/net/ipv6/conf/all/forwarding").trim(), "1");
    assert_eq!(run(&two, "cat /proc/sys/net/ipv4/ip_forward").trim(), "0");
    let all = one.sysctls().observe().unwrap();
    assert_eq!(all.get(&Key::rp_filter(&lo)).map(String::as_str), Some("2"));

    let gone = BTreeMap::from([(Key::rp_filter(&Of::Link(name("nosuch"))), "1".to_owned())]);
    assert_eq!(one.sysctls().converge(&gone, &mark()).unwrap_err().then(), Then::Replan);
    let nonsense = BTreeMap::from([(Key::ip_forward(), "yes please".to_owned())]);
    let error = one.sysctls().converge(&nonsense, &mark()).unwrap_err();
    assert!(error.to_string().contains("sysctl net/ipv4/ip_forward to yes please"), "{error}");
}

#[test]
fn offloads_of_a_pair_are_turned_off_and_on() {
    let pair = pair();
    let kernel = &pair.here;
    let want = |on| Switches::from([(name("here"), Offload::ALL.iter().map(|o| (*o, on)).collect())]);
    let features = kernel.offloads().of(&name("here")).unwrap();
    assert!(features.is_on(Offload::TxChecksum));
    kernel.offloads().converge(&want(false), &mark()).unwrap();
    let features = kernel.offloads().of(&name("here")).unwrap();
    for offload in Offload::ALL {
        let fixed = !features.switchable.iter().any(|f| offload.covers(f));
        assert!(fixed || !features.is_on(offload), "{offload:?} of {features:?}");
    }
    let text = run(kernel, "ethtool -k here");
    for line in [
        "tx-checksumming: off",
        "scatter-gather: off",
        "tcp-segmentation-offload: off",
        "generic-segmentation-offload: off",
        "generic-receive-offload: off",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(kernel.offloads().converge(&want(false), &mark()).unwrap().is_empty());
    kernel.offloads().converge(&want(true), &mark()).unwrap();
    assert!(run(kernel, "ethtool -k here").contains("tcp-segmentation-offload: on"));
    assert!(kernel.offloads().observe().unwrap().contains_key(&name("here")));
    let missing = Switches::from([(name("nosuch"), BTreeMap::from([(Offload::Gro, false)]))]);
    assert_eq!(kernel.offloads().converge(&missing, &mark()).unwrap_err().then(), Then::Replan);
}

#[test]
fn an_announcement_moves_an_address_in_the_neighbours_of_others() {
    let Pair { here, there, index, index_there: _ } = pair();
    run(&here, "ip addr add 10.9.0.1/24 dev here");
    run(&here, "ip addr add 2001:db8::1/64 dev here nodad");
    run(&there, "ip addr add 10.9.0.2/24 dev there");
    run(&there, "ip addr add 2001:db8::2/64 dev there nodad");
    run(&there, "ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:01 nud stale dev there");
    run(&there, "ip neigh add 2001:db8::9 lladdr 02:00:00:00:00:01 nud stale dev there");
    let mac = Mac([2, 0, 0, 0, 0, 0xaa]);
    let of = |address: &str| Announcement { link: index, ip: ip(address), mac };
    here.announce(&[of("10.9.0.9"), of("2001:db8::9")]).unwrap();
    let learned = |address: &str| {
        let entry = json(&there, &format!("ip -j neigh show {address} dev there"));
        entry[0]["lladdr"].as_str().unwrap_or_default().to_owned()
    };
    // A pair delivers inside the sender's call, but on a queue of its own.
    for address in ["10.9.0.9", "2001:db8::9"] {
        until_blocking(&format!("{address} is at {mac}"), || {
            let at = learned(address);
            if at == mac.to_string() { Ok(()) } else { Err(at) }
        });
    }
    let error = here.announce(&[Announcement { link: 9999, ..of("10.9.0.9") }]).unwrap_err();
    assert!(error.to_string().contains("announcement of 10.9.0.9"), "{error}");
    assert_eq!(error.then(), Then::Replan);
}

#[test]
fn a_flow_leaves_a_removed_backend() {
    let Pair { here, there, index, index_there } = pair();
    let up = |kernel: &Kernel, link: u32, addresses: &[&str]| {
        let want: Vec<_> =
            addresses.iter().map(|a| netferry_kernel::address::Address::new(link, net(a))).collect();
        kernel.addresses().converge(&want, &mark()).unwrap();
    };
    up(&here, index, &["10.9.0.1/24"]);
    up(&there, index_there, &["10.9.0.2/24", "10.9.0.3/24"]);
    run(&here, "ip route add 10.96.0.1 dev here");
    let to = |backend: &str| {
        let translate = Rule::new()
            .to(net("10.96.0.1/32"))
            .destination_port(17, 53)
            .dnat(Family::V4, NatTo::Address(Source::address(ip(backend))));
        Table::new(TableFamily::Inet, "netferry")
            .chain("output", Chain::at(HookKind::Nat, HookPoint::Output, -100, vec![translate]))
    };
    let listen = |at: &str| {
        let at = at.to_owned();
        let socket = there.namespace().run(move || UdpSocket::bind(at)).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    };
    let (old, new) = (listen("10.9.0.2:53"), listen("10.9.0.3:53"));
    let client = here.namespace().run(|| UdpSocket::bind("10.9.0.1:4000")).unwrap().unwrap();
    let mut buffer = [0; 8];
    here.nft().converge(&[to("10.9.0.2")], &mark()).unwrap();
    client.send_to(b"1", "10.96.0.1:53").unwrap();
    old.recv_from(&mut buffer).unwrap();
    here.nft().converge(&[to("10.9.0.3")], &mark()).unwrap();
    client.send_to(b"2", "10.96.0.1:53").unwrap();
    old.recv_from(&mut buffer).expect("the flow still has its old backend");

    let filter = |backend: &str| Filter {
        protocol: Some(17),
        backend: Some(net(backend)),
        destination: Some(net("10.96.0.1/32")),
        destination_port: Some(53),
        translated_only: true,
        ..Filter::default()
    };
    assert!(here.conntrack().forget(Family::V4, &[filter("10.9.0.9/32")]).unwrap().is_empty());
    let forgotten = here.conntrack().forget(Family::V4, &[filter("10.9.0.2/32")]).unwrap();
    assert_eq!(forgotten.len(), 1);
    assert_eq!(forgotten[0].original.destination, ip("10.96.0.1"));
    assert_eq!(forgotten[0].reply.source_port, Some(53));
    client.send_to(b"3", "10.96.0.1:53").unwrap();
    new.recv_from(&mut buffer).expect("it now has the new one");
    assert!(here.conntrack().flows(Family::V6).unwrap().is_empty());
}

#[test]
fn frames_go_through_a_tap_both_ways() {
    use std::io::{Read, Write};
    let kernel = kernel();
    let tap: IfName = name("tap0");
    let device = Tun::open(kernel.namespace(), &tap, TunMode::Tap).unwrap();
    run(&kernel, "ip link set tap0 up");
    let index = kernel.links().named(&tap).unwrap().unwrap().index;
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    kernel.announce(&[Announcement { link: index, ip: ip("10.9.0.9"), mac }]).unwrap();
    let frames = netferry_kernel::announce::frames(ip("10.9.0.9"), mac);
    let mut buffer = [0; 2048];
    let read = (0..20).any(|_| {
        let length = device.file().read(&mut buffer).unwrap();
        buffer[..length] == frames[0][..]
    });
    assert!(read, "the announcement came out of the tap");
    device.file().write_all(&frames[0]).unwrap();
    let error = Tun::open(kernel.namespace(), &tap, TunMode::Tun).unwrap_err();
    assert_eq!(error.then(), Then::Bug, "it is a tap: {error}");
    drop(device);
    // A test beside this one may be starting a process, which holds every descriptor until it runs its program.
    until_blocking("it goes with its descriptor", || kernel.links().named(&tap).unwrap().is_none());
}

#[test]
fn sockets_that_packets_wait_in_are_given_room_once_and_those_that_have_more_are_left() {
    let open = |room: usize| {
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&socket, sockopt::RcvBufForce, &room).unwrap();
        socket
    };
    let holds = |socket: &OwnedFd| getsockopt(socket, sockopt::RcvBuf).unwrap() / 2;
    let (usual, large) = (open(100 << 10), open(8 << 20));
    let mut sockets = PacketSockets::of(nix::unistd::getpid().as_raw());
    // Other tests of this process may have some of their own.
    assert!(sockets.make_room(2 << 20).unwrap() >= 1);
    assert_eq!((holds(&usual), holds(&large)), (2 << 20, 8 << 20));
    let later = open(100 << 10);
    sockets.make_room(3 << 20).unwrap();
    assert_eq!((holds(&usual), holds(&later)), (2 << 20, 3 << 20));
    assert!(PacketSockets::of(i32::MAX).make_room(1).is_err(), "there is no such process");
}
