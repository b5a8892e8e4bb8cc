//! Conversations by datagrams that lead where they should not.

use std::net::UdpSocket;

use netferry_agent::overlay::host::flows::set_right;
use netferry_agent::overlay::host::objects::Objects;
use netferry_core::net::Family;
use netferry_core::overlay::service::{Entrance, Forward};
use netferry_core::port::{Port, Protocol};
use netferry_kernel::Family as IpFamily;

use crate::keep::plan_of;
use crate::world::{Wire, run};

#[test]
fn conversations_that_ovn_tracks_beside_the_hosts_are_none_of_its_business() {
    let Wire { host, peer: _peer } = Wire::new();
    run(&host, "ip addr add 172.30.0.2/16 dev eth0");
    // From one port the kernel tracks in the host's zone, from the other in one of OVN's.
    run(
        &host,
        "nft 'table ip ovn { chain out { type filter hook output priority raw; udp sport 40007 ct zone set 7; }; }'",
    );
    for port in [40000, 40007] {
        let send = || UdpSocket::bind(("172.30.0.2", port))?.send_to(b"hello", "172.30.0.2:30001");
        host.namespace().run(send).unwrap().unwrap();
    }
    let mut zones: Vec<u16> =
        host.conntrack().flows(IpFamily::V4).unwrap().iter().map(|flow| flow.zone).collect();
    zones.sort_unstable();
    assert_eq!(zones, [0, 7]);
    let mut forward = Forward::default();
    let (family, protocol, port) = (Family::V4, Protocol::Udp, Port::new(30001).unwrap());
    let entrance = Entrance { family, address: None, protocol, port };
    forward.any.insert(entrance, "10.96.0.10:53".parse().unwrap());
    let objects = Objects::of(&plan_of(forward)).unwrap();
    assert_eq!(set_right(&host, objects.datagrams()).unwrap(), 1, "it began before the Service was there");
    let left: Vec<u16> = host.conntrack().flows(IpFamily::V4).unwrap().iter().map(|flow| flow.zone).collect();
    assert_eq!(left, [7]);
}
