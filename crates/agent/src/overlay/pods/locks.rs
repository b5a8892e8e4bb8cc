//! Locks by name: what is about one container, or one pod, happens one after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Locks {
    known: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl Locks {
    /// Waits for the name and holds it.
    pub(super) async fn hold(&self, name: impl Into<String>) -> OwnedMutexGuard<()> {
        self.named(name.into()).lock_owned().await
    }

    /// Holds the name if nobody does.
    pub(super) fn try_hold(&self, name: impl Into<String>) -> Option<OwnedMutexGuard<()>> {
        self.named(name.into()).try_lock_owned().ok()
    }

    fn named(&self, name: String) -> Arc<AsyncMutex<()>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = known.get(&name).and_then(Weak::upgrade) {
            return lock;
        }
        // Names of what is long gone are forgotten when a new one comes: the map is as large as what is held.
        known.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(AsyncMutex::new(()));
        known.insert(name, Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_held_by_one_and_forgotten_by_none() {
        let locks = Locks::default();
        let held = locks.hold("a").await;
        assert!(locks.try_hold("a").is_none());
        let other = locks.try_hold("b").expect("another name is free");
        drop(held);
        assert!(locks.try_hold("a").is_some());
        drop(other);
        let _c = locks.hold("c").await;
        assert_eq!(locks.known.lock().unwrap().len(), 1, "what nobody holds is not kept");
    }
}
