//! Waiting between attempts that fail.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::{Instant, sleep};

/// A pause that doubles with every attempt that fails, up to a bound: what cannot be done now is soon tried again, and what
/// cannot be done for long fills no log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Pause {
    pub(crate) const fn new(first: Duration, most: Duration) -> Pause {
        Pause { first, most, next: first }
    }

    /// What was tried succeeded.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Waits after an attempt that failed.
    pub(crate) async fn wait(&mut self) {
        sleep(self.next).await;
        self.next = (self.next * 2).min(self.most);
    }

    /// Waits after something that was to go on for ever failed: one that began long ago went well until now.
    pub(crate) async fn wait_since(&mut self, began: Instant) {
        if began.elapsed() > self.most * 2 {
            self.reset();
        }
        self.wait().await;
    }
}

/// Waiting between attempts: short at first, because servers restart; spread, because many agents wait.
pub(crate) struct Patience {
    next: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { next: Duration::from_millis(100) }
    }
}

impl Patience {
    pub(crate) fn pause(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).min(Duration::from_secs(5));
        let share = uuid::Uuid::new_v4().as_u64_pair().0 % 512;
        now * (512 + share as u32) / 1024
    }
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.pause())
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        *self = Patience::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_doubles_up_to_its_bound_and_is_short_again_after_success() {
        let mut pause = Pause::new(Duration::from_millis(200), Duration::from_secs(1));
        let mut waited = Vec::new();
        for attempt in 0..7 {
            let began = Instant::now();
            match attempt {
                5 => pause.reset(),
                6 => tokio::time::sleep(Duration::from_secs(3)).await,
                _ => {}
            }
            let now = Instant::now();
            pause.wait_since(began).await;
            waited.push(now.elapsed().as_millis());
        }
        assert_eq!(waited, [200, 400, 800, 1000, 1000, 200, 200]);
    }
}
