//! Waiting, with a bound: for what can be told, and for what can only be looked at again.

use std::time::Duration;

/// Long enough for a busy machine; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks: soon enough to cost no test a noticeable time, seldom enough to leave the machine to what is waited
/// for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits for a future, and fails the test instead of hanging it.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// What a look answers: whether something is so, or what there is.
pub trait Look {
    /// What is found.
    type Found;

    /// It, once it is there.
    fn found(self) -> Option<Self::Found>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Option<T> {
        self
    }
}

/// Looks until something is found of which nothing tells.
pub async fn until<L: Look>(what: &str, mut look: impl AsyncFnMut() -> L) -> L::Found {
    in_time(what, async {
        loop {
            if let Some(found) = look().await.found() {
                return found;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
    .await
}
