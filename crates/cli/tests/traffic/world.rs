//! One lab for all tests of this program: three nodes, both families. It ends with the process.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use netferry_lab::{Families, Lab, Options};

use crate::bench::{options, up};

/// What anything in a lab may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| up(&Options { families: Families::Dual, ..options(3) }))
}

/// One test at a time: what one sends must not be what another measures.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something that talks to the API.
pub(crate) fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
