//! Carrying more for a while, so that nodes can try whether the wire between them does.
//!
//! What links carried is written down before any of them is touched, beside what their routes had, in a directory that a
//! restart of the host empties, as it does the sizes themselves. A trial ends when it is no longer asked for or its time
//! is over, without anybody's help; and an agent that finds one of its predecessor's ends it before anything else.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use netferry_api::annotation::{Annotation as _, AnnotationError};
use netferry_api::mtu::{MtuTrial, TrialObserved};
use netferry_core::error::chain;
use netferry_core::mtu::trial::{Ask, decide};
use netferry_core::size::{Envelope, Mtu};
use netferry_kernel::{IfName, Kernel};
use netferry_ovs::Client;
use netferry_ovs::tables::vswitch::Interface;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Managed, SizeError, keep, look, of, run, set_link};
use crate::host_init::BridgeSize;
use crate::kept;
use crate::mtu::boot::Running;

/// The directory's name in our run directory, and that of the file in it that says what links had.
const DIRECTORY: &str = "trial";
const FILE: &str = "links.json";
/// How long the switch's row may take to be written.
const SWITCH: Duration = Duration::from_secs(10);
/// After something was refused that has to be done.
const PAUSE: Duration = Duration::from_secs(1);

/// What trials are made with.
#[derive(Debug)]
pub struct Parts {
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// The links that lead to other nodes.
    pub uplinks: Vec<IfName>,
    /// The bridge among them, if there is one.
    pub bridge: Option<Bridge>,
    /// What this boot runs at.
    pub running: Running,
    /// The node as the cluster knows it, which says what is asked.
    pub node: watch::Receiver<Option<Node>>,
    /// Our run directory.
    pub run: PathBuf,
}

/// A bridge of the switch, which holds it at the size its row says.
#[derive(Debug)]
pub struct Bridge {
    /// Its name.
    pub name: IfName,
    /// The switch's database.
    pub switch: Client,
    /// Tells whoever keeps the row ([`crate::host_init::keep`]).
    pub size: watch::Sender<BridgeSize>,
}

/// What links had, as it is written down.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    before: u32,
    carries: u32,
    links: BTreeMap<String, u32>,
}

/// Why a trial was not begun, or not ended.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("{0}")]
    Sizes(#[from] SizeError),
    #[error("link {link} carries {has}, and not {shall} as it should")]
    Elsewhere { link: IfName, has: u32, shall: Mtu },
    #[error("what links had, in {}", file.display())]
    Journal {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the switch was not told within {} s that {bridge} carries {mtu}: is its database there?", SWITCH.as_secs())]
    Switch { bridge: IfName, mtu: u32 },
}

type Result<T> = std::result::Result<T, TrialError>;

/// What is to be said of a trial that a predecessor began, until it has been ended.
pub fn begun(run: &Path) -> Option<TrialObserved> {
    // One that cannot be read is not ended either, and said with every attempt.
    let journal: Option<Journal> = kept::read(&run.join(DIRECTORY), FILE).ok()?;
    journal.map(|journal| TrialObserved::Before(journal.before))
}

/// Does what the node is asked, and says what became of it, for as long as it is run. While `tell` says
/// [`TrialObserved::Before`], and only then, links may carry something else than this boot runs at.
pub async fn keep_trials(mut parts: Parts, tell: watch::Sender<Option<TrialObserved>>) {
    parts.end().await;
    loop {
        let asked = asked(&parts.node);
        let mut left = left(&asked);
        match parts.decided(&asked) {
            Ok(None) => {
                tell.send_replace(None);
                left = None;
            }
            Err(why) => {
                tracing::warn!(why, "no trial of larger packets");
                tell.send_replace(Some(TrialObserved::Refused(why)));
            }
            Ok(Some(envelope)) => {
                tracing::info!(%envelope, "links carry more for a while");
                tell.send_replace(Some(TrialObserved::Before(envelope.sends().bytes())));
                let begun = parts.begin(envelope).await;
                if begun.is_ok() {
                    let (kernel, uplinks) = (Arc::clone(&parts.kernel), parts.uplinks.clone());
                    tokio::select! {
                        () = keep(kernel, uplinks, envelope, parts.directory()) => {}
                        () = other_than(&mut parts.node, &asked) => {}
                        () = over(left) => {}
                    }
                }
                parts.end().await;
                let ended = begun.is_ok();
                tell.send_replace(begun.err().map(|error| TrialObserved::Refused(chain(&error))));
                if ended {
                    continue;
                }
            }
        }
        tokio::select! {
            () = other_than(&mut parts.node, &asked) => {}
            () = over(left) => {}
        }
    }
}

type Asked = std::result::Result<Option<MtuTrial>, String>;

/// What the node is asked; or why that cannot be understood.
fn asked(node: &watch::Receiver<Option<Node>>) -> Asked {
    let node = node.borrow();
    let read = |node: &Node| MtuTrial::read(node.annotations());
    let found: std::result::Result<_, AnnotationError> = node.as_ref().map_or(Ok(None), read);
    found.map_err(|error| chain(&error))
}

/// For how long it is asked; nothing if that is over, or never began.
fn left(asked: &Asked) -> Option<Duration> {
    let until = asked.as_ref().ok()?.as_ref()?.until;
    let left = Duration::try_from(until.duration_since(Timestamp::now())).ok()?;
    (!left.is_zero()).then_some(left)
}

/// Returns when the time is over, if there is one.
async fn over(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Returns when something else is asked.
async fn other_than(node: &mut watch::Receiver<Option<Node>>, now: &Asked) {
    loop {
        if node.changed().await.is_err() {
            // Nobody can ask any more; what was asked ends when its time is over.
            return std::future::pending().await;
        }
        if asked(node) != *now {
            return;
        }
    }
}

impl Parts {
    fn directory(&self) -> PathBuf {
        self.run.join(DIRECTORY)
    }

    fn decided(&self, asked: &Asked) -> std::result::Result<Option<Envelope>, String> {
        let left = left(asked).unwrap_or_default();
        let Some(asked) = asked.as_ref().map_err(Clone::clone)? else { return Ok(None) };
        let carries = Mtu::new(asked.host).map_err(|error| error.to_string())?;
        let booted = self.running.get().map(|booted| booted.host);
        decide(Ask { carries, left }, booted).map_err(|why| why.to_string())
    }

    fn look(&self) -> Result<Vec<Managed>> {
        Ok(look(&self.kernel, &self.names())?)
    }

    fn names(&self) -> Vec<&IfName> {
        self.uplinks.iter().collect()
    }

    /// Links carry more, routes let out no more.
    async fn begin(&self, wanted: Envelope) -> Result<()> {
        let links = self.look()?;
        for Managed { link, .. } in links.iter().filter(|managed| !managed.below) {
            if of(link)? != wanted.sends() {
                let (link, has) = (link.name.clone(), link.mtu);
                return Err(TrialError::Elsewhere { link, has, shall: wanted.sends() });
            }
        }
        super::all_take(&links, wanted)?;
        let journal = Journal {
            before: wanted.sends().bytes(),
            carries: wanted.carries().bytes(),
            links: links.iter().map(|managed| (managed.link.name.to_string(), managed.link.mtu)).collect(),
        };
        let directory = self.directory();
        kept::write(&directory, FILE, &journal)
            .map_err(|source| TrialError::Journal { file: directory.join(FILE), source })?;
        // Whoever keeps the bridge would take it for somebody else's doing.
        if let Some(Bridge { size, .. }) = &self.bridge {
            size.send_replace(BridgeSize::OnItsWay);
        }
        run(&self.kernel, &self.names(), wanted, &directory)?;
        // After routes are held: from now on the switch may give the bridge this size whenever it likes.
        self.tell_switch(wanted.carries().bytes()).await
    }

    /// Ends what was begun, by whomever; tries until it is done.
    async fn end(&self) {
        while let Err(error) = self.give_back().await {
            let error = &error as &(dyn std::error::Error + Send + Sync);
            tracing::warn!(error = error as &dyn std::error::Error, "giving links their sizes back");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Links and routes are as they were. Whoever is cut off in the middle of it begins anew.
    async fn give_back(&self) -> Result<()> {
        let directory = self.directory();
        let file = directory.join(FILE);
        let record = |source| TrialError::Journal { file: file.clone(), source };
        let Some(journal) = kept::read::<Journal>(&directory, FILE).map_err(record)? else { return Ok(()) };
        let before = Mtu::new(journal.before).map_err(|error| record(io::Error::other(error)))?;
        // While routes are still held.
        self.tell_switch(journal.before).await?;
        run(&self.kernel, &self.names(), Envelope::settled(before), &directory)?;
        // What stands below an uplink is left large by that, for others may stand on it: not if it was us who made it so.
        let mut below: Vec<Managed> = self.look()?.into_iter().filter(|managed| managed.below).collect();
        below.sort_by_key(|managed| std::cmp::Reverse(managed.height));
        for Managed { link, .. } in below.iter().filter(|managed| managed.link.mtu == journal.carries) {
            let had = journal.links.get(link.name.as_str()).and_then(|had| Mtu::new(*had).ok());
            if let Some(had) = had.filter(|had| had.bytes() != link.mtu) {
                set_link(&self.kernel, link.name.as_str(), had)?;
            }
        }
        std::fs::remove_dir_all(&directory).map_err(record)?;
        tracing::info!(%before, "links carry what they did");
        Ok(())
    }

    /// The switch gives a bridge the size its row says whenever it looks at it.
    async fn tell_switch(&self, mtu: u32) -> Result<()> {
        let Some(Bridge { name, switch, size }) = &self.bridge else { return Ok(()) };
        size.send_replace(BridgeSize::Now(mtu));
        let written = switch.until(|rows| {
            let row = rows.named::<Interface>(name.as_str()).ok().flatten()?;
            (row.row.mtu_request == Some(i64::from(mtu))).then_some(())
        });
        let late = |_| TrialError::Switch { bridge: name.clone(), mtu };
        tokio::time::timeout(SWITCH, written).await.map_err(late)
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
