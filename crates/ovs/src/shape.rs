//! Which Rust type stands for which column type.

use crate::value::{Atom, Datum, RowKey};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use uuid::Uuid;

/// The type of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomType {
    /// A 64-bit integer.
    Integer,
    /// A floating-point number.
    Real,
    /// True or false.
    Boolean,
    /// Text.
    String,
    /// A row's identity.
    Uuid,
}

impl AtomType {
    /// The type by its name in a schema.
    pub fn parse(name: &str) -> Option<AtomType> {
        Some(match name {
            "integer" => AtomType::Integer,
            "real" => AtomType::Real,
            "boolean" => AtomType::Boolean,
            "string" => AtomType::String,
            "uuid" => AtomType::Uuid,
            _ => return None,
        })
    }

    /// What a column of this type holds when nobody has set it.
    pub fn default_atom(self) -> Atom {
        match self {
            AtomType::Integer | AtomType::Real => Atom::Integer(0),
            AtomType::Boolean => Atom::Boolean(false),
            AtomType::String => Atom::from(""),
            AtomType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }
}

impl fmt::Display for AtomType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AtomType::Integer => "integer",
            AtomType::Real => "real",
            AtomType::Boolean => "boolean",
            AtomType::String => "string",
            AtomType::Uuid => "uuid",
        })
    }
}

/// What our code takes a column to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exactly one atom.
    One(AtomType),
    /// One atom or none.
    Optional(AtomType),
    /// Any number of atoms.
    Set(AtomType),
    /// Pairs.
    Map(AtomType, AtomType),
}

impl Shape {
    /// What the column is taken to hold where the server does not have it.
    pub fn default_datum(self) -> Datum {
        match self {
            Shape::One(atom) => Datum::one(atom.default_atom()),
            Shape::Optional(_) | Shape::Set(_) => Datum::set::<Atom>([]),
            Shape::Map(..) => Datum::map::<Atom, Atom>([]),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::One(t) => write!(f, "one {t}"),
            Shape::Optional(t) => write!(f, "an optional {t}"),
            Shape::Set(t) => write!(f, "a set of {t}"),
            Shape::Map(k, v) => write!(f, "a map from {k} to {v}"),
        }
    }
}

/// A column held something else than its declared type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct WrongShape {
    expected: String,
    found: String,
}

impl WrongShape {
    fn new(expected: impl fmt::Display, found: &Datum) -> WrongShape {
        WrongShape { expected: expected.to_string(), found: crate::error::shortened(&format!("{found:?}")) }
    }
}

/// A Rust type that stands for an atom.
pub trait AtomValue: Sized {
    /// Its type in the schema.
    const TYPE: AtomType;
    /// Reads it, if the atom is of that type.
    fn from_atom(atom: &Atom) -> Option<Self>;
    /// Writes it.
    fn to_atom(&self) -> Atom;
}

impl AtomValue for String {
    const TYPE: AtomType = AtomType::String;
    fn from_atom(atom: &Atom) -> Option<String> {
        atom.as_str().map(str::to_owned)
    }
    fn to_atom(&self) -> Atom {
        Atom::from(self.as_str())
    }
}

impl AtomValue for i64 {
    const TYPE: AtomType = AtomType::Integer;
    fn from_atom(atom: &Atom) -> Option<i64> {
        if let Atom::Integer(i) = atom { Some(*i) } else { None }
    }
    fn to_atom(&self) -> Atom {
        Atom::Integer(*self)
    }
}

impl AtomValue for bool {
    const TYPE: AtomType = AtomType::Boolean;
    fn from_atom(atom: &Atom) -> Option<bool> {
        if let Atom::Boolean(b) = atom { Some(*b) } else { None }
    }
    fn to_atom(&self) -> Atom {
        Atom::Boolean(*self)
    }
}

/// A reference to a row: by UUID in what was read, by key in what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ref {
    /// A row that exists.
    Uuid(Uuid),
    /// A row that the same transaction inserts under this name.
    Named(String),
    /// Whichever row has this key; resolved by [`diff`](crate::diff()).
    Key(RowKey),
}

impl Ref {
    /// The row of `T`'s table with this key.
    pub fn key<T: crate::table::Table>(key: impl Into<String>) -> Ref {
        Ref::Key(RowKey::new(T::DECL.name, key))
    }

    /// The UUID, if the row exists.
    pub fn uuid(&self) -> Option<Uuid> {
        if let Ref::Uuid(u) = self { Some(*u) } else { None }
    }
}

impl From<Uuid> for Ref {
    fn from(uuid: Uuid) -> Ref {
        Ref::Uuid(uuid)
    }
}

impl AtomValue for Ref {
    const TYPE: AtomType = AtomType::Uuid;
    fn from_atom(atom: &Atom) -> Option<Ref> {
        match atom {
            Atom::Uuid(u) => Some(Ref::Uuid(*u)),
            Atom::Named(n) => Some(Ref::Named(n.clone())),
            Atom::Key(k) => Some(Ref::Key(k.as_ref().clone())),
            Atom::Integer(_) | Atom::Real(_) | Atom::Boolean(_) | Atom::String(_) => None,
        }
    }
    fn to_atom(&self) -> Atom {
        match self {
            Ref::Uuid(u) => Atom::Uuid(*u),
            Ref::Named(n) => Atom::Named(n.clone()),
            Ref::Key(k) => Atom::Key(Box::new(k.clone())),
        }
    }
}

/// A Rust type that stands for a column.
pub trait ColumnType: Sized {
    /// What the server's column must be.
    const SHAPE: Shape;
    /// Reads it.
    fn from_datum(datum: &Datum) -> Result<Self, WrongShape>;
    /// Writes it.
    fn to_datum(&self) -> Datum;
}

impl<T: AtomValue> ColumnType for T {
    const SHAPE: Shape = Shape::One(T::TYPE);
    fn from_datum(datum: &Datum) -> Result<T, WrongShape> {
        match datum.atoms() {
            [one] => T::from_atom(one),
            _ => None,
        }
        .ok_or_else(|| WrongShape::new(Self::SHAPE, datum))
    }
    fn to_datum(&self) -> Datum {
        Datum::one(self.to_atom())
    }
}

impl<T: AtomValue> ColumnType for Option<T> {
    const SHAPE: Shape = Shape::Optional(T::TYPE);
    fn from_datum(datum: &Datum) -> Result<Option<T>, WrongShape> {
        match datum.atoms() {
            [] if !datum.is_map() => Ok(None),
            [one] => T::from_atom(one).map(Some).ok_or_else(|| WrongShape::new(Self::SHAPE, datum)),
            _ => Err(WrongShape::new(Self::SHAPE, datum)),
        }
    }
    fn to_datum(&self) -> Datum {
        Datum::set(self.iter().map(AtomValue::to_atom))
    }
}

impl<T: AtomValue + Ord> ColumnType for BTreeSet<T> {
    const SHAPE: Shape = Shape::Set(T::TYPE);
    fn from_datum(datum: &Datum) -> Result<BTreeSet<T>, WrongShape> {
        let atoms: Option<BTreeSet<T>> = datum.atoms().iter().map(T::from_atom).collect();
        atoms.filter(|_| !datum.is_map()).ok_or_else(|| WrongShape::new(Self::SHAPE, datum))
    }
    fn to_datum(&self) -> Datum {
        Datum::set(self.iter().map(AtomValue::to_atom))
    }
}

impl<K: AtomValue + Ord, V: AtomValue> ColumnType for BTreeMap<K, V> {
    const SHAPE: Shape = Shape::Map(K::TYPE, V::TYPE);
    fn from_datum(datum: &Datum) -> Result<BTreeMap<K, V>, WrongShape> {
        let pairs: Option<BTreeMap<K, V>> =
            datum.pairs().iter().map(|(k, v)| Some((K::from_atom(k)?, V::from_atom(v)?))).collect();
        pairs.filter(|_| datum.is_map()).ok_or_else(|| WrongShape::new(Self::SHAPE, datum))
    }
    fn to_datum(&self) -> Datum {
        Datum::map(self.iter().map(|(k, v)| (k.to_atom(), v.to_atom())))
    }
}

impl Default for Ref {
    fn default() -> Ref {
        Ref::Uuid(Uuid::nil())
    }
}
