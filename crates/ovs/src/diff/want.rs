//! Rows that are wanted.

use super::{DiffError, Owner};
use crate::copy::{Snapshot, key_of};
use crate::shape::ColumnType;
use crate::table::{Column, Key, Table, TableDecl};
use crate::value::{Atom, Datum, RowKey};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// What a wanted row is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Ours: made if missing, marked, removed when no longer wanted. A row of the same name without our
    /// mark is an error.
    Own,
    /// Ours from now on, even if it is there without our mark.
    Adopt,
    /// Somebody else's: only the listed columns, keys and children are seen to, nothing is removed.
    Share,
    /// As [`Share`](Hold::Share), but made (without mark) if missing.
    Ensure,
    /// As [`Share`](Hold::Share), and nothing at all while it is missing: rows that a daemon makes when
    /// it gets to it.
    IfThere,
}

impl Hold {
    pub(super) fn owns(self) -> bool {
        matches!(self, Hold::Own | Hold::Adopt)
    }
}

/// A row that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub(super) decl: &'static TableDecl,
    pub(super) key: Option<String>,
    pub(super) hold: Hold,
    pub(super) columns: BTreeMap<String, Datum>,
    pub(super) absent: BTreeMap<String, BTreeSet<Atom>>,
    /// Columns that hold children and nothing else.
    pub(super) listed: BTreeSet<&'static str>,
    parents: Vec<(&'static TableDecl, String, &'static str)>,
}

impl Wanted {
    /// A row of ours, all columns that we write as in `row`; its key is in its columns.
    pub fn own<T: Table>(row: &T) -> Wanted {
        let columns = T::DECL.columns.iter().zip(row.to_values()).filter(|(column, _)| !column.status);
        let columns = columns.map(|(column, value)| (column.name.to_owned(), value)).collect();
        Wanted { columns, ..Wanted::bare::<T>(None, Hold::Own) }
    }

    /// A row of ours in a table whose rows have no names: `id` tells it from the others.
    pub fn own_as<T: Table>(id: impl Into<String>, row: &T) -> Wanted {
        Wanted { key: Some(id.into()), ..Wanted::own(row) }
    }

    /// A row of somebody else's, of which [`set`](Wanted::set), [`put`](Wanted::put),
    /// [`unset`](Wanted::unset) and children say what we want. Must exist.
    pub fn share<T: Table>(key: impl Into<String>) -> Wanted {
        Wanted::bare::<T>(Some(key.into()), Hold::Share)
    }

    /// As [`share`](Wanted::share), made if it does not exist.
    pub fn ensure<T: Table>(key: impl Into<String>) -> Wanted {
        Wanted::bare::<T>(Some(key.into()), Hold::Ensure)
    }

    /// As [`share`](Wanted::share), nothing while it does not exist.
    pub fn if_there<T: Table>(key: impl Into<String>) -> Wanted {
        Wanted::bare::<T>(Some(key.into()), Hold::IfThere)
    }

    /// A row by its declaration, for callers that have no struct for it.
    pub fn dynamic(decl: &'static TableDecl, key: impl Into<String>, hold: Hold) -> Wanted {
        Wanted {
            decl,
            key: Some(key.into()),
            hold,
            columns: BTreeMap::new(),
            absent: BTreeMap::new(),
            listed: BTreeSet::new(),
            parents: Vec::new(),
        }
    }

    fn bare<T: Table>(key: Option<String>, hold: Hold) -> Wanted {
        Wanted { key, ..Wanted::dynamic(T::DECL, "", hold) }
    }

    /// Takes over a row of the same key that does not carry our mark.
    #[must_use]
    pub fn adopt(mut self) -> Wanted {
        self.hold = Hold::Adopt;
        self
    }

    /// A column's value.
    #[must_use]
    pub fn set<C: ColumnType>(self, column: &Column<C>, value: &C) -> Wanted {
        self.set_datum(column.decl.name, value.to_datum())
    }

    /// A column's value, by name.
    #[must_use]
    pub fn set_datum(mut self, column: impl Into<String>, value: Datum) -> Wanted {
        self.columns.insert(column.into(), value);
        self
    }

    /// One entry of a map column of texts.
    #[must_use]
    pub fn put(mut self, column: &str, key: impl Into<String>, value: impl Into<String>) -> Wanted {
        let datum = self.columns.remove(column).unwrap_or_else(|| Datum::map::<Atom, Atom>([]));
        let mut pairs = datum.pairs().to_vec();
        pairs.push((Atom::from(Into::<String>::into(key)), Atom::from(Into::<String>::into(value))));
        self.columns.insert(column.to_owned(), Datum::map(pairs));
        self
    }

    /// No entry of this key in a map column that others write to as well.
    #[must_use]
    pub fn unset(mut self, column: &str, key: impl Into<String>) -> Wanted {
        self.absent.entry(column.to_owned()).or_default().insert(Atom::from(Into::<String>::into(key)));
        self
    }

    /// Referred to by the row of `P` with this key, in this column. If that row is not itself wanted it
    /// is shared.
    #[must_use]
    pub fn under<P: Table>(
        mut self,
        parent: impl Into<String>,
        column: &Column<BTreeSet<crate::shape::Ref>>,
    ) -> Wanted {
        self.parents.push((P::DECL, parent.into(), column.decl.name));
        self
    }

    pub(super) fn merges(&self, column: &str) -> bool {
        !self.hold.owns() || self.decl.column(column).is_some_and(|c| c.merge)
    }

    fn row_key(&self, owner: &Owner) -> Result<RowKey, DiffError> {
        let from_columns = || key_of(self.decl, |column| self.columns.get(column), &owner.id);
        let key = match (&self.key, self.decl.key) {
            // Whatever the caller calls the one row.
            (_, Key::Singleton) => Some(String::new()),
            (Some(key), Key::Columns(_) | Key::ExternalId) => Some(key.clone()),
            (None, Key::Columns(_) | Key::ExternalId) => from_columns(),
        };
        let table = self.decl.name;
        key.map(|key| RowKey::new(table, key)).ok_or_else(|| DiffError::Keyless { table: table.to_owned() })
    }
}

/// Wanted rows by key.
pub(super) type Gathered<'a> = BTreeMap<RowKey, Cow<'a, Wanted>>;

/// References in doubt: of which row, in which column, to which rows.
pub(super) type Doubted = BTreeMap<RowKey, BTreeMap<String, BTreeSet<Atom>>>;

/// All rows that are wanted of one owner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Desired {
    rows: Vec<Wanted>,
    pub(super) doubted: Doubted,
}

impl Desired {
    /// Nothing: everything of ours goes.
    pub fn new() -> Desired {
        Desired::default()
    }

    /// Wants a row.
    pub fn add(&mut self, row: Wanted) {
        self.rows.push(row);
    }

    /// Nothing is wanted?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Wants a row.
    #[must_use]
    pub fn with(mut self, row: Wanted) -> Desired {
        self.add(row);
        self
    }

    /// Doubts that a row of ours should refer to another, in a column that its children fill: the reference goes
    /// unless a wanted row is such a child. Where only some of the children are named this tells those that are not
    /// from those that should not be there.
    pub fn doubt(&mut self, parent: RowKey, column: impl Into<String>, to: Uuid) {
        let doubted = self.doubted.entry(parent).or_default();
        doubted.entry(column.into()).or_default().insert(Atom::Uuid(to));
    }

    /// Leaves the row of an error as it is, or a reference of it out; false if that is not possible.
    pub(super) fn set_aside(&mut self, error: &DiffError, have: &Snapshot, owner: &Owner) -> bool {
        let Some(row) = error.row() else { return false };
        let is_it = |w: &Wanted| w.row_key(owner).as_ref() == Ok(row);
        match error {
            DiffError::Dangling { column, to, .. } if is_set(have, &row.table, column) => {
                for wanted in self.rows.iter_mut().filter(|w| is_it(w)) {
                    let Some(datum) = wanted.columns.remove(column) else { continue };
                    let gone = Atom::from(to.clone());
                    let rest = Datum::set(datum.atoms().iter().filter(|a| **a != gone).cloned());
                    wanted.columns.insert(column.clone(), rest);
                }
            }
            DiffError::Twice { .. } => {
                let first = self.rows.iter().position(is_it);
                let mut at = 0;
                self.rows.retain(|w| {
                    at += 1;
                    !is_it(w) || Some(at - 1) == first
                });
            }
            DiffError::NotLoaded
            | DiffError::NotCopied { .. }
            | DiffError::Keyless { .. }
            | DiffError::Foreign { .. }
            | DiffError::Missing { .. }
            | DiffError::Dangling { .. }
            | DiffError::Orphan { .. }
            | DiffError::Undeclared { .. }
            | DiffError::NoColumn { .. } => {
                let below =
                    |w: &Wanted| w.parents.iter().any(|(d, key, _)| d.name == row.table && *key == row.key);
                let missing = matches!(error, DiffError::Missing { .. });
                for wanted in self.rows.iter_mut().filter(|w| is_it(w) || missing && below(w)) {
                    let Ok(key) = wanted.row_key(owner) else { continue };
                    *wanted = Wanted::dynamic(wanted.decl, key.key, Hold::IfThere);
                }
            }
        }
        true
    }

    /// Rows by key, children entered into their parents' references.
    pub(super) fn gathered(&self, owner: &Owner) -> Result<Gathered<'_>, DiffError> {
        let mut rows: Gathered<'_> = BTreeMap::new();
        let mut children = Vec::new();
        for row in &self.rows {
            let key = row.row_key(owner)?;
            let mut row = Cow::Borrowed(row);
            // A row that is made must carry its key; where it is shared the key is there already.
            if let Key::Columns([column]) = row.decl.key
                && (row.hold.owns() || row.hold == Hold::Ensure)
                && !row.columns.contains_key(*column)
            {
                row.to_mut().columns.insert((*column).to_owned(), Datum::one(key.key.as_str()));
            }
            children.extend(row.parents.iter().map(|parent| (key.clone(), parent.clone())));
            if rows.insert(key.clone(), row).is_some() {
                return Err(DiffError::Twice { row: key });
            }
        }
        let mut listed: BTreeMap<(RowKey, &'static str), Vec<Atom>> = BTreeMap::new();
        for (child, (decl, parent, column)) in children {
            let singleton = decl.key == Key::Singleton;
            let key = RowKey::new(decl.name, if singleton { "" } else { parent.as_str() });
            rows.entry(key.clone()).or_insert_with(|| Cow::Owned(Wanted::dynamic(decl, parent, Hold::Share)));
            listed.entry((key, column)).or_default().push(child.into());
        }
        for ((parent, column), atoms) in listed {
            let parent = rows.get_mut(&parent).expect("entered above").to_mut();
            let already = parent.columns.remove(column);
            if already.is_none() {
                parent.listed.insert(column);
            }
            let all = already.iter().flat_map(Datum::atoms).cloned().chain(atoms);
            parent.columns.insert(column.to_owned(), Datum::set(all));
        }
        Ok(rows)
    }
}

impl Extend<Wanted> for Desired {
    fn extend<I: IntoIterator<Item = Wanted>>(&mut self, rows: I) {
        self.rows.extend(rows);
    }
}

impl FromIterator<Wanted> for Desired {
    fn from_iter<I: IntoIterator<Item = Wanted>>(rows: I) -> Desired {
        Desired { rows: rows.into_iter().collect(), ..Desired::default() }
    }
}

fn is_set(have: &Snapshot, table: &str, column: &str) -> bool {
    have.schema().and_then(|s| s.column(table, column)).is_some_and(|c| c.value.is_none() && c.max > 1)
}
