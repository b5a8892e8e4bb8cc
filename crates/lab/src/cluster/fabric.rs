//! What nodes are plugged into: switches, a router, the world outside and the place of the control plane.
//!
//! ```text
//!            fabric (one bridge per underlay network)
//!   node-1 eth0 ── n1-0 ┐
//!   node-2 eth0 ── n2-0 ├ net0 ┬ router ── eth0 router eth1 ── eth0 outside
//!   node-1 eth1 ── n1-1 ┤ net1 └ control ── eth0 control
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use netferry_kernel::address::Address;
use netferry_kernel::link::{Bridge, Make, VethPeer, Want};
use netferry_kernel::offload::{Offload, Switches};
use netferry_kernel::route::{Hop, Route};
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Family, IfName, Kernel, Mark, Namespace, Objects};

use crate::addressing::{Families, default_route, node_mac};
use crate::error::{During, LabError, Result};
use crate::options::Options;
use crate::protocol::Fault;
use crate::state::State;

/// The namespaces that are not a node's.
pub(super) const NAMESPACES: [&str; 4] = ["fabric", "router", "outside", "control"];

/// What ports of a switch take. What is too large for it is lost in it, where nobody hears of it, as in one of hardware: a
/// port that did not take it would tell whoever sent it, and a switch of a node that hears of it throws away what
/// it was about to send besides.
const PORTS_TAKE: u32 = 65_535;

/// The fabric and what is on it that is not a node.
#[derive(Debug)]
pub(super) struct Fabric {
    switches: Kernel,
    control: Arc<Namespace>,
    families: Families,
    networks: u8,
    mtu: u32,
    /// What nodes could take when the lab began.
    host_mtu: u32,
    /// Ports by the name of who is behind them. A node's is there while it runs.
    ends: BTreeMap<String, End>,
    faults: Vec<Fault>,
}

#[derive(Debug)]
struct End {
    namespace: Arc<Namespace>,
    /// A node's number; the lab's own have none.
    number: Option<u16>,
}

impl Fabric {
    /// Makes everything but the nodes.
    pub(super) fn new(state: &State, options: &Options) -> Result<Fabric> {
        let make = |name: &str| -> Result<Arc<Namespace>> {
            let made =
                Namespace::bound(state.namespace(name)).during(format!("making the {name} namespace"))?;
            prepare(&made).during(format!("preparing the {name} namespace"))?;
            Ok(Arc::new(made))
        };
        let [fabric, router, outside, control] = NAMESPACES.map(make);
        let (router, outside, control) = (router?, outside?, control?);
        let fabric = fabric?;
        let switches = kernel(&fabric)?;
        // A switch has no opinion about addresses.
        let silent = BTreeMap::from([
            (Key::disable_ipv6(&Of::Default), "1".to_owned()),
            (Key::disable_ipv6(&Of::All), "1".to_owned()),
        ]);
        switches.sysctls().converge_keys(&silent).during("silencing the switches")?;
        let mut made = Fabric {
            switches,
            control: control.clone(),
            families: options.families,
            networks: options.networks,
            mtu: options.mtu,
            host_mtu: options.host_mtu(),
            ends: BTreeMap::new(),
            faults: vec![],
        };
        made.ends.insert("router".into(), End { namespace: router.clone(), number: None });
        made.ends.insert("control".into(), End { namespace: control.clone(), number: None });
        made.settle()?;
        made.furnish(&router, &outside, &control)?;
        Ok(made)
    }

    /// The network the control plane lives in.
    pub(super) fn control(&self) -> Arc<Namespace> {
        self.control.clone()
    }

    /// Plugs a node in: its interfaces are in `namespace` when this returns.
    pub(super) fn plug(&mut self, name: &str, number: u16, namespace: Arc<Namespace>) -> Result<()> {
        self.ends.insert(name.to_owned(), End { namespace: namespace.clone(), number: Some(number) });
        self.settle()?;
        let kernel = kernel(&namespace)?;
        let interfaces = (0..=self.networks).map(interface);
        plain(&kernel, interfaces).during(format!("turning offloads of {name} off"))
    }

    /// Unplugs a node.
    pub(super) fn unplug(&mut self, name: &str) -> Result<()> {
        match self.ends.remove(name) {
            Some(_) => self.settle(),
            None => Ok(()),
        }
    }

    /// What goes wrong.
    pub(super) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Lets something go wrong, in place of what goes wrong there in this way already.
    pub(super) fn harm(&mut self, fault: Fault, known: impl Fn(&str) -> bool) -> Result<()> {
        let (ends, network) = places(&fault);
        for end in ends {
            if !matches!(end, "router" | "control") && !known(end) {
                return Err(LabError::Refused(format!(
                    "{end}: not a node of this lab; netferry lab status lists them, and router and api are others"
                )));
            }
            if network > 0 && matches!(end, "router" | "control") {
                return Err(LabError::Refused(format!("{end} is on network 0 only")));
            }
        }
        if network > self.networks {
            return Err(LabError::Refused(format!(
                "network {network}: this lab has networks 0 to {}",
                self.networks
            )));
        }
        self.faults.retain(|other| !fault.is_where(other));
        self.faults.push(fault);
        self.settle()
    }

    /// Ends what goes wrong of this kind and at this place, or everything.
    pub(super) fn heal(&mut self, fault: Option<&Fault>) -> Result<()> {
        let before = self.faults.len();
        self.faults.retain(|other| fault.is_some_and(|fault| !fault.is_where(other)));
        if let Some(fault) = fault
            && before == self.faults.len()
        {
            return Err(LabError::Refused(format!("there is nothing to heal: it is not so that {fault}")));
        }
        self.settle()
    }

    /// Forgets what goes wrong with a node that is gone.
    pub(super) fn forget(&mut self, name: &str) -> Result<()> {
        self.faults.retain(|fault| !places(fault).0.contains(&name));
        self.unplug(name)?;
        self.settle()
    }

    /// Makes bridges and ports what they shall be.
    fn settle(&mut self) -> Result<()> {
        let mut wants: Vec<Want> = (0..=self.networks)
            .map(|k| Want::make(bridge(k), Make::Bridge(Bridge::default())).mtu(self.mtu).up())
            .collect();
        let mut ports = vec![];
        for (name, end) in &self.ends {
            let networks = if end.number.is_some() { 0..=self.networks } else { 0..=0 };
            for k in networks {
                let port = port(name, end.number, k);
                let mut peer = VethPeer::named(interface(k)).inside(end.namespace.clone());
                peer.mtu = Some(self.mtu);
                peer.mac = end.number.map(|number| node_mac(k, number));
                let mut want = Want::make(port.clone(), Make::Veth(peer)).mtu(PORTS_TAKE).port_of(bridge(k));
                want.up = Some(!self.faults.iter().any(|f| is_cut(f, name, k)));
                ports.push(port);
                wants.push(want);
            }
        }
        let links = self.switches.links();
        let done = links.converge(&wants, &Mark::default()).during("settling the fabric's links")?;
        let made = done.create.into_iter().map(|link| link.name).filter(|name| ports.contains(name));
        plain(&self.switches, made).during("turning offloads of the fabric off")?;
        super::faults::settle(&self.switches, self.mtu, &self.faults, |name, k| {
            let number = self.ends.get(name).map(|end| end.number);
            number.map(|number| port(name, number, k))
        })
    }

    /// Links, addresses and routes of everything that is not a node.
    fn furnish(&self, router: &Namespace, outside: &Arc<Namespace>, control: &Namespace) -> Result<()> {
        let (families, first) = (self.families, interface(0));
        let uplink = interface(1);
        // A way out that is narrower than the underlay would hide what the underlay lets through.
        let peer = VethPeer { mtu: Some(self.mtu), ..VethPeer::named(first.clone()).inside(outside.clone()) };
        let uplink_pair = Want::make(uplink.clone(), Make::Veth(peer)).mtu(self.mtu).up();
        let plug = || Want::adjust(interface(0)).up();

        let at_router = Site::at(router, vec![plug(), uplink_pair])?;
        let forward = BTreeMap::from([
            (Key::ip_forward(), "1".to_owned()),
            (Key::forwarding(Family::V6, &Of::All), "1".to_owned()),
        ]);
        at_router.kernel.sysctls().converge_keys(&forward).during("making the router forward")?;
        at_router.settle(&[(&first, families.router()), (&uplink, families.outside_router())], &[])?;
        // Nobody changes them together with the nodes: they take whatever comes, and send what always fits.
        let sends = (self.host_mtu < self.mtu).then_some(self.host_mtu);
        Site { sends, ..Site::at(outside, vec![plug()])? }
            .settle(&[(&first, families.outside())], &families.outside_router())?;
        Site { sends, ..Site::at(control, vec![plug()])? }
            .settle(&[(&first, families.control())], &families.router())
    }
}

/// A namespace with interfaces, addresses and a way to everywhere else.
struct Site {
    kernel: Kernel,
    links: Vec<IfName>,
    /// The most its routes let out, where that is less than its links carry.
    sends: Option<u32>,
}

impl Site {
    fn at(namespace: &Namespace, links: Vec<Want>) -> Result<Site> {
        let kernel = kernel(namespace)?;
        kernel
            .links()
            .converge(&links, &Mark::default())
            .during(format!("making the links of {namespace}"))?;
        Ok(Site { kernel, links: links.into_iter().map(|link| link.name).collect(), sends: None })
    }

    fn settle(&self, addresses: &[(&IfName, Vec<IpNet>)], gateways: &[IpNet]) -> Result<()> {
        let attempt = || format!("giving addresses to {}", self.kernel.namespace());
        plain(&self.kernel, self.links.iter().cloned()).during(attempt())?;
        let mut wanted = vec![];
        let mut first = None;
        for (link, nets) in addresses {
            let found = self.kernel.links().named(link).during(attempt())?;
            let index =
                found.map(|link| link.index).ok_or_else(|| format!("{link} is gone")).during(attempt())?;
            first.get_or_insert(index);
            wanted.extend(nets.iter().map(|net| Address { no_dad: true, ..Address::new(index, *net) }));
        }
        self.kernel.addresses().converge(&wanted, &Mark::default()).during(attempt())?;
        let hop = |gateway: IpAddr| vec![Hop::via(first.unwrap_or_default(), gateway)];
        let route = |gateway: &IpNet| {
            let route = Route::new(default_route(gateway.addr()), hop(gateway.addr()));
            self.sends.map_or(route.clone(), |mtu| route.mtu(mtu))
        };
        let routes: Vec<Route> = gateways.iter().map(route).collect();
        self.kernel.routes().converge(&routes, &Mark::default()).during(attempt())?;
        Ok(())
    }
}

/// The ends of a fault, and its network.
fn places(fault: &Fault) -> (Vec<&str>, u8) {
    match fault {
        Fault::Cut { end, network } => (vec![end], *network),
        Fault::Part { a, b, network } => (vec![a, b], *network),
        Fault::Lose { end, peer, network, .. } => {
            (std::iter::once(end.as_str()).chain(peer.as_deref()).collect(), *network)
        }
    }
}

fn is_cut(fault: &Fault, name: &str, network: u8) -> bool {
    matches!(fault, Fault::Cut { end, network: k } if end == name && *k == network)
}

/// A namespace whose interfaces are usable the moment they are there.
pub(super) fn prepare(namespace: &Namespace) -> Result<()> {
    let kernel = kernel(namespace)?;
    let mut settings = BTreeMap::new();
    for of in [Of::Default, Of::All] {
        // Addresses are ours to give; asking around whether somebody has them takes seconds.
        settings.insert(Key::conf(Family::V6, &of, "accept_dad"), "0".to_owned());
        settings.insert(Key::conf(Family::V6, &of, "dad_transmits"), "0".to_owned());
        settings.insert(Key::accept_ra(&of), "0".to_owned());
    }
    kernel.sysctls().converge_keys(&settings).during("setting how addresses are taken")?;
    let lo = IfName::new("lo").during("naming the loopback")?;
    kernel.links().converge(&[Want::adjust(lo).up()], &Mark::default()).during("starting the loopback")?;
    Ok(())
}

fn kernel(namespace: &Namespace) -> Result<Kernel> {
    let again = namespace.try_clone().during("opening a namespace again")?;
    Kernel::inside(again).during("reaching a namespace's kernel")
}

fn bridge(network: u8) -> IfName {
    IfName::new(format!("net{network}")).expect("short and plain")
}

/// The name of a node's interface on a network, inside the node.
pub fn interface(network: u8) -> IfName {
    IfName::new(format!("eth{network}")).expect("short and plain")
}

fn port(name: &str, number: Option<u16>, network: u8) -> IfName {
    let text = number.map_or_else(|| name.to_owned(), |number| format!("n{number}-{network}"));
    IfName::new(text).expect("the lab's own names and numbers are short")
}

/// No packet may be larger than a wire can carry, nor without its checksum: a userspace switch forwards it as it is.
fn plain(kernel: &Kernel, links: impl Iterator<Item = IfName>) -> netferry_kernel::Result<()> {
    let off: BTreeMap<Offload, bool> = Offload::ALL.iter().map(|offload| (*offload, false)).collect();
    let want: Switches = links.map(|link| (link, off.clone())).collect();
    kernel.offloads().converge_links(&want).map(drop)
}
