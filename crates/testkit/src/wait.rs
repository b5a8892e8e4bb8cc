//! Waiting, with a bound: for what can be told, and for what can only be looked at again.

use std::time::{Duration, Instant};

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

/// What a look answers: whether something is so, what there is, or what there is instead.
pub trait Look {
    /// What is found.
    type Found;

    /// It, once it is there; before, what is seen instead, if that is worth a word.
    ///
    /// # Errors
    /// If it is not there yet.
    fn found(self) -> Result<Self::Found, String>;
}

impl Look for bool {
    type Found = ();

    fn found(self) -> Result<(), String> {
        if self { Ok(()) } else { Err(String::new()) }
    }
}

impl<T> Look for Option<T> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T> Look for Result<T, String> {
    type Found = T;

    fn found(self) -> Result<T, String> {
        self
    }
}

/// Looks until something is found of which nothing tells; a test that fails says what was seen last.
pub async fn until<L: Look>(what: &str, mut look: impl AsyncFnMut() -> L) -> L::Found {
    let mut last = String::new();
    let looking = async {
        loop {
            match look().await.found() {
                Ok(found) => return found,
                Err(seen) => last = seen,
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(found) => found,
        Err(_) => never(PATIENCE, what, &last),
    }
}

/// The same for tests without a runtime.
pub fn until_blocking<L: Look>(what: &str, look: impl FnMut() -> L) -> L::Found {
    until_blocking_for(PATIENCE, what, look)
}

/// The same for what may take longer, or must not take as long.
pub fn until_blocking_for<L: Look>(within: Duration, what: &str, mut look: impl FnMut() -> L) -> L::Found {
    let deadline = Instant::now() + within;
    loop {
        match look().found() {
            Ok(found) => return found,
            Err(seen) if Instant::now() >= deadline => never(within, what, &seen),
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn never(within: Duration, what: &str, last: &str) -> ! {
    let last = if last.is_empty() { "nothing" } else { last };
    panic!("{what}: not within {within:?}; seen last: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_never_comes_is_told_with_what_was_seen_last() {
        let waiting = tokio::spawn(until("three sails", async || Err::<(), _>("two sails".to_owned())));
        let failed = waiting.await.expect_err("it never comes").into_panic();
        let said = failed.downcast_ref::<String>().expect("words");
        assert_eq!(*said, format!("three sails: not within {PATIENCE:?}; seen last: two sails"));
    }

    #[test]
    fn what_comes_is_found_with_and_without_a_runtime() {
        let mut left = 3;
        let look = || {
            left -= 1;
            if left == 0 { Ok("a sail") } else { Err(format!("{left} to go")) }
        };
        assert_eq!(until_blocking("a sail", look), "a sail");
    }
}
