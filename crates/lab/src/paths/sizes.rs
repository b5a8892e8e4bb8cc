//! How large packets every path takes.

use std::time::Duration;

use super::preflight::tried;
use super::{Kind, Selection, Sites, flows, in_lab};
use crate::Lab;
use crate::error::{During, Result};
use crate::meter::{Direction, FlowReport, Report};

/// Sends full-size datagrams on every path until each was answered, and tells what was seen.
///
/// # Errors
/// If a node or a pod is gone, or there can be no meter.
pub fn carried(lab: &Lab, sites: &Sites, patience: Duration) -> Result<Report> {
    in_lab::forget_ways(lab, sites)?;
    let datagrams = Selection { tcp: false, ..Selection::default() };
    tried(&flows(sites, &datagrams), patience, |_| {}).during("trying every path")
}

/// The ways on which the largest packet that came is not as large as it should be, where hosts and pods have these
/// sizes.
///
/// What the outside sends is not judged: it is no part of the cluster, and remembers for minutes what it was once told
/// of a way. Between hosts it may be less than hosts carry, but no less than pods: a pod's packets leave under its host's
/// address, and what they are told of the way back is remembered for the host.
pub fn wrong_sizes(report: &Report, host: u32, pods: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for flow in &report.flows {
        let fits = |size: u32| match flow.kind == Kind::HostHost.word() {
            true => (pods..=host).contains(&size),
            false => size == pods,
        };
        for (way, direction) in ways(flow).filter(|(_, direction)| !fits(direction.largest_passed)) {
            wrong.push(format!(
                "{} ({} IPv{}): the largest packet{way} had {} bytes, where pods have {pods} and hosts {host}",
                flow.name, flow.traffic, flow.family, direction.largest_passed
            ));
        }
    }
    wrong
}

/// The ways of a flow that begin inside the cluster.
fn ways(flow: &FlowReport) -> impl Iterator<Item = (&'static str, &Direction)> {
    let forward = Some(("", &flow.forward)).filter(|_| flow.from != "outside");
    let backward = flow.backward.as_ref().map(|direction| (" back", direction));
    forward.into_iter().chain(backward.filter(|_| flow.kind != Kind::PodOutside.word()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow whose largest packets were these, there and back.
    fn report(kind: Kind, from: &str, there: u32, back: u32) -> Report {
        let way = |largest_passed| Direction { largest_passed, ..Direction::default() };
        let flow = FlowReport {
            name: "a > b".to_owned(),
            kind: kind.word().to_owned(),
            traffic: "udp".to_owned(),
            family: 4,
            from: from.to_owned(),
            to: "192.0.2.1:4242".to_owned(),
            paused: false,
            forward: way(there),
            backward: Some(way(back)),
            stream: None,
            requests: None,
            errors: Default::default(),
        };
        let totals = Report::sum([&flow]);
        let started = jiff::Timestamp::UNIX_EPOCH;
        Report {
            started,
            elapsed_ms: 0,
            running: false,
            flows: vec![flow],
            totals,
            laps: vec![],
            overruns: 0,
        }
    }

    #[test]
    fn a_path_that_takes_less_or_more_than_it_should_is_named_by_its_way() {
        let wrong = |kind, from, there, back| wrong_sizes(&report(kind, from, there, back), 9000, 8900);
        assert!(wrong(Kind::PodPodAcross, "pod", 8900, 8900).is_empty());
        let named = wrong(Kind::PodPodAcross, "pod", 8900, 1400);
        assert_eq!(named.len(), 1);
        assert!(named[0].contains("largest packet back had 1400"), "{named:?}");
        assert_eq!(wrong(Kind::PodPodAcross, "pod", 9000, 8900).len(), 1, "more than pods have");
        assert_eq!(wrong(Kind::PodPodAcross, "pod", 0, 0).len(), 2, "nothing came");
    }

    #[test]
    fn hosts_take_between_theirs_and_the_pods_size_and_the_outside_what_it_remembers() {
        let wrong = |kind, from, there, back| wrong_sizes(&report(kind, from, there, back), 9000, 8900).len();
        assert_eq!(wrong(Kind::HostHost, "node-1", 9000, 8900), 0);
        assert_eq!(wrong(Kind::HostHost, "node-1", 9001, 8899), 2);
        assert_eq!(wrong(Kind::PodOutside, "pod", 8900, 1400), 0);
        assert_eq!(wrong(Kind::PodOutside, "pod", 1400, 8900), 1);
        assert_eq!(wrong(Kind::OutsideNodePortLocal, "outside", 1400, 8900), 0);
        assert_eq!(wrong(Kind::OutsideNodePortLocal, "outside", 8900, 1400), 1);
    }
}
