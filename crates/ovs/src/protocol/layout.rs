//! Our declarations laid over the server's schema: which value of a row is which column.

use crate::schema::{ColumnSchema, Refusal, Schema};
use crate::spec::{Condition, Spec};
use crate::table::TableDecl;
use crate::value::{Datum, Unresolved};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One table's part of a [`Layout`].
#[derive(Debug, Clone)]
pub struct TableLayout {
    /// The declaration.
    pub decl: &'static TableDecl,
    /// Per declared column its type on the server; nothing where the server does not have it.
    pub columns: Vec<Option<ColumnSchema>>,
    /// What a row holds where a message says nothing.
    pub defaults: Box<[Datum]>,
    /// Only rows that meet one of these; none means all.
    pub conditions: Vec<Condition>,
}

impl TableLayout {
    /// Does a row belong into the copy? The server judges that itself, except one that only knows the
    /// oldest kind of monitor.
    pub fn selects(&self, row: &[Datum]) -> bool {
        let holds = |c: &Condition| self.decl.position(&c.column).is_some_and(|at| c.holds(&row[at]));
        self.conditions.is_empty() || self.conditions.iter().any(holds)
    }
}

/// A [`Spec`] laid over a [`Schema`] that has what it needs.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The server's schema.
    pub schema: Arc<Schema>,
    /// The tables, in the order of the spec.
    pub tables: Vec<TableLayout>,
    by_name: BTreeMap<&'static str, usize>,
}

impl Layout {
    /// Lays `spec` over `schema`, or says what the schema lacks.
    pub fn new(spec: &Spec, schema: Arc<Schema>) -> Result<Layout, Refusal> {
        schema.check(&spec.decls())?;
        let mut tables = Vec::with_capacity(spec.tables.len());
        for table in &spec.tables {
            let columns: Vec<Option<ColumnSchema>> =
                table.decl.columns.iter().map(|c| schema.column(table.decl.name, c.name).cloned()).collect();
            let defaults = columns.iter().zip(table.decl.columns).map(|(on_server, declared)| {
                on_server.as_ref().map_or_else(|| declared.shape.default_datum(), ColumnSchema::default_datum)
            });
            let defaults = defaults.collect();
            tables.push(TableLayout {
                decl: table.decl,
                columns,
                defaults,
                conditions: table.conditions.clone(),
            });
        }
        let by_name = tables.iter().enumerate().map(|(at, t)| (t.decl.name, at)).collect();
        Ok(Layout { schema, tables, by_name })
    }

    /// Position of a table.
    pub fn position(&self, table: &str) -> Option<usize> {
        self.by_name.get(table).copied()
    }

    /// The monitor requests for all tables.
    pub fn monitor_requests(&self, with_conditions: bool) -> Result<Value, Unresolved> {
        let mut requests = Map::new();
        for table in &self.tables {
            let there = table.decl.columns.iter().zip(&table.columns).filter(|(_, c)| c.is_some());
            let names: Vec<&str> = there.map(|(decl, _)| decl.name).collect();
            let mut request = json!({ "columns": names });
            if with_conditions && !table.conditions.is_empty() {
                let wire: Result<Vec<Value>, Unresolved> =
                    table.conditions.iter().map(Condition::to_wire).collect();
                request["where"] = Value::Array(wire?);
            }
            requests.insert(table.decl.name.to_owned(), json!([request]));
        }
        Ok(Value::Object(requests))
    }
}
