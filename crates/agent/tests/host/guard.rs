//! Guards on links of a userspace switch.

use std::collections::BTreeSet;

use netferry_agent::overlay::host::guard;
use netferry_kernel::offload::Offload;

use crate::world::{PATIENT, Wire, answers, ip, name, run};

fn wired() -> Wire {
    let wire = Wire::new();
    run(&wire.host, "ip addr add 192.0.2.1/24 dev eth0");
    run(&wire.peer, "ip addr add 192.0.2.2/24 dev wire");
    wire
}

/// Of so many questions: many where one must be answered, few where none may be.
fn host_answers(wire: &Wire, tries: usize) -> bool {
    answers(&wire.peer, &wire.host, ip("192.0.2.1"), tries)
}

#[test]
fn the_kernel_hears_nothing_from_a_guarded_link_until_the_guard_is_taken_off() {
    let wire = wired();
    let Wire { host, peer } = &wire;
    assert!(host_answers(&wire, PATIENT));
    guard::add(host, &name("eth0")).unwrap();
    guard::add(host, &name("eth0")).unwrap();
    run(peer, "ip neigh flush dev wire");
    assert!(!host_answers(&wire, 10), "the kernel still answers");
    let features = host.offloads().of(&name("eth0")).unwrap();
    assert!(!Offload::ALL.iter().any(|offload| features.is_on(*offload)), "{:?}", features.active);
    guard::remove(host, &name("eth0")).unwrap();
    guard::remove(host, &name("eth0")).unwrap();
    assert!(host_answers(&wire, PATIENT));
}

#[test]
fn a_guard_that_somebody_removed_comes_back_and_one_of_a_link_that_is_gone_goes() {
    let wire = wired();
    let Wire { host, peer } = &wire;
    run(host, "ip link add pod-1 type veth peer name pod-1p");
    run(host, "ip link add pod-2 type veth peer name pod-2p");
    let ports = BTreeSet::from([name("eth0"), name("pod-1"), name("missing")]);
    for link in ["eth0", "pod-1", "pod-2"] {
        guard::add(host, &name(link)).unwrap();
    }
    assert!(!guard::repair(host, &ports).unwrap(), "nothing was wrong");
    run(host, "nft delete chain netdev netferry-guard link-eth0; ip link del pod-1");
    assert!(guard::repair(host, &ports).unwrap());
    run(peer, "ip neigh flush dev wire");
    assert!(!host_answers(&wire, 10), "the kernel answers again");
    let table = run(host, "nft list table netdev netferry-guard");
    assert!(!table.contains("pod-1"), "{table}");
    // not yet a port, but on its way
    assert!(table.contains("link-pod-2"), "{table}");
    run(host, "nft delete table netdev netferry-guard");
    assert!(guard::repair(host, &ports).unwrap());
    run(host, "nft list chain netdev netferry-guard link-eth0");
}

#[test]
fn a_link_that_is_not_there_cannot_be_guarded() {
    let Wire { host, .. } = wired();
    let error = guard::add(&host, &name("nowhere")).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}
