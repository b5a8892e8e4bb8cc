//! DEL and GC: neither needs the API, and what is gone already is fine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use netferry_cni::{Attachment, CniError, Code};
use netferry_core::name::ObjectName;
use netferry_kernel::{IfName, Objects};

use super::add::blocking;
use super::record::{self, Record};
use super::{Pods, chain, port, wire};
use crate::ownership;

/// How long the zone may take to withdraw a port. It does so by itself once the API forgets the pod, so nobody has to
/// wait for it.
const ZONE_LIMIT: Duration = Duration::from_secs(5);

/// What stands for a container while something is done for it: its link, so that who finds only the link knows too.
pub(super) fn key(container: &str) -> String {
    key_of(&wire::link_of(container))
}

pub(super) fn key_of(link: &IfName) -> String {
    format!("link {link}")
}

fn again(what: &dyn std::fmt::Display, why: &str) -> CniError {
    CniError::new(Code::TryAgain, format!("{what}: {why}"))
}

impl Pods {
    pub(super) async fn del(&self, attachment: &Attachment) -> Result<(), CniError> {
        let container = attachment.container();
        let _container = self.0.locks.hold(key(container)).await;
        let mine = |record: &Record| record.ifname == attachment.ifname();
        let records = record::of_container(&self.0.switch.snapshot(), container);
        for record in records.iter().filter(|record| mine(record)) {
            self.detach(record).await?;
        }
        if !records.iter().any(|record| !mine(record)) {
            // One that never got onto the switch, or whose record there somebody damaged.
            self.clear(wire::link_of(container)).await.map_err(|why| again(attachment, &why))?;
        }
        Ok(())
    }

    /// Takes an attachment away, if it is still there when its turn comes.
    pub(super) async fn detach(&self, record: &Record) -> Result<(), CniError> {
        let _pod = self.0.locks.hold(format!("pod {}", record.pod)).await;
        let now = record::of_container(&self.0.switch.snapshot(), &record.container);
        if !now.iter().any(|now| now.link == record.link) {
            return Ok(());
        }
        let Ok(link) = IfName::new(record.link.clone()) else { return Ok(()) };
        self.off(link, &record.pod, &record.runtime_uid).await
    }

    /// Takes a pod's link and port away.
    pub(super) async fn off(&self, link: IfName, pod: &ObjectName, uid: &str) -> Result<(), CniError> {
        self.clear(link).await.map_err(|why| again(&format_args!("pod {pod}"), &why))?;
        let withdrawn = self.0.ports.remove(pod.clone(), uid.to_owned());
        match tokio::time::timeout(ZONE_LIMIT, withdrawn).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%pod, error = chain(&error), "withdrawing a port from the zone"),
            Err(_) => tracing::warn!(%pod, "the zone takes long to withdraw a port"),
        }
        Ok(())
    }

    /// Off the switch, then away: a switch whose port loses its link complains.
    async fn clear(&self, link: IfName) -> Result<(), String> {
        let _leaving = self.0.leaving.hold(key_of(&link)).await;
        let links = [link.to_string()];
        let off =
            tokio::time::timeout(self.0.settings.zone_limit, port::remove(&self.0.switch, &links)).await;
        off.map_err(|_| "the switch's database does not answer".to_owned())?
            .map_err(|error| chain(&error))?;
        let kernel = Arc::clone(&self.0.kernel);
        blocking(move || wire::detach(&kernel, &link)).await.map_err(|error| chain(&error))
    }

    /// Takes away every attachment of a network that is not listed. One that is being made or taken away at this
    /// moment is left to whoever does: the list may be older than it.
    pub(super) async fn gc(&self, network: &str, valid: &[Attachment]) -> Result<(), CniError> {
        let stays = |record: &Record| {
            record.network != network
                || valid.iter().any(|v| v.container() == record.container && v.ifname() == record.ifname)
        };
        let mut first = None;
        let records = record::all(&self.0.switch.snapshot());
        for record in records.iter().filter(|record| !stays(record)) {
            let Some(_container) = self.0.locks.try_hold(key(&record.container)) else { continue };
            tracing::info!(pod = %record.pod, container = record.container, "collecting an attachment nobody knows");
            if let Err(error) = self.detach(record).await {
                first.get_or_insert(error);
            }
        }
        self.sweep(valid).await;
        first.map_or(Ok(()), Err)
    }

    /// Links of ours that are on no switch and of no listed container: an agent was killed between making one and
    /// putting it there.
    async fn sweep(&self, valid: &[Attachment]) {
        let links = match self.0.kernel.links().observe() {
            Ok(links) => links,
            Err(error) => return tracing::warn!(error = chain(&error), "looking for links nobody knows"),
        };
        let listed: BTreeSet<IfName> = valid.iter().map(|v| wire::link_of(v.container())).collect();
        let ours = links.into_iter().filter(|link| ownership::pod_links().owns_alias(link.alias.as_deref()));
        for link in ours.filter(|link| !listed.contains(&link.name)) {
            let Some(_container) = self.0.locks.try_hold(key_of(&link.name)) else { continue };
            let on_switch = |record: &Record| record.link == link.name.as_str();
            if record::all(&self.0.switch.snapshot()).iter().any(on_switch) {
                continue;
            }
            let (kernel, name) = (Arc::clone(&self.0.kernel), link.name.clone());
            if let Err(error) = blocking(move || wire::detach(&kernel, &name)).await {
                tracing::warn!(link = %link.name, error = chain(&error), "taking a link away that nobody knows");
            }
        }
    }
}
