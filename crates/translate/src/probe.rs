//! Nodes as they try each other, and what they found out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1 as k8s;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::mtu::{LossyWay, MtuObserved, MtuProbes, NarrowWay};
use netferry_api::overlay::annotations::PrimaryIfAddr;
use netferry_core::mtu::plan::Observed;
use netferry_core::name::{NodeName, NotANodeName};
use netferry_core::net::Family;
use netferry_core::overlay::networks::Networks;
use netferry_core::probe::{All, Layer, Loss, Narrow, Peer, Report, Roll, Runs, Way};
use netferry_core::rollout::pool::Truth;
use netferry_core::size::{Mtu, OutOfRange};

use crate::{machine, mtu, node};

/// Ways with trouble, of either kind, that a report names; the rest is counted.
const NAMED: usize = 16;

/// A node as others try it; nothing of one that takes no part in changes of the MTU.
pub fn peer(networks: &Networks, written: &k8s::Node) -> Option<(NodeName, Peer)> {
    let (understood, _) = machine::understood(written);
    let machine = understood?.node;
    if !machine.takes_part() {
        return None;
    }
    let none = BTreeMap::new();
    let annotations = written.metadata.annotations.as_ref().unwrap_or(&none);
    let hosts = PrimaryIfAddr::read(annotations).ok().flatten();
    let hosts = hosts.iter().flat_map(|pair| pair.0.iter()).map(|net| (Layer::Hosts, net.addr()));
    let place = node::assignment(networks, annotations).ok();
    let pods = place.iter().flat_map(|place| place.management().iter()).map(|ip| (Layer::Pods, ip));
    let way = |(layer, ip): (Layer, IpAddr)| (Way { layer, family: Family::of(ip) }, ip);
    let settled = machine.desired == machine.current || machine.desired.is_none();
    let peer = Peer {
        uid: machine.uid,
        addresses: hosts.chain(pods).map(way).collect(),
        runs: carried(annotations),
        there: machine.ready.is_none_or(|ready| ready == Truth::True) && settled,
    };
    Some((machine.name, peer))
}

/// What a node carries now, in a trial too: that is what a trial is for.
fn carried(annotations: &BTreeMap<String, String>) -> Option<Runs> {
    runs(mtu::understood(&MtuObserved::read(annotations).ok()??).ok()?)
}

/// What a node runs, once it serves pods.
pub fn runs(observed: Observed) -> Option<Runs> {
    let Observed { epoch, network, host } = observed;
    Some(Runs { epoch, hosts: host, pods: network? })
}

/// A report that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotAReport {
    /// It cannot be read.
    #[error("{0}")]
    Annotation(#[from] AnnotationError),
    /// A size no link of ours has.
    #[error("annotation {key}: {0}", key = MtuProbes::KEY)]
    Size(#[from] OutOfRange),
    /// It names what cannot be a node.
    #[error("annotation {key}: {0}", key = MtuProbes::KEY)]
    Name(#[from] NotANodeName),
}

/// What a node found out, if it said so.
///
/// # Errors
/// If it says something that cannot be; such a node is waited for as if it had not spoken.
pub fn report(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<Report>, NotAReport> {
    let Some(written) = annotations.map(MtuProbes::read).transpose()?.flatten() else { return Ok(None) };
    let narrow = written.narrow.into_iter().map(|one| {
        let (to, way) = (NodeName::new(one.to)?, known(&one.way)?);
        Ok(Narrow { to, way, tried: Mtu::new(one.tried)?, passes: Mtu::new(one.passes)? })
    });
    let losses = written.losses.into_iter().map(|one| {
        let (to, way) = (NodeName::new(one.to)?, known(&one.way)?);
        Ok(Loss { to, way, lost: one.lost, of: one.of })
    });
    let widths = written.widths.iter().map(|(way, width)| Ok((known(way)?, Mtu::new(*width)?)));
    let widths = widths.collect::<Result<_, NotAReport>>()?;
    let roll = written.roll.and_then(|roll| u64::from_str_radix(&roll, 16).ok()).map(Roll);
    Ok(Some(Report {
        epoch: written.epoch,
        all: roll.map(|roll| All { roll, widths }),
        narrow: narrow.collect::<Result<_, NotAReport>>()?,
        losses: losses.collect::<Result<_, NotAReport>>()?,
    }))
}

fn known(word: &str) -> Result<Way, NotAReport> {
    let unknown = || AnnotationError::Value { key: MtuProbes::KEY, problem: format!("{word:?} is no way") };
    Ok(Way::named(word).ok_or_else(unknown)?)
}

/// A report as it is published.
pub fn printed(report: &Report) -> MtuProbes {
    let narrow = worst(&report.narrow, |one| (one.way, one.passes)).map(|one| NarrowWay {
        to: one.to.to_string(),
        way: one.way.name().to_owned(),
        tried: one.tried.bytes(),
        passes: one.passes.bytes(),
    });
    let thousandths =
        |one: &Loss| u64::from(one.of.saturating_sub(one.lost)) * 1000 / u64::from(one.of.max(1));
    let losses = worst(&report.losses, |one| (one.way, thousandths(one))).map(|one| LossyWay {
        to: one.to.to_string(),
        way: one.way.name().to_owned(),
        lost: one.lost,
        of: one.of,
    });
    let width = |(way, width): (&Way, &Mtu)| (way.name().to_owned(), width.bytes());
    let beyond = |all: usize| all.saturating_sub(NAMED);
    MtuProbes {
        epoch: report.epoch,
        roll: report.all.as_ref().map(|all| all.roll.to_string()),
        widths: report.all.iter().flat_map(|all| &all.widths).map(width).collect(),
        narrow: narrow.collect(),
        losses: losses.collect(),
        more: beyond(report.narrow.len()) + beyond(report.losses.len()),
    }
}

/// As many as are named, in the order they came. The first to be named is the worst on each way, where least gets through:
/// sizes of hosts and of pods are not to be compared, and whoever asks whether a way takes some size must not be told of
/// others instead.
fn worst<T, K: Ord>(all: &[T], gets_through: impl Fn(&T) -> (Way, K)) -> impl Iterator<Item = &T> {
    let mut ways: BTreeMap<Way, Vec<(K, usize)>> = BTreeMap::new();
    for (at, one) in all.iter().enumerate() {
        let (way, least) = gets_through(one);
        ways.entry(way).or_default().push((least, at));
    }
    let ranked = ways.into_values().flat_map(|mut of_way| {
        of_way.sort();
        of_way.into_iter().enumerate().map(|(rank, (least, at))| (rank, least, at))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort();
    let mut named: Vec<usize> = ranked.into_iter().take(NAMED).map(|(_, _, at)| at).collect();
    named.sort_unstable();
    named.into_iter().map(|at| &all[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lossy(to: usize) -> Loss {
        Loss { to: NodeName::new(format!("n{to}")).unwrap(), way: Way::ALL[3].0, lost: 4, of: 20 }
    }

    #[test]
    fn what_is_published_is_read_again() {
        let to = NodeName::new("b").unwrap();
        let (tried, passes) = (Mtu::new(9000).unwrap(), Mtu::new(1500).unwrap());
        let report_ = Report {
            epoch: 3,
            all: Some(All { roll: Roll(0x0042), widths: [(Way::ALL[0].0, passes)].into() }),
            narrow: vec![Narrow { to, way: Way::ALL[0].0, tried, passes }],
            losses: vec![lossy(1)],
        };
        let annotations = BTreeMap::from([printed(&report_).entry()]);
        assert_eq!(report(Some(&annotations)).unwrap(), Some(report_));
        assert_eq!(report(None).unwrap(), None);
    }

    #[test]
    fn of_many_troubles_some_are_named_and_the_rest_counted() {
        let losses = (0..40).map(lossy).collect();
        let written = printed(&Report { losses, ..Report::default() });
        assert_eq!((written.losses.len(), written.more), (16, 24));
    }

    #[test]
    fn of_many_narrow_ways_the_narrowest_of_each_kind_are_named() {
        let (hosts, pods) = (Way::ALL[0].0, Way::ALL[2].0);
        let narrow = |to: usize, way, passes: usize| Narrow {
            to: NodeName::new(format!("n{to:02}")).unwrap(),
            way,
            tried: Mtu::new(9000).unwrap(),
            passes: Mtu::new(u32::try_from(passes).unwrap()).unwrap(),
        };
        // Pods get less through than hosts on every way, and the narrowest way of hosts is the last by name.
        let of_hosts = (0..40).map(|to| narrow(to, hosts, 8000 - to));
        let of_pods = (0..40).map(|to| narrow(to, pods, 1400 + to));
        let mut all: Vec<Narrow> = of_hosts.chain(of_pods).collect();
        all.sort();
        let written = printed(&Report { narrow: all, ..Report::default() });
        let named = |way: Way| -> Vec<u32> {
            written.narrow.iter().filter(|one| one.way == way.name()).map(|one| one.passes).collect()
        };
        assert_eq!(named(hosts), [7968, 7967, 7966, 7965, 7964, 7963, 7962, 7961]);
        assert_eq!(named(pods), [1400, 1401, 1402, 1403, 1404, 1405, 1406, 1407]);
        assert_eq!(written.more, 64);
    }

    #[test]
    fn of_many_ways_with_losses_those_that_lose_most_are_named() {
        let losses = (0..40).map(|to| Loss { lost: if to == 39 { 20 } else { 4 }, ..lossy(to) }).collect();
        let written = printed(&Report { losses, ..Report::default() });
        assert_eq!(written.losses.last().map(|one| (one.to.as_str(), one.lost)), Some(("n39", 20)));
    }

    #[test]
    fn a_report_of_what_cannot_be_is_refused_with_its_key() {
        let size = r#"{"epoch":1,"narrow":[{"to":"b","way":"hosts-ipv4","tried":9000,"passes":12}]}"#;
        let name = r#"{"epoch":1,"losses":[{"to":"/","way":"hosts-ipv4","lost":1,"of":1}]}"#;
        for wrong in ["no", size, name] {
            let annotations = BTreeMap::from([(MtuProbes::KEY.to_owned(), wrong.to_owned())]);
            let said = report(Some(&annotations)).unwrap_err().to_string();
            assert!(said.contains(MtuProbes::KEY), "{said}");
        }
    }
}
