//! The MTU of a running cluster is changed, as an administrator does it.

use netferry_lab::Name;
use netferry_lab::escort::Escort;
use netferry_lab::meter::Limits;
use netferry_lab::paths::in_lab;

use crate::bench::{PATIENCE, options, said, up};
use crate::change::{LARGE, SMALL, begin, between_nodes, patch, phase, with_room};
use crate::sizes::sizes;

#[test]
fn the_mtu_of_a_running_cluster_grows_and_nothing_is_lost_between_nodes_that_stay() {
    let lab = up(&with_room(options(3)));
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
    for node in ["node-1", "node-2", "node-3"] {
        let pod = format!("netferry-meter/one-{node}");
        assert_eq!(sizes(&lab, node, "br-ex", "default"), ("9000".to_owned(), "1500".to_owned()));
        assert_eq!(sizes(&lab, &pod, "eth0", "default"), ("8900".to_owned(), "1400".to_owned()));
    }

    patch(&lab, r#"{"spec": {"migration": null, "defaultNetwork": {"ovnKubernetesConfig": {"mtu": 8900}}}}"#);
    take_to("Idle");
    for node in ["node-1", "node-2", "node-3"] {
        let pod = format!("netferry-meter/one-{node}");
        assert_eq!(sizes(&lab, node, "br-ex", "default"), ("9000".to_owned(), "-".to_owned()));
        assert_eq!(sizes(&lab, &pod, "eth0", "default"), ("8900".to_owned(), "-".to_owned()));
        let interfaces = said(&lab, node, &["cat", "/etc/network/interfaces"]);
        assert!(interfaces.contains("mtu 9000") && !interfaces.contains("mtu 1500"), "{interfaces}");
    }
    restarted.sort();
    let each = |phase: &str| ["node-1", "node-2", "node-3"].map(|node| format!("{node} towards {phase}"));
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
