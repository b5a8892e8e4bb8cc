//! The pods' links on the host stay switched on and as large as they were made, whoever changes them.
//!
//! Only the host's ends: what a pod does inside is the pod's own. Which links are a pod's is on the links themselves, so
//! nothing is remembered, and what the kernel could not tell is found by looking at them all.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use netferry_kernel::link::{Changes, Link, Want};
use netferry_kernel::{Event, Kernel, Objects as _, Result, Topics, Watch};
use nix::errno::Errno;

use super::{chain, wire};
use crate::ownership;

/// After a refusal of the kernel's.
const PAUSE: Duration = Duration::from_secs(1);

/// Keeps them for as long as it is run.
pub async fn keep(kernel: Arc<Kernel>) -> Infallible {
    loop {
        let Err(error) = follow(&kernel).await;
        tracing::warn!(error = chain(&error), "keeping the links of pods");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow(kernel: &Kernel) -> Result<Infallible> {
    let mut watch = Watch::open(kernel, Topics { links: true, ..Topics::default() })?;
    put_all_right(kernel)?;
    loop {
        let event = watch.next().await?;
        if let Event::Link(link) = &event {
            put_right(kernel, link)?;
        } else if event == Event::Resync {
            put_all_right(kernel)?;
        }
    }
}

fn put_all_right(kernel: &Kernel) -> Result<()> {
    kernel.links().observe()?.iter().try_for_each(|link| put_right(kernel, link))
}

fn put_right(kernel: &Kernel, link: &Link) -> Result<()> {
    let ours = ownership::pod_links().owns_alias(link.alias.as_deref());
    let sound = link.up && link.mtu >= wire::HOST_END;
    if !ours || sound {
        return Ok(());
    }
    let want = Want::adjust(link.name.clone()).up().mtu(link.mtu.max(wire::HOST_END));
    match kernel.links().apply(&Changes { set: vec![want], ..Changes::default() }) {
        // It went meanwhile, with its pod.
        Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(()),
        done => {
            done?;
            tracing::info!(link = %link.name, was_up = link.up, was_mtu = link.mtu, "put a pod's link right");
            Ok(())
        }
    }
}
