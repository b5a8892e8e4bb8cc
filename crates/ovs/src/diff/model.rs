//! What a database does with a transaction, in the fewest words: the judge of `diff`'s tests.

use crate::copy::{Replica, Snapshot};
use crate::protocol::{Layout, RowChange, Update};
use crate::schema::Schema;
use crate::spec::{Condition, Spec};
use crate::transaction::{Columns, Mutation, Operation, Transaction};
use crate::value::{Atom, Datum};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) schema: Arc<Schema>,
    pub(super) spec: Spec,
    pub(super) rows: BTreeMap<(String, Uuid), Columns>,
    next: u128,
}

impl Model {
    pub(super) fn new(schema: &str, spec: Spec) -> Model {
        let schema = Schema::parse(&serde_json::from_str(schema).unwrap()).unwrap();
        Model { schema: Arc::new(schema), spec, rows: BTreeMap::new(), next: 1 }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let layout = Arc::new(Layout::new(&self.spec, Arc::clone(&self.schema)).unwrap());
        let rows = self.rows.iter().map(|((table, uuid), columns)| {
            let at = layout.position(table).unwrap();
            let values = layout.tables[at].decl.columns.iter().enumerate().map(|(position, column)| {
                columns
                    .get(column.name)
                    .cloned()
                    .unwrap_or_else(|| layout.tables[at].defaults[position].clone())
            });
            (at, *uuid, RowChange::Is(values.collect()))
        });
        let update = Update { rows: rows.collect() };
        let mut replica = Replica::new(&self.spec);
        replica.apply(&layout, true, update).unwrap();
        replica.snapshot()
    }

    /// All of it, or an error and nothing.
    pub(super) fn apply(&mut self, transaction: &Transaction) -> Result<(), String> {
        let mut after = self.clone();
        let mut names: BTreeMap<&str, Uuid> = BTreeMap::new();
        for operation in transaction.operations() {
            if let Operation::Insert { name, .. } = operation {
                names.insert(name, Uuid::from_u128(after.next));
                after.next += 1;
            }
        }
        for operation in transaction.operations() {
            after.operate(operation, &names)?;
        }
        // In this order: a row that is about to be collected still counts as referring.
        after.check_references()?;
        after.collect_garbage();
        after.check_indexes()?;
        *self = after;
        Ok(())
    }

    fn operate(&mut self, operation: &Operation, names: &BTreeMap<&str, Uuid>) -> Result<(), String> {
        let resolve = |datum: &Datum| {
            datum.try_map(|atom| match atom {
                Atom::Named(n) => {
                    names.get(n.as_str()).map(|u| Atom::Uuid(*u)).ok_or(format!("no row named {n}"))
                }
                Atom::Key(key) => Err(format!("{key} left unresolved")),
                Atom::Integer(_) | Atom::Real(_) | Atom::Boolean(_) | Atom::String(_) | Atom::Uuid(_) => {
                    Ok(atom.clone())
                }
            })
        };
        match operation {
            Operation::Insert { table, name, row } => {
                let row: Result<Columns, String> =
                    row.iter().map(|(c, d)| Ok((c.clone(), resolve(d)?))).collect();
                self.rows.insert((table.clone(), names[name.as_str()]), row?);
            }
            Operation::Update { table, rows, row } => {
                let row: Result<Columns, String> =
                    row.iter().map(|(c, d)| Ok((c.clone(), resolve(d)?))).collect();
                self.row(table, rows)?.extend(row?);
            }
            Operation::Mutate { table, rows, mutations } => {
                for mutation in mutations {
                    let (Mutation::Insert(column, datum) | Mutation::Delete(column, datum)) = mutation else {
                        return Err("arithmetic".into());
                    };
                    let default = self.schema.column(table, column).unwrap().default_datum();
                    let datum = resolve(datum)?;
                    let held = self.row(table, rows)?.entry(column.clone()).or_insert(default);
                    let inserts = matches!(mutation, Mutation::Insert(..));
                    *held = if held.is_map() {
                        let mut pairs: BTreeMap<Atom, Atom> = held.pairs().iter().cloned().collect();
                        for (k, v) in datum.pairs() {
                            pairs.entry(k.clone()).or_insert(v.clone());
                        }
                        if !inserts {
                            pairs.retain(|k, _| !datum.contains(k));
                        }
                        Datum::map(pairs)
                    } else {
                        let mut atoms: BTreeSet<Atom> = held.atoms().iter().cloned().collect();
                        if inserts {
                            atoms.extend(datum.atoms().iter().cloned());
                        } else {
                            atoms.retain(|a| !datum.contains(a));
                        }
                        Datum::set(atoms)
                    };
                    let (held, limits) = (held.len() as u64, self.schema.column(table, column).unwrap());
                    if held < limits.min || held > limits.max {
                        return Err(format!("{table}.{column} would hold {held}"));
                    }
                }
            }
            Operation::Delete { table, rows } => {
                self.row(table, rows)?;
                let uuid = rows[0].value.atoms()[0].as_uuid().unwrap();
                self.rows.remove(&(table.clone(), uuid));
            }
            Operation::Require { .. } | Operation::Assert { .. } => return Err("unexpected".into()),
        }
        Ok(())
    }

    fn row(&mut self, table: &str, rows: &[Condition]) -> Result<&mut Columns, String> {
        let [Condition { column, value, .. }] = rows else { return Err("not one row".into()) };
        let uuid = value.atoms().first().and_then(Atom::as_uuid).filter(|_| column == "_uuid");
        let uuid = uuid.ok_or("not by UUID")?;
        self.rows.get_mut(&(table.to_owned(), uuid)).ok_or(format!("no row {uuid} in {table}"))
    }

    fn references(&self, strong: bool) -> Vec<(String, Uuid, String, Uuid)> {
        let mut found = Vec::new();
        for ((table, uuid), columns) in &self.rows {
            for (column, datum) in columns {
                let to = self.schema.column(table, column).and_then(|c| c.key_ref.as_ref());
                if to.is_some_and(|to| to.strong == strong) {
                    found.extend(datum.references().map(|t| (table.clone(), *uuid, column.clone(), t)));
                }
            }
        }
        found
    }

    fn collect_garbage(&mut self) {
        loop {
            let held: BTreeSet<Uuid> = self.references(true).into_iter().map(|r| r.3).collect();
            let before = self.rows.len();
            let schema = Arc::clone(&self.schema);
            self.rows.retain(|(table, uuid), _| schema.tables[table].is_root || held.contains(uuid));
            if self.rows.len() == before {
                break;
            }
        }
        let there: BTreeSet<Uuid> = self.rows.keys().map(|k| k.1).collect();
        for (table, uuid, column, target) in self.references(false) {
            if !there.contains(&target) {
                let row = self.rows.get_mut(&(table, uuid)).unwrap();
                let kept = row[&column].atoms().iter().filter(|a| **a != Atom::Uuid(target)).cloned();
                let kept = Datum::set(kept);
                row.insert(column, kept);
            }
        }
    }

    fn check_references(&self) -> Result<(), String> {
        let there: BTreeSet<Uuid> = self.rows.keys().map(|k| k.1).collect();
        if let Some((table, _, column, _)) = self.references(true).iter().find(|r| !there.contains(&r.3)) {
            return Err(format!("{table}.{column} refers to a row that is gone"));
        }
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), String> {
        for (name, table) in &self.schema.tables {
            for index in &table.indexes {
                let rows: Vec<&Columns> =
                    self.rows.iter().filter(|(k, _)| k.0 == *name).map(|(_, row)| row).collect();
                let values: BTreeSet<Vec<Option<&Datum>>> =
                    rows.iter().map(|row| index.iter().map(|c| row.get(c)).collect()).collect();
                if values.len() != rows.len() {
                    return Err(format!("two rows of {name} have the same {index:?}"));
                }
            }
        }
        Ok(())
    }
}
