//! Loss, duplicates, disorder and silence, made on purpose and counted by the kernel too.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netferry_kernel::{IfName, Tun, TunMode};
use netferry_lab::meter::{Limits, Meter, Report, Traffic};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use crate::world::{Host, PATIENCE, counted, faults, flow, only, pair, sent_at_least, through_router, until};

#[test]
fn a_clean_path_loses_nothing_in_either_family_by_any_protocol() {
    let (a, b) = pair();
    let flows = vec![
        flow("udp4", Traffic::UDP, &a, &b, "10.0.1.2:4242"),
        flow("udp6", Traffic::UDP, &a, &b, "[fd00:1::2]:4242"),
        flow("tcp4", Traffic::TCP, &a, &b, "10.0.1.2:4242"),
        flow("tcp6", Traffic::TCP, &a, &b, "[fd00:1::2]:4242"),
        flow("icmp4", Traffic::ICMP, &a, &b, "10.0.1.2:0"),
        flow("icmp6", Traffic::ICMP, &a, &b, "[fd00:1::2]:0"),
    ];
    let meter = Meter::start(flows).unwrap();
    until(&meter, "a hundred of each", sent_at_least(100));
    let report = meter.finish(PATIENCE).unwrap();
    let verdict = report.verdict(Limits::NONE_LOST);
    assert!(verdict.passed, "{report}");
    for flow in &report.flows {
        for direction in flow.directions() {
            assert_eq!((direction.received, direction.lost, direction.under_way), (direction.sent, 0, 0));
            if flow.traffic != "tcp" {
                assert_eq!((direction.largest_sent, direction.largest_passed), (1500, 1500), "{}", flow.name);
            }
        }
    }
    let answered = report.flow("udp4").unwrap();
    assert_eq!(answered.backward.as_ref().unwrap().sent, answered.forward.received);
}

#[test]
fn every_packet_dropped_on_the_way_is_counted_once_and_in_its_direction() {
    for to in ["10.0.1.2:4242", "[fd00:1::2]:4242"] {
        let (a, b) = pair();
        faults(&b, "input", "udp dport 4242 numgen inc mod 7 == 3", "drop");
        faults(&a, "input", "udp sport 4242 numgen inc mod 11 == 5", "drop");
        let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, to).at_rate(500)]).unwrap();
        until(&meter, "five hundred sent", sent_at_least(500));
        let report = meter.finish(PATIENCE).unwrap();
        let (forward, backward) = (&only(&report).forward, only(&report).backward.as_ref().unwrap());
        assert_eq!((forward.lost, backward.lost), (counted(&b), counted(&a)), "{report}");
        assert!(forward.lost > 60 && backward.lost > 30, "{report}");
        assert_eq!(backward.sent, forward.received);
        assert_eq!(
            (forward.duplicated, forward.reordered, backward.duplicated, backward.reordered),
            (0, 0, 0, 0)
        );
        let verdict = report.verdict(Limits::NONE_LOST);
        assert_eq!(verdict.problems.len(), 2, "{verdict:?}");
        assert!(verdict.problems[1].contains("lost back"), "{verdict:?}");
        assert!(!report.verdict(Limits { lost: report.totals.lost - 1, gap: None }).passed);
        assert!(report.verdict(Limits { lost: report.totals.lost, gap: None }).passed);
    }
}

#[test]
fn dropping_exactly_ten_packets_makes_ten_lost_and_says_which() {
    let (a, b) = pair();
    // The quota is of bytes of IP, every packet has 1500, and the one that reaches the quota passes.
    faults(&b, "input", "udp dport 4242 quota until 15001 bytes", "drop");
    let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "10.0.1.2:4242")]).unwrap();
    let live = until(&meter, "loss that is old enough", |report| report.totals.lost > 0);
    assert!(live.running);
    until(&meter, "all of the loss", |report| report.totals.lost == 10);
    let report = meter.finish(PATIENCE).unwrap();
    let forward = &only(&report).forward;
    assert_eq!((forward.lost, only(&report).backward.as_ref().unwrap().lost), (10, 0), "{report}");
    assert_eq!(forward.missing, vec![(0, 9)]);
    in_json(&report);
}

/// What programs read: the same numbers, under names that stay.
fn in_json(report: &Report) {
    let printed = serde_json::to_value(report).unwrap();
    let (flow, forward) = (&printed["flows"][0], &report.flows[0].forward);
    assert_eq!((&flow["name"], &flow["traffic"], &flow["family"]), (&json!("f"), &json!("udp"), &json!(4)));
    let numbers = json!({
        "sent": forward.sent, "received": forward.received, "lost": 10, "underWay": 0, "duplicated": 0,
        "reordered": 0, "refused": 0, "bytes": forward.bytes, "longestGapMs": forward.longest_gap_ms,
        "largestSent": 1500, "largestPassed": 1500, "missing": [[0, 9]],
    });
    for (name, number) in numbers.as_object().unwrap() {
        assert_eq!(&flow["forward"][name], number, "{name}: {printed:#}");
    }
    assert_eq!(flow["backward"]["lost"], 0);
    assert_eq!((&printed["totals"]["flows"], &printed["totals"]["lost"]), (&json!(1), &json!(10)));
    assert_eq!((&printed["running"], &printed["overruns"]), (&json!(false), &json!(0)));
    assert_eq!(&serde_json::from_value::<Report>(printed).unwrap(), report, "it is read as it was written");
}

#[test]
fn echo_requests_that_are_dropped_either_way_are_lost() {
    let (a, b) = pair();
    faults(&b, "input", "icmp type echo-request numgen inc mod 5 == 0", "drop");
    faults(&a, "input", "icmp type echo-reply numgen inc mod 5 == 0", "drop");
    let meter = Meter::start(vec![flow("f", Traffic::ICMP, &a, &b, "10.0.1.2:0")]).unwrap();
    until(&meter, "a hundred sent", sent_at_least(100));
    let report = meter.finish(PATIENCE).unwrap();
    assert_eq!(only(&report).forward.lost, counted(&a) + counted(&b), "{report}");
    assert!(only(&report).forward.lost >= 30);
}

#[test]
fn what_the_senders_own_kernel_refuses_is_lost_too() {
    let (a, b) = pair();
    faults(&a, "output", "udp dport 4242", "drop");
    let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "10.0.1.2:4242")]).unwrap();
    until(&meter, "twenty tried", sent_at_least(20));
    let report = meter.finish(PATIENCE).unwrap();
    let forward = &only(&report).forward;
    assert_eq!(
        (forward.lost, forward.refused, forward.received),
        (forward.sent, forward.sent, 0),
        "{report}"
    );
    let problems = report.verdict(Limits { lost: u64::MAX, gap: None }).problems;
    assert!(problems[0].contains("nothing came"), "silence is not tolerated as loss: {problems:?}");
    assert!(only(&report).errors.contains_key("Operation not permitted"), "{:?}", only(&report).errors);
}

#[test]
fn packets_that_come_twice_are_duplicates_and_nothing_else() {
    let (a, router, b) = through_router();
    router.nft(
        "table ip faults {\nchain c {\ntype filter hook prerouting priority 0;
         udp dport 4242 numgen inc mod 10 == 4 counter dup to 10.0.2.1 device \"right\"\n}\n}\n",
    );
    let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "10.0.2.1:4242")]).unwrap();
    until(&meter, "two hundred sent", sent_at_least(200));
    let report = meter.finish(PATIENCE).unwrap();
    let made: u64 = counted(&router);
    let flow = only(&report);
    assert!(made >= 20);
    assert_eq!(
        (flow.forward.duplicated, flow.forward.lost, flow.forward.reordered),
        (made, 0, 0),
        "{report}"
    );
    assert_eq!(flow.backward.as_ref().unwrap().sent, flow.forward.received, "a duplicate is not answered");
    assert!(!report.verdict(Limits::NONE_LOST).passed);
}

#[test]
fn packets_that_overtake_each_other_are_out_of_order_and_not_lost() {
    let (a, b) = (Host::new("a"), Host::new("b"));
    let relay = Relay::between(&a, &b);
    let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "10.0.9.2:4242")]).unwrap();
    until(&meter, "ten swaps", |_| relay.swaps.load(Ordering::SeqCst) >= 10);
    relay.straight.store(true, Ordering::SeqCst);
    until(&meter, "the last held packet on its way", |_| relay.held.load(Ordering::SeqCst) == 0);
    let report = meter.finish(PATIENCE).unwrap();
    let forward = &only(&report).forward;
    assert_eq!(
        (forward.reordered, forward.lost, forward.duplicated),
        (relay.swaps.load(Ordering::SeqCst), 0, 0),
        "{report}"
    );
    assert!(report.verdict(Limits::NONE_LOST).passed, "disorder alone is no failure");
}

#[test]
fn a_silence_is_one_gap_that_begins_when_it_began() {
    let (a, b) = pair();
    let meter = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "10.0.1.2:4242")]).unwrap();
    let before = until(&meter, "twenty arrived", |report| only(report).forward.received >= 20);
    until(&meter, "one more", |report| only(report).forward.received > only(&before).forward.received);
    faults(&b, "input", "udp dport 4242", "drop");
    let during = until(&meter, "fifty dropped, and the gap seen while it lasts", |report| {
        counted(&b) >= 50 && only(report).forward.longest_gap_ms >= 480.0
    });
    // The rule that counts drops nothing any more.
    b.sh("nft insert rule inet faults c accept");
    let restored = until(&meter, "answers again", |report| {
        only(report).forward.received >= only(&during).forward.received + 5
    });
    let report = meter.finish(PATIENCE).unwrap();
    let forward = &only(&report).forward;
    assert_eq!(forward.lost, counted(&b), "{report}");
    let middle = during.elapsed_ms as f64;
    let around =
        forward.gaps.iter().filter(|gap| (gap.began_ms..gap.began_ms + gap.length_ms).contains(&middle));
    let around: Vec<_> = around.collect();
    let [silence] = around[..] else { panic!("{:?} at {middle}", forward.gaps) };
    assert!(
        silence.began_ms >= before.elapsed_ms as f64
            && silence.began_ms + silence.length_ms <= restored.elapsed_ms as f64 + 1.0
    );
    assert!((480.0..=forward.longest_gap_ms).contains(&silence.length_ms), "{silence:?} in {report}");
    assert!(!report.verdict(Limits { lost: 1000, gap: Some(std::time::Duration::from_millis(400)) }).passed);
    assert!(report.verdict(Limits { lost: 10_000, gap: Some(std::time::Duration::from_secs(600)) }).passed);
}

#[test]
fn a_busy_machine_makes_no_loss_of_its_own() {
    let (a, b) = pair();
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..6)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            })
        })
        .collect();
    let flows = (0..100)
        .map(|n| {
            let (traffic, to) = match n % 5 {
                0 => (Traffic::UDP, "10.0.1.2:4242"),
                1 => (Traffic::UDP, "[fd00:1::2]:4242"),
                2 => (Traffic::TCP, "10.0.1.2:4242"),
                3 => (Traffic::ICMP, "10.0.1.2:0"),
                _ => (Traffic::ICMP, "[fd00:1::2]:0"),
            };
            flow(&format!("f{n}"), traffic, &a, &b, to)
        })
        .collect();
    let meter = Meter::start(flows).unwrap();
    until(&meter, "a hundred and fifty of each", sent_at_least(150));
    stop.store(true, Ordering::Relaxed);
    let report = meter.finish(PATIENCE).unwrap();
    for thread in busy {
        thread.join().unwrap();
    }
    assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
    assert!(report.to_string().contains("direct ×20"), "so many flows are summed up by kind: {report}");
}

/// Two hosts whose packets go through this process, which swaps some of them on the way from the first to the second.
struct Relay {
    swaps: Arc<AtomicU64>,
    held: Arc<AtomicU64>,
    straight: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    fn between(a: &Host, b: &Host) -> Relay {
        let name = IfName::new("tun0").unwrap();
        let [left, right] = [a, b].map(|host| Tun::open(&host.place.namespace, &name, TunMode::Tun).unwrap());
        for (host, last) in [(a, 1), (b, 2)] {
            host.sh(&format!("ip addr add 10.0.9.{last}/24 dev tun0; ip link set tun0 up"));
        }
        let (swaps, held) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (straight, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let shared = (swaps.clone(), held.clone(), straight.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let (swaps, held, straight, stop) = shared;
            let mut behind: Option<Vec<u8>> = None;
            let mut count = 0;
            while !stop.load(Ordering::SeqCst) {
                let mut fds = [&left, &right].map(|tun| PollFd::new(tun.as_fd(), PollFlags::POLLIN));
                poll(&mut fds, PollTimeout::from(20_u8)).unwrap();
                let readable = fds.map(|fd| fd.any() == Some(true));
                let mut packet = vec![0; 2000];
                if readable[0] {
                    let length = left.file().read(&mut packet).unwrap();
                    packet.truncate(length);
                    // Only the flow's own packets: the kernel sends some of its own accord.
                    let ours = packet[0] >> 4 == 4 && packet[9] == 17;
                    count += u64::from(ours);
                    if ours && count % 10 == 0 && behind.is_none() && !straight.load(Ordering::SeqCst) {
                        held.store(1, Ordering::SeqCst);
                        behind = Some(packet);
                    } else {
                        right.file().write_all(&packet).unwrap();
                        if let Some(late) = behind.take_if(|_| ours) {
                            right.file().write_all(&late).unwrap();
                            swaps.fetch_add(1, Ordering::SeqCst);
                            held.store(0, Ordering::SeqCst);
                        }
                    }
                }
                if readable[1] {
                    let mut packet = vec![0; 2000];
                    let length = right.file().read(&mut packet).unwrap();
                    left.file().write_all(&packet[..length]).unwrap();
                }
            }
        });
        Relay { swaps, held, straight, stop, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
