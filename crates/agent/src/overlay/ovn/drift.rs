//! What others changed in the databases, as rows to look at.

use std::collections::BTreeSet;

use netferry_core::name::ObjectName;
use netferry_core::net::Addresses;
use netferry_core::overlay::inputs::{Attached, Model};
use netferry_core::overlay::names;
use netferry_core::overlay::rows::{
    Interface, NbGlobal, RemoteBinding, RemoteChassis, Row as _, RowName, SwitchSettings,
};
use netferry_ovs::{Atom, Change, Datum, Index, Row, RowKey, Snapshot, TableCopy};
use uuid::Uuid;

use super::wanted;
use crate::overlay::pods::record;

/// From so many rows at once it is cheaper to compare everything.
const MANY: usize = 200;

/// Where a database may differ from what is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Look {
    /// Anywhere.
    pub(super) everywhere: bool,
    /// In these rows.
    pub(super) rows: BTreeSet<RowName>,
    /// These carry our mark and are not wanted.
    pub(super) strays: BTreeSet<RowKey>,
    /// In these references, which are new.
    pub(super) references: BTreeSet<Reference>,
}

/// That a row of ours refers to another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Reference {
    pub(super) from: RowKey,
    pub(super) column: &'static str,
    pub(super) to: Uuid,
}

impl Look {
    pub(super) fn everywhere() -> Look {
        Look { everywhere: true, ..Look::default() }
    }

    pub(super) fn is_nothing(&self) -> bool {
        *self == Look::default()
    }

    pub(super) fn add(&mut self, more: Look) {
        self.everywhere |= more.everywhere;
        self.rows.extend(more.rows);
        self.strays.extend(more.strays);
        self.references.extend(more.references);
        if self.everywhere || self.rows.len() + self.strays.len() + self.references.len() > MANY {
            *self = Look::everywhere();
        }
    }

    /// A row of ours by its key in the database.
    fn see(&mut self, table: &TableCopy, row: &Row, wanted: &Model) {
        let Some(key) = table.key(row, names::ID) else {
            // Somebody took its name away. It is ours all the same, and only comparing everything finds it.
            self.everywhere |= is_ours(table, row);
            return;
        };
        let name = (table.decl().name, key);
        if wanted.contains(name.0, &name.1) {
            self.rows.insert(name);
        } else if is_ours(table, row) {
            self.strays.insert(RowKey::new(name.0, name.1));
        }
    }
}

fn is_ours(table: &TableCopy, row: &Row) -> bool {
    match table.value(row, "external_ids") {
        Some(ids) => ids.get_str(names::MARK.0) == Some(names::MARK.1),
        None => table.decl().name == wanted::WITHOUT_MARK,
    }
}

/// The rows on both sides of a change, with the table they are in.
fn sides<'c>(change: &'c Change, now: &'c Snapshot) -> impl Iterator<Item = (&'c TableCopy, &'c Row)> {
    let table = now.table(change.table);
    let rows = change.old.iter().chain(&change.new).map(AsRef::as_ref);
    rows.filter_map(move |row| Some((table?, row)))
}

/// What to look at in the northbound database.
pub(super) fn in_northbound(changes: &[Change], wanted: &Model, now: &Snapshot) -> Look {
    let mut look = Look::default();
    for change in changes {
        if change.table == NbGlobal::TABLE {
            look.rows.insert((NbGlobal::TABLE, NbGlobal::TABLE.to_owned()));
            continue;
        }
        sides(change, now).for_each(|(table, row)| look.see(table, row, wanted));
        referred(change, now, wanted, &mut look);
    }
    look
}

/// Rows that may be as they should be, while what refers to them is not: a load balancer that was taken out of its
/// group, or put into another. A row that lists others is written without them, so each of them is looked at itself;
/// however many it lists, only those that came or left are.
fn referred(change: &Change, now: &Snapshot, wanted: &Model, look: &mut Look) {
    let (Some(table), Some(schema)) = (now.table(change.table), now.schema()) else { return };
    let key = change.new.as_ref().and_then(|row| table.key(row, names::ID));
    let key = key.filter(|key| wanted.contains(change.table, key));
    for (at, column) in table.decl().columns.iter().enumerate() {
        let [old, new] = [&change.old, &change.new].map(|row| row.as_ref().map(|row| &row.values[at]));
        let to = schema.column(change.table, column.name).and_then(|column| column.key_ref.as_ref());
        let Some((to, target)) = to.filter(|_| old != new).and_then(|to| Some((to, now.table(&to.table)?)))
        else {
            continue;
        };
        for uuid in only_in(old, new).chain(only_in(new, old)) {
            target.get(uuid).into_iter().for_each(|row| look.see(target, row, wanted));
        }
        // Those that keep their targets alive are seen to where the targets are: what others put there is theirs.
        if let Some(key) = key.as_ref().filter(|_| !to.strong) {
            let from = || RowKey::new(change.table, key.clone());
            let came = only_in(new, old).map(|to| Reference { from: from(), column: column.name, to });
            look.references.extend(came);
        }
    }
}

/// References of the one that the other does not have.
fn only_in<'d>(one: Option<&'d Datum>, other: Option<&'d Datum>) -> impl Iterator<Item = Uuid> + 'd {
    let has = move |uuid: &Uuid| other.is_some_and(|other| other.contains(&Atom::Uuid(*uuid)));
    one.into_iter().flat_map(Datum::references).filter(move |uuid| !has(uuid))
}

/// What to look at in the southbound database.
pub(super) fn in_southbound(changes: &[Change], wanted: &Model, now: &Snapshot) -> Look {
    let mut look = Look::default();
    for (table, row) in changes.iter().flat_map(|change| sides(change, now)) {
        match table.decl().name {
            "Encap" => {
                // It carries no mark: it belongs to whom its chassis belongs.
                let chassis =
                    table.value(row, "chassis_name").and_then(|name| name.atoms().first()?.as_str());
                let name = chassis.map(|chassis| (RemoteChassis::TABLE, chassis.to_owned()));
                look.rows.extend(name.filter(|(table, key)| wanted.contains(table, key)));
            }
            RemoteBinding::TABLE => {
                let name = table.key(row, names::ID).map(|key| (RemoteBinding::TABLE, key));
                look.rows.extend(name.filter(|(table, key)| wanted.contains(table, key)));
            }
            _ => look.see(table, row, wanted),
        }
    }
    look
}

/// What to look at in the switch's database. Ports of pods carry our mark too, and are not the zone's to judge.
pub(super) fn in_switch(changes: &[Change], wanted: &Model, now: &Snapshot) -> Look {
    let mut look = Look::default();
    for (table, row) in changes.iter().flat_map(|change| sides(change, now)) {
        let key = table.key(row, names::ID).unwrap_or_default();
        match table.decl().name {
            SwitchSettings::TABLE => {
                look.rows.insert((SwitchSettings::TABLE, SwitchSettings::TABLE.to_owned()));
            }
            "Bridge" if key == names::INTEGRATION_BRIDGE => {
                look.rows
                    .extend(wanted.keys(Interface::TABLE).map(|name| (Interface::TABLE, name.to_owned())));
            }
            "Port" | "Interface" if wanted.contains(Interface::TABLE, &key) => {
                look.rows.insert((Interface::TABLE, key));
            }
            _ => {}
        }
    }
    look
}

/// The index by which [`attachments`] finds the ports of a pod.
pub(super) fn by_logical_port() -> Index {
    Index::MapKey("external_ids", "iface-id".to_owned())
}

/// The pods whose attachment changed, and what it is now.
pub(super) fn attachments(changes: &[Change], now: &Snapshot) -> Vec<(ObjectName, Option<Attached>)> {
    let mut ports = BTreeSet::new();
    for (table, row) in changes.iter().flat_map(|change| sides(change, now)) {
        let ids = table.value(row, "external_ids").filter(|_| table.decl().name == Interface::TABLE);
        let ids = ids.filter(|ids| ids.get_str("sandbox").is_some());
        ports.extend(ids.and_then(|ids| ids.get_str("iface-id")).map(str::to_owned));
    }
    let Some(interfaces) = now.table(Interface::TABLE) else { return Vec::new() };
    let attached = |port: &str| {
        let found = interfaces.find(&by_logical_port(), &[Datum::one(port)]);
        found.into_iter().find_map(|row| attached(interfaces.value(row, "external_ids")?))
    };
    ports.iter().filter_map(|port| Some((pod_of(port)?, attached(port)))).collect()
}

/// Namespaces have no underscore in their names, so the first one ends them.
fn pod_of(port: &str) -> Option<ObjectName> {
    port.split_once('_').map(|(namespace, name)| ObjectName::new(namespace, name))
}

fn attached(ids: &Datum) -> Option<Attached> {
    ids.get_str("sandbox")?;
    let addresses = ids.get_str("ip_addresses")?.split(',');
    let addresses = addresses.map(|net| net.parse::<ipnet::IpNet>().ok().map(|net| net.addr()));
    let addresses = addresses.collect::<Option<Vec<_>>>()?;
    let uid = ids.get_str(record::UID)?;
    Some(Attached {
        uid: uid.to_owned(),
        runtime_uid: ids.get_str(record::RUNTIME_UID).unwrap_or(uid).to_owned(),
        addresses: Addresses::from_addresses(addresses)?,
        labels: ids.get_str(record::LABELS).map(record::labels).unwrap_or_default(),
    })
}
