//! The MTU of a running cluster is changed, as an administrator does it.

use netferry_lab::Name;
use netferry_lab::escort::Escort;
use netferry_lab::meter::Limits;
use netferry_lab::paths::in_lab;

use crate::bench::{PATIENCE, options, said, up};
use crate::change::{LARGE, SMALL, begin, between_nodes, findings_of_trial, finish, phase, with_room};
use crate::sizes::sizes;

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

#[test]
fn a_wire_that_does_not_carry_more_is_found_out_beforehand_and_links_are_as_they_were() {
    let lab = up(&options(2));
    assert_eq!(findings_of_trial(&lab), ["Underlay/node-1/node-2", "Underlay/node-2/node-1"]);
    for node in ["node-1", "node-2"] {
        for link in ["br-ex", "eth0"] {
            assert_eq!(
                sizes(&lab, node, link, "default"),
                ("1500".to_owned(), "-".to_owned()),
                "{link} of {node}"
            );
        }
    }
}

#[test]
fn the_mtu_of_a_running_cluster_grows_and_nothing_is_lost_between_nodes_that_stay() {
    let lab = up(&with_room(options(3)));
    // The wire is tried beforehand, and nothing is left of that.
    assert_eq!(findings_of_trial(&lab), [""; 0]);
    for node in NODES {
        assert_eq!(sizes(&lab, node, "br-ex", "default"), ("1500".to_owned(), "-".to_owned()));
        assert_eq!(sizes(&lab, node, "eth0", "default"), ("1500".to_owned(), "-".to_owned()));
    }

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let sites = runtime.block_on(in_lab::sites(&lab, PATIENCE, |_| {})).expect("pods and Services");
    let mut escort = Escort::start(&lab, sites, &between_nodes(), PATIENCE).expect("every path is answered");
    let mut restarted = Vec::new();
    let mut take_to = |wanted: &str| {
        let mut seen = String::new();
        let holds = || {
            seen = phase(&lab);
            Ok(seen == wanted)
        };
        let restart = |escort: &mut Escort<'_>, node: &Name| {
            restarted.push(format!("{node} towards {wanted}"));
            escort.restart(node)
        };
        let done = escort.until(wanted, holds, restart);
        done.unwrap_or_else(|error| panic!("{}; the operator says {seen:?}", error.chain()));
    };

    begin(&lab, SMALL, LARGE, false);
    take_to("AwaitingFinish");
    for node in NODES {
        let pod = format!("netferry-meter/one-{node}");
        assert_eq!(sizes(&lab, node, "br-ex", "default"), ("9000".to_owned(), "1500".to_owned()));
        assert_eq!(sizes(&lab, &pod, "eth0", "default"), ("8900".to_owned(), "1400".to_owned()));
    }

    finish(&lab, LARGE);
    take_to("Idle");
    for node in NODES {
        let pod = format!("netferry-meter/one-{node}");
        assert_eq!(sizes(&lab, node, "br-ex", "default"), ("9000".to_owned(), "-".to_owned()));
        assert_eq!(sizes(&lab, &pod, "eth0", "default"), ("8900".to_owned(), "-".to_owned()));
        let interfaces = said(&lab, node, &["cat", "/etc/network/interfaces"]);
        assert!(interfaces.contains("mtu 9000") && !interfaces.contains("mtu 1500"), "{interfaces}");
    }
    restarted.sort();
    let each = |phase: &str| NODES.map(|node| format!("{node} towards {phase}"));
    let mut expected = [each("AwaitingFinish"), each("Idle")].concat();
    expected.sort();
    assert_eq!(restarted, expected, "every node restarts once in each phase");

    let (report, _) = escort.finish().expect("the meter tells");
    let verdict = report.verdict(Limits::NONE_LOST);
    assert!(verdict.passed, "{report}");
    let largest = report.flows.iter().filter(|flow| flow.kind == "pod-pod-across" && flow.traffic == "udp");
    for flow in largest {
        assert_eq!(flow.forward.largest_passed, 8900, "{report}");
    }
}
