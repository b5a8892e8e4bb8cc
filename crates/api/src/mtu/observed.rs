//! `netferry.dev/mtu-observed`: the sizes a node really uses.

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::TrialObserved;
use crate::annotation::{AnnotationError, Wired, json_annotation, network};

/// `netferry.dev/mtu-observed`, on a node: the MTU of every managed interface and route as the kernel
/// has them now, and what the network cards could do.
///
/// These are facts for gates and progress, never wishes. The value is printed in one order, so that
/// an unchanged node writes an unchanged annotation.
///
/// Invariant: interface names are legal and each is there once; every route leaves through one of
/// the interfaces and is there once; no MTU is 0; a card's least is not above its most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MtuObserved {
    interfaces: Vec<InterfaceMtu>,
    routes: Vec<RouteMtu>,
    cni: Option<CniMtu>,
    epoch: Option<u64>,
    trial: Option<TrialObserved>,
    fixed: Option<FixedMtu>,
}

/// One interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceMtu {
    /// Its name.
    pub name: String,
    /// What it is to the cluster.
    pub role: InterfaceRole,
    /// Its MTU.
    pub mtu: u32,
    /// What the card could do, where there is a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicRange>,
}

/// What an interface is to the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InterfaceRole {
    /// Carries traffic between hosts: the card, bond or VLAN with the node's address, or a bridge over it.
    Uplink,
    /// What an uplink stands on: the parent of a VLAN, the port of a bond or bridge.
    Parent,
    /// Joins the host to the pod network.
    Management,
}

/// The smallest and largest MTU of a network card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicRange {
    /// Smallest.
    pub min: u32,
    /// Largest.
    pub max: u32,
}

/// One route through a managed interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteMtu {
    /// Where to; `0.0.0.0/0` and `::/0` are the default routes.
    #[serde(deserialize_with = "strictly")]
    pub to: IpNet,
    /// Through which interface.
    pub interface: String,
    /// The most it lets out; absent, as much as the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

fn strictly<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<IpNet, D::Error> {
    let text = String::deserialize(deserializer)?;
    network(&text).map_err(serde::de::Error::custom)
}

/// What pods of the node run at, as the links and routes to them have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CniMtu {
    /// MTU of their interface.
    pub mtu: u32,
    /// MTU of their routes; absent, that of the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routable_mtu: Option<u32>,
}

/// Why the host's own configuration cannot be told another MTU of its uplink, in words.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FixedMtu {
    /// Any other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// A larger one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<String>,
}

/// An observation that contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnfitObservation(String);

impl MtuObserved {
    /// From what was seen, in any order.
    ///
    /// # Errors
    /// If the observation contradicts itself; see the invariant.
    pub fn new(
        mut interfaces: Vec<InterfaceMtu>,
        mut routes: Vec<RouteMtu>,
        cni: Option<CniMtu>,
    ) -> Result<MtuObserved, UnfitObservation> {
        for route in &mut routes {
            route.to = route.to.trunc();
        }
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        routes.sort_by(|a, b| (a.to, &a.interface).cmp(&(b.to, &b.interface)));
        check(&interfaces, &routes, cni.as_ref()).map_err(UnfitObservation)?;
        Ok(MtuObserved { interfaces, routes, cni, epoch: None, trial: None, fixed: None })
    }

    /// The same, of a node that runs by this rendering of the cluster's sizes.
    #[must_use]
    pub fn at_epoch(self, epoch: u64) -> MtuObserved {
        MtuObserved { epoch: Some(epoch), ..self }
    }

    /// The same, of a node that is asked for a trial.
    ///
    /// # Errors
    /// If it was at size 0 before it, or does not say why it refuses.
    pub fn in_trial(self, trial: TrialObserved) -> Result<MtuObserved, UnfitObservation> {
        match &trial {
            TrialObserved::Before(0) => Err(UnfitObservation("trial: before is 0".into())),
            TrialObserved::Refused(why) if why.is_empty() => {
                Err(UnfitObservation("trial: it is not said why it is refused".into()))
            }
            TrialObserved::Before(_) | TrialObserved::Refused(_) => {
                Ok(MtuObserved { trial: Some(trial), ..self })
            }
        }
    }

    /// The same, of a host whose own configuration cannot be told every other size; nothing is said of one that can.
    #[must_use]
    pub fn on_host(self, fixed: FixedMtu) -> MtuObserved {
        MtuObserved { fixed: Some(fixed).filter(|fixed| *fixed != FixedMtu::default()), ..self }
    }

    /// Why the host's own configuration cannot be told another size.
    pub fn fixed(&self) -> Option<&FixedMtu> {
        self.fixed.as_ref()
    }

    /// What became of a trial the node is asked for.
    pub fn trial(&self) -> Option<&TrialObserved> {
        self.trial.as_ref()
    }

    /// The rendering of the cluster's sizes the node runs by, where it was ever told one.
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// The interfaces, by name.
    pub fn interfaces(&self) -> &[InterfaceMtu] {
        &self.interfaces
    }

    /// The routes, by destination.
    pub fn routes(&self) -> &[RouteMtu] {
        &self.routes
    }

    /// What pods run at, on a node that runs a pod network.
    pub fn cni(&self) -> Option<CniMtu> {
        self.cni
    }
}

fn check(interfaces: &[InterfaceMtu], routes: &[RouteMtu], cni: Option<&CniMtu>) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for InterfaceMtu { name, mtu, nic, .. } in interfaces {
        let legal = !name.is_empty()
            && name.len() < 16
            && !matches!(name.as_str(), "." | "..")
            && name.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '/');
        if !legal {
            return Err(format!("{name:?} cannot be the name of an interface"));
        }
        if !names.insert(name.as_str()) {
            return Err(format!("interface {name} is there twice"));
        }
        if *mtu == 0 {
            return Err(format!("interface {name} has MTU 0"));
        }
        if let Some(NicRange { min, max }) = nic.filter(|nic| nic.min > nic.max) {
            return Err(format!("interface {name}: its card's least MTU {min} is above its most, {max}"));
        }
    }
    let mut seen = BTreeSet::new();
    for RouteMtu { to, interface, mtu } in routes {
        if !names.contains(interface.as_str()) {
            return Err(format!(
                "the route to {to} leaves through {interface:?}, which is not among the interfaces"
            ));
        }
        if !seen.insert((to, interface)) {
            return Err(format!("the route to {to} through {interface} is there twice"));
        }
        if *mtu == Some(0) {
            return Err(format!("the route to {to} through {interface} has MTU 0"));
        }
    }
    match cni {
        Some(CniMtu { mtu: 0, .. } | CniMtu { routable_mtu: Some(0), .. }) => Err("cni has MTU 0".into()),
        Some(CniMtu { .. }) | None => Ok(()),
    }
}

/// A reader that meets a newer version says so instead of guessing what a new field may mean.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MtuObservedWire {
    version: u32,
    interfaces: Vec<InterfaceMtu>,
    routes: Vec<RouteMtu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cni: Option<CniMtu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial: Option<TrialObserved>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fixed: Option<FixedMtu>,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl Wired for MtuObserved {
    type Wire = MtuObservedWire;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        let observed = MtuObserved::new(wire.interfaces, wire.routes, wire.cni);
        let observed = observed.map_err(|unfit| unfit.to_string())?;
        let observed = MtuObserved { epoch: wire.epoch, ..observed }.on_host(wire.fixed.unwrap_or_default());
        match wire.trial {
            None => Ok(observed),
            Some(trial) => observed.in_trial(trial).map_err(|unfit| unfit.to_string()),
        }
    }

    fn to_wire(&self) -> Self::Wire {
        MtuObservedWire {
            version: VERSION,
            interfaces: self.interfaces.clone(),
            routes: self.routes.clone(),
            cni: self.cni,
            epoch: self.epoch,
            trial: self.trial.clone(),
            fixed: self.fixed.clone(),
        }
    }

    fn parse_json(key: &'static str, value: &str) -> Result<Self, AnnotationError> {
        let json = |source| AnnotationError::Json { key, source };
        let VersionOnly { version } = serde_json::from_str(value).map_err(json)?;
        if version != VERSION {
            let problem = format!("version {version} is not the version {VERSION} this program understands");
            return Err(AnnotationError::Value { key, problem });
        }
        let wire = serde_json::from_str(value).map_err(json)?;
        Self::from_wire(wire).map_err(|problem| AnnotationError::Value { key, problem })
    }
}

json_annotation!(MtuObserved, "netferry.dev/mtu-observed");
