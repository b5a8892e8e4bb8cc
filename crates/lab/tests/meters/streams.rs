//! Streams that stall and break, and requests that fail.

use std::time::Duration;

use netferry_lab::meter::{Limits, Meter, MeterError, Traffic};
use netferry_lab::programs::probe::Silence;
use netferry_lab::programs::serve::{Options, Server};

use crate::world::{Host, PATIENCE, counted, faults, flow, only, pair, sent_at_least, until};

#[test]
fn a_stream_that_stalls_loses_no_record_and_says_how_long() {
    let (a, b) = pair();
    let meter = Meter::start(vec![flow("f", Traffic::TCP, &a, &b, "10.0.1.2:4242")]).unwrap();
    until(&meter, "twenty arrived", |report| report.flows[0].forward.received >= 20);
    faults(&b, "input", "tcp dport 4242", "drop");
    until(&meter, "a stall of half a second", |report| report.flows[0].forward.longest_gap_ms >= 500.0);
    b.sh("nft delete table inet faults");
    let stalled = meter.snapshot().unwrap();
    until(&meter, "records again", |report| {
        report.flows[0].forward.received > stalled.flows[0].forward.received + 10
    });
    let report = meter.finish(PATIENCE).unwrap();
    let flow = only(&report);
    assert_eq!((flow.forward.lost, flow.stream.as_ref().unwrap().broken), (0, 0), "{report}");
    assert_eq!(flow.stream.as_ref().unwrap().connections, 1);
    assert!(flow.forward.longest_gap_ms >= 500.0);
    assert_eq!(flow.forward.bytes, flow.forward.sent * 2000);
}

#[test]
fn a_stream_sends_as_soon_as_it_is_connected_however_seldom_its_turn_comes() {
    let (a, b) = pair();
    let seldom = flow("f", Traffic::TCP, &a, &b, "10.0.1.2:4242").at_rate(1);
    let meter = Meter::start(vec![seldom]).unwrap();
    let connected = until(&meter, "a connection", |report| {
        report.flows[0].stream.as_ref().is_some_and(|stream| stream.connections == 1)
    });
    assert!(connected.flows[0].forward.sent >= 1, "{connected}");
}

#[test]
fn a_stream_that_is_reset_is_made_again_and_the_break_is_counted() {
    let (a, b) = pair();
    let meter = Meter::start(vec![flow("f", Traffic::TCP, &a, &b, "10.0.1.2:4242")]).unwrap();
    until(&meter, "twenty arrived", |report| report.flows[0].forward.received >= 20);
    faults(&b, "input", "tcp dport 4242", "reject with tcp reset");
    let broken = |report: &netferry_lab::meter::Report| report.flows[0].stream.clone().unwrap();
    until(&meter, "a break and attempts in vain", |report| {
        broken(report).broken == 1 && broken(report).failed_connects >= 3
    });
    b.sh("nft delete table inet faults");
    until(&meter, "a second connection", |report| broken(report).connections == 2);
    let report = meter.finish(PATIENCE).unwrap();
    let verdict = report.verdict(Limits::NONE_LOST);
    assert!(verdict.problems.iter().any(|problem| problem.contains("broke 1 times")), "{verdict:?}");
    assert!(only(&report).forward.lost >= 1, "the record that met the reset: {report}");
}

fn serve(host: &Host, name: &str) {
    let options = Options {
        name: name.to_owned(),
        tcp: vec![80],
        udp: vec![80],
        ready_after: Duration::ZERO,
        linger: Duration::ZERO,
    };
    let server = host.place.namespace.run(|| Server::listen(options).unwrap()).unwrap();
    // It serves until the test's process ends.
    std::thread::spawn(move || server.run());
}

#[test]
fn requests_say_who_answered_and_which_failed_and_why() {
    let (a, b) = pair();
    serve(&b, "backend");
    // Longer than a machine stands still: only what is dropped fails.
    let timeout = Duration::from_secs(5);
    let flows = vec![
        flow("tcp", Traffic::TcpRequests { timeout }, &a, &b, "10.0.1.2:80"),
        flow("udp", Traffic::UdpRequests { timeout }, &a, &b, "[fd00:1::2]:80"),
    ];
    let meter = Meter::start(flows).unwrap();
    until(&meter, "fifty of each", sent_at_least(50));
    assert_eq!(meter.snapshot().unwrap().totals.lost, 0);
    b.nft(
        "table inet faults {\nchain c {\ntype filter hook input priority 0;
         tcp dport 80 tcp flags & (syn | ack) == syn numgen inc mod 5 == 0 counter reject with tcp reset
         udp dport 80 numgen inc mod 5 == 0 counter drop\n}\n}\n",
    );
    until(&meter, "a hundred of each", sent_at_least(100));
    let report = meter.finish(4 * timeout).unwrap();
    let answers = |name: &str| report.flow(name).unwrap().requests.clone().unwrap();
    let (refused, silent) =
        (answers("tcp").failed[&Silence::Refused], answers("udp").failed[&Silence::Timeout]);
    assert_eq!(refused + silent, counted(&b), "{report}");
    assert_eq!(report.totals.lost, refused + silent, "{report}");
    assert_eq!((answers("tcp").failed.len(), answers("udp").failed.len()), (1, 1), "{report}");
    assert_eq!(answers("tcp").answered_by["backend"], report.flow("tcp").unwrap().forward.received);
    assert_eq!(answers("udp").seen_from.keys().map(ToString::to_string).collect::<Vec<_>>(), ["fd00:1::1"]);
}

#[test]
fn a_port_that_is_taken_is_refused_by_name_before_anything_flows() {
    let (a, b) = pair();
    serve(&b, "backend");
    for traffic in [Traffic::UDP, Traffic::TCP] {
        let error = Meter::start(vec![flow("f", traffic, &a, &b, "10.0.1.2:80")]).unwrap_err();
        assert!(matches!(&error, MeterError::Listen { place, .. } if place == "b"), "{error:?}");
        assert_eq!(error.to_string(), "listening on 10.0.1.2:80 in b");
    }
    let error = Meter::start(vec![flow("f", Traffic::UDP, &a, &b, "192.0.2.7:80")]).unwrap_err();
    assert!(matches!(&error, MeterError::Listen { .. }), "{error:?}");
}
