//! A [`Schema`] seen with the eyes of field management: which forms a value may take, what merges item by item and
//! what is replaced as a whole.
//!
//! Where a schema is silent lists are atomic and objects merge field by field; where there is no schema at all the
//! type is deduced from the value.

use std::sync::LazyLock;

use serde_json::Value;

use super::fields::Element;
use crate::schema::{Additional, Kind, ListType, Schema, SchemaRef};

/// The type of one place in an object.
#[derive(Clone, Copy)]
pub(crate) struct Type<'a> {
    node: Node<'a>,
    /// An ancestor said `x-kubernetes-preserve-unknown-fields`: unknown fields below it are kept, too.
    keeps_unknown: bool,
    /// A whole object with `apiVersion`, `kind` and `metadata`, whatever its schema says of those.
    resource: bool,
}

#[derive(Clone, Copy)]
enum Node<'a> {
    Declared(&'a Schema),
    /// No schema: objects merge, lists are atomic.
    Deduced,
    /// No schema, and everything is replaced as a whole.
    Opaque,
}

/// How a list merges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMerge<'a> {
    Atomic,
    Set,
    Map(&'a [String]),
}

/// What a leaf must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

/// The form in which a value is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Map,
    List,
    Scalar,
}

impl<'a> Type<'a> {
    /// The type of a whole object.
    pub(crate) fn object(schema: &'a Schema) -> Type<'a> {
        Type { node: Node::Declared(schema), keeps_unknown: schema.preserve_unknown, resource: true }
    }

    fn declared(self, schema: &'a Schema) -> Type<'a> {
        Type {
            node: Node::Declared(schema),
            keeps_unknown: self.keeps_unknown || schema.preserve_unknown,
            resource: schema.embedded_resource,
        }
    }

    fn bare(node: Node<'a>) -> Type<'a> {
        Type { node, keeps_unknown: false, resource: false }
    }

    /// Whether objects are allowed here, and if so whether they are atomic.
    pub(crate) fn map(self) -> Option<Atomic> {
        match self.node {
            Node::Declared(schema) => match schema.kind {
                None | Some(Kind::Object) => Some(Atomic(schema.atomic)),
                Some(Kind::Array | Kind::String | Kind::Integer | Kind::Number | Kind::Boolean) => None,
            },
            Node::Deduced => Some(Atomic(false)),
            Node::Opaque => Some(Atomic(true)),
        }
    }

    /// Whether lists are allowed here, and if so how they merge.
    pub(crate) fn list(self) -> Option<ListMerge<'a>> {
        let Node::Declared(schema) = self.node else { return Some(ListMerge::Atomic) };
        match schema.kind {
            None | Some(Kind::Array) => {}
            Some(Kind::Object | Kind::String | Kind::Integer | Kind::Number | Kind::Boolean) => return None,
        }
        Some(match (&schema.list_type, &schema.patch_merge_key) {
            (Some(ListType::Atomic), _) => ListMerge::Atomic,
            (Some(ListType::Set), _) => ListMerge::Set,
            (Some(ListType::Map(keys)), _) => ListMerge::Map(keys),
            // Built-in lists that predate list types tell how they merge by their patch strategy alone.
            (None, Some(key)) if schema.patch_strategy.merge => ListMerge::Map(std::slice::from_ref(key)),
            (None, None) if schema.patch_strategy.merge => ListMerge::Set,
            (None, _) => ListMerge::Atomic,
        })
    }

    /// Whether leaves are allowed here, and if so which.
    pub(crate) fn scalar(self) -> Option<Scalar> {
        let Node::Declared(schema) = self.node else { return Some(Scalar::Any) };
        match schema.kind {
            None => Some(Scalar::Any),
            Some(Kind::Object | Kind::Array) => None,
            Some(Kind::Integer | Kind::Number) => Some(Scalar::Numeric),
            Some(Kind::Boolean) => Some(Scalar::Boolean),
            Some(Kind::String) => match schema.limits.format.as_deref() {
                None | Some("" | "byte") if !schema.int_or_string => Some(Scalar::String),
                _ => Some(Scalar::Any),
            },
        }
    }

    /// The form of `value` here; `None` where the type leaves it open and the value (null, or one that does not
    /// fit) does not decide.
    pub(crate) fn form_of(self, value: &Value) -> Option<Form> {
        let (map, list, scalar) = (self.map().is_some(), self.list().is_some(), self.scalar().is_some());
        let fitting = match value {
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar.then_some(Form::Scalar),
            Value::Array(_) => list.then_some(Form::List),
            Value::Object(_) => map.then_some(Form::Map),
        };
        fitting.or(match (map, list, scalar) {
            (true, false, false) => Some(Form::Map),
            (false, true, false) => Some(Form::List),
            (false, false, true) => Some(Form::Scalar),
            _ => None,
        })
    }

    /// The form assumed where nothing decides it.
    pub(crate) fn first_form(self) -> Form {
        if self.map().is_some() {
            Form::Map
        } else if self.scalar().is_some() {
            Form::Scalar
        } else {
            Form::List
        }
    }

    /// [`Type::form_of`], or else [`Type::first_form`].
    pub(crate) fn form(self, value: &Value) -> Form {
        self.form_of(value).unwrap_or_else(|| self.first_form())
    }

    /// The type of a field the schema names.
    pub(crate) fn named(self, name: &str) -> Option<Type<'a>> {
        let Node::Declared(schema) = self.node else { return None };
        if self.resource {
            match name {
                "metadata" => return Some(Type::bare(Node::Declared(&OBJECT_META))),
                "apiVersion" | "kind" => return Some(Type::bare(Node::Declared(&TEXT))),
                _ => {}
            }
        }
        schema.properties.get(name).map(|property| self.declared(property))
    }

    /// The type of fields the schema does not name; `None` where there must be none.
    pub(crate) fn unnamed(self) -> Option<Type<'a>> {
        match self.node {
            Node::Declared(schema) => match &schema.additional {
                Additional::Of(values) => Some(self.declared(values)),
                Additional::Any => Some(Type::bare(Node::Deduced)),
                // A whole object always has its metadata to name, so it is never free-form by saying nothing.
                Additional::Refused
                    if self.keeps_unknown || (schema.properties.is_empty() && !self.resource) =>
                {
                    Some(Type::bare(Node::Deduced))
                }
                Additional::Refused => None,
            },
            Node::Deduced => Some(self),
            Node::Opaque => Some(self),
        }
    }

    /// The type of a field, named or not. Values were validated first, so an undeclared field is one that an older
    /// schema knew: its type is deduced.
    pub(crate) fn field(self, name: &str) -> Type<'a> {
        self.named(name).or_else(|| self.unnamed()).unwrap_or(Type::bare(Node::Deduced))
    }

    /// The type of a list's items.
    pub(crate) fn item(self) -> Type<'a> {
        match self.node {
            Node::Declared(schema) => match &schema.items {
                Some(items) => self.declared(items),
                None => Type::bare(Node::Opaque),
            },
            Node::Deduced | Node::Opaque => Type::bare(Node::Opaque),
        }
    }

    /// Whether nothing is known of the objects here but that they may hold anything.
    pub(crate) fn is_freeform(self) -> bool {
        match self.node {
            Node::Declared(schema) => {
                !self.resource
                    && schema.properties.is_empty()
                    && matches!(self.unnamed(), Some(Type { node: Node::Deduced, .. }))
            }
            Node::Deduced => true,
            Node::Opaque => false,
        }
    }

    /// The path element of a list's item, or why it has none.
    pub(crate) fn element_of(self, merge: ListMerge<'_>, item: &Value) -> Result<Element, String> {
        match merge {
            ListMerge::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListMerge::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Element::Item(item.clone())),
            },
            ListMerge::Map(keys) => self.key_of(keys, item),
        }
    }

    fn key_of(self, keys: &[String], item: &Value) -> Result<Element, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let item_type = self.item();
        let mut found: Vec<(String, Value)> = keys
            .iter()
            .filter_map(|key| {
                let value = fields.get(key).cloned().or_else(|| item_type.default_of(key))?;
                Some((key.clone(), value))
            })
            .collect();
        if found.is_empty() && !keys.is_empty() {
            let quoted: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                 default values for any key fields)",
                quoted.join(" ")
            ));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Element::Key(found))
    }

    fn default_of(self, field: &str) -> Option<Value> {
        let Node::Declared(schema) = self.node else { return None };
        schema.properties.get(field)?.default.clone()
    }
}

/// Whether an object is replaced as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Atomic(pub(crate) bool);

static TEXT: LazyLock<Schema> = LazyLock::new(|| Schema { kind: Some(Kind::String), ..Schema::default() });

/// A custom resource's own schema says little or nothing of its metadata.
static OBJECT_META: LazyLock<SchemaRef> = LazyLock::new(crate::schema::object_meta);
