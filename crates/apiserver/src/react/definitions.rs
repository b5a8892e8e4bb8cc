//! Custom resource definitions: accepted, served, and cleaned up after.

use std::sync::Arc;

use serde_json::Value;

use super::change;
use crate::crd;
use crate::object::{finalizers, is_deleting, set_meta};
use crate::query::DeleteOptions;
use crate::registry::delete::{CLEANUP, delete_internally};
use crate::resource::{Resource, Subresource, Through};
use crate::server::{Core, State, fields_of};
use crate::status::ApiError;
use crate::store::{Change, Event, Key};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

pub(super) fn after(core: &Core, state: &mut State, table: &str, event: &Event) -> Result<(), ApiError> {
    if table != DEFINITIONS {
        // The last object of a definition that is being deleted may just have gone.
        let key = Key::new("", table);
        return match (event.change, state.object(DEFINITIONS, &key)) {
            (Change::Deleted, Some(definition)) if is_deleting(&definition) => {
                clean_up(core, state, &key, &definition)
            }
            _ => Ok(()),
        };
    }
    let key = event.object.key.clone();
    let Some(definition) = state.object(DEFINITIONS, &key) else {
        // Changes from before its end may still be settling, and among them the deletion of its objects, whose own
        // dependents can be told only as long as the kind is known.
        if event.change != Change::Deleted {
            return Ok(());
        }
        state.catalog = Arc::new(state.catalog.with_definition(&key.name, Vec::new()));
        state.store.drop_table(&key.name);
        return reconsider_names(core, state);
    };
    if is_deleting(&definition) {
        serve(state, &key, &definition);
        return clean_up(core, state, &key, &definition);
    }
    accept(core, state, &key, &definition)?;
    if let Some(definition) = state.object(DEFINITIONS, &key) {
        serve(state, &key, &definition);
    }
    Ok(())
}

/// Serves what the data file's definitions define, before anything else looks at their objects.
pub(super) fn restore(_core: &Core, state: &mut State) -> Result<(), ApiError> {
    let Some(table) = state.store.table(DEFINITIONS) else { return Ok(()) };
    let definitions: Vec<(Key, Value)> =
        table.all().map(|stored| (stored.key.clone(), stored.object())).collect();
    for (key, definition) in definitions {
        serve(state, &key, &definition);
    }
    Ok(())
}

fn resource(state: &State) -> Result<Arc<Resource>, ApiError> {
    let found = state.catalog.of_table(DEFINITIONS).cloned();
    found.ok_or_else(|| ApiError::not_found("apiextensions.k8s.io", "customresourcedefinitions", ""))
}

fn accept(core: &Core, state: &mut State, key: &Key, definition: &Value) -> Result<(), ApiError> {
    let others: Vec<Value> = state
        .store
        .table(DEFINITIONS)
        .map(|t| t.all().map(|stored| stored.object()).collect())
        .unwrap_or_default();
    let others: Vec<&Value> = others.iter().collect();
    let Some(status) = crd::accept_names(definition, &others, &core.clock.stamp()) else { return Ok(()) };
    let resource = resource(state)?;
    change(core, state, &resource, key, Through::Sub(Subresource::Status), |object| object["status"] = status)
}

/// Names that were taken may be free now.
fn reconsider_names(core: &Core, state: &mut State) -> Result<(), ApiError> {
    let Some(table) = state.store.table(DEFINITIONS) else { return Ok(()) };
    let definitions: Vec<(Key, Value)> =
        table.all().map(|stored| (stored.key.clone(), stored.object())).collect();
    for (key, definition) in definitions.iter().filter(|(_, definition)| !is_deleting(definition)) {
        accept(core, state, key, definition)?;
    }
    Ok(())
}

fn serve(state: &mut State, key: &Key, definition: &Value) {
    if !crd::is_established(definition) {
        return;
    }
    state.catalog = Arc::new(state.catalog.with_definition(&key.name, crd::resources(definition)));
    state.store.table_mut(&key.name);
    let catalog = state.catalog.clone();
    state.store.refresh_fields(&key.name, |object| fields_of(&catalog, &key.name, object));
}

/// Deletes the objects of a definition; lets the definition go when none is left.
fn clean_up(core: &Core, state: &mut State, key: &Key, definition: &Value) -> Result<(), ApiError> {
    if !finalizers(definition).iter().any(|f| f == CLEANUP) {
        return Ok(());
    }
    let resource = resource(state)?;
    let now = core.clock.stamp();
    if let Some(custom) = state.catalog.of_table(&key.name).cloned() {
        let objects: Vec<Key> = state
            .store
            .table(&key.name)
            .map(|t| t.all().map(|stored| stored.key.clone()).collect())
            .unwrap_or_default();
        if !objects.is_empty() {
            change(core, state, &resource, key, Through::Sub(Subresource::Status), |object| {
                crd::set_terminating(object, false, &now);
            })?;
        }
        for object in objects {
            let waits = state.object(&key.name, &object).is_some_and(|object| is_deleting(&object));
            if !waits {
                delete_internally(core, state, &custom, &object, &DeleteOptions::default())?;
            }
        }
    }
    if state.store.table(&key.name).is_some_and(|table| !table.is_empty()) {
        return Ok(());
    }
    change(core, state, &resource, key, Through::Sub(Subresource::Status), |object| {
        crd::set_terminating(object, true, &now);
        let left: Vec<String> = finalizers(object).into_iter().filter(|f| f != CLEANUP).collect();
        set_meta(object, "finalizers", left);
    })
}
