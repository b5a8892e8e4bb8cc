//! What the server knows of one resource, built-in or custom: its names, its schema, its behaviour.

use std::sync::Arc;

use serde_json::Value;

use crate::decode::written;
use crate::field::FieldError;
use crate::schema::SchemaRef;

/// A column of `kubectl get`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `date`, …
    pub kind: &'static str,
    /// `name` for the first column, else empty.
    pub format: &'static str,
    /// What the column means.
    pub description: String,
    /// 0 is always shown; higher only with `-o wide`.
    pub priority: i32,
}

/// A subresource a resource serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Subresource {
    /// `/status`
    Status,
    /// `/scale`
    Scale,
    /// `/binding` (pods)
    Binding,
    /// `/eviction` (pods)
    Eviction,
    /// `/token` (service accounts)
    Token,
    /// `/finalize` (namespaces)
    Finalize,
    /// `/ephemeralcontainers` (pods)
    EphemeralContainers,
    /// `/resize` (pods)
    Resize,
}

/// The write a [`Behaviour`] is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Through {
    /// The main resource.
    Main,
    /// One of its subresources.
    Sub(Subresource),
}

/// What an object's name has to look like. Every name must also be a path segment: not `.` or `..`, no `/` or `%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameRule {
    /// Nothing more than that.
    PathSegment,
    /// An RFC 1123 subdomain: most kinds.
    Subdomain,
    /// An RFC 1123 label: Namespaces.
    Label,
    /// An RFC 1035 label: Services.
    Label1035,
}

/// What differs from kind to kind. The defaults are those of a plain object with a spec and a status:
/// one that keeps its status through the main resource's writes and bumps its generation with its spec.
///
/// Everything here is a pure function of its arguments; what needs the rest of the store (address
/// allocation, eviction, garbage collection) lives in the registry.
pub trait Behaviour: Send + Sync {
    /// Fills in what the user may leave out. Runs on every object after it was decoded (or made to look so by
    /// [`crate::decode::normalise`]), before anything reads it.
    fn default(&self, _object: &mut Value) {}

    /// The same for what a server-side apply made, whose nulls were asked for and are validated as they are.
    fn default_applied(&self, object: &mut Value) {
        self.default(object);
    }

    /// Brings an object in this version into the shape it is stored in.
    fn freeze(&self, _object: &mut Value) {}

    /// Brings an object that may have been stored under another schema into this version's shape.
    fn thaw(&self, _object: &mut Value) {}

    /// Brings a new object into the shape the server stores first (a status set by the client is dropped, …).
    fn prepare_create(&self, _object: &mut Value) {}

    /// Brings a replacement into line with the object it replaces: fields the write may not touch are put back.
    fn prepare_update(&self, _through: Through, _object: &mut Value, _old: &Value) {}

    /// What is wrong with a new object. Metadata was checked before.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// What is wrong with a replacement, seen against the object it replaces.
    fn validate_update(&self, _through: Through, object: &Value, _old: &Value) -> Vec<FieldError> {
        self.validate(object)
    }

    /// Warnings for the client (`Warning: 299` headers).
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Warnings for the client on a replacement; those of the object alone unless a kind compares the two.
    fn update_warnings(&self, _through: Through, object: &Value, _old: &Value) -> Vec<String> {
        self.warnings(object)
    }

    /// Where `/scale` reads and writes, for custom resources that serve it.
    fn scale(&self) -> Option<&crate::crd::Scale> {
        None
    }

    /// The values of the fields a field selector may name, besides `metadata.name` and `metadata.namespace`.
    /// Every name appears for every object (with an empty value where unset): a selector on any other is refused.
    fn selectable(&self, _object: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The columns of `kubectl get`, starting with `Name`.
    fn columns(&self) -> Vec<Column>;

    /// The cells of one row, one per column. `now` is in seconds since the epoch.
    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value>;

    /// The `conditions` of one row, for a client that shows finished objects differently.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }

    /// Takes out of a row's metadata what the real server does not show there.
    fn row_metadata(&self, _metadata: &mut Value) {}

    /// Field paths (as in `managedFields`) this write resets, so that a server-side apply through it cannot own them:
    /// e.g. `[["status"]]` for the main resource, `[["spec"], ["metadata", "labels"]]`-like for status.
    fn reset_fields(&self, _through: Through) -> Vec<Vec<&'static str>> {
        Vec::new()
    }

    /// Whether this write asks for something new, so that `metadata.generation` goes up. Called after `prepare_update`.
    fn spec_changed(&self, _through: Through, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }

    /// Whether `metadata.generation` exists for this kind (it does not for ConfigMaps, Nodes, Namespaces, …).
    fn has_generation(&self) -> bool {
        true
    }

    /// Whether a PUT to a name that is not there creates the object (Leases, Services, EndpointSlices, …).
    fn create_on_update(&self) -> bool {
        false
    }

    /// What names look like.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether all objects can be deleted with one request (`deletecollection`); not so for Namespaces.
    fn deletes_collections(&self) -> bool {
        true
    }

    /// Whether a PUT without a resourceVersion replaces whatever is there.
    fn unconditional_update(&self) -> bool {
        true
    }
}

/// One resource in one version.
#[derive(Clone)]
pub struct Resource {
    /// API group; empty for the core one.
    pub group: String,
    /// `v1`, `v1beta1`, …
    pub version: String,
    /// `Pod`.
    pub kind: String,
    /// `PodList`.
    pub list_kind: String,
    /// `pods`.
    pub plural: String,
    /// `pod`.
    pub singular: String,
    /// `po`.
    pub short_names: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// In a namespace, or of the whole cluster.
    pub namespaced: bool,
    /// What follows the name in a path.
    pub subresources: Vec<Subresource>,
    /// The schema of the whole object, `metadata` included.
    pub schema: SchemaRef,
    /// What differs from kind to kind.
    pub behaviour: Arc<dyn Behaviour>,
    /// The version objects are kept in. Two [`Resource`]s with the same group and plural share one store.
    pub storage_version: String,
    /// Whether this is a custom resource (no strategic merge, pruning and CEL apply).
    pub custom: bool,
    /// Whether objects may have been stored under another schema than this one: what it does not know is then dropped
    /// and what it defaults is filled in whenever they are read.
    pub revised: bool,
    /// The warning sent with every answer when the version is deprecated.
    pub deprecation: Option<String>,
}

impl Resource {
    /// `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name of the store the objects live in: `pods`, `leases.coordination.k8s.io`. Events have two APIs over one store.
    pub fn store_name(&self) -> String {
        if self.group.is_empty() || self.is_event() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The group refusals name the kind with: Events are checked as the core kind they are stored as.
    pub fn kind_group(&self) -> &str {
        if self.is_event() { "" } else { &self.group }
    }

    fn is_event(&self) -> bool {
        !self.custom && self.group == "events.k8s.io" && self.plural == "events"
    }

    /// Whether objects are stored in just the form this resource shows.
    pub fn verbatim(&self) -> bool {
        !self.is_event() && self.version == self.storage_version && !self.revised
    }

    /// An object of this resource as it is stored.
    pub fn to_storage(&self, mut object: Value) -> Value {
        if self.is_event() {
            return crate::builtin::event_to_core(&object);
        }
        if self.version != self.storage_version {
            object["apiVersion"] = Value::String(format!("{}/{}", self.group, self.storage_version));
        }
        if !self.verbatim() {
            self.behaviour.freeze(&mut object);
        }
        object
    }

    /// A stored object as this resource shows it.
    pub fn from_storage(&self, mut object: Value) -> Value {
        if self.is_event() {
            return crate::builtin::event_from_core(&object);
        }
        if !self.verbatim() {
            object["apiVersion"] = Value::String(self.api_version());
            self.behaviour.thaw(&mut object);
        }
        object
    }

    /// Brings an object that is about to be stored into the form it will be read in.
    ///
    /// Built-in kinds go through their Go struct and, but for definitions, through protobuf, which knows no empty lists.
    pub fn settle(&self, object: &mut Value) {
        if self.custom {
            return;
        }
        if self.group == "apiextensions.k8s.io" {
            written::complete(object, &self.schema);
        } else {
            written::stored(object, &self.schema);
        }
    }

    /// Where a real server keeps the objects: some of its refusals say so.
    pub fn registry_path(&self) -> String {
        if self.custom { format!("{}/{}", self.group, self.plural) } else { self.plural.clone() }
    }
}
