//! The right to act, for as long as it lasts.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The right to act for the cluster, held by one process at a time.
///
/// Cheap to clone. It ends by itself when the lease could not be renewed in time; then [`Leadership::act`] refuses.
#[derive(Clone, Debug)]
pub struct Leadership {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Until when this process may act, by its own clock.
    until: Mutex<Instant>,
    term: AtomicU32,
    /// What the term must at least become.
    floor: AtomicU32,
    /// Tells whoever renews the lease that the floor was raised.
    raise: Notify,
    /// Tells whoever waits that the term was.
    raised: Notify,
}

/// The right to act has ended; whoever hears this stops, and changes nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this process no longer leads")]
pub struct Lost;

/// Why something was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The right to act ended before the answer came; what was asked may have happened.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The API refused.
    #[error("asking the API")]
    Api(#[source] kube::Error),
}

impl Leadership {
    pub(crate) fn new(term: u32, until: Instant) -> Leadership {
        let (raise, raised) = (Notify::new(), Notify::new());
        let (term, floor) = (AtomicU32::new(term), AtomicU32::new(term));
        Leadership { shared: Arc::new(Shared { until: Mutex::new(until), term, floor, raise, raised }) }
    }

    /// The fencing number: every leader's is higher than those of all before it. What a leader writes carries it.
    pub fn term(&self) -> u32 {
        self.shared.term.load(Ordering::SeqCst)
    }

    /// Whether this process may still act.
    pub fn check(&self) -> Result<(), Lost> {
        if Instant::now() < self.until() { Ok(()) } else { Err(Lost) }
    }

    /// Asks the API for a change, if this process may and for as long as it may.
    pub async fn act<T>(&self, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ActError> {
        self.check()?;
        match timeout_at(self.until(), request).await {
            Ok(answer) => answer.map_err(ActError::Api),
            Err(_) => Err(ActError::Lost(Lost)),
        }
    }

    /// Makes the term higher than one that was found: the lease was deleted, and its numbers began again.
    ///
    /// Ends when the lease says so, or with the leadership.
    pub async fn rise_above(&self, found: u32) -> Result<(), Lost> {
        let wanted = found.saturating_add(1);
        self.shared.floor.fetch_max(wanted, Ordering::SeqCst);
        self.shared.raise.notify_one();
        loop {
            let raised = self.shared.raised.notified();
            if self.term() >= wanted {
                return Ok(());
            }
            timeout_at(self.until(), raised).await.map_err(|_| Lost)?;
        }
    }

    /// Ends the right to act now: somebody with a later term was seen.
    pub fn give_up(&self) {
        self.extend(Instant::now());
    }

    pub(crate) fn until(&self) -> Instant {
        *self.shared.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn extend(&self, until: Instant) {
        *self.shared.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(crate) fn floor(&self) -> u32 {
        self.shared.floor.load(Ordering::SeqCst)
    }

    pub(crate) fn set_term(&self, term: u32) {
        self.shared.term.store(term, Ordering::SeqCst);
        self.shared.raised.notify_waiters();
    }

    pub(crate) async fn asked_to_rise(&self) {
        self.shared.raise.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_outlives_the_right_to_ask_is_given_up() {
        let leadership = Leadership::new(1, Instant::now() + Duration::from_secs(10));
        let slow = async {
            tokio::time::sleep(Duration::from_secs(11)).await;
            Ok(())
        };
        assert!(matches!(leadership.act(slow).await, Err(ActError::Lost(Lost))));
        assert_eq!(leadership.check(), Err(Lost));
        let never = async { panic!("nothing is asked once the right has ended") };
        assert!(matches!(leadership.act::<()>(never).await, Err(ActError::Lost(Lost))));
    }

    #[tokio::test(start_paused = true)]
    async fn rising_ends_with_the_leadership_if_nobody_renews() {
        let leadership = Leadership::new(1, Instant::now() + Duration::from_secs(10));
        assert_eq!(leadership.rise_above(0).await, Ok(()));
        assert_eq!(leadership.rise_above(7).await, Err(Lost));
    }
}
