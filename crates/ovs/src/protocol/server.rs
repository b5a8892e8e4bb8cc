//! The `_Server` database: is this server fit to be talked to?

use super::error::SessionError;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Monitor id of our `_Server` monitor.
pub(super) const MONITOR: &str = "netferry-server";

/// Parameters of the monitor on `_Server`.
pub(super) fn monitor_params() -> Value {
    let columns = ["name", "model", "connected", "leader", "schema"];
    json!(["_Server", MONITOR, { "Database": [{ "columns": columns }] }])
}

/// What the server says about its databases. Empty for a server older than `_Server`.
#[derive(Debug, Default)]
pub(super) struct Databases {
    rows: BTreeMap<String, Value>,
    schema: Option<Value>,
}

impl Databases {
    /// Takes the reply to the monitor, or an update of it.
    pub(super) fn update(&mut self, updates: &Value) {
        let Some(rows) = updates.get("Database").and_then(Value::as_object) else { return };
        for (uuid, change) in rows {
            match change.get("new") {
                Some(new) if !new.is_null() => self.rows.insert(uuid.clone(), new.clone()),
                Some(_) | None => self.rows.remove(uuid),
            };
        }
    }

    /// Refuses a server that is cut off from its cluster, or not the leader where one is needed, or
    /// whose schema is no longer the one that was checked.
    pub(super) fn judge(&mut self, database: &str, leader_only: bool) -> Result<(), SessionError> {
        let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str) == Some(database);
        if self.rows.is_empty() {
            return Ok(());
        }
        let Some(row) = self.rows.values().find(|row| text(row, "name")) else {
            return Err(SessionError::NoDatabase { database: database.to_owned() });
        };
        let is = |key: &str| row.get(key).and_then(Value::as_bool).unwrap_or(false);
        if row.get("model").and_then(Value::as_str) == Some("clustered") && !is("connected") {
            return Err(SessionError::CutOff { database: database.to_owned() });
        }
        if leader_only && !is("leader") {
            return Err(SessionError::NotLeader { database: database.to_owned() });
        }
        let schema = row.get("schema").cloned().unwrap_or(Value::Null);
        if self.schema.get_or_insert_with(|| schema.clone()) != &schema {
            return Err(SessionError::SchemaChanged { database: database.to_owned() });
        }
        Ok(())
    }
}
