//! Trying beforehand whether the wire carries what a change leads to.
//!
//! Links carry the new size for a while and routes let out no more than before: phase one of a change without a restart,
//! and without anything that outlives one. Nodes then try each other as they always do ([`probe`](super::probe)), with
//! what both ends carry. `docs/adr/0014-an-underlay-is-tried-by-carrying-more.md` tells why that is safe.

use std::collections::BTreeMap;
use std::time::Duration;

use super::preflight::Finding;
use super::probe::judge::{Lost, trouble};
use crate::name::NodeName;
use crate::probe::{Layer, Report, Roll};
use crate::size::{Envelope, Mtu};

/// The longest a node takes part. Whoever asked may be gone.
pub const LONGEST: Duration = Duration::from_secs(900);

/// How long other nodes are waited for that may know of more ways, after the last one that is known.
pub const MORE: Duration = Duration::from_secs(15);

/// What a node is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// What links are to carry.
    pub carries: Mtu,
    /// For how long from now.
    pub left: Duration,
}

/// Why a node does not take part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotTried {
    /// It is not known what it should be at.
    #[error("host-init has not run since this node came up")]
    Unbooted,
    /// Links are on their way to something else.
    #[error("a change of MTU is under way, links carry {0}")]
    Changing(Envelope),
    /// There is nothing to try.
    #[error("links carry {carries}, and {asked} is not more")]
    NotMore {
        /// What they carry.
        carries: Mtu,
        /// What is asked.
        asked: Mtu,
    },
    /// It would last too long.
    #[error("it would last for {} s, and {} s is the longest", .0.as_secs(), LONGEST.as_secs())]
    TooLong(Duration),
}

/// What a node that runs at `booted` does when it is asked; nothing once the time is over.
///
/// # Errors
/// If it does not take part.
pub fn decide(ask: Ask, booted: Option<Envelope>) -> Result<Option<Envelope>, NotTried> {
    if ask.left.is_zero() {
        return Ok(None);
    }
    if ask.left > LONGEST {
        return Err(NotTried::TooLong(ask.left));
    }
    let booted = booted.ok_or(NotTried::Unbooted)?;
    let carries = booted.carries();
    match booted.pin() {
        Some(_) => Err(NotTried::Changing(booted)),
        None if ask.carries <= carries => Err(NotTried::NotMore { carries, asked: ask.carries }),
        None => Ok(Some(Envelope::spanning(carries, ask.carries))),
    }
}

/// What a node says of the trial it is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Answer {
    /// Nothing yet.
    #[default]
    None,
    /// It carries what is asked.
    Carries,
    /// It does not, and why.
    Refused(String),
}

/// A node that is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Which object it is.
    pub uid: String,
    /// What it says of it.
    pub answer: Answer,
    /// What it found out.
    pub report: Option<Report>,
}

/// How far a trial is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Nodes that do not know yet.
    pub waits_for: Vec<NodeName>,
    /// What speaks against the change.
    pub findings: Vec<Finding>,
    /// It can be decided: every node knows of a way, or one does not take part.
    pub over: bool,
    /// Nothing more can be found out: every node knows of every other one.
    pub complete: bool,
}

impl Outcome {
    /// Whether nobody is waited for any more, once nothing new was found for so long.
    pub fn is_final(&self, nothing_new_for: Duration) -> bool {
        self.complete || self.over && nothing_new_for >= MORE
    }
}

/// What nodes found out of packets of this size between hosts.
pub fn outcome(size: Mtu, nodes: &BTreeMap<NodeName, Asked>) -> Outcome {
    let uids: BTreeMap<NodeName, String> =
        nodes.iter().map(|(name, asked)| (name.clone(), asked.uid.clone())).collect();
    let roll = Roll::of(uids.iter().map(|(name, uid)| (name, uid.as_str())));
    let mut outcome = Outcome::default();
    let (mut refused, mut partly) = (false, false);
    for (name, asked) in nodes {
        if let Answer::Refused(why) = &asked.answer {
            refused = true;
            outcome.findings.push(Finding::NoTrial { node: name.clone(), why: why.clone() });
            continue;
        }
        // What a node found out before it carried more says nothing.
        let report = asked.report.as_ref().filter(|_| asked.answer == Answer::Carries);
        let narrow = report.iter().flat_map(|report| trouble(name, report, &uids)).filter(
            |trouble| matches!(trouble.lost, Lost::Above(passes) if passes < size && trouble.way.layer == Layer::Hosts),
        );
        let narrow: Vec<_> = narrow.collect();
        let all = report.and_then(|report| report.all.as_ref()).filter(|all| all.roll == roll);
        let mut hosts =
            all.iter().flat_map(|all| &all.widths).filter(|(way, _)| way.layer == Layer::Hosts).peekable();
        let passes = hosts.peek().is_some() && hosts.all(|(_, width)| *width >= size);
        if narrow.is_empty() && !passes {
            outcome.waits_for.push(name.clone());
        }
        let is_named = |other: &NodeName| narrow.iter().any(|trouble| trouble.pair.to == *other);
        partly |= !passes && !nodes.keys().filter(|other| *other != name).all(is_named);
        outcome.findings.extend(narrow.into_iter().map(|trouble| Finding::Underlay { trouble, size }));
    }
    outcome.over = refused || outcome.waits_for.is_empty();
    outcome.complete = refused || !partly;
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{mtu, name};
    use crate::probe::{All, Loss, Narrow, Way};

    fn ask(bytes: u32, seconds: u64) -> Ask {
        Ask { carries: mtu(bytes), left: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_node_carries_more_and_sends_no_more_for_as_long_as_it_is_asked() {
        let settled = Some(Envelope::settled(mtu(1500)));
        let held = decide(ask(9000, 60), settled).unwrap().unwrap();
        assert_eq!((held.carries(), held.sends()), (mtu(9000), mtu(1500)));
        assert_eq!(decide(ask(9000, 0), settled), Ok(None), "the time is over");
        assert_eq!(decide(ask(9000, 0), None), Ok(None));
    }

    #[test]
    fn a_node_that_does_not_take_part_says_why() {
        let settled = Some(Envelope::settled(mtu(1500)));
        let changing = Some(Envelope::spanning(mtu(1500), mtu(9000)));
        for (ask, booted, said) in [
            (ask(9000, 60), None, "host-init has not run since this node came up"),
            (ask(9216, 60), changing, "a change of MTU is under way, links carry 9000 (routes 1500)"),
            (ask(1500, 60), settled, "links carry 1500, and 1500 is not more"),
            (ask(1400, 60), settled, "links carry 1500, and 1400 is not more"),
            (ask(9000, 901), settled, "it would last for 901 s, and 900 s is the longest"),
        ] {
            assert_eq!(decide(ask, booted).unwrap_err().to_string(), said);
        }
    }

    fn way(word: &str) -> Way {
        Way::named(word).unwrap()
    }

    /// Three nodes that carry 9000; all of them found out that hosts' packets of this size get to each other.
    fn nodes(width: u32) -> BTreeMap<NodeName, Asked> {
        let names = ["a", "b", "c"].map(name);
        let roll = Roll::of(names.iter().map(|name| (name, "1")));
        let widths = BTreeMap::from([(way("hosts-ipv4"), mtu(width)), (way("pods-ipv4"), mtu(1400))]);
        let report = Report { all: Some(All { roll, widths }), ..Report::default() };
        let asked = Asked { uid: "1".into(), answer: Answer::Carries, report: Some(report) };
        names.map(|name| (name, asked.clone())).into()
    }

    fn said(nodes: &BTreeMap<NodeName, Asked>) -> (Vec<String>, Vec<String>, bool) {
        let outcome = outcome(mtu(9000), nodes);
        let names = outcome.waits_for.iter().map(ToString::to_string);
        let findings = outcome.findings.iter().map(|one| format!("{}: {one}", one.name()));
        (names.collect(), findings.collect(), outcome.over)
    }

    #[test]
    fn a_wire_carries_a_size_once_every_node_has_sent_it_to_every_other() {
        let none = (vec![], vec![], true);
        assert_eq!(said(&nodes(9000)), none);
        assert_eq!(said(&nodes(9100)), none);
        let all = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(said(&nodes(1500)), (all, vec![], false), "what was found out before");
        let mut some = nodes(9000);
        some.get_mut(&name("b")).unwrap().answer = Answer::None;
        assert_eq!(said(&some), (vec!["b".to_owned()], vec![], false));
        let mut more = nodes(9000);
        more.insert(name("d"), Asked { uid: "1".into(), answer: Answer::Carries, report: None });
        assert_eq!(said(&more).0, ["a", "b", "c", "d"], "a node that came meanwhile was not tried");
    }

    #[test]
    fn a_way_that_is_too_narrow_is_named_and_what_pods_or_chance_lose_is_not() {
        let mut found = nodes(1500);
        for (from, asked) in &mut found {
            let to = name(if from.as_str() == "a" { "b" } else { "a" });
            let narrow = |way_: &str, passes| Narrow {
                to: to.clone(),
                way: way(way_),
                tried: mtu(9000),
                passes: mtu(passes),
            };
            let report = asked.report.as_mut().unwrap();
            report.narrow = vec![narrow("hosts-ipv4", 1500), narrow("pods-ipv4", 1300)];
            report.losses = vec![Loss { to: to.clone(), way: way("hosts-ipv4"), lost: 2, of: 10 }];
        }
        let (waits_for, findings, over) = said(&found);
        assert_eq!((waits_for.len(), over), (0, true));
        let some = outcome(mtu(9000), &found);
        assert!(
            !some.is_final(Duration::ZERO) && some.is_final(MORE),
            "of the way from b to c nothing is known"
        );
        let first =
            "Underlay/a/b: packets of 9000 do not get through from a to b (hosts, IPv4: all above 1500)";
        assert_eq!((findings.len(), findings[0].as_str()), (3, first));
        for (from, asked) in &mut found {
            let narrow = &mut asked.report.as_mut().unwrap().narrow;
            let others = ["a", "b", "c"].map(name).into_iter().filter(|other| other != from);
            *narrow = others.map(|to| Narrow { to, ..narrow[0].clone() }).collect();
        }
        let all = outcome(mtu(9000), &found);
        assert_eq!((all.findings.len(), all.is_final(Duration::ZERO)), (6, true));
        assert!(!Outcome::default().is_final(MORE), "nobody knows of anything");
    }

    #[test]
    fn nobody_is_waited_for_once_a_node_does_not_take_part() {
        let mut found = nodes(1500);
        found.get_mut(&name("c")).unwrap().answer = Answer::Refused("a change of MTU is under way".into());
        let (waits_for, findings, over) = said(&found);
        assert_eq!((waits_for.len(), over), (2, true));
        assert_eq!(findings, ["NoTrial/c: node c does not try larger packets: a change of MTU is under way"]);
    }
}
