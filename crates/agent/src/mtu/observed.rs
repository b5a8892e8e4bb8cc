//! The sizes this node really uses: of the links and routes that carry the cluster's traffic, as the kernel has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netferry_api::mtu::{InterfaceMtu, InterfaceRole, MtuObserved, NicRange, RouteMtu, TrialObserved};
use netferry_core::mtu::boot::Booted;
use netferry_core::overlay::names;
use netferry_core::probe::Runs;
use netferry_core::size::Envelope;
use netferry_kernel::link::Link;
use netferry_kernel::route::Route;
use netferry_kernel::{IfName, Kernel, Objects, Topics, Watch};
use netferry_translate::{mtu as translate, probe};
use tokio::sync::watch;

use super::pods;
use crate::machine::{Disk, DiskError};
use crate::mtu::host::preview::Foresight;
use crate::mtu::sizes::{self, Managed};

/// Where node-feature-discovery looks for what others know of a node.
const FEATURES: &str = "/etc/kubernetes/node-feature-discovery/features.d/netferry";
/// Links and routes change one by one; what is true in between is nobody's business.
const SETTLING: Duration = Duration::from_millis(100);
/// A setting may change without anybody being told.
const EVERY: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(1);

/// What a host has, as far as sizes go.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// Its links.
    pub links: &'a [Link],
    /// Its routes.
    pub routes: &'a [Route],
    /// The link that leads to the other nodes.
    pub uplink: &'a IfName,
    /// The link below it, where that is a bridge of the switch, which the kernel does not know.
    pub port: Option<&'a IfName>,
    /// What IPv6 routes without a size of their own may send, by link.
    pub advertised: &'a BTreeMap<IfName, u32>,
}

/// Reads the sizes of a host. Pure.
pub fn look(sight: &Sight<'_>, running: &Booted) -> Option<MtuObserved> {
    let own = sizes::managed(sight.links, &[sight.uplink]);
    let below = sight.port.map(|port| sizes::managed(sight.links, &[port])).unwrap_or_default();
    let management = sight.links.iter().find(|link| link.name.as_str() == names::MANAGEMENT_LINK);
    let role = |managed: &Managed, below: bool| match managed.below || below {
        true => InterfaceRole::Parent,
        false => InterfaceRole::Uplink,
    };
    let mut roles: BTreeMap<u32, (&Link, InterfaceRole)> = BTreeMap::new();
    for managed in &below {
        roles.insert(managed.link.index, (&managed.link, role(managed, true)));
    }
    for managed in &own {
        roles.insert(managed.link.index, (&managed.link, role(managed, false)));
    }
    roles.extend(management.map(|link| (link.index, (link, InterfaceRole::Management))));
    let interfaces = roles.values().map(|(link, role)| InterfaceMtu {
        name: link.name.to_string(),
        role: *role,
        mtu: link.mtu,
        nic: (link.max_mtu != 0 && link.min_mtu <= link.max_mtu)
            .then_some(NicRange { min: link.min_mtu, max: link.max_mtu }),
    });
    let mut most: BTreeMap<(IpNet, String), Option<u32>> = BTreeMap::new();
    for route in sight.routes {
        for link in route.hops.iter().filter_map(|hop| roles.get(&hop.link?)).map(|(link, _)| *link) {
            if !sizes::leads_out(route, &BTreeSet::from([link.index])) {
                continue;
            }
            let held = sight.advertised.get(&link.name).copied();
            let held = held.filter(|held| route.to.addr().is_ipv6() && *held < link.mtu);
            let mtu = route.mtu.map(|mtu| mtu.bytes).or(held);
            // Of several to one place the one that lets out most is what counts.
            let seen = most.entry((route.to, link.name.to_string())).or_insert(mtu);
            *seen = seen.zip(mtu).map(|(a, b)| a.max(b));
        }
    }
    let routes = most.into_iter().map(|((to, interface), mtu)| RouteMtu { to, interface, mtu });
    let cni = pods::look(sight.links, sight.routes).map(translate::printed_envelope);
    let observed = MtuObserved::new(interfaces.collect(), routes.collect(), cni);
    match observed {
        Ok(observed) => Some(observed.at_epoch(running.epoch)),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the node's sizes make no sense");
            None
        }
    }
}

/// What probes need of it; `None` if the node serves no pods, or if its sizes make no sense.
pub fn runs(observed: &MtuObserved) -> Option<Runs> {
    probe::runs(translate::understood(observed).ok()?)
}

/// What node-feature-discovery is told: the uplink's MTU, what its card can do, what routes let out.
pub fn features(observed: &MtuObserved) -> String {
    let mut lines = BTreeMap::new();
    let uplinks = || observed.interfaces().iter().filter(|i| i.role == InterfaceRole::Uplink);
    let mut add = |key: &str, value: Option<u32>| {
        lines.extend(value.map(|value| (format!("netferry-mtu.{key}"), value)));
    };
    add("uplink", uplinks().map(|uplink| uplink.mtu).min());
    let cards =
        || observed.interfaces().iter().filter(|i| i.role != InterfaceRole::Management).filter_map(|i| i.nic);
    add("uplink-min", cards().map(|nic| nic.min).max());
    add("uplink-max", cards().map(|nic| nic.max).min());
    let through = |route: &&RouteMtu| uplinks().any(|uplink| uplink.name == route.interface);
    let routes: Option<Vec<u32>> = observed.routes().iter().filter(through).map(|route| route.mtu).collect();
    add("uplink-routable", routes.and_then(|routes| routes.into_iter().max()));
    add("pods", observed.cni().map(|cni| cni.mtu));
    add("pods-routable", observed.cni().and_then(|cni| cni.routable_mtu));
    lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

/// What sizes are observed with.
#[derive(Debug)]
pub struct Sources {
    /// The host's kernel.
    pub kernel: Arc<Kernel>,
    /// The host's files.
    pub disk: Arc<Disk>,
    /// The bridge that host-init made and the link below it.
    pub bridge: Option<(IfName, IfName)>,
    /// The link that host-init gave its size, where there is no such bridge.
    pub sized: Option<IfName>,
    /// The link that leads to the other nodes, where there is no such bridge.
    pub facts: watch::Receiver<Option<crate::node::NodeFacts>>,
    /// What this boot runs at.
    pub running: watch::Receiver<Option<Booted>>,
    /// What it was decided that pods run at, once they are served. What they do run at is read from the kernel.
    pub pods: watch::Receiver<Option<Envelope>>,
    /// What became of a trial the node is asked for.
    pub trial: watch::Receiver<Option<TrialObserved>>,
    /// Whether the host could be told other sizes.
    pub foresight: Foresight,
}

/// Whether host-init gave another link its size than the one that leads to the other nodes, in a change of the hosts' own.
/// What that one has is then nothing the change made, and not there after the next boot. Pure.
pub fn is_astray(sized: &IfName, link: &IfName, running: &Booted) -> bool {
    sized != link && (running.host.pin().is_some() || running.own != running.original)
}

impl Sources {
    /// The link that was given its size, and the one that should have been.
    fn astray(&self) -> Option<(IfName, IfName)> {
        let link = self.facts.borrow().as_ref().map(|facts| facts.host.link.clone())?;
        let sized = self.sized.clone().filter(|_| self.bridge.is_none())?;
        let running = (*self.running.borrow())?;
        is_astray(&sized, &link, &running).then_some((sized, link))
    }
}

/// Follows the sizes of a node that serves pods. Ends when nobody listens.
pub async fn observe(mut sources: Sources, tell: watch::Sender<Option<MtuObserved>>) {
    while !tell.is_closed() {
        if let Err(error) = follow(&mut sources, &tell).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "observing the node's sizes");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow(
    sources: &mut Sources,
    tell: &watch::Sender<Option<MtuObserved>>,
) -> netferry_kernel::Result<()> {
    let topics = Topics {
        rules: false,
        neighbours: false,
        settings: false,
        nft: false,
        addresses: false,
        ..Topics::ALL
    };
    let mut kernel = Watch::open(&sources.kernel, topics)?;
    let mut said = None;
    // Files of the host are read for it, and nobody tells when they change.
    let mut fixed = (Instant::now(), translate::printed_fixed(sources.foresight.fixed()));
    loop {
        tokio::select! {
            event = kernel.next() => drop(event?),
            changed = sources.running.changed() => if changed.is_err() { return Ok(()) },
            changed = sources.pods.changed() => if changed.is_err() { return Ok(()) },
            _ = sources.facts.changed() => {}
            _ = sources.trial.changed() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = tell.closed() => return Ok(()),
        }
        tokio::time::sleep(SETTLING).await;
        kernel.ready()?;
        let astray = sources.astray();
        if astray != said {
            if let Some((sized, link)) = &astray {
                tracing::error!(
                    "host-init gave {sized} its size, and the other nodes are reached over {link}: nothing is said of \
                     this node's sizes; run `netferry host-init --uplink {link}` at boot, and restart the host"
                );
            }
            said = astray.clone();
        }
        if astray.is_some() {
            tell.send_replace(None);
            continue;
        }
        if fixed.0.elapsed() >= EVERY {
            fixed = (Instant::now(), translate::printed_fixed(sources.foresight.fixed()));
        }
        let Some(now) = read(sources)?.map(|now| now.on_host(fixed.1.clone())) else { continue };
        if let Err(error) = write_features(&sources.disk, &features(&now)) {
            tracing::warn!(error = &error as &dyn std::error::Error, "node-feature-discovery was not told");
        }
        let decided = sources.pods.borrow().map(translate::printed_envelope);
        tell.send_if_modified(|last| {
            let differs = last.as_ref() != Some(&now);
            if differs && now.cni() != decided {
                tracing::warn!(runs = ?now.cni(), ?decided, "pods do not run at what was decided");
            }
            *last = Some(now);
            differs
        });
    }
}

fn read(sources: &Sources) -> netferry_kernel::Result<Option<MtuObserved>> {
    let Some(running) = (*sources.running.borrow()).filter(|_| sources.pods.borrow().is_some()) else {
        return Ok(None);
    };
    let found = sources.facts.borrow().as_ref().map(|facts| facts.host.link.clone());
    let (uplink, port) = match &sources.bridge {
        Some((bridge, port)) => (bridge.clone(), Some(port)),
        None => match found {
            Some(link) => (link, None),
            None => return Ok(None),
        },
    };
    let trial = || sources.trial.borrow().clone();
    let trial_before = trial();
    let links = sources.kernel.links().observe()?;
    let key = sizes::advertised::size_of(&uplink);
    let settings = sources.kernel.sysctls().read(std::slice::from_ref(&key))?;
    let advertised = settings.get(&key).and_then(|value| value.parse().ok());
    let sight = Sight {
        links: &links,
        routes: &sources.kernel.routes().observe()?,
        uplink: &uplink,
        port,
        advertised: &advertised.map(|mtu| (uplink.clone(), mtu)).into_iter().collect(),
    };
    // What is read while a trial begins or ends was read during it.
    let begun = |trial: &Option<TrialObserved>| matches!(trial, Some(TrialObserved::Before(_)));
    let trial = Some(trial_before).filter(begun).unwrap_or_else(trial);
    Ok(look(&sight, &running).map(|observed| in_trial(observed, trial)))
}

fn in_trial(observed: MtuObserved, trial: Option<TrialObserved>) -> MtuObserved {
    let Some(trial) = trial else { return observed };
    observed.clone().in_trial(trial).unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "what became of a trial makes no sense");
        observed
    })
}

fn write_features(disk: &Disk, text: &str) -> Result<(), DiskError> {
    match disk.read(FEATURES)?.as_deref() == Some(text.as_bytes()) {
        true => Ok(()),
        false => disk.replace(FEATURES, text.into(), 0o644),
    }
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
