//! Places that go away and come back, as nodes that reboot do.

use netferry_kernel::Namespace;
use netferry_lab::meter::{Limits, Meter, Place, Traffic};

use crate::world::{Host, PATIENCE, flow, join, until};

#[test]
fn a_place_that_is_left_is_left_whole_and_its_flows_go_on_when_it_is_back() {
    let (a, b, c) = (Host::new("a"), Host::new("b"), Host::new("c"));
    join((&a, "toward-b"), (&b, "eth0"), 1);
    join((&a, "toward-c"), (&c, "eth0"), 2);
    let flows = vec![
        flow("a to b udp", Traffic::UDP, &a, &b, "10.0.1.2:4242"),
        flow("a to b tcp", Traffic::TCP, &a, &b, "10.0.1.2:4242"),
        flow("b to a", Traffic::UDP, &b, &a, "10.0.1.1:4242"),
        flow("b to a echo", Traffic::ICMP, &b, &a, "10.0.1.1:0"),
        flow("a to c", Traffic::UDP, &a, &c, "10.0.2.2:4242"),
    ];
    let meter = Meter::start(flows).unwrap();
    let received = |at: usize, least: u64| {
        move |report: &netferry_lab::meter::Report| report.flows[at].forward.received >= least
    };
    for at in 0..5 {
        until(&meter, "some of each", received(at, 20));
    }
    meter.leave("b", PATIENCE).unwrap();
    let left = meter.snapshot().unwrap();
    assert_eq!(
        left.flows.iter().map(|flow| flow.paused).collect::<Vec<_>>(),
        [true, true, true, true, false]
    );
    assert_eq!(b.sh("ss -Hanutw | wc -l").trim(), "0", "a socket would keep the namespace alive");
    until(&meter, "the others to go on", received(4, left.flows[4].forward.received + 20));

    // The next life of the same place.
    a.sh("ip link del toward-b");
    drop(b);
    let b = Host { place: Place::new("b", Namespace::anonymous().unwrap()) };
    join((&a, "toward-b"), (&b, "eth0"), 1);
    meter.come_back(b.place.clone()).unwrap();
    for at in 0..4 {
        until(&meter, "all to go on", received(at, left.flows[at].forward.received + 20));
    }
    let report = meter.finish(PATIENCE).unwrap();
    let verdict = report.verdict(Limits::NONE_LOST);
    assert!(verdict.passed, "{verdict:?}\n{report}");
    assert_eq!(report.flows[1].stream.as_ref().unwrap().broken, 0);
}
