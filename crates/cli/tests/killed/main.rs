//! `netferry apiserver --data FILE`, killed with -9 again and again, on files others have damaged, and on a full disk.
//!
//! `NETFERRY_SEED=n` repeats what a failed run drew by lot.

#[path = "../common/mod.rs"]
mod common;
mod files;
mod full;
mod ledger;
mod lot;
mod storm;
