//! Requests, one after another, none of which may be lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::world::{Asker, Target};
use crate::programs::probe::{self, Probe};

/// Between two requests of one client.
const BEAT: Duration = Duration::from_millis(20);
/// Who has not answered for this long is not asked any more: longer than a switch follows a rule that is no more.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// A connection that takes this long is none. A first packet that is lost on a busy machine is sent again before.
const WITHIN: Duration = Duration::from_secs(10);

/// A client that asks and asks, each time by a new connection.
#[derive(Debug)]
pub(super) struct Load {
    name: String,
    tally: Arc<Mutex<Tally>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What became of a client's requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// By who answered.
    pub(super) answered: BTreeMap<String, u64>,
    /// By what happened instead.
    pub(super) lost: BTreeMap<String, u64>,
    /// When each answered last.
    last: BTreeMap<String, Instant>,
}

impl Load {
    pub(super) fn start(asker: &Asker, target: &Target) -> Load {
        let tally = Arc::new(Mutex::new(Tally::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut request = Probe::new(target.protocol, target.at);
        request.timeout_ms = u64::try_from(WITHIN.as_millis()).unwrap_or(u64::MAX);
        let place = asker.site.place.clone();
        let thread = std::thread::spawn({
            let (tally, stop) = (tally.clone(), stop.clone());
            move || {
                let entered = place.namespace.run(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let outcomes = probe::all(std::slice::from_ref(&request), 1);
                        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                        for outcome in outcomes {
                            match (outcome.answer, outcome.silence) {
                                (Some(answer), _) => {
                                    tally.last.insert(answer.name.clone(), Instant::now());
                                    *tally.answered.entry(answer.name).or_default() += 1;
                                }
                                (None, why) => {
                                    let why = why.map_or("nothing".to_owned(), |why| why.to_string());
                                    *tally.lost.entry(why).or_default() += 1;
                                }
                            }
                        }
                        drop(tally);
                        std::thread::sleep(BEAT);
                    }
                });
                if let Err(error) = entered {
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    *tally.lost.entry(error.to_string()).or_default() += 1;
                }
            }
        });
        let name = format!("{} -> {:?} {}", asker.name, target.protocol, target.at);
        Load { name, tally, stop, thread: Some(thread) }
    }

    /// Whether one of these answered not long ago, in words.
    pub(super) fn still_at(&self, names: &[String]) -> Option<String> {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |name: &&String| tally.last.get(*name).is_some_and(|last| last.elapsed() < GONE_AFTER);
        names.iter().find(of).map(|name| format!("{} is still answered by {name}", self.name))
    }

    /// Ends it, and tells its name and what it found.
    pub(super) fn finish(mut self) -> (String, Tally) {
        self.end();
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (std::mem::take(&mut self.name), tally)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it found until then is in its tally.
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}
