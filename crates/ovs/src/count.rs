//! How much this process has asked of databases so far, for whoever measures that.

use std::sync::atomic::{AtomicU64, Ordering};

static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static TRANSACTIONS: AtomicU64 = AtomicU64::new(0);

/// Operations in transactions.
pub fn operations() -> u64 {
    OPERATIONS.load(Ordering::Relaxed)
}

/// Transactions.
pub fn transactions() -> u64 {
    TRANSACTIONS.load(Ordering::Relaxed)
}

pub(crate) fn sent(operations: usize) {
    OPERATIONS.fetch_add(operations as u64, Ordering::Relaxed);
    TRANSACTIONS.fetch_add(1, Ordering::Relaxed);
}
