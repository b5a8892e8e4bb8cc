//! What the host runs at from this boot on.
//!
//! The file the machine configuration brought is read once, here. What the uplink ran at before a change is kept before
//! the host's own configuration is told anything else; what is running is written down last.

pub mod managed;
pub mod persist;
mod plan;
pub mod preview;

use std::path::{Path, PathBuf};

use netferry_core::error::chain;
use netferry_core::mtu::boot::{BootStep, Booted, Saved};
use netferry_core::mtu::file::{self, HostFile, Unreadable};
use netferry_core::size::Envelope;
use netferry_kernel::link::Link;
use netferry_kernel::{IfName, Kernel};
use persist::PersistError;
use plan::{Host, Plan};

use crate::machine::{Disk, DiskError, StoreError, store};
use crate::mtu::boot;
use crate::mtu::sizes::{self, SizeError};

/// Why the sizes a host is to run at could not be found out or set.
#[derive(Debug, thiserror::Error)]
pub enum SizesError {
    /// The file cannot be understood. The node must not go on with half of what it was told.
    #[error(transparent)]
    File(#[from] Unreadable),
    /// The host's own configuration.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The size before the change.
    #[error(transparent)]
    Saved(#[from] boot::SavedError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] SizeError),
    /// A file.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// What a loss of power left half done.
    #[error("putting in order what a loss of power left half done")]
    Recover(#[source] StoreError),
    /// What is running could not be written down or read.
    #[error("writing down what this boot runs at in {}", run.display())]
    Record {
        /// Where.
        run: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl SizesError {
    /// Was nothing changed, because what is asked cannot be carried out?
    pub fn is_refusal(&self) -> bool {
        match self {
            SizesError::File(_)
            | SizesError::Saved(_)
            | SizesError::Persist(
                PersistError::Nobody { .. }
                | PersistError::Unreadable { .. }
                | PersistError::Fleeting { .. }
                | PersistError::Linked { .. }
                | PersistError::Shared { .. },
            )
            | SizesError::Kernel(SizeError::TooLarge { .. } | SizeError::Size { .. }) => true,
            SizesError::Persist(PersistError::Disk(_))
            | SizesError::Kernel(SizeError::Kernel { .. } | SizeError::Record { .. })
            | SizesError::Disk(_)
            | SizesError::Recover(_)
            | SizesError::Record { .. } => false,
        }
    }
}

type Result<T> = std::result::Result<T, SizesError>;

/// Mends what a loss of power left of the host's files, and notes which configuration this boot found in force. Answers
/// whether units changed by that.
///
/// What cannot be mended does not stop the boot: a node that is up reports it, one that is not can only be reinstalled.
pub(crate) fn mend(disk: &Disk, run: &Path) -> Result<bool> {
    let recovered = store::recover(disk).and_then(|recovered| {
        let units = recovered.units;
        recovered.complete().map(|()| units)
    });
    if let Err(error) = &recovered {
        tracing::error!(why = chain(error), "not everything was mended; booting nevertheless");
    }
    store::note_boot(disk, run).map_err(SizesError::Recover)?;
    Ok(recovered.unwrap_or(true))
}

/// What is known before the uplink is.
#[derive(Debug)]
pub(crate) struct Sizes {
    disk: Disk,
    run: PathBuf,
    file: Option<HostFile>,
    saved: Option<Saved>,
    /// What this boot runs at, if an earlier run of this boot got so far. It stays so until the next one, whatever the
    /// file says by now.
    booted: Option<Booted>,
}

impl Sizes {
    /// Mends what a loss of power left of the host's files, and reads what they say.
    pub(crate) fn read(root: &Path, run: &Path) -> Result<Sizes> {
        let disk = Disk::open(root)?;
        mend(&disk, run)?;
        let record = |source| SizesError::Record { run: run.to_owned(), source };
        let text = disk.read(file::PATH)?;
        let file = text.map(|text| HostFile::parse(&String::from_utf8_lossy(&text))).transpose()?;
        let saved = boot::saved(&disk)?;
        let booted = boot::read(run).map_err(record)?;
        Ok(Sizes { disk, run: run.to_owned(), file, saved, booted })
    }

    /// Is the host told to run at anything but what it has?
    pub(crate) fn asks(&self) -> bool {
        self.file.as_ref().is_some_and(HostFile::changes_hosts)
    }

    /// Takes the uplink to what it is to run at.
    pub(crate) fn take(
        &self,
        kernel: &Kernel,
        uplink: &Link,
        step: &mut impl FnMut(&str),
    ) -> Result<Took<'_>> {
        let mtu = sizes::of(uplink)?;
        if let Some(booted) = self.booted {
            self.run_at(kernel, uplink, booted.host, step)?;
            return Ok(Took { sizes: self, booted, forget: false });
        }
        let host = Host { disk: &self.disk, kernel, uplink };
        // Before anything is changed.
        let Plan { steps, configured, parents } = host.plan(self.file.as_ref(), self.saved, mtu)?;
        let mut took = None;
        let mut forget = false;
        for one in steps {
            match one {
                BootStep::Save(saved) => boot::save(&self.disk, &saved)?,
                BootStep::Persist(mtu) => {
                    let size = mtu.map_or("no MTU".to_owned(), |mtu| format!("MTU {mtu}"));
                    step(&format!("letting the host's configuration say {size} of {}", uplink.name));
                    // A link that is larger than what it stands on is refused by the kernel.
                    for (parent, owner) in &parents {
                        persist::set(&self.disk, parent, owner, mtu)?;
                    }
                    if let Some(configured) = configured.as_ref().filter(|said| said.mtu != mtu) {
                        persist::set(&self.disk, uplink.name.as_str(), &configured.owner, mtu)?;
                    }
                }
                BootStep::Run(envelope) => self.run_at(kernel, uplink, envelope, step)?,
                BootStep::Record(booted) => took = Some(booted),
                BootStep::Forget => forget = true,
            }
        }
        let booted = took.expect("a boot always ends in a record");
        Ok(Took { sizes: self, booted, forget })
    }

    fn run_at(
        &self,
        kernel: &Kernel,
        uplink: &Link,
        at: Envelope,
        step: &mut impl FnMut(&str),
    ) -> Result<()> {
        step(&format!("running {} at MTU {at}", uplink.name));
        Ok(sizes::run(kernel, &[&uplink.name], at, &self.run)?)
    }
}

/// What the uplink runs at now.
#[derive(Debug)]
pub(crate) struct Took<'s> {
    sizes: &'s Sizes,
    booted: Booted,
    forget: bool,
}

impl Took<'_> {
    /// What links carry.
    pub(crate) fn carries(&self) -> u32 {
        self.booted.host.carries().bytes()
    }

    /// Holds what was made meanwhile too, and writes down what is running; what was kept for the change is forgotten
    /// once it has ended.
    pub(crate) fn record(&self, kernel: &Kernel, links: &[&IfName]) -> Result<()> {
        let Sizes { disk, run, .. } = self.sizes;
        sizes::run(kernel, links, self.booted.host, run)?;
        let record = |source| SizesError::Record { run: run.clone(), source };
        boot::write(run, &self.booted).map_err(record)?;
        if self.forget {
            boot::forget(disk)?;
        }
        Ok(())
    }
}
