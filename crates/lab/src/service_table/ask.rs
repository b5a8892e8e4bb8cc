//! Questions, and whether their answers are right.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::live::{LiveError, Run};
use super::scenario::{Answered, Ask, Not};
use super::world::{Asker, Target};
use crate::meter::Place;
use crate::programs::probe::{self, Outcome, Probe, Silence};

/// How long an answer may take. One that should come and does not is asked for again.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing must come for it to be silence. A busy machine is slow, and that is no silence.
const SILENT_FOR: Duration = Duration::from_secs(2);
/// Asked so often at a time.
const A_FEW: usize = 4;
/// After so many questions each of two backends has answered, but for once in some million times.
const UNTIL_ALL: usize = 24;
/// So many connections of a client at a time are no load for a busy machine.
const TOGETHER: usize = 8;

/// One question of an ask: one client, one address, one protocol.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    ask: &'a Ask,
    asker: Asker,
    target: Target,
    /// Whom the answering side must see.
    seen: Option<IpAddr>,
}

impl Cell<'_> {
    /// Whether it tells something to ask again: somebody who should answer has not done so yet.
    fn is_open(&self, outcomes: &[Outcome]) -> bool {
        let Answered::By(wanted) = &self.ask.answer else { return false };
        let fine = |one: &Outcome| one.answer.as_ref().is_some_and(|answer| wanted.contains(&answer.name));
        let names: BTreeSet<&str> = outcomes.iter().filter_map(name).collect();
        !self.ask.sticky
            && outcomes.len() < UNTIL_ALL
            && names.len() < wanted.len()
            && outcomes.iter().all(fine)
    }

    fn at_a_time(&self) -> usize {
        match &self.ask.answer {
            Answered::By(_) | Answered::Not(Not::Refused) => A_FEW,
            Answered::Not(Not::Silent | Not::Unbroken) => 1,
        }
    }

    fn probe(&self) -> Probe {
        let patience = match self.ask.answer {
            Answered::Not(Not::Silent) => SILENT_FOR,
            Answered::Not(Not::Refused | Not::Unbroken) | Answered::By(_) => ANSWERED_WITHIN,
        };
        let mut probe = Probe::new(self.target.protocol, self.target.at);
        probe.timeout_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        probe
    }

    /// What is wrong with these outcomes.
    fn wrong(&self, outcomes: &[Outcome]) -> Option<String> {
        let fine = match &self.ask.answer {
            Answered::Not(how) => {
                let wanted = match how {
                    Not::Refused | Not::Unbroken => Silence::Refused,
                    Not::Silent => Silence::Timeout,
                };
                outcomes.iter().all(|outcome| outcome.silence == Some(wanted))
            }
            Answered::By(wanted) => {
                let names: BTreeSet<&str> = outcomes.iter().filter_map(name).collect();
                let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
                let right = if self.ask.sticky {
                    names.len() == 1 && names.is_subset(&wanted)
                } else {
                    names == wanted
                };
                right && outcomes.iter().all(|outcome| self.is_seen_right(outcome))
            }
        };
        (!fine).then(|| format!("{self}: {}", told(outcomes)))
    }

    fn is_seen_right(&self, outcome: &Outcome) -> bool {
        let Some(answer) = &outcome.answer else { return false };
        self.seen.is_none_or(|seen| answer.peer.ip() == seen)
    }
}

impl std::fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (asker, target) = (&self.asker.name, &self.target);
        write!(f, "{asker} -> {:?} ({:?} {}) should be ", self.ask.to, target.protocol, target.at)?;
        match &self.ask.answer {
            Answered::Not(how) => write!(f, "{how:?}")?,
            Answered::By(names) if self.ask.sticky => write!(f, "always the same of {}", names.join(", "))?,
            Answered::By(names) => write!(f, "answered by {}", names.join(", "))?,
        }
        match self.seen {
            Some(seen) => write!(f, " who see {seen}"),
            None => Ok(()),
        }
    }
}

fn name(outcome: &Outcome) -> Option<&str> {
    Some(outcome.answer.as_ref()?.name.as_str())
}

/// What came, counted.
fn told(outcomes: &[Outcome]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in outcomes {
        let what = match (&outcome.answer, outcome.silence) {
            (Some(answer), _) => format!("{} who sees {}", answer.name, answer.peer.ip()),
            (None, Some(silence)) => silence.to_string(),
            (None, None) => "nothing".to_owned(),
        };
        *counts.entry(what).or_default() += 1;
    }
    let all: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} × {what}")).collect();
    all.join(", ")
}

impl Run<'_, '_> {
    fn cells<'a>(&self, asks: &'a [Ask]) -> Result<Vec<Cell<'a>>, LiveError> {
        let unreadable = |why: String| self.unreadable(why);
        let mut cells = Vec::new();
        for ask in asks {
            let service = self.service(ask.service.as_deref()).map_err(unreadable)?;
            for from in &ask.from {
                for asker in self.table.askers(from, &self.pods).map_err(unreadable)? {
                    let targets = self.table.targets(&asker, &ask.to, service, ask.protocol, ask.port);
                    for target in targets.map_err(unreadable)? {
                        let seen = ask.seen.map(|seen| self.table.seen(&asker, &target, seen));
                        let seen = seen.transpose().map_err(unreadable)?;
                        cells.push(Cell { ask, asker: asker.clone(), target, seen });
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Asks everything until all of it is right, or the patience ends. Answers how many questions there are.
    ///
    /// Those that somebody answers come first: they are right only when the Service is everywhere, and what nobody
    /// answers could be right before.
    pub(super) async fn compare(&self, step: usize, asks: &[Ask]) -> Result<usize, LiveError> {
        let cells = self.cells(asks)?;
        let of = cells.len();
        let (answered, not): (Vec<_>, Vec<_>) =
            cells.into_iter().partition(|cell| matches!(cell.ask.answer, Answered::By(_)));
        for cells in [answered, not] {
            self.insist(step, cells, of).await?;
        }
        Ok(of)
    }

    async fn insist(&self, step: usize, mut cells: Vec<Cell<'_>>, of: usize) -> Result<(), LiveError> {
        let end = Instant::now() + self.patience;
        loop {
            let (mut wrong, mut again) = (Vec::new(), Vec::new());
            let seen = self.ask(&cells).await?;
            for (cell, outcomes) in cells.into_iter().zip(seen) {
                if let Some(why) = cell.wrong(&outcomes) {
                    wrong.push(why);
                    again.push(cell);
                }
            }
            if again.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                let title = self.scenario.title.clone();
                return Err(LiveError::Wrong { title, step, of, within: self.patience, wrong });
            }
            cells = again;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks each question until it says no more, all clients at once.
    async fn ask(&self, cells: &[Cell<'_>]) -> Result<Vec<Vec<Outcome>>, LiveError> {
        let mut seen: Vec<Vec<Outcome>> = vec![Vec::new(); cells.len()];
        let mut open: Vec<usize> = (0..cells.len()).collect();
        while !open.is_empty() {
            let mut by_asker: BTreeMap<&str, (Place, Vec<usize>, Vec<Probe>)> = BTreeMap::new();
            for at in &open {
                let cell = &cells[*at];
                let place = || (cell.asker.site.place.clone(), Vec::new(), Vec::new());
                let (_, ats, probes) = by_asker.entry(cell.asker.name.as_str()).or_insert_with(place);
                for _ in 0..cell.at_a_time() {
                    ats.push(*at);
                    probes.push(cell.probe());
                }
            }
            let asking = by_asker.into_values().map(|(place, ats, probes)| async move {
                let inside = move || place.namespace.run(|| probe::all(&probes, TOGETHER));
                let outcomes = tokio::task::spawn_blocking(inside).await;
                let outcomes = outcomes.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
                outcomes.map(|outcomes| (ats, outcomes))
            });
            for asked in futures::future::join_all(asking).await {
                let (ats, outcomes) = asked.map_err(|source| LiveError::Enter(Box::new(source)))?;
                for (at, outcome) in ats.into_iter().zip(outcomes) {
                    seen[at].push(outcome);
                }
            }
            open.retain(|at| cells[*at].is_open(&seen[*at]));
        }
        Ok(seen)
    }
}
