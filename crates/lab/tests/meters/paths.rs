//! Paths over real namespaces: two hosts that stand for nodes.

use std::time::Duration;

use netferry_lab::meter::{Limits, Meter};
use netferry_lab::paths::{Kind, Node, Selection, Sites, draw, flows, preflight};

use crate::world::{Host, PATIENCE, faults, pair, sent_at_least, until};

fn sites(a: &Host, b: &Host) -> Sites {
    let node = |host: &Host, last: u8| Node {
        name: format!("node-{last}"),
        place: host.place.clone(),
        addresses: vec![
            format!("10.0.1.{last}").parse().unwrap(),
            format!("fd00:1::{last}").parse().unwrap(),
        ],
        pod_ranges: vec![format!("10.244.{last}.0/24")],
    };
    Sites { nodes: vec![node(a, 1), node(b, 2)], ..Sites::default() }
}

#[test]
fn the_flows_of_a_kind_pass_between_the_sites_they_were_made_of() {
    let (a, b) = pair();
    let sites = sites(&a, &b);
    let flows = flows(&sites, &Selection::default());
    assert_eq!(flows.len(), 2 * 2 * 3, "two ways, two families, three protocols");
    assert!(flows.iter().all(|flow| flow.kind == Kind::HostHost.word()));
    assert_eq!(preflight(&flows, Duration::from_secs(30), |_| {}).unwrap(), []);
    let meter = Meter::start(flows).unwrap();
    until(&meter, "thirty of each", sent_at_least(30));
    let report = meter.finish(PATIENCE).unwrap();
    assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
}

#[test]
fn a_flow_that_nobody_answers_is_named_before_anything_is_measured() {
    let (a, b) = pair();
    faults(&b, "input", "ip protocol udp", "drop");
    let selection = Selection { tcp: false, v6: false, ..Selection::default() };
    let flows = flows(&sites(&a, &b), &selection);
    let silent = preflight(&flows, Duration::from_secs(2), |_| {}).unwrap();
    // Dropped there, one way as the question and the other way as the answer.
    let names: Vec<&str> = silent.iter().map(|silent| silent.flow.as_str()).collect();
    assert_eq!(names, ["node-1 > node-2 (udp IPv4, host-host)", "node-2 > node-1 (udp IPv4, host-host)"]);
    assert!(silent[0].why.contains("0 came") && silent[1].why.contains("sent back, 0 came"), "{silent:?}");
}

#[test]
fn a_drawing_names_everything_once_with_its_addresses() {
    let (a, b) = pair();
    let sites = sites(&a, &b);
    let drawing = draw(&sites, &flows(&sites, &Selection::default()));
    for line in
        ["├─ node-1  10.0.1.1 fd00:1::1   zone node-1: 10.244.1.0/24", "└─ node-2  10.0.1.2 fd00:1::2"]
    {
        assert_eq!(drawing.matches(line).count(), 1, "{line}\n{drawing}");
    }
    assert!(drawing.contains("12 host-host"), "{drawing}");
}
