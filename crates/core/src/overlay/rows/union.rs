//! The rows of a zone out of parts that change one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{Clash, InTable, Rows};

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

/// A row that some part wants.
#[derive(Clone, Debug)]
struct Held<P> {
    /// How many parts want it.
    claims: u32,
    /// What it is like.
    print: u64,
    /// One of them.
    part: Arc<P>,
}

/// The union of the rows of many parts, such as the node, each peer, each pod, each Service and each policy.
///
/// Putting in the new rows of one part costs what that part costs, however many others there are, and says what is
/// different in the whole. A row that several parts want stays until the last of them goes.
///
/// Of a row only its name, a fingerprint and whose it is are kept: whoever puts parts in can compute their rows again,
/// and of tens of thousands of rows the rows themselves would be most of the memory. Two rows of one fingerprint would
/// be taken for the same; of 64 bits that is not worth a thought.
#[derive(Clone, Debug)]
pub struct Union<P: Ord> {
    parts: BTreeMap<Arc<P>, Box<[Name]>>,
    tables: BTreeMap<&'static str, BTreeMap<Arc<str>, Held<P>>>,
}

/// A row by table and key, the key kept once.
type Name = (&'static str, Arc<str>);

impl<P: Ord> Default for Union<P> {
    fn default() -> Union<P> {
        Union { parts: BTreeMap::new(), tables: BTreeMap::new() }
    }
}

impl<P: Ord> Union<P> {
    /// Whether some part has such a row.
    pub fn contains(&self, table: &str, key: &str) -> bool {
        self.held(table, key).is_some()
    }

    /// A part that has this row; all that do have the same.
    pub fn part_of(&self, table: &str, key: &str) -> Option<&P> {
        self.held(table, key).map(|held| &*held.part)
    }

    /// The keys of the rows of a table.
    pub fn keys(&self, table: &str) -> impl Iterator<Item = &str> {
        self.tables.get(table).into_iter().flat_map(BTreeMap::keys).map(AsRef::as_ref)
    }

    /// The parts there are.
    pub fn parts(&self) -> impl Iterator<Item = &P> {
        self.parts.keys().map(AsRef::as_ref)
    }

    /// The parts that have rows in tables like this.
    pub fn parts_in(&self, table: impl Fn(&str) -> bool) -> impl Iterator<Item = &P> {
        let some = move |names: &[Name]| names.iter().any(|name| table(name.0));
        self.parts.iter().filter(move |(_, names)| some(names)).map(|(part, _)| part.as_ref())
    }

    /// Packs what is kept closely: maps that grew one entry at a time are half empty.
    pub fn pack(&mut self) {
        self.parts = std::mem::take(&mut self.parts).into_iter().collect();
        for rows in self.tables.values_mut() {
            *rows = std::mem::take(rows).into_iter().collect();
        }
    }

    /// Puts rows in place of what a part had; no rows remove the part.
    ///
    /// # Guarantees
    ///
    /// On a clash with another part nothing is changed.
    pub fn replace(&mut self, part: P, rows: Rows) -> Result<Change, Clash> {
        let before = self.parts.get(&part).map(|names| &**names).unwrap_or_default();
        let mut turn = Turn { union: self, before, seen: Vec::new(), change: Change::default() };
        rows.visit(&mut turn)?;
        let Turn { mut seen, mut change, .. } = turn;
        seen.sort_unstable();
        let before = self.parts.remove(&part).unwrap_or_default();
        let part = Arc::new(part);
        let mut names = Vec::with_capacity(seen.len());
        for (table, key, print) in seen {
            let had = before.binary_search_by(|(t, k)| (*t, &**k).cmp(&(table, key.as_str()))).is_ok();
            names.push((table, self.claim(table, key, print, &part, had)));
        }
        for name in before {
            let stays = names.binary_search_by(|(t, k)| (*t, &**k).cmp(&(name.0, &*name.1))).is_ok();
            if !stays && self.release(&name, &part) {
                change.gone.insert((name.0, name.1.as_ref().to_owned()));
            }
        }
        if !names.is_empty() {
            self.parts.insert(part, names.into());
        }
        Ok(change)
    }

    fn held(&self, table: &str, key: &str) -> Option<&Held<P>> {
        self.tables.get(table)?.get(key)
    }

    /// A part has a row now; whether it `had` it before.
    fn claim(&mut self, table: &'static str, key: String, print: u64, part: &Arc<P>, had: bool) -> Arc<str> {
        let rows = self.tables.entry(table).or_default();
        let key = match rows.get_key_value(key.as_str()) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(key),
        };
        let held =
            rows.entry(Arc::clone(&key)).or_insert_with(|| Held { claims: 0, print, part: Arc::clone(part) });
        held.claims += u32::from(!had);
        held.print = print;
        held.part = Arc::clone(part);
        key
    }

    /// Takes one claim off a row; whether it was the last.
    fn release(&mut self, (table, key): &Name, part: &Arc<P>) -> bool {
        let Some(rows) = self.tables.get_mut(table) else { return true };
        let Some(held) = rows.get_mut(key).filter(|held| held.claims > 1) else {
            rows.remove(key);
            return true;
        };
        held.claims -= 1;
        if held.part == *part {
            // Shared rows are few; whoever else has it speaks for it from now on.
            let has = |names: &[Name]| names.iter().any(|name| name.0 == *table && name.1 == *key);
            let other = self.parts.iter().find(|(_, names)| has(names));
            held.part = Arc::clone(other.map_or(part, |(other, _)| other));
        }
        false
    }
}

/// What a row is like.
fn print(row: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    hasher.finish()
}

/// One replacement while its rows are looked at; changes nothing yet.
pub(super) struct Turn<'a, P: Ord> {
    union: &'a Union<P>,
    before: &'a [Name],
    seen: Vec<(&'static str, String, u64)>,
    change: Change,
}

impl<P: Ord> Turn<'_, P> {
    pub(super) fn see<T: InTable>(&mut self, key: String, row: T) -> Result<(), Clash> {
        let print = print(&row);
        let held = self.union.held(T::TABLE, &key);
        if held.is_none_or(|held| held.print != print) {
            let own = self.before.iter().any(|name| name.0 == T::TABLE && *name.1 == *key);
            if held.map_or(0, |held| held.claims) > u32::from(own) {
                return Err(Clash { table: T::TABLE, key });
            }
            self.change.put.put(row);
        }
        self.seen.push((T::TABLE, key, print));
        Ok(())
    }
}
