//! A pod's port on the local switch, and waiting for OVN to have it in the datapath.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use netferry_core::overlay::{names, rows};
use netferry_ovs::client::CallError;
use netferry_ovs::tables::southbound::PortBinding;
use netferry_ovs::tables::vswitch::{Bridge, Interface, Port};
use netferry_ovs::transaction::Mutation;
use netferry_ovs::unixctl::Control;
use netferry_ovs::{Atom, Client, Datum, Entry, Ref, Snapshot, Table, Transaction};
use uuid::Uuid;

use super::record::{self, INSTALLED};

/// Says of a port that the switch removes it by itself when it is left over from before a boot.
const TRANSIENT: (&str, &str) = ("transient", "true");

/// Why a port is not on the switch.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// There is no bridge to put it on.
    #[error("the switch has no bridge {bridge}; the zone has not set it up yet", bridge = names::INTEGRATION_BRIDGE)]
    NoBridge,
    /// The bridge was made anew at the same moment.
    #[error("bridge {bridge} was replaced while a port was put on it", bridge = names::INTEGRATION_BRIDGE)]
    BridgeReplaced,
    /// The switch's database did not take it.
    #[error("changing the switch's database")]
    Database(#[source] Box<CallError>),
    /// The switch cannot use the link.
    #[error("the switch cannot use link {link}: {words}")]
    Refused {
        /// The link.
        link: String,
        /// The switch's words.
        words: String,
    },
    /// It was taken away again while it was waited for.
    #[error("the port of link {link} was taken off the switch while OVN was setting it up")]
    Gone {
        /// The link.
        link: String,
    },
    /// OVN does not have it in the datapath.
    #[error("logical port {port} is not in the datapath after {} s: {missing}", waited.as_secs())]
    NotInstalled {
        /// The logical port.
        port: String,
        /// How long it was waited for.
        waited: Duration,
        /// The piece that is missing.
        missing: Missing,
    },
}

/// What a port that does not come up is waiting for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// `ovn-controller` does not run.
    Controller(String),
    /// `ovn-controller` does not reach the southbound database.
    Southbound(String),
    /// `ovn-northd` has not made the port.
    Northd,
    /// `ovn-controller` has not bound it.
    Binding,
    /// It is bound; its flows are not there.
    Flows,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Missing::Controller(why) => write!(f, "ovn-controller is not running ({why})"),
            Missing::Southbound(status) => {
                write!(f, "ovn-controller does not reach the southbound database ({status})")
            }
            Missing::Northd => f.write_str(
                "the southbound database has no such port; is ovn-northd running and connected to both databases?",
            ),
            Missing::Binding => f.write_str(
                "ovn-controller has not bound it; does the port ask for this node's chassis and this pod's UID?",
            ),
            Missing::Flows => f.write_str("it is bound, but its flows are not installed yet"),
        }
    }
}

/// Puts a pod's link on the switch. Ports that claim the same logical port, or have the same name, are taken off in
/// the same transaction: two claims make `ovn-controller` flap between them.
///
/// Answers the links of the ports that were in the way.
pub async fn add(
    switch: &Client,
    row: &rows::Interface,
    extra: netferry_ovs::tables::Strings,
) -> Result<BTreeSet<String>, PortError> {
    let now = switch.snapshot();
    let bridge = now.named::<Bridge>(&row.bridge).ok().flatten().ok_or(PortError::NoBridge)?;
    let port = row.external_ids.get(record::PORT).cloned().unwrap_or_default();
    let mut stale = record::of_port(&now, &port);
    stale.extend(now.named::<Interface>(&row.name).ok().flatten());
    let mut transaction = Transaction::new();
    transaction.comment(format!("netferry: port of {port}"));
    let in_the_way = take_off(&mut transaction, &now, stale.iter().map(|entry| entry.uuid));
    let mut external_ids = row.external_ids.clone();
    external_ids.extend(extra);
    let interface = Interface {
        name: row.name.clone(),
        kind: row.kind.clone(),
        mac: row.mac.map(|mac| mac.to_string()),
        mtu_request: row.mtu.map(|mtu| i64::from(mtu.bytes())),
        external_ids,
        ..Interface::default()
    };
    let interface = transaction.insert(&interface);
    let port = Port {
        name: row.name.clone(),
        interfaces: [interface].into(),
        external_ids: names::marked([]),
        other_config: row.port_other_config.clone(),
        ..Port::default()
    };
    let Ref::Named(port) = transaction.insert(&port) else { unreachable!("a new row has a name") };
    let added = Mutation::Insert("ports".to_owned(), Datum::one(Atom::Named(port)));
    transaction.mutate(Bridge::DECL.name, bridge.uuid, vec![added]);
    let outcome = switch.transact(&transaction).await.map_err(|e| PortError::Database(Box::new(e)))?;
    // A port that no bridge has is no row at all: the database forgets it by itself.
    if outcome.counts.last() == Some(&0) {
        return Err(PortError::BridgeReplaced);
    }
    Ok(in_the_way.into_iter().filter(|link| *link != row.name).collect())
}

/// Whether a port says that it does not outlive a boot, as every pod's does.
pub(super) fn is_transient(port: &Port) -> bool {
    port.other_config.get(TRANSIENT.0).is_some_and(|value| value == TRANSIENT.1)
}

/// Lets a port that is there say so; whatever else it says is left.
pub(super) async fn make_transient(switch: &Client, link: &str) -> Result<(), PortError> {
    let now = switch.snapshot();
    let Some(port) = now.named::<Port>(link).ok().flatten().filter(|port| !is_transient(port)) else {
        return Ok(());
    };
    let column = || "other_config".to_owned();
    let mut transaction = Transaction::new();
    transaction.comment(format!("netferry: {link} does not outlive a boot"));
    // A key that is there is not given another value by an insertion.
    let mutations = vec![
        Mutation::Delete(column(), Datum::set([TRANSIENT.0])),
        Mutation::Insert(column(), Datum::map([TRANSIENT])),
    ];
    transaction.mutate(Port::DECL.name, port.uuid, mutations);
    switch.transact(&transaction).await.map(drop).map_err(|e| PortError::Database(Box::new(e)))
}

/// Notes something of an attachment that is there and does not say so yet.
pub(super) async fn note(switch: &Client, link: &str, key: &str, value: &str) -> Result<(), PortError> {
    let Some(interface) = switch.snapshot().named::<Interface>(link).ok().flatten() else { return Ok(()) };
    let mut transaction = Transaction::new();
    transaction.comment(format!("netferry: {key} of {link}"));
    let noted = Mutation::Insert("external_ids".to_owned(), Datum::map([(key, value)]));
    transaction.mutate(Interface::DECL.name, interface.uuid, vec![noted]);
    switch.transact(&transaction).await.map(drop).map_err(|e| PortError::Database(Box::new(e)))
}

/// Takes links off the switch; those that are not on it, or are there by somebody else's hand, are left alone.
pub async fn remove(switch: &Client, links: &[String]) -> Result<(), PortError> {
    let now = switch.snapshot();
    let marked =
        |ids: &netferry_ovs::tables::Strings| ids.get(names::MARK.0).is_some_and(|v| v == names::MARK.1);
    // Either row says whose it is: of one somebody may have taken the mark.
    let ours = |link: &&String| {
        let port = now.named::<Port>(link).ok().flatten();
        let interface = now.named::<Interface>(link).ok().flatten();
        port.is_some_and(|p| marked(&p.external_ids)) || interface.is_some_and(|i| marked(&i.external_ids))
    };
    let interface = |link: &String| Some(now.named::<Interface>(link).ok().flatten()?.uuid);
    let uuids = links.iter().filter(ours).filter_map(interface);
    let mut transaction = Transaction::new();
    take_off(&mut transaction, &now, uuids);
    if transaction.is_empty() {
        return Ok(());
    }
    transaction.comment(format!("netferry: {} off the switch", links.join(", ")));
    switch.transact(&transaction).await.map(drop).map_err(|e| PortError::Database(Box::new(e)))
}

/// Rows go when nothing refers to them: a port when no bridge lists it, an interface when no port does.
fn take_off(
    transaction: &mut Transaction,
    now: &Snapshot,
    interfaces: impl Iterator<Item = Uuid>,
) -> BTreeSet<String> {
    let interfaces: BTreeSet<Uuid> = interfaces.collect();
    let mut links = BTreeSet::new();
    if interfaces.is_empty() {
        return links;
    }
    let refers = |refs: &netferry_ovs::tables::Refs, to: &BTreeSet<Uuid>| {
        refs.iter().any(|r| matches!(r, Ref::Uuid(uuid) if to.contains(uuid)))
    };
    let ports: Vec<Entry<Port>> = now.all().unwrap_or_default();
    let ports: Vec<&Entry<Port>> =
        ports.iter().filter(|port| refers(&port.interfaces, &interfaces)).collect();
    links.extend(ports.iter().map(|port| port.name.clone()));
    let uuids: BTreeSet<Uuid> = ports.iter().map(|port| port.uuid).collect();
    for bridge in now.all::<Bridge>().unwrap_or_default() {
        let gone: Vec<Uuid> =
            uuids.iter().copied().filter(|uuid| bridge.ports.contains(&Ref::Uuid(*uuid))).collect();
        if !gone.is_empty() {
            let off = Mutation::Delete("ports".to_owned(), Datum::set(gone));
            transaction.mutate(Bridge::DECL.name, bridge.uuid, vec![off]);
        }
    }
    links
}

/// Waits until OVN says that a link's port is in the datapath. Returns at once with what the switch says against the
/// link, should it not be able to use it.
pub async fn installed(
    switch: &Client,
    link: &str,
    limit: Duration,
    diagnose: impl AsyncFnOnce(&str) -> Missing,
) -> Result<(), PortError> {
    let told = switch.until(|now| {
        let Ok(Some(interface)) = now.named::<Interface>(link) else {
            return Some(Err(PortError::Gone { link: link.to_owned() }));
        };
        if interface.external_ids.get(INSTALLED).is_some_and(|value| value == "true") {
            return Some(Ok(()));
        }
        let refused = || interface.error.clone().unwrap_or_else(|| "it got no port number".to_owned());
        (interface.error.is_some() || interface.ofport == Some(-1))
            .then(|| Err(PortError::Refused { link: link.to_owned(), words: refused() }))
    });
    if let Ok(told) = tokio::time::timeout(limit, told).await {
        return told;
    }
    let now = switch.snapshot();
    let interface = now.named::<Interface>(link).ok().flatten();
    let port = interface.and_then(|i| i.external_ids.get(record::PORT).cloned()).unwrap_or_default();
    let missing = diagnose(&port).await;
    Err(PortError::NotInstalled { port, waited: limit, missing })
}

/// Finds out what a port is waiting for: from the daemon up to the database, the first thing that is not as it
/// should be.
pub async fn diagnose(ovn_run: &Path, southbound: Option<&Client>, port: &str) -> Missing {
    let control = match Control::find(ovn_run, "ovn-controller").await {
        Ok(control) => control.within(Duration::from_secs(2)),
        Err(error) => return Missing::Controller(super::chain(&error)),
    };
    match control.command("connection-status", &[]).await {
        Ok(status) if status.trim() == "connected" => {}
        Ok(status) => return Missing::Southbound(status.trim().to_owned()),
        Err(error) => return Missing::Controller(super::chain(&error)),
    }
    let Some(southbound) = southbound else { return Missing::Binding };
    let binding = southbound.snapshot().find(&PortBinding::logical_port(), &port.to_owned());
    match binding.unwrap_or_default().first().map(|entry: &Entry<PortBinding>| entry.chassis.is_some()) {
        None => Missing::Northd,
        Some(false) => Missing::Binding,
        Some(true) => Missing::Flows,
    }
}
