//! One leader at a time, by a lease of `coordination.k8s.io`.
//!
//! Strict where it matters to something that gives orders to nodes:
//!
//! - Every write of the lease names the version it replaces. A process that slept between reading and writing cannot
//!   renew, or clear, what is somebody else's by now.
//! - Expiry is judged by one's own monotonic clock, from the moment a change of the lease was seen. Clocks of
//!   different machines are never compared.
//! - A leader that cannot renew stops before anybody may follow: its right to act is shorter than the lease, counted
//!   from before the renewal was sent, and every request is given up when it ends ([`Leadership::act`]).
//! - What is left, a request that was on its way when its sender was stopped, is caught by fencing: a new leader
//!   writes its [mark](Leadership::mark) into what its predecessor could still write to before it decides anything, so
//!   that the late write meets a conflict. A leader that may be a former one finds out from the lease itself
//!   ([`Leadership::holds_lease`]), which nodes cannot write.
//!
//! The identity in the lease is unique to the process: two processes that were given one name by mistake are two
//! candidates, and a restarted one waits like everybody else.

mod decide;
mod leadership;
mod lease;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use kube::Client;
use netferry_core::error::chain;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use decide::{Record, Seen, Step};
pub use leadership::{ActError, Leadership, Lost};
use lease::{Entry, Leases};

/// How long things take.
///
/// Invariant: `retry` fits into `renew` more than once, and `renew` ends a second or more before `duration`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    duration: Duration,
    renew: Duration,
    retry: Duration,
}

/// Times that would let two lead at once, or nobody for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a lease of {duration:?}, renewed within {renew:?}, tried every {retry:?}: the lease must be whole seconds and outlast \
     the renewal by a second, and the renewal two tries"
)]
pub struct UnsafeTiming {
    duration: Duration,
    renew: Duration,
    retry: Duration,
}

impl Timing {
    /// The only way to a timing.
    pub fn new(duration: Duration, renew: Duration, retry: Duration) -> Result<Timing, UnsafeTiming> {
        let whole = duration.subsec_nanos() == 0;
        let fits = renew + Duration::from_secs(1) <= duration && retry * 2 <= renew && !retry.is_zero();
        if whole && fits {
            Ok(Timing { duration, renew, retry })
        } else {
            Err(UnsafeTiming { duration, renew, retry })
        }
    }

    /// A timing for a lease of this length: two thirds to renew, tried every seventh.
    pub fn of(duration: Duration) -> Result<Timing, UnsafeTiming> {
        Timing::new(duration, duration * 2 / 3, duration / 7)
    }
}

impl Default for Timing {
    /// What Kubernetes' own components use.
    fn default() -> Timing {
        Timing {
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Which lease, and who asks for it.
#[derive(Clone, Debug)]
pub struct Election {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who asks; what makes it unique is added.
    pub identity: String,
    /// How long things take.
    pub timing: Timing,
}

/// Works whenever this process leads, until `stop` says so; then lets go of the lease, so that the next need not wait.
///
/// The work is dropped the moment leadership ends, and begun anew with the next.
pub async fn lead<W, F>(client: Client, election: &Election, stop: impl Future<Output = ()>, mut work: W)
where
    W: FnMut(Leadership) -> F,
    F: Future<Output = ()>,
{
    let me = format!("{}_{}", election.identity, uuid::Uuid::new_v4());
    let candidate = Candidate {
        leases: Leases::new(client, &election.namespace, &election.name),
        me,
        timing: election.timing,
    };
    let mut stop = pin!(stop);
    info!(lease = %format!("{}/{}", election.namespace, election.name), identity = %candidate.me, "asking for the lease");
    loop {
        let won = tokio::select! {
            // Everywhere here in a fixed order: a simulation must take the same branch every time.
            biased;
            () = &mut stop => return,
            won = candidate.win() => won,
        };
        let until = won.asked + candidate.timing.renew;
        let (leases, me) = (candidate.leases.clone(), candidate.me.clone());
        let leadership = Leadership::new(leases, me, won.record.transitions, until);
        let mut held = won.record;
        info!(term = held.transitions, "leading");
        let stopped = tokio::select! {
            // First, so that a leader asked to stop and to go on at once stops.
            biased;
            () = &mut stop => true,
            () = candidate.keep(&leadership, &mut held) => false,
            () = work(leadership.clone()) => true,
        };
        if stopped {
            candidate.release(&held).await;
            return;
        }
        warn!(term = held.transitions, "no longer leading");
    }
}

/// The last term: `leaseTransitions` is a signed 32-bit number.
const LAST_TERM: u32 = i32::MAX as u32;

struct Candidate {
    leases: Leases,
    me: String,
    timing: Timing,
}

/// A lease that became ours.
struct Won {
    record: Record,
    /// When it was asked for: it is ours from then on, by the most careful reading.
    asked: Instant,
}

impl Candidate {
    /// Waits until the lease is this process's.
    async fn win(&self) -> Won {
        let mut seen = Seen::default();
        loop {
            match timeout(self.timing.renew, self.leases.read()).await {
                Ok(Ok(record)) => seen.note(record, Instant::now()),
                Ok(Err(error)) => warn!(error = %chain(&error), "cannot read the lease"),
                Err(_) => warn!("no answer when reading the lease"),
            }
            let asked = Instant::now();
            let taking = async {
                match seen.due(asked)? {
                    Step::Create => Some(self.leases.create(&self.entry(0)).await),
                    Step::Take(old) => {
                        let entry = self.entry(next_term(old.transitions));
                        Some(self.leases.replace(&old.version, &entry, true).await)
                    }
                    Step::Wait(_) => None,
                }
            };
            match timeout(self.timing.renew, taking).await {
                Ok(Some(Ok(record))) => return Won { record, asked },
                // Somebody was quicker. If it was ourselves, in a write whose answer got lost, the lease runs out like
                // anybody's: whoever does not know that it leads does not lead.
                Ok(Some(Err(kube::Error::Api(status)))) if status.code == 409 => {
                    debug!("somebody else took the lease");
                }
                Ok(Some(Err(error))) => warn!(error = %chain(&error), "cannot take the lease"),
                Ok(None) => {}
                Err(_) => warn!("no answer when taking the lease"),
            }
            let until = match seen.next() {
                Some(Step::Wait(until)) => until.min(Instant::now() + self.timing.retry),
                Some(Step::Create | Step::Take(_)) | None => Instant::now() + self.timing.retry,
            };
            sleep_until(until).await;
        }
    }

    /// Renews the lease; ends when it is lost.
    async fn keep(&self, leadership: &Leadership, held: &mut Record) {
        loop {
            tokio::select! {
                biased;
                () = sleep(self.timing.retry) => {}
                () = sleep_until(leadership.until()) => {}
            }
            let asked = Instant::now();
            if asked >= leadership.until() {
                return;
            }
            let entry = self.entry(leadership.term());
            let renewal = self.leases.replace(&held.version, &entry, false);
            let patience = (leadership.until() - asked).min(self.timing.renew / 2);
            match timeout(patience, renewal).await {
                Ok(Ok(record)) => {
                    *held = record;
                    leadership.extend(asked + self.timing.renew);
                }
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    match timeout(patience, self.leases.read()).await {
                        // Ours still: a renewal whose answer got lost, or somebody labelled the lease.
                        Ok(Ok(Some(now))) if now.holder.as_ref() == Some(&self.me) => *held = now,
                        Ok(Ok(now)) => {
                            let holder = now.and_then(|now| now.holder);
                            warn!(
                                holder = holder.as_deref().unwrap_or("nobody"),
                                "the lease is not ours any more"
                            );
                            return;
                        }
                        Ok(Err(error)) => warn!(error = %chain(&error), "cannot read the lease"),
                        Err(_) => warn!("no answer when reading the lease"),
                    }
                }
                Ok(Err(error)) => warn!(error = %chain(&error), "cannot renew the lease"),
                Err(_) => warn!("no answer when renewing the lease"),
            }
        }
    }

    /// Lets go of the lease, if it can be done soon; otherwise it runs out.
    async fn release(&self, held: &Record) {
        let entry = Entry { holder: None, transitions: held.transitions, duration: Duration::from_secs(1) };
        let letting_go = async {
            match self.leases.replace(&held.version, &entry, false).await {
                // A renewal was on its way when we were asked to stop.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let now = self.leases.read().await?.filter(|now| now.holder.as_ref() == Some(&self.me));
                    match now {
                        Some(now) => self.leases.replace(&now.version, &entry, false).await.map(|_| ()),
                        None => Ok(()),
                    }
                }
                answer => answer.map(|_| ()),
            }
        };
        match timeout(self.timing.renew, letting_go).await {
            Ok(Ok(())) => info!("let go of the lease"),
            Ok(Err(error)) => warn!(error = %chain(&error), "cannot let go of the lease; it runs out"),
            Err(_) => warn!("no answer when letting go of the lease; it runs out"),
        }
    }

    fn entry(&self, transitions: u32) -> Entry<'_> {
        Entry { holder: Some(&self.me), transitions, duration: self.timing.duration }
    }
}

/// The term after this one. The last one is followed by 0: nothing is decided by comparing terms, and a lease that was
/// edited by hand must not keep every process from leading.
fn next_term(old: u32) -> u32 {
    if old < LAST_TERM {
        return old + 1;
    }
    warn!(
        transitions = old,
        "spec.leaseTransitions of the lease cannot be counted further; it begins again at 0"
    );
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_let_two_lead_or_nobody_are_refused() {
        let seconds = Duration::from_secs;
        assert!(Timing::new(seconds(15), seconds(10), seconds(2)).is_ok());
        for (duration, renew, retry) in [(15, 15, 2), (15, 14, 8), (15, 10, 0), (0, 0, 0)] {
            assert!(Timing::new(seconds(duration), seconds(renew), seconds(retry)).is_err());
        }
        assert!(Timing::new(Duration::from_millis(2500), seconds(1), Duration::from_millis(100)).is_err());
        assert!(Timing::of(seconds(3)).is_ok());
        assert!(Timing::of(seconds(2)).is_err());
    }
}
