use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds, Cluster, Plugin, Transport};
use netferry_core::mtu::equipment::Equipped;
use netferry_core::mtu::plan::{Facts, Mode, Observed, decide};
use netferry_core::mtu::probe::judge::Probes;
use netferry_core::mtu::record::{Ends, Stage};
use netferry_core::size::Mtu as Size;

use prometheus_client::encoding::text::encode;

use super::*;

/// Metrics that are scraped at second 1000.
struct Page {
    metrics: Metrics,
    registry: Registry,
}

impl Page {
    fn new() -> Page {
        let mut registry = Registry::default();
        let metrics = Metrics::register_with(&mut registry, || Timestamp::from_second(1000).unwrap());
        Page { metrics, registry }
    }
}

fn size(bytes: u32) -> Size {
    Size::new(bytes).unwrap()
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

/// The lines of the page that begin so.
fn lines(page: &Page, of: &str) -> Vec<String> {
    let mut text = String::new();
    encode(&mut text, &page.registry).unwrap();
    let page = text;
    page.lines().filter(|line| line.starts_with(of)).map(str::to_owned).collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A change to this size asked of a cluster at 1400, as it is decided.
fn asked(to: u32) -> Decision {
    let ends = |from, to| Some(AskedEnds { from, to: Some(to) });
    let migration = Some(AskedChange { network: ends(Some(1400), to), machine: ends(None, 9000) });
    let cluster = Cluster { plugin: Plugin::OvnKubernetes(Transport::Geneve), v6: false };
    let asked = Asked { mtu: Some(1400), migration };
    let settled = |bytes| Envelope::settled(size(bytes));
    let observed = Observed { epoch: 0, network: Some(settled(1400)), host: settled(1500) };
    let nodes = BTreeMap::from([(
        name("a"),
        NodeFacts { done: Some(0), observed: Some(observed), unclaimed: false },
    )]);
    let (equipped, probes) = (Equipped::new(), Probes::default());
    decide(
        &Record::settled(size(1400)),
        &Facts { cluster, asked, mode: Mode::default(), nodes: &nodes, equipped: &equipped, probes: &probes },
    )
}

#[test]
fn a_refusal_is_counted_when_it_begins_and_not_while_it_lasts() {
    let (page, record) = (Page::new(), Record::settled(size(1400)));
    let see = |decision: &Decision| page.metrics.decided(&record, decision, &BTreeMap::new(), None, at(0));
    let (refused, otherwise, fine) = (asked(9), asked(10), asked(8900));
    assert!(!refused.refusals.is_empty() && fine.refusals.is_empty());
    let reason = refused.refusals[0].reason();
    let counted = || lines(&page, &format!("netferry_mtu_refusals_total{{reason=\"{reason}\"}}"));
    see(&refused);
    see(&refused);
    assert_eq!(counted(), [format!("netferry_mtu_refusals_total{{reason=\"{reason}\"}} 1")]);
    see(&otherwise);
    see(&fine);
    see(&refused);
    assert_eq!(counted(), [format!("netferry_mtu_refusals_total{{reason=\"{reason}\"}} 3")]);
}

#[test]
fn nodes_are_counted_by_what_their_pods_run_at() {
    let page = Page::new();
    let ends = |from, to| Ends { from: size(from), to: size(to) };
    let (network, host) = (ends(1400, 8900), ends(1500, 9000));
    let change = Change { network, host, stage: Stage::Spreading { finish: false }, back: false };
    let record = Record::settled(size(1400)).with(Some(change));
    let runs = |network: Option<Envelope>| {
        let observed = Observed { epoch: 1, network, host: Envelope::settled(size(9000)) };
        NodeFacts { done: None, observed: Some(observed), unclaimed: false }
    };
    let settled = |bytes| runs(Some(Envelope::settled(size(bytes))));
    let nodes = BTreeMap::from([
        (name("a"), settled(1400)),
        (name("b"), runs(Some(Envelope::spanning(size(1400), size(8900))))),
        (name("c"), settled(8900)),
        (name("d"), settled(1300)),
        (name("e"), runs(None)),
        (name("f"), NodeFacts::default()),
    ]);
    page.metrics.decided(&record, &asked(8900), &nodes, Some(at(940)), at(1000));
    let counts = [("both", 1), ("new", 1), ("old", 1), ("other", 1), ("unknown", 2)];
    let shall = counts.map(|(runs, count)| format!("netferry_mtu_nodes{{runs=\"{runs}\"}} {count}"));
    assert_eq!(lines(&page, "netferry_mtu_nodes"), shall);
    assert_eq!(lines(&page, "netferry_mtu_phase_seconds"), ["netferry_mtu_phase_seconds 60"]);
    let phases = lines(&page, "netferry_mtu_phase{");
    assert_eq!(phases.len(), PHASES.len());
    assert_eq!(phases.iter().filter(|line| line.ends_with(" 1")).count(), 1, "{phases:?}");
}

#[test]
fn a_phase_that_nodes_end_by_arriving_has_a_time_of_its_own() {
    let (page, record) = (Page::new(), Record::settled(size(1400)));
    let see = |phase, since, now| {
        let decision = Decision { phase, ..asked(8900) };
        page.metrics.decided(&record, &decision, &BTreeMap::new(), Some(at(since)), at(now));
    };
    let lasted = |seconds| vec![format!("netferry_mtu_phase_seconds {seconds}")];
    see(Phase::One, 100, 100);
    see(Phase::One, 100, 700);
    assert_eq!(lines(&page, "netferry_mtu_phase_seconds"), lasted(900));
    see(Phase::AwaitingFinish, 100, 800);
    see(Phase::AwaitingFinish, 100, 990);
    assert_eq!(lines(&page, "netferry_mtu_phase_seconds"), lasted(200));
    // Who leads next knows the record only.
    page.metrics.forget();
    see(Phase::AwaitingFinish, 100, 995);
    assert_eq!(lines(&page, "netferry_mtu_phase_seconds"), lasted(900));
}
