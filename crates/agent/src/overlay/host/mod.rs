//! The host around the zone: what its kernel and its switch must have for the overlay to work.
//!
//! [`keep`] makes a [`HostPlan`](netferry_core::overlay::host::HostPlan) true and keeps it so; [`objects`] and
//! [`filter`] say what it asks of the kernel, [`admit`] sees to it that chains of others let it pass, [`flows`] that
//! conversations by datagrams follow it, [`settings`] that what was set can be taken back. [`guard`],
//! [`neighbours`] and [`ways`] are for the userspace datapath alone, [`tunnel_routes`] is for the kernel's.

pub mod admit;
pub mod filter;
pub mod flows;
pub mod guard;
pub mod keep;
pub mod neighbours;
pub mod objects;
pub mod settings;
pub mod tunnel_routes;
pub mod ways;

use std::path::Path;

use netferry_kernel::{Kernel, Objects as _};

use crate::ownership;

pub use keep::{Inputs, State, run};
pub use settings::SettingsError;

/// Removes everything from the kernel that carries our mark, but links, and puts settings back to what they were when
/// `run` was told of them.
pub fn withdraw(kernel: &Kernel, run: &Path) -> Result<(), SettingsError> {
    let mark = ownership::host();
    admit::converge(kernel, &[])?;
    tunnel_routes::withdraw(kernel)?;
    kernel.routes().converge(&[], &mark)?;
    kernel.addresses().converge(&[], &mark)?;
    kernel.neighbours().converge(&[], &mark)?;
    for mark in [&mark, &ownership::guard()] {
        kernel.nft().converge(&[], mark)?;
    }
    settings::restore(kernel, run)
}
