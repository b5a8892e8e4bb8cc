//! The machine daemon: takes a node from one machine configuration to the next.
//!
//! [`disk`] does the file operations that `core`'s journal lists, [`store`] keeps configurations and takes a new one,
//! surviving power loss at any instruction; [`daemon`] decides what to do next and says how far it is, [`restart`] asks
//! the host to restart, [`boot_loader`] to pass the kernel's arguments on.

pub mod boot_loader;
pub mod daemon;
pub mod disk;
mod managed;
pub mod restart;
pub mod store;

use std::path::Path;
use std::sync::Arc;

use kube::Api;
use netferry_core::error::chain;

use crate::config::Paths;
use crate::context::Context;
use crate::on_host::Host;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

pub use disk::{Disk, DiskError};
pub use managed::{CheckError, ManagedFile};
pub use store::StoreError;

/// Opens the host's files, in order after a loss of power, with a note of what this boot found there.
pub(crate) fn open(paths: &Paths) -> Result<Disk, StoreError> {
    let disk = Disk::open(&paths.root)?;
    mend(&disk, &paths.run)?;
    Ok(disk)
}

/// Completes what a loss of power left half done, and notes which configuration this boot found in force. Returns true if
/// systemd units changed by that.
///
/// What cannot be repaired stops neither the boot nor the agent: a node that is up reports it, one that is not can only be
/// reinstalled.
pub(crate) fn mend(disk: &Disk, run: &Path) -> Result<bool, StoreError> {
    let recovered = store::recover(disk).and_then(|recovered| {
        let units = recovered.units;
        recovered.complete().map(|()| units)
    });
    if let Err(error) = &recovered {
        tracing::error!(
            why = chain(error),
            "what a loss of power left half done could not be repaired; going on"
        );
    }
    store::note_boot(disk, run)?;
    Ok(recovered.unwrap_or(true))
}

/// Takes the node to the configurations it is assigned, on the real host.
pub(crate) fn keep(context: &Context, files: Vec<ManagedFile>) -> impl Future<Output = ()> + use<> {
    let (disk, boot) = (Arc::clone(&context.disk), Arc::clone(&context.disk));
    daemon::run(daemon::Parts {
        nodes: Api::all(context.client.clone()),
        configs: Api::all(context.client.clone()),
        name: context.config.node.to_string(),
        disk: Arc::clone(&context.disk),
        run: context.config.paths.run.clone(),
        own: context.own.clone(),
        files,
        restart: Box::new(move || {
            let disk = Arc::clone(&disk);
            Box::pin(async move { restart::restart(&disk, &Host::default()).await })
        }),
        renew_boot_loader: Box::new(move || {
            let disk = Arc::clone(&boot);
            Box::pin(async move { boot_loader::renew(&disk, &Host::default()).await })
        }),
        started_with: boot_loader::STARTED_WITH.into(),
    })
}
