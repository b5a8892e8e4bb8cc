//! The machine daemon: takes a node from one machine configuration to the next.
//!
//! [`disk`] does the file operations that `core`'s journal lists, [`store`] keeps configurations and takes a new one,
//! surviving power loss at any instruction; [`daemon`] decides what to do next and says how far it is, [`restart`] asks
//! the host to restart, [`boot_loader`] to pass the kernel's arguments on.

pub mod boot_loader;
pub mod daemon;
pub mod disk;
pub mod restart;
pub mod store;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;

pub use disk::{Disk, DiskError};
pub use store::StoreError;
