//! The host file of an MTU change, as the machine daemon handles it.

use std::io;
use std::sync::Arc;

use netferry_core::mtu::boot::{CatchUp, catch_up, effect};
use netferry_core::mtu::file::{HostFile, PATH};
use netferry_core::rollout::effect::Effect;

use super::preview::Foresight;
use crate::machine::{CheckError, Disk, ManagedFile};
use crate::mtu::boot::{self, Running};

/// Describes the file to the machine daemon.
pub fn managed(running: Running, disk: Arc<Disk>, preview: Foresight) -> ManagedFile {
    let booted = running.clone();
    ManagedFile {
        path: PATH,
        effect: Box::new(move |new| match booted.get() {
            Some(booted) => effect(&booted, new),
            None => Effect::Restart,
        }),
        check: Box::new(move |contents| check(&preview, contents)),
        apply: Box::new(move |contents| Ok(apply(&running, &disk, contents)?)),
    }
}

fn check(preview: &Foresight, contents: &[u8]) -> Result<(), CheckError> {
    let file = HostFile::parse(&String::from_utf8_lossy(contents));
    let file = file.map_err(|error| CheckError::Refused(error.into()))?;
    preview.of(&file).map_err(|error| match error.is_refusal() {
        true => CheckError::Refused(error.into()),
        false => CheckError::Unknown(error.into()),
    })
}

fn apply(running: &Running, disk: &Disk, contents: &[u8]) -> io::Result<()> {
    let Some(booted) = running.get() else { return Ok(()) };
    // The next boot refuses what cannot be read.
    let Ok(file) = HostFile::parse(&String::from_utf8_lossy(contents)) else { return Ok(()) };
    if let Some(CatchUp { booted, forget }) = catch_up(&booted, &file) {
        tracing::info!(
            epoch = booted.epoch,
            "the node runs at the file's sizes already; adopted without a restart"
        );
        // In this order: once the epoch is adopted, this is not reached again.
        if forget {
            boot::forget(disk).map_err(io::Error::other)?;
        }
        running.set(booted)?;
    }
    Ok(())
}
