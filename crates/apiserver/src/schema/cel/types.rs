//! The types of CEL, as far as a schema tells them.

use kube_cel::cel::common::ast::LiteralValue;

use crate::schema::{Additional, Kind, Schema, SchemaRef, object_meta};

use super::value::escaped;

/// The type of an expression. `Dyn` is also what is not known: it fits everywhere.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(Box<Type>),
    Map(Box<Type>),
    /// An object with named fields; whether it is a whole resource.
    Object(SchemaRef, bool),
    Optional(Box<Type>),
    /// A type of the Kubernetes libraries.
    Named(&'static str),
}

impl Type {
    /// The type of values of a schema. `None` for what rules cannot see.
    pub(super) fn of(schema: &SchemaRef, is_resource: bool) -> Option<Type> {
        if schema.int_or_string {
            return Some(Type::Dyn);
        }
        Some(match schema.kind? {
            Kind::Boolean => Type::Bool,
            Kind::Integer => Type::Int,
            Kind::Number => Type::Double,
            Kind::String => match schema.limits.format.as_deref() {
                Some("duration") => Type::Duration,
                Some("date" | "date-time") => Type::Timestamp,
                Some("byte") => Type::Bytes,
                Some(_) | None => Type::Text,
            },
            Kind::Array => {
                let items = schema.items.as_ref()?;
                Type::List(Box::new(Type::of(items, items.embedded_resource)?))
            }
            Kind::Object => match &schema.additional {
                Additional::Of(of) => Type::Map(Box::new(Type::of(of, of.embedded_resource)?)),
                Additional::Any => Type::Dyn,
                Additional::Refused => Type::Object(schema.clone(), is_resource),
            },
        })
    }

    pub(super) fn of_literal(literal: &LiteralValue) -> Type {
        match literal {
            LiteralValue::Boolean(_) => Type::Bool,
            LiteralValue::Bytes(_) => Type::Bytes,
            LiteralValue::Double(_) => Type::Double,
            LiteralValue::Int(_) => Type::Int,
            LiteralValue::Null => Type::Null,
            LiteralValue::String(_) => Type::Text,
            LiteralValue::UInt(_) => Type::Uint,
        }
    }

    /// The type of a field of this object, by the name rules use.
    pub(super) fn field(schema: &Schema, is_resource: bool, name: &str) -> Option<Type> {
        if is_resource {
            match name {
                "metadata" => {
                    let mut visible = (*object_meta()).clone();
                    visible.properties.retain(|key, _| key == "name" || key == "generateName");
                    return Some(Type::Object(SchemaRef::new(visible), false));
                }
                "apiVersion" | "kind" => return Some(Type::Text),
                _ => {}
            }
        }
        let (_, property) = schema.properties.iter().find(|(key, _)| escaped(key) == name)?;
        Type::of(property, property.embedded_resource)
    }

    /// Whether values of the two types may be compared, or stand in one list. Only what may be absent compares to null.
    pub(super) fn fits(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, known) | (known, Type::Null) => matches!(
                known,
                Type::Null
                    | Type::Object(..)
                    | Type::Optional(_)
                    | Type::Duration
                    | Type::Timestamp
                    | Type::Named(_)
            ),
            (Type::List(a), Type::List(b))
            | (Type::Map(a), Type::Map(b))
            | (Type::Optional(a), Type::Optional(b)) => a.fits(b),
            (a, b) => a.is(b),
        }
    }

    /// Whether the two are the same kind of type, whatever they hold.
    pub(super) fn is(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Named(a), Type::Named(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// What a comprehension over this sees; `None` where there can be none.
    pub(super) fn item(&self) -> Option<Type> {
        match self {
            Type::List(of) => Some((**of).clone()),
            Type::Map(_) => Some(Type::Text),
            Type::Dyn => Some(Type::Dyn),
            Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
            | Type::Object(..)
            | Type::Named(_)
            | Type::Optional(_) => None,
        }
    }

    /// An optional of this, unless it is one already.
    pub(super) fn optional(self) -> Type {
        if matches!(self, Type::Optional(_)) { self } else { Type::Optional(Box::new(self)) }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::Uint | Type::Double)
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::Text => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(of) => write!(f, "map(string, {of})"),
            Type::Object(..) => f.write_str("object"),
            Type::Optional(of) => write!(f, "optional_type({of})"),
            Type::Named(name) => f.write_str(name),
        }
    }
}
