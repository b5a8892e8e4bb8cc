//! The MTU: what is asked, what is applied, what nodes observe.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::migration::MigrationStatus;
use netferry_api::mtu::annotations::{MtuOnLoss, MtuPaused, MtuUnattended};
use netferry_api::mtu::{
    CniMtu, FixedMtu, InterfaceMtu, InterfaceRole, MtuChange, MtuMigration, MtuObserved, TrialObserved,
};
use netferry_api::overlay::{IpsecMode, OperatorNetworkSpec, OvnKubernetesConfig, Plugin as Named};
use netferry_core::mtu::check::{Asked, AskedChange, AskedEnds, Cluster, Plugin, Transport};
use netferry_core::mtu::equipment::{Card, Equipment, Fixed};
use netferry_core::mtu::plan::{Mode, NodeFacts, Observed, OnLoss, SpecEdit};
use netferry_core::mtu::record::{Change, Ends, Record, Stage};
use netferry_core::overlay::topology;
use netferry_core::size::{Envelope, Mtu, OutOfRange};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::networks::NO_OVERLAY;

/// The plugin and the families of a cluster that is for so many nodes; `None` for a plugin that is not ours.
pub fn cluster(spec: &OperatorNetworkSpec, nodes: topology::Mode) -> Option<Cluster> {
    let network = spec.default_network.as_ref();
    let plugin = network.and_then(|network| network.plugin.as_deref());
    let plugin = match plugin.map_or(Some(Named::OvnKubernetes), Named::named)? {
        Named::OvnKubernetes => {
            let config = network.and_then(|network| network.ovn_kubernetes_config.as_ref());
            Plugin::OvnKubernetes(match nodes {
                topology::Mode::SingleNode => Transport::Within,
                topology::Mode::MultiNode => config.map_or(Transport::Geneve, transport),
            })
        }
        Named::OpenShiftSdn => Plugin::OpenShiftSdn,
    };
    let v6 =
        spec.cluster_network.iter().any(|entry| entry.cidr.as_ref().is_some_and(|cidr| cidr.contains(':')));
    Some(Cluster { plugin, v6 })
}

fn transport(config: &OvnKubernetesConfig) -> Transport {
    let ipsec = config.ipsec_config.as_ref().map(|ipsec| ipsec.effective_mode());
    match (config.transport.as_deref(), ipsec) {
        (Some(NO_OVERLAY), _) => Transport::Unwrapped,
        (_, Some(IpsecMode::Full)) => Transport::GeneveInIpsec,
        (_, Some(IpsecMode::Disabled | IpsecMode::External) | None) => Transport::Geneve,
    }
}

/// What the operator's `Network` asks of the MTU, as it stands there.
pub fn asked(spec: &OperatorNetworkSpec) -> Asked {
    let network = spec.default_network.as_ref();
    let mtu = match of_sdn(spec) {
        true => network.and_then(|network| network.openshift_sdn_config.as_ref()?.mtu),
        false => network.and_then(|network| network.ovn_kubernetes_config.as_ref()?.mtu),
    };
    let ends = |change: &MtuChange| AskedEnds { from: change.from, to: change.to };
    let migration = spec.migration.as_ref().and_then(|migration| migration.mtu.as_ref());
    let migration = migration.map(|mtu| AskedChange {
        network: mtu.network.as_ref().map(ends),
        machine: mtu.machine.as_ref().map(ends),
    });
    Asked { mtu, migration }
}

/// How far a change goes by itself, from the annotations of the operator's `Network`.
///
/// # Errors
/// The first that cannot be understood, beside what is then to be done: nothing further, until somebody mends it.
pub fn mode(annotations: Option<&BTreeMap<String, String>>) -> Result<Mode, (Mode, AnnotationError)> {
    let none = BTreeMap::new();
    let annotations = annotations.unwrap_or(&none);
    let read = || {
        Ok(Mode {
            unattended: MtuUnattended::read(annotations)?.is_some_and(|unattended| *unattended.get()),
            on_loss: MtuOnLoss::read(annotations)?.map(|written| match written {
                MtuOnLoss::Reverse => OnLoss::Reverse,
                MtuOnLoss::Pause => OnLoss::Pause,
            }),
            paused: MtuPaused::read(annotations)?.is_some_and(|paused| *paused.get()),
        })
    };
    read().map_err(|wrong| (Mode { paused: true, ..Mode::default() }, wrong))
}

/// The annotations of the operator's `Network` that say how far one change goes by itself, as a merge patch that takes them
/// away.
pub fn forgotten_mode() -> Value {
    json!({ MtuUnattended::KEY: null, MtuOnLoss::KEY: null })
}

/// An edit of the operator's `Network`, as a merge patch of its spec.
pub fn printed_edit(edit: &SpecEdit, spec: &OperatorNetworkSpec) -> Value {
    match edit {
        SpecEdit::Finish(mtu) => {
            let config = if of_sdn(spec) { "openshiftSDNConfig" } else { "ovnKubernetesConfig" };
            let alone = spec.migration.as_ref().is_none_or(|migration| {
                migration.network_type.as_ref().is_none_or(String::is_empty) && migration.features.is_none()
            });
            let migration = if alone { Value::Null } else { json!({ "mtu": null }) };
            json!({ "defaultNetwork": { config: { "mtu": mtu.bytes() } }, "migration": migration })
        }
        SpecEdit::Migrate { from, to, machine_from, machine_to } => json!({ "migration": { "mtu": {
            "network": { "from": from.bytes(), "to": to.bytes() },
            // Where it is not said, what somebody said before goes.
            "machine": { "from": machine_from.map(Mtu::bytes), "to": machine_to.bytes() },
        } } }),
    }
}

fn of_sdn(spec: &OperatorNetworkSpec) -> bool {
    let named = spec.default_network.as_ref().and_then(|network| network.plugin.as_deref());
    named == Some(Named::OpenShiftSdn.as_str())
}

/// What nodes and others are to follow, while there is a change to follow: `status.migration` of the cluster's
/// `Network`. In phase two there is none, as after the second edit by hand.
pub fn published_migration(record: &Record) -> Option<MigrationStatus> {
    let Change { network, host, stage, .. } = record.change?;
    let (to, host_to) = match stage {
        Stage::Spreading { .. } => (network.to, host.to),
        Stage::Returning => (network.from, host.from),
        Stage::Settling => return None,
    };
    let ends = |from: Mtu, to: Mtu| Some(MtuChange { from: Some(from.bytes()), to: Some(to.bytes()) });
    let mtu = MtuMigration { network: ends(network.from, to), machine: ends(host.from, host_to) };
    Some(MigrationStatus { network_type: None, mtu: Some(mtu) })
}

/// Why what a node observes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotObserved {
    /// It cannot be read.
    #[error("{0}")]
    Annotation(#[from] AnnotationError),
    /// A size no link of ours has.
    #[error("annotation {key}: {0}", key = MtuObserved::KEY)]
    Size(#[from] OutOfRange),
    /// Nothing there carries traffic between hosts.
    #[error("annotation {key} names no uplink", key = MtuObserved::KEY)]
    NoUplink,
}

/// What links carry and routes let out, as nodes write it. Routes never let out more than their link carries.
///
/// # Errors
/// If one of them is a size no link of ours has.
pub fn envelope(written: CniMtu) -> Result<Envelope, OutOfRange> {
    let mtu = Mtu::new(written.mtu)?;
    Ok(Envelope::spanning(mtu, written.routable_mtu.map_or(Ok(mtu), Mtu::new)?.min(mtu)))
}

/// Writes it.
pub fn printed_envelope(envelope: Envelope) -> CniMtu {
    CniMtu { mtu: envelope.carries().bytes(), routable_mtu: envelope.pin().map(Mtu::bytes) }
}

/// What a node observes, if it said so. What it carries during a trial is not what it runs at: a change that took it
/// for that would come from the wrong size, so until the trial has ended it has said nothing.
///
/// # Errors
/// If it says something that cannot be; such a node is waited for as if it had not spoken.
pub fn observed(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<Observed>, NotObserved> {
    let Some(annotations) = annotations else { return Ok(None) };
    let seen = MtuObserved::read(annotations)?;
    let in_trial = |seen: &MtuObserved| matches!(seen.trial(), Some(TrialObserved::Before(_)));
    seen.filter(|seen| !in_trial(seen)).map(|seen| understood(&seen)).transpose()
}

/// What a node's host is able to do, as far as it said so. What cannot be read was not said.
pub fn equipment(annotations: Option<&BTreeMap<String, String>>) -> Equipment {
    let seen = annotations.and_then(|annotations| MtuObserved::read(annotations).ok().flatten());
    let interfaces = seen.iter().flat_map(MtuObserved::interfaces);
    let ours = interfaces.filter(|interface| interface.role != InterfaceRole::Management);
    let card = |interface: &InterfaceMtu| {
        let range = interface.nic?;
        Some(Card { name: interface.name.clone(), least: range.min, most: range.max })
    };
    let fixed = seen.as_ref().and_then(MtuObserved::fixed).cloned().unwrap_or_default();
    let fixed = Fixed { change: fixed.change, growth: fixed.growth };
    Equipment { cards: ours.filter_map(card).collect(), fixed }
}

/// Why a host's own configuration cannot be told another size, for others to read.
pub fn printed_fixed(fixed: Fixed) -> FixedMtu {
    FixedMtu { change: fixed.change, growth: fixed.growth }
}

/// What a node observes, from its own words.
///
/// # Errors
/// As [`observed`].
pub fn understood(seen: &MtuObserved) -> Result<Observed, NotObserved> {
    let uplinks: BTreeMap<&str, u32> = seen
        .interfaces()
        .iter()
        .filter(|interface| interface.role == InterfaceRole::Uplink)
        .map(|interface| (interface.name.as_str(), interface.mtu))
        .collect();
    let carries = Mtu::new(*uplinks.values().min().ok_or(NotObserved::NoUplink)?)?;
    // The most that any of them lets out; an interface without a route in the list lets out all it carries.
    let route = |(name, mtu): (&&str, &u32)| {
        let through = seen.routes().iter().filter(|route| route.interface == **name);
        through.map(|route| route.mtu.unwrap_or(*mtu).min(*mtu)).max().unwrap_or(*mtu)
    };
    let sends = Mtu::new(uplinks.iter().map(route).max().unwrap_or(carries.bytes()))?;
    let network = seen.cni().map(envelope).transpose()?;
    let host = Envelope::spanning(carries, sends.min(carries));
    Ok(Observed { epoch: seen.epoch().unwrap_or(0), network, host })
}

/// What is known of a node for a change of MTU: what it observes, and by which epoch's configuration if it is done with
/// `target`, the one its pool is told. `epoch` knows that of a configuration by its name.
pub fn facts(
    machine: &Machine,
    observed: Option<Observed>,
    target: Option<&String>,
    epoch: impl FnOnce(&String) -> Option<u64>,
) -> NodeFacts {
    let node = &machine.node;
    let done = node.current.as_ref().filter(|current| node.is_done() && Some(*current) == target);
    NodeFacts { done: done.and_then(epoch), observed, unclaimed: false }
}

/// A record that cannot be understood. It is the one thing that must not be guessed.
#[derive(Debug, thiserror::Error)]
pub enum NotARecord {
    /// Its place is empty.
    #[error("there is none")]
    Missing,
    /// It is not what we write.
    #[error("it is not the JSON it should be: {0}")]
    Json(#[from] serde_json::Error),
    /// It was written by a later version.
    #[error("version {0} is not the version {VERSION} this program understands")]
    Version(u32),
    /// A size no link of ours has.
    #[error(transparent)]
    Size(#[from] OutOfRange),
}

/// The ConfigMap that holds what is applied, in the operator's namespace.
pub const APPLIED: &str = "applied-cluster";
/// Where the record stands in it.
pub const RECORD: &str = "mtu";

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRecord {
    version: u32,
    epoch: u64,
    mtu: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<WireChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hosts: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireChange {
    network: WireEnds,
    machine: WireEnds,
    stage: WireStage,
    back: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireEnds {
    from: u32,
    to: u32,
}

#[derive(Serialize, Deserialize)]
enum WireStage {
    Spreading,
    SpreadingFinishAsked,
    Settling,
    Returning,
}

/// What is applied, from the ConfigMap [`APPLIED`].
///
/// # Errors
/// If there is nothing in it, or anything else than what [`printed_record`] writes.
pub fn applied(map: &ConfigMap) -> Result<Record, NotARecord> {
    let text = map.data.as_ref().and_then(|data| data.get(RECORD));
    record(text.ok_or(NotARecord::Missing)?)
}

/// Reads what is applied.
///
/// # Errors
/// If it is anything else than what [`printed_record`] writes.
pub fn record(text: &str) -> Result<Record, NotARecord> {
    #[derive(Deserialize)]
    struct VersionOnly {
        version: u32,
    }
    let VersionOnly { version } = serde_json::from_str(text)?;
    if version != VERSION {
        return Err(NotARecord::Version(version));
    }
    let wire: WireRecord = serde_json::from_str(text)?;
    let ends =
        |wire: &WireEnds| Ok::<_, OutOfRange>(Ends { from: Mtu::new(wire.from)?, to: Mtu::new(wire.to)? });
    let change = match wire.change {
        None => None,
        Some(wire) => Some(Change {
            network: ends(&wire.network)?,
            host: ends(&wire.machine)?,
            stage: match wire.stage {
                WireStage::Spreading => Stage::Spreading { finish: false },
                WireStage::SpreadingFinishAsked => Stage::Spreading { finish: true },
                WireStage::Settling => Stage::Settling,
                WireStage::Returning => Stage::Returning,
            },
            back: wire.back,
        }),
    };
    let hosts = wire.hosts.map(Mtu::new).transpose()?;
    Ok(Record { epoch: wire.epoch, mtu: Mtu::new(wire.mtu)?, change, hosts })
}

/// Writes what is applied.
pub fn printed_record(record: &Record) -> String {
    let ends = |ends: Ends| WireEnds { from: ends.from.bytes(), to: ends.to.bytes() };
    let change = record.change.map(|Change { network, host, stage, back }| WireChange {
        network: ends(network),
        machine: ends(host),
        stage: match stage {
            Stage::Spreading { finish: false } => WireStage::Spreading,
            Stage::Spreading { finish: true } => WireStage::SpreadingFinishAsked,
            Stage::Settling => WireStage::Settling,
            Stage::Returning => WireStage::Returning,
        },
        back,
    });
    let (mtu, hosts) = (record.mtu.bytes(), record.hosts.map(Mtu::bytes));
    let wire = WireRecord { version: VERSION, epoch: record.epoch, mtu, change, hosts };
    serde_json::to_string(&wire).expect("numbers and names are JSON")
}

#[cfg(test)]
mod tests;
