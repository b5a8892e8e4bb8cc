//! How long to wait before trying again.

use std::time::Duration;

/// Waiting that doubles from `first` to `most`.
#[derive(Debug, Clone)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Never longer.
    pub most: Duration,
}

impl Default for Backoff {
    /// For a server on the same host: it is back within a second or broken for longer, and asking a
    /// Unix socket every two seconds costs nothing.
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(50), most: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// The wait after so many failures in a row (at least one), shortened by up to half: clients that
    /// lost the same server must not all come back at once. `seed` is any random number.
    pub fn delay(&self, failures: u32, seed: u64) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(16));
        let full = doubled.min(self.most);
        let kept = 512 + (seed % 513) as u32;
        full * kept / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_grows_to_its_limit_and_is_never_shortened_by_more_than_half() {
        let backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(3) };
        for failures in 1..200 {
            let full = Duration::from_millis(100 << (failures - 1).min(10)).min(backoff.most);
            for seed in [0, 1, 511, 512, 513, u64::MAX] {
                let delay = backoff.delay(failures, seed);
                assert!(delay >= full / 2 && delay <= full, "{failures} failures: {delay:?} of {full:?}");
            }
        }
        assert_eq!(backoff.delay(1, 512), Duration::from_millis(100));
        assert_eq!(backoff.delay(1, 0), Duration::from_millis(50));
    }
}
