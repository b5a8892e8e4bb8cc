//! Trying whether full-size packets get to every other node, and answering others that try.
//!
//! Every node tries every other one, a few at a time; see `docs/adr/0013`. What to try and what it means is decided in
//! `core`; here datagrams are sent and counted. They ignore what routes let out, because they have to try what interfaces
//! carry and routes still hold back.

mod line;
mod trials;

use std::sync::Arc;
use std::time::Duration;

use netferry_core::name::NodeName;
use netferry_core::probe::ledger::Ledger;
use netferry_core::probe::round::{Peers, aims, all, is_moving};
use netferry_core::probe::turns::{Rate, Turns};
use netferry_core::probe::{All, Loss, Peer, Report, Runs};
use netferry_kernel::Kernel;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use line::Lines;
use trials::Trials;

/// How fast nodes are tried.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often it is looked who is to be tried.
    pub tick: Duration,
    /// How long an answer may take.
    pub patience: Duration,
    /// While a change is under way.
    pub often: Rate,
    /// While there is none. Each trial costs both switches a few flows, and those of all nodes add up where nodes share a
    /// machine.
    pub seldom: Rate,
    /// The least time between two reports.
    pub reports: Duration,
    /// While there is no change, as much of it for each node there is. A report is an annotation of a node, of which all
    /// nodes are told.
    pub reports_each: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        let seconds = Duration::from_secs;
        Pace {
            tick: Duration::from_millis(250),
            patience: Duration::from_millis(1500),
            often: Rate { pause: seconds(1), apart: Duration::ZERO, at_once: 4 },
            seldom: Rate { pause: seconds(10), apart: seconds(1), at_once: 1 },
            reports: seconds(2),
            reports_each: Duration::from_millis(500),
        }
    }
}

impl Pace {
    /// At rest all nodes together write as many reports, however many they are.
    fn between_reports(&self, moving: bool, nodes: usize) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        if moving { self.reports } else { self.reports.max(self.reports_each.saturating_mul(nodes)) }
    }
}

/// Reads what this node runs; `None` if it is unknown or the node serves no pods.
pub type ReadRuns = Box<dyn Fn() -> Option<Runs> + Send + Sync>;

/// What probing works with.
pub struct Parts {
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// This node.
    pub name: NodeName,
    /// The port that is asked and answered at, on every node the same.
    pub port: u16,
    /// All nodes.
    pub peers: watch::Receiver<Peers>,
    /// See [`ReadRuns`].
    pub runs: ReadRuns,
    /// See [`Pace`].
    pub pace: Pace,
}

struct Prober {
    parts: Parts,
    lines: Lines,
    trials: Trials,
    ledger: Ledger,
    turns: Turns,
    /// The rendering at which everything was tried last, and what that came to: it stays tried when a node restarts.
    tried: Option<(u64, All)>,
    began: Instant,
}

/// Tries all other nodes and answers them, for as long as somebody listens.
pub async fn run(parts: Parts, tell: watch::Sender<Option<Report>>) {
    let (heard, mut answers) = mpsc::channel(1024);
    let lines = Lines::new(Arc::clone(&parts.kernel), parts.port, parts.peers.clone(), heard);
    let mut tick = tokio::time::interval(parts.pace.tick);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = Instant::now();
    let mut prober = Prober {
        parts,
        lines,
        trials: Trials::default(),
        ledger: Ledger::default(),
        turns: Turns::default(),
        tried: None,
        began: Instant::now(),
    };
    loop {
        tokio::select! {
            // Answers first: one that came in time is not late because we looked late.
            biased;
            Some((number, from)) = answers.recv() => prober.trials.answered(number, from),
            _ = tick.tick() => {
                let Some((report, apart)) = prober.round() else { continue };
                let news = report.is_news(tell.borrow().as_ref());
                if news && said.elapsed() >= apart {
                    tell.send_replace(Some(report));
                    said = Instant::now();
                }
            }
            () = tell.closed() => return,
        }
    }
}

impl Prober {
    /// Ends trials and begins others; what is known by then, if anything new can be said, and how long after the last
    /// time.
    fn round(&mut self) -> Option<(Report, Duration)> {
        let runs = (self.parts.runs)()?;
        let heard = self.parts.peers.clone();
        let peers = heard.borrow();
        let own = peers.get(&self.parts.name)?;
        self.lines.keep(&own.addresses);
        let now = Instant::now();
        for (trial, answers) in self.trials.ended(now, self.parts.pace.patience) {
            self.ledger.enter(&trial.to, trial.way, trial.size, answers, now - self.began);
        }
        self.ledger
            .retain(|to, way| peers.get(to).is_some_and(|peer| peer.there && peer.address(way).is_some()));
        self.turns.retain(|name| peers.contains_key(name));
        let moving = is_moving(&runs, &peers);
        for name in self.due(&runs, own, &peers, now, moving) {
            for (way, address, aim) in aims(&runs, own, &peers[&name]) {
                let size = self.ledger.next(&name, way, aim);
                self.trials.begin(&self.lines, &name, way, address, size, now);
            }
        }
        if let Some(all) = all(&self.parts.name, &runs, &peers, &self.ledger) {
            self.tried = Some((runs.epoch, all));
        }
        let tried = self.tried.as_ref().filter(|(epoch, _)| *epoch == runs.epoch);
        let mut report = Report {
            epoch: runs.epoch,
            all: tried.map(|(_, all)| all.clone()),
            narrow: self.ledger.narrow().collect(),
            losses: self.ledger.losses(now - self.began).collect(),
        };
        report.losses.iter_mut().for_each(coarse);
        let apart = self.parts.pace.between_reports(moving, peers.len());
        (!self.ledger.is_open()).then_some((report, apart))
    }

    fn due(&mut self, runs: &Runs, own: &Peer, peers: &Peers, now: Instant, moving: bool) -> Vec<NodeName> {
        let Pace { often, seldom, .. } = self.parts.pace;
        let rate = if moving { often } else { seldom };
        let nodes = peers.iter().filter_map(|(name, peer)| {
            let aims = aims(runs, own, peer);
            let can_be =
                *name != self.parts.name && peer.there && !aims.is_empty() && !self.trials.with(name);
            let known = |(way, _, aim): &(_, _, _)| self.ledger.width(name, *way, *aim).is_some();
            can_be.then(|| (name, aims.iter().all(known)))
        });
        self.turns.take(nodes, rate, now - self.began)
    }
}

/// Numbers that change with every trial would be written with every trial: a share in steps of a tenth is enough.
fn coarse(loss: &mut Loss) {
    let tenths = (loss.lost * 10).div_ceil(loss.of.max(1));
    (loss.lost, loss.of) = (tenths, 10);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_cluster_at_rest_writes_no_more_reports_than_a_small_one() {
        let pace = Pace::default();
        assert_eq!(pace.between_reports(false, 3), Duration::from_secs(2));
        assert_eq!(pace.between_reports(false, 100), Duration::from_secs(50));
        assert_eq!(pace.between_reports(true, 100), Duration::from_secs(2), "a change waits for reports");
    }
}
