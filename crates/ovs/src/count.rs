//! How much this process has done about databases so far, for whoever measures that.

use std::sync::atomic::{AtomicU64, Ordering};

static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static TRANSACTIONS: AtomicU64 = AtomicU64::new(0);
static COMPARED: AtomicU64 = AtomicU64::new(0);

/// Operations in transactions.
pub fn operations() -> u64 {
    OPERATIONS.load(Ordering::Relaxed)
}

/// Transactions.
pub fn transactions() -> u64 {
    TRANSACTIONS.load(Ordering::Relaxed)
}

/// Rows that were compared with what is wanted; all there are, whenever that was everything.
pub fn rows_compared() -> u64 {
    COMPARED.load(Ordering::Relaxed)
}

pub(crate) fn compared(rows: usize) {
    COMPARED.fetch_add(rows as u64, Ordering::Relaxed);
}

pub(crate) fn sent(operations: usize) {
    OPERATIONS.fetch_add(operations as u64, Ordering::Relaxed);
    TRANSACTIONS.fetch_add(1, Ordering::Relaxed);
}
