//! When a controller makes its next pass.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Changes within this time are looked at together.
pub(crate) const TOGETHER: Duration = Duration::from_millis(50);
/// After a failed pass, the first wait; each one after is twice as long.
const RETRY: Duration = Duration::from_millis(500);
/// The longest wait after a failed pass.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The time of a controller's passes: soon after a change, later and later after failures, and now and then without a
/// reason, in case one was missed.
#[derive(Debug)]
pub(crate) struct ReconcileTimer {
    next: Instant,
    retry: Duration,
    anyway: Duration,
}

impl ReconcileTimer {
    /// The first pass after `first`, others at the latest every `anyway`.
    pub(crate) fn new(first: Duration, anyway: Duration) -> ReconcileTimer {
        ReconcileTimer { next: Instant::now() + first, retry: RETRY, anyway }
    }

    /// Waits until a pass is to be made.
    pub(crate) async fn due(&self) {
        sleep_until(self.next).await;
    }

    /// Something changed that may change a decision.
    pub(crate) fn changed(&mut self) {
        self.next = self.next.min(Instant::now() + TOGETHER);
    }

    /// A pass was made; the next is to be made after `again`, if it must be soon.
    pub(crate) fn made(&mut self, again: Option<Duration>) {
        self.retry = RETRY;
        self.after(again.unwrap_or(self.anyway));
    }

    /// A pass failed.
    pub(crate) fn failed(&mut self) {
        self.after(self.retry);
        self.retry = (self.retry * 2).min(LONGEST_RETRY);
    }

    /// The next pass is to be made after this, whatever became of the last.
    pub(crate) fn after(&mut self, pause: Duration) {
        self.next = Instant::now() + pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWAY: Duration = Duration::from_secs(300);

    async fn waits(pace: &ReconcileTimer) -> Duration {
        let began = Instant::now();
        pace.due().await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_fails_is_made_again_later_and_later_until_one_succeeds() {
        let mut pace = ReconcileTimer::new(Duration::ZERO, ANYWAY);
        let mut waited = Vec::new();
        for _ in 0..8 {
            pace.failed();
            waited.push(waits(&pace).await.as_millis());
        }
        assert_eq!(waited, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        pace.made(None);
        assert_eq!(waits(&pace).await, ANYWAY);
        pace.failed();
        assert_eq!(waits(&pace).await, RETRY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_brings_the_next_pass_near_and_never_puts_it_off() {
        let mut pace = ReconcileTimer::new(ANYWAY, ANYWAY);
        pace.changed();
        assert_eq!(waits(&pace).await, TOGETHER);
        pace.made(Some(TOGETHER / 2));
        pace.changed();
        assert_eq!(waits(&pace).await, TOGETHER / 2);
    }
}
