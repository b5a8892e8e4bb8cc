//! Whatever of ours somebody deletes or changes by hand on a running node is put back.
//!
//! What is ours is not listed here but seen: rows that a database's journal says were written by us, and what a node's
//! kernel has that it has not on a node nothing of ours runs on. A new kind of thing is tampered with from its first
//! day.

#![allow(dead_code, reason = "the soak suite uses it too, and each its part")]

mod kernel;
mod observe;
mod rows;

use std::time::{Duration, Instant};

use netferry_lab::{Families, Lab, Options};

use crate::bench::{self, PATIENCE, bare, options};
use crate::kubectl::{apply, pod, ready};
use observe::{Domain, State, look};

const NODE: &str = "node-1";
/// The bridge whose address and size are the switch's to choose.
const INTEGRATION_BRIDGE: &str = "br-int";

/// Something done by hand.
#[derive(Clone, Debug)]
pub(crate) struct Harm {
    /// What it is an example of.
    pub(crate) kind: String,
    /// What exactly.
    pub(crate) what: String,
    domain: Domain,
    command: Vec<String>,
}

impl Harm {
    /// Whether a thing of ours is gone with it, or a setting another; else a thing is changed.
    pub(crate) fn is_loss(&self) -> bool {
        [" deleted", " emptied"].iter().any(|how| self.kind.contains(how))
            || self.kind.starts_with("setting ")
    }

    fn new(kind: String, what: String, domain: Domain, script: String) -> Harm {
        Harm { kind, what, domain, command: ["sh".into(), "-c".into(), script].into() }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// All is as it was, after so long.
    Repaired(Duration),
    /// It cannot be done: something else holds the thing.
    Refused(String),
    /// It is not there any more.
    Gone,
    /// Not in time; what is different.
    Left(String),
}

/// A node with something of every kind on it.
pub(crate) struct Ground {
    pub(crate) lab: Lab,
    bare: State,
    before: State,
}

impl Ground {
    pub(crate) fn new() -> Ground {
        let families = Families::Dual;
        let empty = bench::up(&Options { families, ..bare(1) });
        let without = look(&empty, NODE, &Domain::of_the_kernel()).expect("a look at a bare node");
        drop(empty);
        let lab = bench::up(&Options { families, ..options(2) });
        for (name, node) in [("web", NODE), ("peer", "node-2")] {
            pod(&lab, "default", name, node, "");
        }
        apply(
            &lab,
            "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, selector: {app: web}, \
             ipFamilyPolicy: PreferDualStack, ports: [{port: 8080}]}}",
        );
        apply(
            &lab,
            "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web}, \
             spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], egress: [{}], \
             ingress: [{from: [{podSelector: {matchLabels: {app: peer}}}]}]}}",
        );
        ready(&lab, "default", "web");
        ready(&lab, "default", "peer");
        let mut ground = Ground { lab, bare: without, before: State::default() };
        ground.settle();
        ground
    }

    /// Waits until nothing changes any more, and takes that for how it shall be.
    pub(crate) fn settle(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let mut quiet = 0;
        while quiet < 4 {
            assert!(Instant::now() < deadline, "the node does not come to rest");
            std::thread::sleep(Duration::from_millis(500));
            let Some(now) = look(&self.lab, NODE, &Domain::ALL) else { continue };
            let same = !self.before.is_empty()
                && now.iter().all(|(domain, seen)| seen.lines == self.before[domain].lines);
            quiet = if same { quiet + 1 } else { 0 };
            self.before = now;
        }
    }

    /// Everything that can be done now.
    pub(crate) fn harms(&self) -> Vec<Harm> {
        let deadline = Instant::now() + PATIENCE;
        let now = loop {
            assert!(Instant::now() < deadline, "the node cannot be looked at");
            if let Some(now) = look(&self.lab, NODE, &Domain::ALL) {
                break now;
            }
        };
        let databases = [Domain::Switch, Domain::Northbound, Domain::Southbound];
        let rows = databases.into_iter().flat_map(|one| rows::harms(&self.lab, NODE, one, &now[&one].said));
        rows.chain(kernel::harms(&now, &self.bare)).collect()
    }

    /// Does it, and waits until everything is as it was. What was repaired before is another thing now, which goes by
    /// another number: then it is looked for anew.
    pub(crate) fn suffer(&self, harm: &Harm, patience: Duration) -> Outcome {
        match self.suffer_once(harm, patience) {
            stale @ (Outcome::Gone | Outcome::Refused(_)) => {
                let anew =
                    self.harms().into_iter().find(|one| one.what == harm.what && one.command != harm.command);
                anew.map_or(stale, |anew| self.suffer_once(&anew, patience))
            }
            lasting @ (Outcome::Repaired(_) | Outcome::Left(_)) => lasting,
        }
    }

    fn suffer_once(&self, harm: &Harm, patience: Duration) -> Outcome {
        let began = Instant::now();
        let arguments: Vec<&str> = harm.command[1..].iter().map(String::as_str).collect();
        let done = self.lab.exec(NODE, &harm.command[0], &arguments);
        let done = done.unwrap_or_else(|error| panic!("{}", error.chain()));
        let said =
            format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let said = said.trim();
        if said.ends_with("{\"count\":0}]")
            || (said.contains("No such file") && harm.domain == Domain::Filter)
        {
            return Outcome::Gone;
        }
        if !done.status.success() || said.contains("\"error\"") {
            return Outcome::Refused(said.to_owned());
        }
        let deadline = began + patience;
        let mut repaired = None;
        loop {
            let left = match repaired {
                None => self.differs(&[harm.domain]),
                Some(_) => self.differs(&Domain::ALL),
            };
            match (left, repaired) {
                (None, None) => repaired = Some(began.elapsed()),
                (None, Some(after)) => return Outcome::Repaired(after),
                (Some(_), _) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                (Some(left), _) => return Outcome::Left(left),
            }
        }
    }

    /// What is not as it was.
    fn differs(&self, domains: &[Domain]) -> Option<String> {
        let Some(now) = look(&self.lab, NODE, domains) else {
            return Some(format!("{domains:?} cannot be looked at"));
        };
        for (domain, now) in now {
            let before = &self.before[&domain].lines;
            if now.lines != *before {
                let gone: Vec<&String> = before.difference(&now.lines).collect();
                let new: Vec<&String> = now.lines.difference(before).collect();
                return Some(format!("{domain:?}: missing {gone:#?}, new {new:#?}"));
            }
        }
        None
    }
}
