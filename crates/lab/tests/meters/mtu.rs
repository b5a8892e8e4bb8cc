//! Sizes: what a path takes, what it says it takes, and what it takes without saying.

use netferry_lab::meter::{Limits, Meter, Sizes, Traffic};

use crate::world::{PATIENCE, flow, only, pair, sent_at_least, through_router, until};

#[test]
fn packets_follow_the_mtu_of_the_route_down_and_up_and_none_is_lost() {
    for (to, route) in [("10.0.1.2:4242", "10.0.1.0/24"), ("[fd00:1::2]:4242", "fd00:1::/64 metric 256")] {
        let (a, b) = pair();
        let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, to)]).unwrap();
        for mtu in [1500, 1300, 1450, 1290, 1500] {
            for host in [&a, &b] {
                host.sh(&format!("ip route change {route} dev eth0 mtu {mtu}"));
            }
            let (sent, _) = after(&meter);
            until(&meter, "some of this size", |report| report.flows[0].forward.sent >= sent + 20);
        }
        let report = meter.finish(PATIENCE).unwrap();
        assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
    }
}

fn after(meter: &netferry_lab::meter::Running) -> (u64, u64) {
    let report = meter.snapshot().unwrap();
    (only(&report).forward.sent, only(&report).forward.received)
}

#[test]
fn each_side_sends_what_its_own_route_allows() {
    let (a, b) = pair();
    b.sh("ip route change 10.0.1.0/24 dev eth0 mtu 1300; ip route change fd00:1::/64 metric 256 dev eth0 mtu 1320");
    let flows = vec![
        flow("4", Traffic::UDP, &a, &b, "10.0.1.2:4242"),
        flow("6", Traffic::UDP, &a, &b, "[fd00:1::2]:4242"),
    ];
    let meter = Meter::start(flows).unwrap();
    until(&meter, "twenty of each", sent_at_least(20));
    let report = meter.finish(PATIENCE).unwrap();
    for (name, back) in [("4", 1300), ("6", 1320)] {
        let flow = report.flow(name).unwrap();
        assert_eq!(flow.forward.largest_passed, 1500);
        assert_eq!(flow.backward.as_ref().unwrap().largest_passed, back);
    }
    assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
}

#[test]
fn a_path_that_says_it_became_smaller_costs_the_packets_it_says_it_about() {
    let (a, router, b) = through_router();
    let complaints = || -> u64 {
        let read = "awk '/^Icmp:/ { if (!n++) { for (i = 1; i <= NF; i++) if ($i == \"OutDestUnreachs\") c = i } else print $c }' /proc/net/snmp";
        router.sh(read).trim().parse().unwrap()
    };
    let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "10.0.2.1:4242")]).unwrap();
    until(&meter, "twenty arrived", |report| report.flows[0].forward.received >= 20);
    let before = complaints();
    router.sh("ip route change 10.0.2.0/24 dev right mtu 1400");
    let (_, received) = after(&meter);
    until(&meter, "arrivals again", |report| report.flows[0].forward.received >= received + 20);
    let report = meter.finish(PATIENCE).unwrap();
    let (forward, backward) = (&only(&report).forward, only(&report).backward.as_ref().unwrap());
    assert_eq!((forward.lost, backward.lost), (complaints() - before, 0), "{report}");
    assert!(forward.lost >= 1);
    assert!(only(&report).errors.contains_key("Message too long"), "{report}");
}

#[test]
fn a_black_hole_is_found_by_what_is_too_large_for_it() {
    let (a, router, b) = through_router();
    router.sh("ip link set right mtu 1400");
    // A path that does not say why.
    router.nft(
        "table ip mute {\nchain c {\ntype filter hook output priority 0;\nip protocol icmp drop\n}\n}\n",
    );
    let flows = vec![
        flow("full", Traffic::UDP, &a, &b, "10.0.2.1:4242"),
        flow("mixed", Traffic::Udp(Sizes::mixed()), &a, &b, "10.0.2.1:4242"),
        flow("echo", Traffic::Icmp(Sizes::mixed()), &a, &b, "10.0.2.1:0"),
    ];
    let meter = Meter::start(flows).unwrap();
    until(&meter, "forty of each", sent_at_least(40));
    let report = meter.finish(PATIENCE).unwrap();
    let full = &report.flow("full").unwrap().forward;
    assert_eq!((full.received, full.lost, full.largest_sent), (0, full.sent, 1500), "{report}");
    for name in ["mixed", "echo"] {
        let mixed = &report.flow(name).unwrap().forward;
        assert_eq!((mixed.largest_sent, mixed.largest_passed), (1500, 1280), "{report}");
        assert_eq!(mixed.lost, mixed.sent.div_ceil(4), "every fourth is of full size: {report}");
    }
    let problems = report.verdict(Limits::NONE_LOST).problems.join("\n");
    assert!(problems.contains("packets of 1500 bytes were sent, and none above 1280 came"), "{problems}");
}
