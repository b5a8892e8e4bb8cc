//! Places that are left and come back: their flows pause meanwhile, and go on when they are answered again.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::mpsc::Sender as Reply;
use std::time::Duration;

use super::super::plan::Flow;
use super::super::report::Report;
use super::super::tally::At;
use super::super::{MeterError, Place, datagrams, streams, summary};
use super::running::{Running, counted};
use super::{Driver, Reflector, listen_error, same};

/// Packets per second of a flow that is only tried.
const TRIAL_RATE: u32 = 5;
/// How long what is under way of a trial may take to arrive.
const STRAGGLERS: Duration = Duration::from_secs(1);
/// Somebody waits until a place can be given up.
pub(super) struct Leaving {
    pub(super) place: String,
    pub(super) until: At,
    pub(super) done: Reply<()>,
}

/// Somebody waits until flows are answered that are about to go on.
pub(super) struct Trying {
    /// The copies.
    pub(super) flows: Range<usize>,
    pub(super) answered: bool,
    pub(super) until: At,
    pub(super) done: Reply<Result<Report, MeterError>>,
}

impl Driver {
    pub(super) fn pause_and_resume(&mut self) {
        let now = self.ground.now();
        for running in counted(&mut self.flows) {
            let pause = running.flow.needs_one_of(&self.away);
            if pause && !running.paused {
                running.forward.pause(now);
                running.backward.pause(now);
            }
            running.paused = pause;
        }
    }

    /// Closes what is open in places that are being left, once nothing is under way there.
    pub(super) fn let_go(&mut self) {
        let now = self.ground.now();
        let mut still = Vec::new();
        for leaving in std::mem::take(&mut self.leaving) {
            let ground = &mut self.ground;
            let busy = now < leaving.until
                && counted(&mut self.flows)
                    .any(|running| running.flow.touches(&leaving.place) && running.under_way(ground));
            if busy {
                still.push(leaving);
                continue;
            }
            for running in self.flows.iter_mut().filter(|running| running.flow.touches(&leaving.place)) {
                if running.paused {
                    running.close(&mut self.ground);
                }
                if running.flow.from.name == leaving.place {
                    self.ground.leave(&running.flow.from.namespace, &self.home);
                }
            }
            for reflector in &mut self.reflectors {
                if reflector.endpoint().place.name == leaving.place {
                    reflector.close(&mut self.ground);
                    self.ground.leave(&reflector.endpoint().place.namespace.clone(), &self.home);
                }
            }
            let _ = leaving.done.send(());
        }
        self.leaving = still;
    }

    /// The place is back: its flows go on.
    pub(super) fn come_back(&mut self, place: Place) -> Result<(), MeterError> {
        self.open_again(&place)?;
        self.away.remove(&place.name);
        self.pause_and_resume();
        Ok(())
    }

    /// Starts a copy of every flow that waits for one of these places, and for none else; answers which they are.
    pub(super) fn try_out(&mut self, places: &[Place]) -> Result<Range<usize>, MeterError> {
        for place in places {
            self.open_again(place)?;
        }
        let back = |name: &String| places.iter().any(|place| place.name == *name);
        let still_away: BTreeSet<String> = self.away.iter().filter(|name| !back(name)).cloned().collect();
        let waits = |running: &&Running| running.paused && !running.trial;
        let waiting = self.flows.iter().filter(waits).map(|running| &running.flow);
        let copies: Vec<Flow> = waiting
            .filter(|flow| !flow.needs_one_of(&still_away))
            .map(|flow| flow.clone().at_rate(TRIAL_RATE))
            .collect();
        let first = self.flows.len();
        self.add(copies)?;
        let copies = first..self.flows.len();
        self.flows[copies.clone()].iter_mut().for_each(|running| running.trial = true);
        Ok(copies)
    }

    /// Ends trials that were answered, or that took too long.
    pub(super) fn judge_trials(&mut self) {
        let now = self.ground.now();
        for mut trial in std::mem::take(&mut self.trying) {
            let tried = &mut self.flows[trial.flows.clone()];
            if !trial.answered && tried.iter().all(Running::answered) {
                // What was lost before is not waited for; what is on its way must not meet the flow itself.
                trial.answered = true;
                trial.until = trial.until.min(now + STRAGGLERS);
                tried.iter_mut().for_each(|running| running.paused = true);
            }
            let busy = tried.iter_mut().any(|running| running.under_way(&mut self.ground));
            if now < trial.until && (busy || !trial.answered) {
                self.trying.push(trial);
                continue;
            }
            for running in &mut *tried {
                running.paused = true;
                running.close(&mut self.ground);
            }
            let _ = trial.done.send(Ok(summary::report(tried, &[], &self.ground, true)));
        }
    }

    /// Opens again, in a new namespace, what was closed when a place was left.
    pub(super) fn open_again(&mut self, place: &Place) -> Result<(), MeterError> {
        for (at, reflector) in self.reflectors.iter_mut().enumerate() {
            let mut endpoint = reflector.endpoint().clone();
            // What was opened there to try the way stays open: who opens it anew may have to wait for its port.
            if endpoint.place.name != place.name || (reflector.is_open() && same(&endpoint.place, place)) {
                continue;
            }
            endpoint.place = place.clone();
            reflector.close(&mut self.ground);
            let failed = |source| listen_error(&endpoint, source);
            *reflector = match reflector {
                Reflector::Datagrams(_) => Reflector::Datagrams(
                    datagrams::Reflector::open(at, endpoint.clone(), &mut self.ground).map_err(failed)?,
                ),
                Reflector::Streams(_) => Reflector::Streams(
                    streams::Reflector::open(at, endpoint.clone(), &mut self.ground).map_err(failed)?,
                ),
            };
        }
        for running in &mut self.flows {
            if running.flow.from.name == place.name {
                running.close(&mut self.ground);
                running.flow.from = place.clone();
            }
            for reflector in running.flow.reflectors.iter_mut().filter(|r| r.place.name == place.name) {
                reflector.place = place.clone();
            }
        }
        Ok(())
    }
}
