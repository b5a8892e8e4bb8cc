use super::*;
use crate::fixtures::{mtu, name};
use crate::mtu::record::{Change, Ends, Stage};
use crate::probe::{All, Loss, Narrow, Roll};
use crate::size::Envelope;

fn way(word: &str) -> Way {
    Way::named(word).unwrap()
}

/// Two nodes, each with what its host and its pods run at and the most that gets through on either layer.
fn cluster(each: [((u32, u32), (u32, u32)); 2]) -> BTreeMap<NodeName, Known> {
    let roll = Roll::of([(&name("a"), "a"), (&name("b"), "b")]);
    let known = |(node, ((hosts, pods), (host_width, pod_width))): (&str, _)| {
        let at = |bytes| Envelope::settled(mtu(bytes));
        let runs = Runs { epoch: 3, hosts: at(hosts), pods: at(pods) };
        let widths = [(way("hosts-ipv4"), mtu(host_width)), (way("pods-ipv4"), mtu(pod_width))];
        let report = Report { epoch: 3, all: Some(All { roll, widths: widths.into() }), ..Report::default() };
        (name(node), Known { uid: node.into(), runs: Some(runs), report: Some(report) })
    };
    ["a", "b"].into_iter().zip(each).map(known).collect()
}

/// Two alike.
fn twins(runs: (u32, u32), widths: (u32, u32)) -> BTreeMap<NodeName, Known> {
    cluster([(runs, widths); 2])
}

fn report<'a>(nodes: &'a mut BTreeMap<NodeName, Known>, node: &str) -> &'a mut Report {
    nodes.get_mut(&name(node)).unwrap().report.as_mut().unwrap()
}

fn narrow(word: &str, passes: u32) -> Narrow {
    Narrow { to: name("b"), way: way(word), tried: mtu(8900), passes: mtu(passes) }
}

fn settled(hosts: Option<u32>) -> Record {
    Record { hosts: hosts.map(mtu), ..Record::settled(mtu(1400)) }
}

fn said(record: &Record, nodes: &BTreeMap<NodeName, Known>) -> Vec<String> {
    verify(record, nodes).1.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_configured_used_and_measured_agree_in_a_healthy_cluster() {
    for left_at in [None, Some(1500)] {
        let (rows, wrongs) = verify(&settled(left_at), &twins((1500, 1400), (1500, 1400)));
        assert_eq!(wrongs, []);
        let sizes: Vec<_> = rows.iter().map(|row| [row.configured, row.uses, row.passes]).collect();
        assert_eq!(sizes, [[mtu(1500); 3], [mtu(1400); 3], [mtu(1500); 3], [mtu(1400); 3]]);
    }
}

#[test]
fn a_node_that_uses_something_else_is_named() {
    assert_eq!(
        said(&settled(None), &twins((1500, 1300), (1500, 1300)))[0],
        "node a sends packets of 1300 (pods, IPv4), and 1400 is configured"
    );
}

/// Hosts ended at 9000, and a lease has taken one to 1500: both ends are tried with 1500, which gets through.
#[test]
fn a_host_that_shrank_since_the_last_change_is_named_with_those_that_send_it_more() {
    let nodes = cluster([((9000, 1400), (1500, 1400)), ((1500, 1400), (1500, 1400))]);
    let lost = "packets are lost from a to b (hosts: a sends 9000, b carries 1500)";
    let shrank = "node b sends packets of 1500 (hosts, IPv4), and 9000 is configured";
    assert_eq!(said(&settled(Some(9000)), &nodes), [lost, shrank]);
    // Where no change concerned hosts none of them is wrong by itself, and still they do not go together.
    assert_eq!(said(&settled(None), &nodes), [lost]);
    let configured =
        verify(&settled(Some(9000)), &nodes).0.iter().map(|row| row.configured.bytes()).collect::<Vec<_>>();
    assert_eq!(configured, [9000, 1400, 9000, 1400]);
}

#[test]
fn ends_that_differ_are_named_before_anybody_has_tried_them() {
    let mut nodes = cluster([((9000, 1400), (9000, 1400)), ((1500, 1400), (9000, 1400))]);
    report(&mut nodes, "b").all = None;
    let lost = "packets are lost from a to b (hosts: a sends 9000, b carries 1500)";
    assert_eq!(
        said(&settled(Some(9000)), &nodes),
        [lost, "node b has not tried yet what gets through to the others"]
    );
}

#[test]
fn all_hosts_that_left_where_the_last_change_led_are_named() {
    let nodes = twins((1500, 1400), (1500, 1400));
    let each = ["a", "b"]
        .map(|node| format!("node {node} sends packets of 1500 (hosts, IPv4), and 9000 is configured"));
    assert_eq!(said(&settled(Some(9000)), &nodes), each);
}

#[test]
fn a_larger_host_whose_routes_hold_it_back_is_as_it_should_be() {
    let mut nodes = twins((1500, 1400), (1500, 1400));
    let runs = nodes.get_mut(&name("a")).unwrap().runs.as_mut().unwrap();
    runs.hosts = Envelope::spanning(mtu(1500), mtu(9000));
    assert_eq!(said(&settled(Some(1500)), &nodes), [""; 0]);
}

#[test]
fn what_passes_is_wrong_where_it_is_less_than_what_is_used() {
    let passes = |word: &str, uses: u32, passes: u32| {
        format!(
            "node a sends packets of {uses} ({word}, IPv4), and {passes} is the most that gets through to every other node"
        )
    };
    let lost = |passes: u32| format!("packets are lost from a to b (pods, IPv4: all above {passes})");
    #[rustfmt::skip]
    let rows = [
        ((1500, 1400), vec![], vec![]),
        ((1500, 1399), vec![], vec![passes("pods", 1400, 1399)]),
        ((1499, 1400), vec![], vec![passes("hosts", 1500, 1499)]),
        ((1500, 1350), vec![narrow("pods-ipv4", 1350)], vec![lost(1350)]),
        // More than is sent need not get through.
        ((1500, 1400), vec![narrow("pods-ipv4", 1400)], vec![]),
        // One that is named is not why another gets less.
        ((1500, 1300), vec![narrow("pods-ipv4", 1350)], vec![passes("pods", 1400, 1300), lost(1350)]),
        ((1450, 1350), vec![narrow("pods-ipv4", 1350)], vec![passes("hosts", 1500, 1450), lost(1350)]),
        ((1500, 1350), vec![narrow("pods-ipv4", 1400)], vec![passes("pods", 1400, 1350)]),
    ];
    for (widths, narrow, wrong) in rows {
        let mut nodes = cluster([((1500, 1400), widths), ((1500, 1400), (1500, 1400))]);
        report(&mut nodes, "a").narrow = narrow.clone();
        assert_eq!(said(&settled(None), &nodes), wrong, "{widths:?} {narrow:?}");
    }
}

#[test]
fn losses_are_named() {
    let mut nodes = twins((1500, 1400), (1500, 1400));
    report(&mut nodes, "a").losses = vec![Loss { to: name("b"), way: way("pods-ipv4"), lost: 4, of: 20 }];
    assert_eq!(said(&settled(None), &nodes), ["packets are lost from a to b (pods, IPv4: 4 of 20)"]);
}

#[test]
fn in_a_change_hosts_are_to_hold_what_the_change_says_and_may_send_less() {
    let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
    let change = |stage| Change { network: ends(1400, 8900), host: ends(1500, 9000), stage, back: false };
    let record = |stage| Record { change: Some(change(stage)), ..settled(Some(1500)) };
    let mut nodes = twins((1500, 1400), (9000, 8900));
    for known in nodes.values_mut() {
        let (hosts, pods) =
            (Envelope::spanning(mtu(1500), mtu(9000)), Envelope::spanning(mtu(1400), mtu(8900)));
        known.runs = Some(Runs { epoch: 3, hosts, pods });
    }
    for (stage, configured) in [(Stage::Spreading { finish: false }, 1500), (Stage::Settling, 9000)] {
        let (rows, wrongs) = verify(&record(stage), &nodes);
        assert_eq!((rows[0].configured, wrongs), (mtu(configured), vec![]));
    }
}

#[test]
fn nodes_that_say_nothing_or_have_not_tried_are_named() {
    let mut nodes = twins((1500, 1400), (1500, 1400));
    nodes.get_mut(&name("a")).unwrap().report = None;
    nodes.get_mut(&name("b")).unwrap().runs = None;
    assert_eq!(
        said(&settled(None), &nodes),
        ["node b has not reported what it runs", "node a has not tried yet what gets through to the others"]
    );
}
