//! The host around the zone: what its kernel and its switch must have for the overlay to work.
//!
//! [`keep`] makes a [`HostPlan`](netferry_core::overlay::host::HostPlan) true and keeps it so; [`objects`] and
//! [`filter`] say what it asks of the kernel, [`admit`] sees to it that chains of others let it pass, [`flows`] that
//! conversations by datagrams follow it. [`guard`] and
//! [`neighbours`] are for the userspace datapath alone.

pub mod admit;
pub mod filter;
pub mod flows;
pub mod guard;
pub mod keep;
pub mod neighbours;
pub mod objects;

use netferry_kernel::{Kernel, Mark, Objects as _, Result};

pub use keep::{Inputs, State, run};

/// Removes everything from the kernel that carries our mark, but links. Settings stay: others may rely on them by now.
pub fn withdraw(kernel: &Kernel) -> Result<()> {
    let mark = Mark::default();
    admit::converge(kernel, &[])?;
    kernel.routes().converge(&[], &mark)?;
    kernel.addresses().converge(&[], &mark)?;
    kernel.neighbours().converge(&[], &mark)?;
    for nft_table in [mark.nft_table.clone(), guard::TABLE.to_owned()] {
        kernel.nft().converge(&[], &Mark { nft_table, ..mark.clone() })?;
    }
    Ok(())
}
