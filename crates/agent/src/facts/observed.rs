//! The sizes this node really uses: of the links and routes that carry the cluster's traffic, as the kernel has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use netferry_api::mtu::{CniMtu, InterfaceMtu, InterfaceRole, MtuObserved, NicRange, RouteMtu};
use netferry_core::mtu::boot::Booted;
use netferry_core::mtu::{Envelope, Mtu};
use netferry_core::overlay::names;
use netferry_core::rollout::journal::Op;
use netferry_core::rollout::layout::Entry;
use netferry_kernel::link::Link;
use netferry_kernel::route::Route;
use netferry_kernel::{IfName, Kernel, Objects, Topics, Watch};
use tokio::sync::watch;

use crate::machine::{Disk, DiskError};
use crate::sizes::{self, Managed};

/// Where node-feature-discovery looks for what others know of a node.
const FEATURES: &str = "/etc/kubernetes/node-feature-discovery/features.d";
const FEATURES_FILE: &str = "netferry";
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
pub fn look(sight: &Sight<'_>, running: &Booted, pods: Envelope) -> Option<MtuObserved> {
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
    let cni = CniMtu { mtu: pods.carries().bytes(), routable_mtu: pods.pin().map(Mtu::bytes) };
    let observed = MtuObserved::new(interfaces.collect(), routes.collect(), Some(cni));
    match observed {
        Ok(observed) => Some(observed.at_epoch(running.epoch)),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the node's sizes make no sense");
            None
        }
    }
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
    /// The link that leads to the other nodes, where there is no such bridge.
    pub facts: watch::Receiver<Option<super::NodeFacts>>,
    /// What this boot runs at.
    pub running: watch::Receiver<Option<Booted>>,
    /// What pods are served at, once they are.
    pub pods: watch::Receiver<Option<Envelope>>,
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
    loop {
        tokio::select! {
            event = kernel.next() => drop(event?),
            changed = sources.running.changed() => if changed.is_err() { return Ok(()) },
            changed = sources.pods.changed() => if changed.is_err() { return Ok(()) },
            _ = sources.facts.changed() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = tell.closed() => return Ok(()),
        }
        tokio::time::sleep(SETTLING).await;
        kernel.ready()?;
        let Some(now) = read(sources)? else { continue };
        if let Err(error) = write_features(&sources.disk, &features(&now)) {
            tracing::warn!(error = &error as &dyn std::error::Error, "node-feature-discovery was not told");
        }
        tell.send_if_modified(|last| {
            let differs = last.as_ref() != Some(&now);
            *last = Some(now);
            differs
        });
    }
}

fn read(sources: &Sources) -> netferry_kernel::Result<Option<MtuObserved>> {
    let (running, pods) = (*sources.running.borrow(), *sources.pods.borrow());
    let Some((running, pods)) = running.zip(pods) else { return Ok(None) };
    let found = sources.facts.borrow().as_ref().map(|facts| facts.host.link.clone());
    let (uplink, port) = match &sources.bridge {
        Some((bridge, port)) => (bridge.clone(), Some(port)),
        None => match found {
            Some(link) => (link, None),
            None => return Ok(None),
        },
    };
    let links = sources.kernel.links().observe()?;
    let key = sizes::advertised(&uplink);
    let settings = sources.kernel.sysctls().read(std::slice::from_ref(&key))?;
    let advertised = settings.get(&key).and_then(|value| value.parse().ok());
    let sight = Sight {
        links: &links,
        routes: &sources.kernel.routes().observe()?,
        uplink: &uplink,
        port,
        advertised: &advertised.map(|mtu| (uplink.clone(), mtu)).into_iter().collect(),
    };
    Ok(look(&sight, &running, pods))
}

fn write_features(disk: &Disk, text: &str) -> Result<(), DiskError> {
    let (file, staged) = (format!("{FEATURES}/{FEATURES_FILE}"), format!("{FEATURES}/.{FEATURES_FILE}.new"));
    if disk.read(&file)?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    let dirs = FEATURES.match_indices('/').skip(1).map(|(at, _)| &FEATURES[..at]).chain([FEATURES]);
    let mut ops: Vec<Op> = dirs.map(|dir| Op::MakeDir(dir.to_owned())).collect();
    // Not synchronised: after power loss it is written again.
    ops.push(Op::Make { path: staged.clone(), entry: Entry::File { mode: 0o644, contents: text.into() } });
    ops.push(Op::Rename { from: staged, to: file });
    disk.run(&ops)
}

#[cfg(test)]
mod tests {
    use netferry_api::annotation::Annotation as _;
    use netferry_kernel::Mac;
    use netferry_kernel::link::Kind;
    use netferry_kernel::route::Hop;

    use super::*;

    fn name(name: &str) -> IfName {
        IfName::new(name).unwrap()
    }

    fn link(index: u32, called: &str, mtu: u32) -> Link {
        Link {
            index,
            name: name(called),
            kind: Kind::Device,
            up: true,
            carrier: true,
            loopback: false,
            mtu,
            min_mtu: 68,
            max_mtu: 9216,
            mac: Some(Mac([2, 0, 0, 0, 0, index as u8])),
            master: None,
            lower: None,
            lower_namespace: None,
            group: 0,
            alias: None,
            alt_names: BTreeSet::new(),
        }
    }

    #[test]
    fn what_is_observed_says_what_every_managed_link_and_route_has() {
        let size = |bytes| Mtu::new(bytes).unwrap();
        let links = [
            link(2, "eth0", 9000),
            link(3, "br-ex", 9000),
            link(4, names::MANAGEMENT_LINK, 8900),
            link(5, "eth1", 1500),
        ];
        let route = |to: &str, link, mtu: Option<u32>| {
            let route = Route::new(to.parse().unwrap(), vec![Hop::on(link)]);
            mtu.map_or(route.clone(), |mtu| route.mtu(mtu))
        };
        let routes = [
            route("0.0.0.0/0", 3, Some(1500)),
            route("::/0", 3, None),
            route("10.0.0.0/8", 3, Some(1300)),
            route("10.0.0.0/8", 3, Some(1400)).metric(50),
            route("10.244.0.0/16", 4, Some(1400)),
            route("192.0.2.0/24", 5, None),
        ];
        let running = Booted {
            epoch: 4,
            network: None,
            host: Envelope::spanning(size(1500), size(9000)),
            own: size(9000),
            original: size(1500),
        };
        let advertised = BTreeMap::from([(name("br-ex"), 1500)]);
        let (uplink, port) = (name("br-ex"), name("eth0"));
        let sight = Sight {
            links: &links,
            routes: &routes,
            uplink: &uplink,
            port: Some(&port),
            advertised: &advertised,
        };
        let observed = look(&sight, &running, Envelope::spanning(size(1400), size(8900))).unwrap();
        assert_eq!(observed.epoch(), Some(4));
        let interfaces: Vec<String> =
            observed.interfaces().iter().map(|i| format!("{} {:?} {}", i.name, i.role, i.mtu)).collect();
        let management = format!("{} Management 8900", names::MANAGEMENT_LINK);
        assert_eq!(interfaces, ["br-ex Uplink 9000", "eth0 Parent 9000", management.as_str()]);
        let routes: Vec<String> =
            observed.routes().iter().map(|r| format!("{} {} {:?}", r.to, r.interface, r.mtu)).collect();
        assert_eq!(
            routes,
            [
                "0.0.0.0/0 br-ex Some(1500)".to_owned(),
                "10.0.0.0/8 br-ex Some(1400)".to_owned(),
                format!("10.244.0.0/16 {} Some(1400)", names::MANAGEMENT_LINK),
                "::/0 br-ex Some(1500)".to_owned(),
            ]
        );
        let annotations = BTreeMap::from([observed.entry()]);
        let read = netferry_translate::mtu::observed(Some(&annotations)).unwrap().unwrap();
        assert_eq!((read.epoch, read.host), (4, running.host), "the operator reads what this boot runs at");
        assert_eq!(
            features(&observed),
            "netferry-mtu.pods=8900\nnetferry-mtu.pods-routable=1400\nnetferry-mtu.uplink=9000\n\
             netferry-mtu.uplink-max=9216\nnetferry-mtu.uplink-min=68\nnetferry-mtu.uplink-routable=1500\n"
        );
    }

    #[test]
    fn node_feature_discovery_finds_its_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        for text in ["a=1\n", "a=2\n"] {
            write_features(&disk, text).unwrap();
            let file = dir.path().join(&FEATURES[1..]).join(FEATURES_FILE);
            assert_eq!(std::fs::read_to_string(file).unwrap(), text);
        }
    }
}
