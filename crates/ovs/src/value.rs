//! Values as OVSDB has them: atoms, and columns that hold a set or a map of atoms.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A row named by what stays the same when the row is made again, instead of by its UUID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    /// The table the row is in.
    pub table: String,
    /// The key, as the table's [`Key`](crate::table::Key) makes it.
    pub key: String,
}

impl RowKey {
    /// Names the row of `table` whose key is `key`.
    pub fn new(table: impl Into<String>, key: impl Into<String>) -> RowKey {
        RowKey { table: table.into(), key: key.into() }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.table, self.key)
    }
}

/// A number that is not an integer. Ordered totally, so that it can be in a set.
#[derive(Clone, Copy, Debug)]
pub struct Real(f64);

impl Real {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Real {}
impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Real) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Real {
    fn cmp(&self, other: &Real) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
impl std::hash::Hash for Real {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// One indivisible value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// A 64-bit integer; also a whole number of a `real` column (see [`Atom::real`]).
    Integer(i64),
    /// A number with a fraction.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// Text; what many rows hold is shared by them.
    String(Arc<str>),
    /// A reference to a row that exists.
    Uuid(Uuid),
    /// A reference to a row that the same transaction inserts under this name.
    Named(String),
    /// A reference by key. Only in wanted rows: [`diff`](crate::diff()) replaces it before anything is sent.
    Key(Box<RowKey>),
}

impl Atom {
    /// A `real`, kept as an integer when it is whole: the wire does not tell `1` from `1.0`, and two ways
    /// to hold one value would make equal rows differ for ever.
    pub fn real(value: f64) -> Atom {
        let whole = value as i64;
        // 2^53: above it not every integer has its own `f64`.
        if whole as f64 == value && value.abs() < 9_007_199_254_740_992.0 {
            Atom::Integer(whole)
        } else {
            Atom::Real(Real(value))
        }
    }

    /// The text, if this is text.
    pub fn as_str(&self) -> Option<&str> {
        if let Atom::String(s) = self { Some(s) } else { None }
    }

    /// The UUID, if this is a reference to a row that exists.
    pub fn as_uuid(&self) -> Option<Uuid> {
        if let Atom::Uuid(u) = self { Some(*u) } else { None }
    }

    /// What goes over the wire.
    pub fn to_wire(&self) -> Result<Value, Unresolved> {
        Ok(match self {
            Atom::Integer(i) => json!(i),
            Atom::Real(r) => json!(r.0),
            Atom::Boolean(b) => json!(b),
            Atom::String(s) => json!(&**s),
            Atom::Uuid(u) => json!(["uuid", u]),
            Atom::Named(n) => json!(["named-uuid", n]),
            Atom::Key(key) => return Err(Unresolved(key.as_ref().clone())),
        })
    }

    /// Reads an atom from the wire.
    pub fn from_wire(value: &Value) -> Result<Atom, NotAValue> {
        match value {
            Value::String(s) => Ok(Atom::from(s.as_str())),
            Value::Bool(b) => Ok(Atom::Boolean(*b)),
            Value::Number(n) => match (n.as_i64(), n.as_f64()) {
                (Some(i), _) => Ok(Atom::Integer(i)),
                (None, Some(f)) => Ok(Atom::real(f)),
                (None, None) => Err(NotAValue::of(value)),
            },
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(tag), Value::String(id)] if tag == "uuid" => {
                    Uuid::parse_str(id).map(Atom::Uuid).map_err(|_| NotAValue::of(value))
                }
                [Value::String(tag), Value::String(name)] if tag == "named-uuid" => {
                    Ok(Atom::Named(name.clone()))
                }
                _ => Err(NotAValue::of(value)),
            },
            Value::Null | Value::Object(_) => Err(NotAValue::of(value)),
        }
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Atom {
        Atom::String(value.into())
    }
}
impl From<String> for Atom {
    fn from(value: String) -> Atom {
        Atom::String(value.into())
    }
}
impl From<i64> for Atom {
    fn from(value: i64) -> Atom {
        Atom::Integer(value)
    }
}
impl From<bool> for Atom {
    fn from(value: bool) -> Atom {
        Atom::Boolean(value)
    }
}
impl From<Uuid> for Atom {
    fn from(value: Uuid) -> Atom {
        Atom::Uuid(value)
    }
}
impl From<RowKey> for Atom {
    fn from(value: RowKey) -> Atom {
        Atom::Key(Box::new(value))
    }
}

/// What a column holds: a set of atoms (a scalar is a set of exactly one) or a map.
///
/// Invariant: elements are sorted and distinct, so equal contents are equal values whatever the order on
/// the wire. Small and cheap to clone, because a copy of a database has hundreds of thousands of them and
/// most columns of a table hold one of a few values ([`Recent`]).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Datum(Arc<Inner>);

/// Invariant: a set of exactly one element is `One`.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Inner {
    One(Atom),
    Set(Box<[Atom]>),
    Map(Box<[(Atom, Atom)]>),
}

impl Datum {
    /// A scalar.
    pub fn one(atom: impl Into<Atom>) -> Datum {
        Datum(Arc::new(Inner::One(atom.into())))
    }

    /// A set; duplicates count once.
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Datum {
        let mut atoms: Vec<Atom> = atoms.into_iter().map(Into::into).collect();
        atoms.sort_unstable();
        atoms.dedup();
        Datum::sorted(atoms)
    }

    fn sorted(mut atoms: Vec<Atom>) -> Datum {
        Datum(Arc::new(match (atoms.len(), atoms.pop()) {
            (1, Some(one)) => Inner::One(one),
            (_, last) => {
                atoms.extend(last);
                Inner::Set(atoms.into())
            }
        }))
    }

    /// A map; of several values for one key the last stays.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Datum {
        let pairs: BTreeMap<Atom, Atom> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        Datum(Arc::new(Inner::Map(pairs.into_iter().collect())))
    }

    /// The elements, sorted; nothing if this is a map.
    pub fn atoms(&self) -> &[Atom] {
        match &*self.0 {
            Inner::One(atom) => std::slice::from_ref(atom),
            Inner::Set(atoms) => atoms,
            Inner::Map(_) => &[],
        }
    }

    /// The pairs, sorted by key; nothing if this is a set.
    pub fn pairs(&self) -> &[(Atom, Atom)] {
        match &*self.0 {
            Inner::One(_) | Inner::Set(_) => &[],
            Inner::Map(pairs) => pairs,
        }
    }

    /// Is this a map?
    pub fn is_map(&self) -> bool {
        matches!(*self.0, Inner::Map(_))
    }

    /// Number of elements or pairs.
    pub fn len(&self) -> usize {
        self.atoms().len() + self.pairs().len()
    }

    /// Nothing in it?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is the atom in this set?
    pub fn contains(&self, atom: &Atom) -> bool {
        self.atoms().binary_search(atom).is_ok()
    }

    /// The value of a key of this map.
    pub fn get(&self, key: &Atom) -> Option<&Atom> {
        let pairs = self.pairs();
        pairs.binary_search_by(|(k, _)| k.cmp(key)).ok().map(|at| &pairs[at].1)
    }

    /// The value of a text key of this map, if it is text.
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.pairs().iter().find(|(k, _)| k.as_str() == Some(key)).and_then(|(_, v)| v.as_str())
    }

    /// Every atom in it that names a row: elements, keys and values.
    pub fn references(&self) -> impl Iterator<Item = Uuid> + '_ {
        let in_pairs = self.pairs().iter().flat_map(|(k, v)| [k, v]);
        self.atoms().iter().chain(in_pairs).filter_map(Atom::as_uuid)
    }

    /// This value with every atom replaced.
    pub fn try_map<E>(&self, mut change: impl FnMut(&Atom) -> Result<Atom, E>) -> Result<Datum, E> {
        Ok(match &*self.0 {
            Inner::One(atom) => Datum::one(change(atom)?),
            Inner::Set(atoms) => Datum::set(atoms.iter().map(change).collect::<Result<Vec<_>, E>>()?),
            Inner::Map(pairs) => {
                let mut out = Vec::with_capacity(pairs.len());
                for (k, v) in pairs {
                    out.push((change(k)?, change(v)?));
                }
                Datum::map(out)
            }
        })
    }

    /// This value after the difference that `update2` and `update3` carry for a column that can hold more
    /// than one element: what is in exactly one of two sets stays; a pair replaces the value of its key,
    /// or goes if it is there unchanged.
    #[must_use]
    pub fn xor(&self, difference: &Datum) -> Datum {
        if self.is_map() || difference.is_map() {
            let mut pairs: BTreeMap<Atom, Atom> = self.pairs().iter().cloned().collect();
            for (k, v) in difference.pairs() {
                if pairs.get(k) == Some(v) {
                    pairs.remove(k);
                } else {
                    pairs.insert(k.clone(), v.clone());
                }
            }
            return Datum(Arc::new(Inner::Map(pairs.into_iter().collect())));
        }
        let mut atoms: BTreeSet<Atom> = self.atoms().iter().cloned().collect();
        for atom in difference.atoms() {
            if !atoms.remove(atom) {
                atoms.insert(atom.clone());
            }
        }
        Datum::sorted(atoms.into_iter().collect())
    }

    /// What goes over the wire.
    pub fn to_wire(&self) -> Result<Value, Unresolved> {
        match &*self.0 {
            Inner::One(one) => one.to_wire(),
            Inner::Set(many) => {
                Ok(json!(["set", many.iter().map(Atom::to_wire).collect::<Result<Vec<_>, _>>()?]))
            }
            Inner::Map(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| Ok(json!([k.to_wire()?, v.to_wire()?])));
                Ok(json!(["map", pairs.collect::<Result<Vec<_>, Unresolved>>()?]))
            }
        }
    }

    /// Reads a column's value from the wire.
    pub fn from_wire(value: &Value) -> Result<Datum, NotAValue> {
        if let Value::Array(tagged) = value
            && let [Value::String(tag), Value::Array(items)] = tagged.as_slice()
        {
            match tag.as_str() {
                "set" => {
                    let atoms: Result<Vec<Atom>, NotAValue> = items.iter().map(Atom::from_wire).collect();
                    return Ok(Datum::set(atoms?));
                }
                "map" => {
                    let pairs: Result<Vec<(Atom, Atom)>, NotAValue> = items
                        .iter()
                        .map(|pair| match pair.as_array().map(Vec::as_slice) {
                            Some([k, v]) => Ok((Atom::from_wire(k)?, Atom::from_wire(v)?)),
                            Some(_) | None => Err(NotAValue::of(pair)),
                        })
                        .collect();
                    return Ok(Datum::map(pairs?));
                }
                _ => return Err(NotAValue::of(value)),
            }
        }
        Atom::from_wire(value).map(Datum::one)
    }
}

impl fmt::Debug for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Inner::One(atom) => atom.fmt(f),
            Inner::Set(atoms) => f.debug_set().entries(atoms.iter()).finish(),
            Inner::Map(pairs) => f.debug_map().entries(pairs.iter().map(|(k, v)| (k, v))).finish(),
        }
    }
}

/// What a column held of late, to be shared by rows that hold the same.
///
/// Of most columns a few values make up nearly all rows; the others at least have the keys of their maps in common.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    held: [Option<Datum>; 4],
    next: usize,
}

impl Recent {
    /// The same value, sharing what it can with those before it.
    pub(crate) fn share(&mut self, datum: Datum) -> Datum {
        if let Some(same) = self.held.iter().flatten().find(|held| **held == datum) {
            return same.clone();
        }
        let last = self.held[(self.next + self.held.len() - 1) % self.held.len()].as_ref();
        let datum = match last {
            Some(last) if datum.is_map() && last.is_map() => datum.like(last),
            Some(_) | None => datum,
        };
        self.held[self.next] = Some(datum.clone());
        self.next = (self.next + 1) % self.held.len();
        datum
    }
}

impl Datum {
    /// This map with the keys, and the values they have in common, of another.
    fn like(&self, other: &Datum) -> Datum {
        let pairs = self.pairs().iter().map(|pair| {
            let theirs = other.pairs().binary_search_by(|(key, _)| key.cmp(&pair.0)).ok();
            match theirs.map(|at| &other.pairs()[at]) {
                Some((key, value)) if *value == pair.1 => (key.clone(), value.clone()),
                Some((key, _)) => (key.clone(), pair.1.clone()),
                None => pair.clone(),
            }
        });
        Datum(Arc::new(Inner::Map(pairs.collect())))
    }
}

/// A reference by key reached the place where only UUIDs may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reference to {0} was not resolved to a row before sending")]
pub struct Unresolved(pub RowKey);

/// Something on the wire that is no OVSDB value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an OVSDB value")]
pub struct NotAValue(String);

impl NotAValue {
    fn of(value: &Value) -> NotAValue {
        NotAValue(crate::error::shortened(&value.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_small_and_a_set_of_one_is_a_scalar() {
        assert_eq!((size_of::<Datum>(), size_of::<Atom>()), (8, 24));
        assert_eq!(Datum::set(["a"]), Datum::one("a"));
        assert_eq!(Datum::set(["a", "b"]).xor(&Datum::one("b")), Datum::one("a"));
        assert_eq!(Datum::one("a").xor(&Datum::one("a")), Datum::set::<Atom>([]));
    }

    #[test]
    fn rows_share_what_they_have_in_common_and_nothing_else_changes() {
        let mut recent = Recent::default();
        let map = |owner: &str| Datum::map([("kind", "Service"), ("owner", owner)]);
        let (a, b, again) = (recent.share(map("a")), recent.share(map("b")), recent.share(map("a")));
        assert_eq!((&a, &b, &again), (&map("a"), &map("b"), &map("a")));
        assert!(Arc::ptr_eq(&a.0, &again.0), "the same value is there once");
        let text = |datum: &Datum, at: usize| match &datum.pairs()[at] {
            (Atom::String(key), Atom::String(value)) => (Arc::as_ptr(key), Arc::as_ptr(value)),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(&a, 0), text(&b, 0), "an entry they have in common is there once");
        assert_eq!(text(&a, 1).0, text(&b, 1).0, "so is the key of one that differs");
        for n in 0..10 {
            recent.share(map(&n.to_string()));
        }
        assert_eq!(recent.share(map("a")), a);
    }
}
