//! The rows of a zone out of parts that change one at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::{Clash, InTable, Rows, Table};

/// A row by table and key.
pub type RowName = (&'static str, String);

/// What putting a part in place of another changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Rows that are new or different.
    pub put: Rows,
    /// Rows nobody wants any more.
    pub gone: BTreeSet<RowName>,
}

impl Change {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.gone.is_empty()
    }

    /// Adds a change that was made after this one, so that both are one.
    pub fn then(&mut self, later: Change) {
        for name in &later.gone {
            self.put.remove(name.0, &name.1);
        }
        self.gone.retain(|name| !later.put.contains(name.0, &name.1));
        self.gone.extend(later.gone);
        self.put.overwrite(later.put);
    }
}

/// The union of the rows of many parts, such as the node, each peer, each pod, each Service and each policy.
///
/// Putting in the new rows of one part costs what that part costs, however many others there are, and says what is
/// different in the whole. A row that several parts want stays until the last of them goes.
#[derive(Clone, Debug)]
pub struct Union<P: Ord> {
    parts: BTreeMap<P, BTreeSet<RowName>>,
    shared: BTreeMap<RowName, u32>,
    rows: Rows,
}

impl<P: Ord> Default for Union<P> {
    fn default() -> Union<P> {
        Union { parts: BTreeMap::new(), shared: BTreeMap::new(), rows: Rows::default() }
    }
}

impl<P: Ord + Clone> Union<P> {
    /// All rows.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The parts there are.
    pub fn parts(&self) -> impl Iterator<Item = &P> {
        self.parts.keys()
    }

    /// Puts rows in place of what a part had; no rows remove the part.
    ///
    /// # Guarantees
    ///
    /// On a clash with another part nothing is changed.
    pub fn replace(&mut self, part: P, rows: Rows) -> Result<Change, Clash> {
        let before = self.parts.get(&part).cloned().unwrap_or_default();
        let mut turn =
            Turn { union: self, before: &before, names: BTreeSet::new(), change: Change::default() };
        rows.visit(&mut turn)?;
        let Turn { names, mut change, .. } = turn;
        for name in before.difference(&names) {
            if self.release(name) {
                change.gone.insert(name.clone());
            }
        }
        for name in names.difference(&before) {
            *self.shared.entry(name.clone()).or_insert(0) += 1;
        }
        self.rows.overwrite(change.put.clone());
        for (table, key) in &change.gone {
            self.rows.remove(table, key);
        }
        if names.is_empty() {
            self.parts.remove(&part);
        } else {
            self.parts.insert(part, names);
        }
        Ok(change)
    }

    /// Takes one claim off a row; whether it was the last.
    fn release(&mut self, name: &RowName) -> bool {
        match self.shared.get_mut(name) {
            Some(claims) if *claims > 1 => {
                *claims -= 1;
                false
            }
            Some(_) | None => {
                self.shared.remove(name);
                true
            }
        }
    }
}

/// One replacement while its rows are looked at; changes nothing yet.
pub(super) struct Turn<'a, P: Ord> {
    union: &'a Union<P>,
    before: &'a BTreeSet<RowName>,
    names: BTreeSet<RowName>,
    change: Change,
}

impl<'a, P: Ord> Turn<'a, P> {
    pub(super) fn see<T: InTable>(&mut self, have: &Table<T>, key: String, row: T) -> Result<(), Clash> {
        let name = (T::TABLE, key);
        let differs = have.get(&name.1) != Some(&row);
        if differs {
            let claims = self.union.shared.get(&name).copied().unwrap_or(0);
            let own = u32::from(self.before.contains(&name));
            if claims > own {
                return Err(Clash { table: T::TABLE, key: name.1 });
            }
            self.change.put.put(row);
        }
        self.names.insert(name);
        Ok(())
    }

    /// One table of the whole as it was before.
    pub(super) fn table<T>(&self, of: fn(&Rows) -> &Table<T>) -> &'a Table<T> {
        of(&self.union.rows)
    }
}
