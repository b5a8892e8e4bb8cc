//! What happens to an object between the request and the store, for every kind alike.

pub(crate) mod admission;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod holdings;
pub(crate) mod read;
pub(crate) mod update;
pub(crate) mod watch;

use std::sync::Arc;

use serde_json::Value;

use crate::field::{FieldError, quoted};
use crate::object::meta;
use crate::resource::{Resource, Subresource, Through};
use crate::server::{Core, State};
use crate::ssa;
use crate::status::ApiError;
use crate::store::{Event, Key, Stored};

/// One write under way: the server's state, the resource it goes to, and who asks.
pub(crate) struct Cx<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a mut State,
    pub(crate) resource: Arc<Resource>,
    /// The namespace of the request; empty for cluster-scoped resources.
    pub(crate) namespace: String,
    pub(crate) dry_run: bool,
    /// Who the changed fields belong to.
    pub(crate) manager: String,
    /// Sent to the client as warning headers.
    pub(crate) warnings: Vec<String>,
}

impl Cx<'_> {
    pub(crate) fn table(&self) -> String {
        self.resource.store_name()
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(&self.namespace, name)
    }

    /// The object as this resource's version shows it.
    pub(crate) fn current(&self, name: &str) -> Option<Value> {
        let stored = self.state.store.get(&self.table(), &self.key(name))?;
        Some(presented(&self.resource, stored))
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.resource.group, &self.resource.plural, name)
    }

    pub(crate) fn conflict(&self, name: &str, why: &str) -> ApiError {
        ApiError::conflict(&self.resource.group, &self.resource.plural, name, why)
    }

    pub(crate) fn invalid(&self, name: &str, errors: &[FieldError]) -> ApiError {
        ApiError::invalid(self.resource.kind_group(), &self.resource.kind, name, errors)
    }

    /// Stores the object in its storage version.
    pub(crate) fn commit(&mut self, object: Value) -> Result<Arc<Event>, ApiError> {
        let table = self.table();
        let object = self.resource.to_storage(object);
        self.state.put(&table, object)
    }

    /// Brings the managed fields of a write that is no apply up to date.
    pub(crate) fn tracked(&self, through: Through, old: &Value, new: Value) -> Value {
        let api_version = self.resource.api_version();
        let reset = self.resource.behaviour.reset_fields(through);
        let target = ssa::Target::of(&self.resource, through, &api_version, &reset);
        ssa::track_update(&target, old, new, &self.manager, &self.core.clock.stamp())
    }
}

/// A stored object as a resource's version shows it.
pub(crate) fn presented(resource: &Resource, stored: &Stored) -> Value {
    resource.from_storage(stored.object())
}

/// `metadata.resourceVersion` of an object in a request: absent, a number, or refused.
pub(crate) fn asked_revision(object: &Value) -> Result<u64, ApiError> {
    match meta(object, "resourceVersion") {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            ApiError::unclassified(format!("strconv.ParseUint: parsing {}: invalid syntax", quoted(text)))
        }),
    }
}

impl Subresource {
    /// The last part of the path.
    pub fn name(self) -> &'static str {
        match self {
            Subresource::Status => "status",
            Subresource::Scale => "scale",
            Subresource::Binding => "binding",
            Subresource::Eviction => "eviction",
            Subresource::Token => "token",
            Subresource::Finalize => "finalize",
            Subresource::EphemeralContainers => "ephemeralcontainers",
            Subresource::Resize => "resize",
        }
    }
}
