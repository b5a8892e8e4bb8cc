//! Every kind of path, by every protocol, in both families, with packets of every size.

use std::time::Duration;

use netferry_lab::meter::{Limits, Meter, Sizes};
use netferry_lab::paths::{Kind, Selection, carried, flows, in_lab, preflight, wrong_sizes};

use crate::bench::said;
use crate::world::{PATIENCE, lab, on_runtime, turn};

#[test]
fn nothing_is_lost_on_any_kind_of_path_at_any_size() {
    let _turn = turn();
    let lab = lab();
    let sites =
        on_runtime(in_lab::sites(lab, PATIENCE, |_| {})).unwrap_or_else(|error| panic!("{}", error.chain()));
    let flows = flows(&sites, &Selection::of_every_size());
    for kind in Kind::ALL {
        assert!(flows.iter().any(|flow| flow.kind == kind.word()), "no flow of kind {kind}");
    }
    let silent = preflight(&flows, PATIENCE, |_| {}).unwrap();
    assert!(silent.is_empty(), "{silent:#?}");
    let meter = Meter::start(flows).unwrap();
    std::thread::sleep(Duration::from_secs(10));
    let report = meter.finish(Duration::from_secs(3)).unwrap();
    assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
    let options = lab.state().options().unwrap_or_else(|error| panic!("{}", error.chain()));
    let carried = carried(lab, &sites, PATIENCE).unwrap_or_else(|error| panic!("{}", error.chain()));
    let wrong = wrong_sizes(&carried, options.host_mtu(), options.pod_mtu());
    assert!(wrong.is_empty(), "{wrong:#?}");
    on_runtime(in_lab::lower(lab)).unwrap_or_else(|error| panic!("{}", error.chain()));
}

#[test]
fn links_that_come_and_go_on_a_node_cost_no_packet_of_others() {
    let _turn = turn();
    let lab = lab();
    let sites =
        on_runtime(in_lab::sites(lab, PATIENCE, |_| {})).unwrap_or_else(|error| panic!("{}", error.chain()));
    let across = Selection {
        kinds: [Kind::PodPodAcross, Kind::PodClusterIp].into(),
        udp: Some(Sizes::Full),
        tcp: false,
        icmp: None,
        rate: Some(50),
        ..Selection::default()
    };
    let flows = flows(&sites, &across);
    let silent = preflight(&flows, PATIENCE, |_| {}).unwrap();
    assert!(silent.is_empty(), "{silent:#?}");
    let meter = Meter::start(flows).unwrap();
    // As when pods come and go, and nothing of ours: links that the switch has nothing to do with.
    let comes_and_goes = "for i in $(seq 40); do ip link add veth-$i type veth peer name peer-$i; ip link set veth-$i up; \
        ip link set peer-$i up; sleep 0.05; ip link del veth-$i; sleep 0.05; done";
    said(lab, "node-1", &["sh", "-c", comes_and_goes]);
    let report = meter.finish(Duration::from_secs(3)).unwrap();
    assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
    on_runtime(in_lab::lower(lab)).unwrap_or_else(|error| panic!("{}", error.chain()));
}
