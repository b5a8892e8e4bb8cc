//! Puts ports of pods back that somebody took off the switch or changed, takes those off whose links are gone, and says
//! which links pods have.

use std::collections::BTreeSet;
use std::time::Duration;

use netferry_core::overlay::{names, rows};
use netferry_kernel::IfName;
use netferry_ovs::tables::Strings;
use netferry_ovs::tables::vswitch::{Interface, Port};
use tokio::sync::watch;

use super::record::{self, Record};
use super::{Pods, chain, port};
use crate::ownership;

/// How long a port that cannot be put back is tried, and how often.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(100);

/// Keys of an interface that are ours to say; what `ovn-controller` writes beside them is its own.
const OURS: [&str; 11] = [
    names::MARK.0,
    record::PORT,
    record::UID,
    record::RUNTIME_UID,
    record::ADDRESSES,
    record::MAC,
    record::SANDBOX,
    record::IFNAME,
    record::NETWORK,
    record::NETNS,
    record::LABELS,
];

impl Pods {
    /// Keeps the ports of attached pods on the switch, for as long as it is run, and publishes the pods' links.
    ///
    /// A port that disappears while its link stays was not taken off by us: we take the link away with it. What it
    /// was is in the change itself, so nothing has to be kept for this.
    pub async fn keep(&self, links: watch::Sender<BTreeSet<IfName>>) {
        let mut watcher = self.0.switch.watch(&["Interface", "Port"]);
        loop {
            let changes = watcher.next().await;
            let (mut suspects, mut torn, mut lasting) = (Vec::new(), Vec::new(), Vec::new());
            for change in &changes {
                if let Some(Ok((_, Some(port)))) = change.typed::<Port>() {
                    lasting.extend((!port::is_transient(&port)).then_some(port.name));
                }
                let Some(Ok((old, new))) = change.typed::<Interface>() else { continue };
                // The first batch has them all: what was there before this agent, and perhaps before this boot.
                suspects.extend(
                    new.as_ref().filter(|new| old.is_none() || is_broken(new)).and_then(Record::read),
                );
                let Some(old) = old else { continue };
                let Some(record) = Record::read(&old) else { continue };
                if new.is_some_and(|new| still_says(&new, &old)) {
                    continue;
                }
                torn.push((old, record));
            }
            futures::future::join_all(
                torn.iter().map(|(old, record)| insist(record, || self.put_back(old, record))),
            )
            .await;
            futures::future::join_all(lasting.iter().map(|link| self.let_go_at_boot(link))).await;
            futures::future::join_all(suspects.iter().map(|record| self.bury(record))).await;
            let now = record::all(&self.0.switch.snapshot());
            let now: BTreeSet<IfName> =
                now.into_iter().filter_map(|record| IfName::new(record.link).ok()).collect();
            links.send_if_modified(|links| {
                let differs = *links != now;
                *links = now;
                differs
            });
        }
    }

    /// Takes an attachment away whose link is gone: its container is, or the host was started anew. The database keeps
    /// rows across that, and their addresses would be nobody's and never free.
    async fn bury(&self, record: &Record) {
        let Ok(link) = IfName::new(record.link.clone()) else { return };
        let gone = || matches!(self.0.kernel.links().named(&link), Ok(None));
        if !gone() {
            return;
        }
        // Somebody is at it: it is theirs to say what becomes of it.
        let Some(_container) = self.0.locks.try_hold(super::del::key_of(&link)) else { return };
        if !gone() {
            return;
        }
        tracing::info!(pod = %record.pod, %link, "a pod's link is gone; taking its port off the switch");
        if let Err(error) = self.detach(record).await {
            tracing::warn!(pod = %record.pod, %error, "taking the port of a link that is gone off the switch");
        }
    }

    /// Somebody made a pod's port one that outlives a boot, after which its link would be nobody's.
    async fn let_go_at_boot(&self, link: &str) {
        let row = self.0.switch.snapshot().named::<Interface>(link).ok().flatten();
        let Some(record) = row.and_then(|row| Record::read(&row)) else { return };
        tracing::info!(pod = %record.pod, link, "putting right what a pod's port says");
        insist(&record, || port::make_transient(&self.0.switch, link)).await;
    }

    async fn put_back(&self, old: &Interface, record: &Record) -> Result<(), port::PortError> {
        let Ok(link) = IfName::new(old.name.clone()) else { return Ok(()) };
        // Whoever takes it off properly holds this until the link is gone too.
        let _leaving = self.0.leaving.hold(super::del::key_of(&link)).await;
        let now = self.0.switch.snapshot();
        let there = now.named::<Interface>(&old.name).ok().flatten();
        if there.is_some_and(|there| still_says(&there, old)) {
            return Ok(());
        }
        let others = record::of_port(&now, &names::pod_port(&record.pod));
        if others.iter().any(|other| other.name != old.name) {
            return Ok(());
        }
        match self.0.kernel.links().named(&link) {
            Ok(Some(found)) if ownership::pod_links().owns_alias(found.alias.as_deref()) => {}
            Ok(_) => return Ok(()),
            Err(error) => {
                tracing::warn!(%link, error = chain(&error), "looking at a pod's link");
                return Ok(());
            }
        }
        let row = rows::Interface {
            name: old.name.clone(),
            bridge: names::INTEGRATION_BRIDGE.to_owned(),
            kind: String::new(),
            mac: None,
            mtu: None,
            port_other_config: [("transient".to_owned(), "true".to_owned())].into(),
            external_ids: said(old),
        };
        port::add(&self.0.switch, &row, Strings::new()).await?;
        tracing::info!(pod = %record.pod, %link, "put a pod's port back on the switch");
        Ok(())
    }
}

/// Puts a port right, again and again while it cannot be: if the bridge itself was taken away, OVN makes that anew a
/// moment later.
async fn insist<F: Future<Output = Result<(), port::PortError>>>(record: &Record, put_right: impl Fn() -> F) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while let Err(error) = put_right().await {
        tracing::warn!(pod = %record.pod, link = record.link, error = chain(&error), "putting a pod's port right");
        if tokio::time::Instant::now() > end {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether the switch says something that it also says of a link that is gone.
fn is_broken(interface: &Interface) -> bool {
    interface.error.is_some() || interface.ofport == Some(-1) || interface.ifindex == Some(0)
}

/// Whether everything of ours that was said of it is said still. It may be more by now.
fn still_says(now: &Interface, before: &Interface) -> bool {
    said(before).iter().all(|(key, value)| now.external_ids.get(key) == Some(value))
}

fn said(interface: &Interface) -> Strings {
    let ours = interface.external_ids.iter().filter(|(key, _)| OURS.contains(&key.as_str()));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}
