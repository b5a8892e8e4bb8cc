//! Locks: at most one client has each, as long as its connection lives.

use super::Client;
use tokio::sync::watch;

/// A lock that is asked for, perhaps held. Given back when dropped.
#[derive(Debug)]
pub struct Lock {
    name: String,
    /// Nothing only while being dropped.
    held: Option<watch::Receiver<bool>>,
    client: Client,
}

impl Lock {
    pub(super) fn new(name: String, held: watch::Receiver<bool>, client: Client) -> Lock {
        Lock { name, held: Some(held), client }
    }

    /// Its name, for [`Transaction::assert_lock`](crate::Transaction::assert_lock): only that is safe
    /// against losing the lock between looking and writing.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is it held, as far as we have heard?
    pub fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| *held.borrow())
    }

    /// Waits until it is held.
    pub async fn won(&mut self) {
        self.wait(true).await;
    }

    /// Waits until it is not held: stolen, or the connection is gone.
    pub async fn lost(&mut self) {
        self.wait(false).await;
    }

    async fn wait(&mut self, wanted: bool) {
        let Some(held) = &mut self.held else { return };
        // An error means that the driver is gone: the lock will never be held again.
        if held.wait_for(|held| *held == wanted).await.is_err() && wanted {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The driver gives back locks that nobody listens to any more.
        drop(self.held.take());
        self.client.shared.lock_dropped.notify_one();
    }
}
