//! Rows of databases: what is in them, whose they are, and how one is taken out.

use std::collections::{BTreeMap, BTreeSet};

use netferry_lab::Lab;
use serde_json::{Value, json};

use super::Harm;
use super::observe::Domain;
use crate::bench::said;

/// What counts up, says when something happened, or is chosen anew for a row that is.
const PASSING: [&str; 29] = [
    "_version",
    "statistics",
    "status",
    "nb_cfg",
    "nb_cfg_timestamp",
    "sb_cfg",
    "sb_cfg_timestamp",
    "hv_cfg",
    "hv_cfg_timestamp",
    "cur_cfg",
    "next_cfg",
    "ofport",
    "ifindex",
    "link_resets",
    "link_speed",
    "duplex",
    "link_state",
    "admin_state",
    "mac_in_use",
    "lacp_current",
    "datapath_id",
    "rstp_status",
    "rstp_statistics",
    "datapath_version",
    "tunnel_key",
    "bfd_status",
    "mtu",
    "qos",
    "datapaths",
];
/// The same inside maps.
const PASSING_KEYS: [&str; 9] = [
    "ovn-installed",
    "ovn-startup-ts",
    "ct-zone-",
    "ovn-nb-cfg",
    "ovn-chassis-idx",
    "logical-switch",
    "logical-router",
    "hwaddr",
    "disable-in-band",
];
/// What northd and controllers derive from our rows: theirs, and as it was when ours are.
const DERIVED: [&str; 14] = [
    "Logical_Flow",
    "Logical_DP_Group",
    "Multicast_Group",
    "MAC_Binding",
    "FDB",
    "IGMP_Group",
    "Datapath_Binding",
    "Load_Balancer",
    "Address_Set",
    "Port_Group",
    "QoS",
    "Queue",
    "Datapath",
    "CT_Zone",
];

/// A whole database.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    /// Table and columns of every row.
    rows: BTreeMap<String, (String, BTreeMap<String, Value>)>,
}

impl Dump {
    pub(crate) fn read(said: &str) -> Dump {
        let mut dump = Dump::default();
        for table in serde_json::Deserializer::from_str(said).into_iter::<Value>().flatten() {
            let name = table["caption"].as_str().unwrap_or_default().trim_end_matches(" table").to_owned();
            let columns: Vec<String> = table["headings"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| one.as_str().unwrap_or_default().to_owned())
                .collect();
            for row in table["data"].as_array().into_iter().flatten() {
                let cells = row.as_array().cloned().unwrap_or_default();
                let mut row: BTreeMap<String, Value> = columns.iter().cloned().zip(cells).collect();
                let uuid = row.remove("_uuid").unwrap_or_default();
                dump.rows.insert(uuid[1].as_str().unwrap_or_default().to_owned(), (name.clone(), row));
            }
        }
        dump
    }

    /// Every row with what it refers to, and no word of what is chosen anew with it.
    pub(crate) fn lines(&self, but_derived: bool) -> BTreeSet<String> {
        let derived: &[&str] = if but_derived { &DERIVED } else { &[] };
        let mut count: BTreeMap<String, u32> = BTreeMap::new();
        for (uuid, (table, _)) in
            self.rows.iter().filter(|(_, (table, _))| !derived.contains(&table.as_str()))
        {
            *count.entry(format!("{table} {}", self.content(uuid, 3))).or_default() += 1;
        }
        count.into_iter().map(|(line, times)| format!("{times} {line}")).collect()
    }

    fn content(&self, uuid: &str, depth: u32) -> Value {
        let Some((table, row)) = self.rows.get(uuid) else { return json!("nothing") };
        if depth == 0 {
            return json!([table, row.get("name")]);
        }
        let told = |(name, _): &(&String, &Value)| !PASSING.contains(&name.as_str());
        row.iter().filter(told).map(|(name, value)| (name.clone(), self.resolved(value, depth))).collect()
    }

    fn resolved(&self, value: &Value, depth: u32) -> Value {
        match (value[0].as_str(), &value[1]) {
            (Some("uuid"), Value::String(uuid)) => self.content(uuid, depth - 1),
            (Some("set"), Value::Array(all)) => {
                let mut all: Vec<Value> = all.iter().map(|one| self.resolved(one, depth)).collect();
                all.sort_by_key(Value::to_string);
                all.into()
            }
            (Some("map"), Value::Array(all)) => {
                let lasting = |pair: &&Value| {
                    !PASSING_KEYS.iter().any(|key| pair[0].as_str().is_some_and(|text| text.starts_with(key)))
                };
                let pairs = all.iter().filter(lasting);
                let pairs = pairs.map(|pair| (pair[0].to_string(), self.resolved(&pair[1], depth)));
                pairs.collect::<BTreeMap<_, _>>().into_iter().map(|(key, one)| json!([key, one])).collect()
            }
            _ => value.clone(),
        }
    }

    fn name(&self, uuid: &str) -> String {
        let Some((table, row)) = self.rows.get(uuid) else { return uuid.to_owned() };
        let named = ["name", "logical_port", "ip_prefix", "external_ip", "match", "ip"];
        let name = named.iter().find_map(|column| row.get(*column)?.as_str().filter(|text| !text.is_empty()));
        format!("{table} {}", name.unwrap_or(uuid))
    }

    /// What takes a row out, and out of the rows that hold it.
    fn deletion(&self, database: &str, uuid: &str) -> Value {
        let this = json!(["uuid", uuid]);
        let mut operations = vec![json!(database)];
        for (holder, (table, row)) in &self.rows {
            for (column, value) in row {
                let held = *value == this
                    || (value[0] == "set" && value[1].as_array().is_some_and(|all| all.contains(&this)));
                if held {
                    operations.push(
                        json!({"op": "mutate", "table": table, "where": [["_uuid", "==", ["uuid", holder]]],
                        "mutations": [[column, "delete", ["set", [this]]]]}),
                    );
                }
            }
        }
        let (table, _) = &self.rows[uuid];
        operations.push(json!({"op": "delete", "table": table, "where": [["_uuid", "==", this]]}));
        operations.into()
    }
}

/// What somebody wrote of a row.
#[derive(Debug, Default)]
struct Written {
    /// Columns; of maps the entries.
    columns: BTreeMap<String, BTreeSet<String>>,
    /// The row itself.
    made: bool,
}

/// Which columns of which rows somebody wrote, out of a database's own journal.
fn written(journal: &str, by: &[&str]) -> BTreeMap<String, Written> {
    let mut known: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    let mut ours: BTreeMap<String, Written> = BTreeMap::new();
    for record in journal.lines().filter(|line| line.starts_with('{')) {
        let Ok(record) = serde_json::from_str::<Value>(record) else { continue };
        let comment = record["_comment"].as_str().unwrap_or_default();
        let us = by.iter().any(|who| comment.starts_with(who));
        let tables = record.as_object().into_iter().flatten().filter(|(name, _)| !name.starts_with('_'));
        for (uuid, row) in tables.flat_map(|(_, rows)| rows.as_object().into_iter().flatten()) {
            let first = !known.contains_key(uuid);
            let before = known.entry(uuid.clone()).or_default();
            for (column, value) in row.as_object().into_iter().flatten() {
                let old = before.insert(column.clone(), value.clone()).unwrap_or_default();
                if us {
                    let was = entries(&old);
                    let new =
                        entries(value).into_iter().filter(|entry| !was.contains(entry)).map(|(key, _)| key);
                    let one = ours.entry(uuid.clone()).or_default();
                    one.columns.entry(column.clone()).or_default().extend(new);
                }
            }
            if us {
                ours.entry(uuid.clone()).or_default().made |= first;
            }
        }
    }
    ours
}

/// Of a map.
fn entries(value: &Value) -> BTreeSet<(String, String)> {
    let all = value[1].as_array().filter(|_| value[0] == "map");
    all.into_iter()
        .flatten()
        .map(|pair| (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].to_string()))
        .collect()
}

/// How every row of ours can be harmed: taken out, and each column we wrote changed.
pub(crate) fn harms(lab: &Lab, node: &str, domain: Domain, dump: &str) -> Vec<Harm> {
    let (socket, database, file) = domain.database().expect("a database");
    let journal = said(lab, node, &["cat", file]);
    // Tunnels and the bridge between them are OVN's part of our switch: taken out they come back, and how each is
    // written is OVN's to say.
    let made = written(
        &journal,
        if domain == Domain::Switch { &["netferry", "ovn-controller"] } else { &["netferry"] },
    );
    let ours = written(&journal, &["netferry"]);
    let nothing = Written::default();
    let dump = Dump::read(dump);
    let mut harms = vec![];
    for (uuid, (table, row)) in &dump.rows {
        // What daemons derive from others' rows goes with them.
        if domain != Domain::Northbound && DERIVED.contains(&table.as_str()) {
            continue;
        }
        let written = ours.get(uuid).unwrap_or(&nothing);
        let transact = |what: String, kind: String, operations: Value| Harm {
            kind,
            what,
            domain,
            command: ["ovsdb-client", "transact", socket, &operations.to_string()].map(str::to_owned).into(),
        };
        let name = dump.name(uuid);
        if made.get(uuid).is_some_and(|one| one.made) {
            harms.push(transact(
                format!("{name} deleted"),
                format!("{database} {table} deleted"),
                dump.deletion(database, uuid),
            ));
        }
        // What hangs on the switch's rows is more than ours, and each of it is taken off by itself.
        let holds =
            |column: &str| domain == Domain::Switch && ["bridges", "ports", "interfaces"].contains(&column);
        for (column, keys) in written.columns.iter().filter(|(column, _)| !holds(column)) {
            let Some(other) = row.get(column).and_then(|value| changed(value, keys)) else { continue };
            let update = json!({"op": "update", "table": table, "where": [["_uuid", "==", ["uuid", uuid]]],
                "row": {column: other}});
            harms.push(transact(
                format!("{name} {column} changed"),
                format!("{database} {table} {column} changed"),
                json!([database, update]),
            ));
        }
    }
    harms
}

/// Another value in place of one that was written.
fn changed(value: &Value, keys: &BTreeSet<String>) -> Option<Value> {
    match (value, value[0].as_str(), &value[1]) {
        (_, Some("map"), Value::Array(all)) => {
            // Without its mark a row is not ours any more.
            let marks = ["netferry.dev/owner", "netferry.dev/id", "system-id"];
            let stays = |pair: &&Value| {
                let key = pair[0].as_str().unwrap_or_default();
                marks.contains(&key) || !keys.contains(key)
            };
            let kept: Vec<&Value> = all.iter().filter(stays).collect();
            (kept.len() < all.len()).then(|| json!(["map", kept]))
        }
        (_, Some("set"), Value::Array(all)) => (!all.is_empty()).then(|| json!(["set", []])),
        (_, Some("uuid"), _) => Some(json!(["set", []])),
        (Value::Bool(is), ..) => Some(json!(!is)),
        (Value::Number(_), ..) => Some(json!(7)),
        (Value::String(text), ..) => Some(json!(format!("{text}7"))),
        _ => None,
    }
}
