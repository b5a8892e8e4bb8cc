//! What the host runs at from this boot on.
//!
//! The file the machine configuration brought is read once, here. What the uplink ran at before a change is kept before
//! the host's own configuration is told anything else; what is running is written down last.

pub mod managed;
pub mod persist;
mod plan;
pub mod preview;

use std::path::{Path, PathBuf};

use netferry_core::mtu::boot::{BootStep, Booted, Saved};
use netferry_core::mtu::file::{self, HostFile, Unreadable};
use netferry_core::size::Envelope;
use netferry_kernel::link::Link;
use netferry_kernel::{IfName, Kernel};
use persist::PersistError;
use plan::{Host, Plan};

use crate::host_init::{BootError, BootPart, Options};
use crate::machine::{Disk, DiskError};
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
            | SizesError::Record { .. } => false,
        }
    }
}

type Result<T> = std::result::Result<T, SizesError>;

/// What is known before the uplink is.
#[derive(Debug)]
struct Sizes {
    disk: Disk,
    run: PathBuf,
    file: Option<HostFile>,
    saved: Option<Saved>,
    /// What this boot runs at, if an earlier run of this boot got so far. It stays so until the next one, whatever the
    /// file says by now.
    booted: Option<Booted>,
    /// What the uplink runs at now, and whether what was kept for the change is to be forgotten.
    took: Option<(Booted, bool)>,
}

/// Opens the MTU's part in a boot.
pub(super) fn boot_part(options: &Options) -> std::result::Result<Box<dyn BootPart>, BootError> {
    Ok(Box::new(Sizes::read(&options.root, &options.run)?))
}

impl From<SizesError> for BootError {
    fn from(error: SizesError) -> BootError {
        match error.is_refusal() {
            true => BootError::Refused(error.into()),
            false => BootError::Failed(error.into()),
        }
    }
}

impl BootPart for Sizes {
    fn needs_uplink(&self) -> bool {
        self.file.as_ref().is_some_and(HostFile::changes_hosts)
    }

    fn prepare(
        &mut self,
        kernel: &Kernel,
        uplink: &Link,
        step: &mut dyn FnMut(&str),
    ) -> std::result::Result<Option<u32>, BootError> {
        let took = self.take(kernel, uplink, step)?;
        self.took = Some(took);
        Ok(Some(took.0.host.carries().bytes()))
    }

    fn record(&mut self, kernel: &Kernel, links: &[&IfName]) -> std::result::Result<(), BootError> {
        Ok(self.record_sizes(kernel, links)?)
    }
}

impl Sizes {
    /// Reads what the host's files say of its sizes.
    fn read(root: &Path, run: &Path) -> Result<Sizes> {
        let disk = Disk::open(root)?;
        let record = |source| SizesError::Record { run: run.to_owned(), source };
        let text = disk.read(file::PATH)?;
        let file = text.map(|text| HostFile::parse(&String::from_utf8_lossy(&text))).transpose()?;
        let saved = boot::saved(&disk)?;
        let booted = boot::read(run).map_err(record)?;
        Ok(Sizes { disk, run: run.to_owned(), file, saved, booted, took: None })
    }

    /// Takes the uplink to what it is to run at.
    fn take(&self, kernel: &Kernel, uplink: &Link, step: &mut dyn FnMut(&str)) -> Result<(Booted, bool)> {
        let mtu = sizes::of(uplink)?;
        if let Some(booted) = self.booted {
            self.run_at(kernel, uplink, booted.host, step)?;
            return Ok((booted, false));
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
        Ok((booted, forget))
    }

    fn run_at(&self, kernel: &Kernel, uplink: &Link, at: Envelope, step: &mut dyn FnMut(&str)) -> Result<()> {
        step(&format!("running {} at MTU {at}", uplink.name));
        Ok(sizes::run(kernel, &[&uplink.name], at, &self.run)?)
    }

    /// Holds links that were made meanwhile too, and records what is running. What was kept for the change is forgotten
    /// once the change has ended.
    fn record_sizes(&self, kernel: &Kernel, links: &[&IfName]) -> Result<()> {
        let Some((booted, forget)) = &self.took else { return Ok(()) };
        sizes::run(kernel, links, booted.host, &self.run)?;
        let record = |source| SizesError::Record { run: self.run.clone(), source };
        boot::write(&self.run, booted).map_err(record)?;
        if *forget {
            boot::forget(&self.disk)?;
        }
        Ok(())
    }
}
