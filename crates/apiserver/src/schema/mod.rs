//! The one schema type behind built-in kinds and custom resources.
//!
//! A [`Schema`] is the parsed form of an OpenAPI v3 schema as Kubernetes uses it: a custom resource's
//! structural schema, or a built-in type from the OpenAPI documents. Validation, pruning, defaulting,
//! strategic merge and server-side apply all read this type and nothing else, so what they know of a
//! kind is the same thing.

pub mod cel;
mod correlate;
mod default;
mod embedded;
mod fieldpath;
mod formats;
mod lists;
mod meta;
mod parse;
mod prune;
mod validate;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use default::{apply_defaults, drop_nulls};
pub use embedded::{check_embedded_types, validate_embedded};
pub use fieldpath::field_path;
pub(crate) use fieldpath::follow as follow_path;
pub(crate) use formats::compiled as compiled_pattern;
pub use formats::is_known as is_known_format;
pub use meta::object_meta;
pub use parse::{Loader, ParseError};
pub use prune::{prune, prune_builtin};
pub use validate::{validate, validate_lists, validate_value};

/// A shared schema node. Built-in types may be recursive, so a node can be promised first
/// ([`SchemaRef::promised`]) and kept later ([`SchemaRef::keep`]).
#[derive(Clone)]
pub struct SchemaRef(Arc<OnceLock<Schema>>);

impl SchemaRef {
    /// Wraps a finished schema.
    pub fn new(schema: Schema) -> SchemaRef {
        let cell = OnceLock::new();
        let _ = cell.set(schema);
        SchemaRef(Arc::new(cell))
    }

    /// A node whose schema comes later; reading it before [`SchemaRef::keep`] is a bug in the loader.
    pub fn promised() -> SchemaRef {
        SchemaRef(Arc::new(OnceLock::new()))
    }

    /// Keeps the promise. The first schema given wins.
    pub fn keep(&self, schema: Schema) {
        let _ = self.0.set(schema);
    }
}

impl Deref for SchemaRef {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        self.0.get().expect("a promised schema is kept before the loader returns")
    }
}

impl std::fmt::Debug for SchemaRef {
    // Not derived: a recursive schema would print forever.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.get() {
            Some(schema) => write!(f, "Schema({:?})", schema.kind),
            None => f.write_str("Schema(promised)"),
        }
    }
}

/// The JSON type a schema asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// A JSON number without a fraction.
    Integer,
    /// Any JSON number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// How a list merges and what makes two of its items the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// Items are scalars and unique.
    Set,
    /// Items are objects told apart by these fields.
    Map(Vec<String>),
}

/// What an object may hold besides its named properties.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Nothing: other fields are unknown.
    #[default]
    Refused,
    /// Anything.
    Any,
    /// Values of this schema: the object is a map.
    Of(SchemaRef),
}

/// The `patchStrategy` a built-in list carries for strategic merge patches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PatchStrategy {
    /// Lists merge by key (or as a set of scalars) instead of being replaced.
    pub merge: bool,
    /// Keys absent from the patch are dropped (`retainKeys`).
    pub retain_keys: bool,
}

/// One rule of `x-kubernetes-validations`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// The CEL expression.
    pub rule: String,
    /// What to tell the user; a default is derived from the rule when absent.
    pub message: Option<String>,
    /// A CEL expression giving the message.
    pub message_expression: Option<String>,
    /// `FieldValueInvalid` and its siblings.
    pub reason: Option<String>,
    /// The field the failure is reported on, relative to the rule's place.
    pub field_path: Option<String>,
    /// Lets a transition rule run without an old value.
    pub optional_old_self: bool,
}

/// What a value must satisfy beyond its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// `enum`.
    pub one_of_values: Option<Vec<Value>>,
    /// `required`.
    pub required: Vec<String>,
    /// `pattern`.
    pub pattern: Option<String>,
    /// `format`.
    pub format: Option<String>,
    /// `minimum` (with `exclusiveMinimum`).
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`.
    pub min_length: Option<u64>,
    /// `maxLength`.
    pub max_length: Option<u64>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `uniqueItems` (always false in a legal custom resource).
    pub unique_items: bool,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
}

/// One node of a schema.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The component this is in the OpenAPI document (`io.k8s.api.core.v1.PodSpec`), for built-ins. Type errors name it.
    pub name: Option<String>,
    /// `type`; absent for `x-kubernetes-int-or-string` and for "anything".
    pub kind: Option<Kind>,
    /// `nullable`.
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`, or a built-in with format `int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `properties`.
    pub properties: BTreeMap<String, SchemaRef>,
    /// `additionalProperties`.
    pub additional: Additional,
    /// `items`.
    pub items: Option<SchemaRef>,
    /// `x-kubernetes-list-type` with `x-kubernetes-list-map-keys`; `None` when the schema is silent.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-map-type: atomic` (on an object), or a struct that is always replaced whole.
    pub atomic: bool,
    /// `default`.
    pub default: Option<Value>,
    /// `description`, kept for custom resources (kubectl explain shows it).
    pub description: Option<String>,
    /// Value limits.
    pub limits: Limits,
    /// `allOf`, `anyOf`, `oneOf`, `not`: value limits only.
    pub all_of: Vec<SchemaRef>,
    /// See [`Schema::all_of`].
    pub any_of: Vec<SchemaRef>,
    /// See [`Schema::all_of`].
    pub one_of: Vec<SchemaRef>,
    /// See [`Schema::all_of`].
    pub not: Option<SchemaRef>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// `x-kubernetes-patch-strategy` (built-ins).
    pub patch_strategy: PatchStrategy,
    /// `x-kubernetes-patch-merge-key` (built-ins).
    pub patch_merge_key: Option<String>,
}

#[cfg(test)]
mod tests;
