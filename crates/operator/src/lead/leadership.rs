//! The right to act, for as long as it lasts.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, timeout_at};

use super::lease::Leases;

/// The right to act for the cluster, held by one process at a time.
///
/// Cheap to clone. It ends by itself when the lease could not be renewed in time; then [`Leadership::act`] refuses.
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
}

struct Shared {
    /// Until when this process may act, by its own clock.
    until: Mutex<Instant>,
    term: u32,
    /// Unique to this leadership.
    mark: String,
    leases: Leases,
    /// This process, as the lease names it.
    holder: String,
}

/// The right to act has ended: stop, and change nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this process no longer leads")]
pub struct Lost;

/// Why something was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// The right to act ended before the answer came; the request may have been carried out.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The API refused.
    #[error("asking the API")]
    Api(#[source] kube::Error),
}

impl Leadership {
    pub(crate) fn new(leases: Leases, holder: String, term: u32, until: Instant) -> Leadership {
        let mark = format!("{term}-{}", uuid::Uuid::new_v4());
        Leadership { shared: Arc::new(Shared { until: Mutex::new(until), term, mark, leases, holder }) }
    }

    /// How often the lease has changed hands. For logs and Events: it begins again when the lease is deleted, so nothing
    /// is decided by comparing it.
    pub fn term(&self) -> u32 {
        self.shared.term
    }

    /// A text that no other leadership has or can guess. Writing it into an object changes the version of the object.
    pub fn mark(&self) -> &str {
        &self.shared.mark
    }

    /// Returns an error if this process may no longer act.
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

    /// Reads the lease and returns true if it still names this process.
    ///
    /// What was read before this call was read while no other process could have begun to lead, so a decision made from
    /// it meets a conflict wherever a later leader has written.
    pub(crate) async fn holds_lease(&self) -> Result<bool, kube::Error> {
        let lease = self.shared.leases.read().await?;
        Ok(lease.and_then(|lease| lease.holder).as_ref() == Some(&self.shared.holder))
    }

    /// Ends the right to act now: the lease names another process.
    pub fn give_up(&self) {
        self.extend(Instant::now());
    }

    pub(crate) fn until(&self) -> Instant {
        *self.shared.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn extend(&self, until: Instant) {
        *self.shared.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_outlives_the_right_to_ask_is_given_up() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let leases = Leases::new(kube::Client::try_from(config).unwrap(), "netferry", "netferry-operator");
        let until = Instant::now() + Duration::from_secs(10);
        let leadership = Leadership::new(leases, "this".to_owned(), 1, until);
        let slow = async {
            tokio::time::sleep(Duration::from_secs(11)).await;
            Ok(())
        };
        assert!(matches!(leadership.act(slow).await, Err(ActError::Lost(Lost))));
        assert_eq!(leadership.check(), Err(Lost));
        let never = async { panic!("nothing is asked once the right has ended") };
        assert!(matches!(leadership.act::<()>(never).await, Err(ActError::Lost(Lost))));
    }
}
