//! Time and identity, as values the caller chooses.
//!
//! The server runs under tokio's clock, so that a simulation with paused time sees timestamps that
//! move with its virtual seconds; and it draws uids and name suffixes from one source, so that a seeded
//! server gives the same answers twice.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

/// Wall-clock time that moves with tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Timestamp,
    started: Instant,
}

impl Clock {
    /// A clock that reads `origin` now.
    pub fn starting_at(origin: Timestamp) -> Clock {
        Clock { origin, started: Instant::now() }
    }

    /// A clock that reads what the machine's does.
    pub fn of_the_machine() -> Clock {
        Clock::starting_at(Timestamp::now())
    }

    /// The present.
    pub fn now(&self) -> Timestamp {
        self.origin.saturating_add(self.started.elapsed()).unwrap_or(self.origin)
    }

    /// The present as Kubernetes writes it: whole seconds, UTC.
    pub fn stamp(&self) -> String {
        stamp(self.now())
    }
}

/// A timestamp as Kubernetes writes it: whole seconds, UTC.
pub fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Where uids and random suffixes come from.
#[derive(Debug)]
pub struct Ids {
    seed: Option<u64>,
    drawn: AtomicU64,
}

impl Ids {
    /// Random, or repeatable when seeded.
    pub fn new(seed: Option<u64>) -> Ids {
        Ids { seed, drawn: AtomicU64::new(0) }
    }

    /// A fresh uid.
    pub fn uid(&self) -> String {
        match self.seed {
            None => Uuid::new_v4().to_string(),
            Some(_) => uuid::Builder::from_random_bytes(self.bytes()).into_uuid().to_string(),
        }
    }

    /// Sixteen fresh bytes.
    pub fn bytes(&self) -> [u8; 16] {
        match self.seed {
            None => *Uuid::new_v4().as_bytes(),
            Some(seed) => {
                let nth = self.drawn.fetch_add(1, Ordering::Relaxed);
                let digest =
                    Sha256::new().chain_update(seed.to_le_bytes()).chain_update(nth.to_le_bytes()).finalize();
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&digest[..16]);
                bytes
            }
        }
    }
}
