//! How much this process has asked of kernels so far, for whoever measures that.

use std::sync::atomic::{AtomicU64, Ordering};

static CHANGES: AtomicU64 = AtomicU64::new(0);
static QUESTIONS: AtomicU64 = AtomicU64::new(0);

/// Netlink messages that change something.
pub fn changes() -> u64 {
    CHANGES.load(Ordering::Relaxed)
}

/// Netlink messages that ask something.
pub fn questions() -> u64 {
    QUESTIONS.load(Ordering::Relaxed)
}

pub(crate) fn changed(messages: usize) {
    CHANGES.fetch_add(messages as u64, Ordering::Relaxed);
}

pub(crate) fn asked() {
    QUESTIONS.fetch_add(1, Ordering::Relaxed);
}
