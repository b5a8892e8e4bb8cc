//! Garbage collection by owner references.

use std::sync::Arc;

use serde_json::Value;

use super::change;
use crate::object::{Owner, finalizers, is_deleting, owners};
use crate::query::{DeleteOptions, Propagation};
use crate::registry::delete::{FOREGROUND, ORPHAN, delete_internally};
use crate::resource::{Resource, Through};
use crate::server::{Core, State};
use crate::status::ApiError;
use crate::store::{Change, Event, Key};

pub(super) fn after(core: &Core, state: &mut State, table: &str, event: &Event) -> Result<(), ApiError> {
    let stored = &event.object;
    if event.change == Change::Deleted {
        let waiting: Vec<String> = stored.owners.clone();
        for (table, key) in state.store.dependents_of(&stored.uid) {
            collect(core, state, &table, &key)?;
        }
        // An owner deleted in the foreground may have waited for this one.
        for uid in waiting {
            if let Some((table, key)) = state.store.find_uid(&uid) {
                release(core, state, &table, &key)?;
            }
        }
        return Ok(());
    }
    if !stored.owners.is_empty() {
        collect(core, state, table, &stored.key)?;
    }
    release(core, state, table, &stored.key)
}

/// How an owner stands to a dependent that names it.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Standing {
    /// It is there and staying.
    Solid,
    /// It is not there.
    Gone,
    /// It waits for its dependents to go first.
    Waiting,
    /// Its kind is not known here, or cannot own this dependent: nothing may be concluded.
    Unknown,
}

fn standing(state: &State, owner: &Owner, dependent: &Key) -> Standing {
    let Some(resource) = state.resource_of(&owner.api_version, &owner.kind) else { return Standing::Unknown };
    if resource.namespaced && dependent.namespace.is_empty() {
        return Standing::Unknown;
    }
    let namespace = if resource.namespaced { dependent.namespace.as_str() } else { "" };
    let key = Key::new(namespace, &owner.name);
    match state.object(&resource.store_name(), &key) {
        Some(object) if object["metadata"]["uid"] == owner.uid.as_str() => {
            if waits_for_its_own(state, &resource.store_name(), &key) {
                Standing::Waiting
            } else {
                Standing::Solid
            }
        }
        Some(_) | None => Standing::Gone,
    }
}

/// Deletes a dependent none of whose owners stays; cuts the references to those that do not.
fn collect(core: &Core, state: &mut State, table: &str, key: &Key) -> Result<(), ApiError> {
    let Some(object) = state.object(table, key) else { return Ok(()) };
    let Some(resource) = state.catalog.of_table(table).cloned() else { return Ok(()) };
    if is_deleting(&object) && !finalizers(&object).is_empty() {
        return Ok(());
    }
    let owners = owners(&object);
    let standings: Vec<Standing> = owners.iter().map(|owner| standing(state, owner, key)).collect();
    if owners.is_empty() || standings.contains(&Standing::Unknown) {
        return Ok(());
    }
    if standings.contains(&Standing::Solid) {
        let leaving: Vec<String> = owners
            .iter()
            .zip(&standings)
            .filter(|(_, standing)| **standing != Standing::Solid)
            .map(|(owner, _)| owner.uid.clone())
            .collect();
        return if leaving.is_empty() { Ok(()) } else { disown(core, state, &resource, key, &leaving) };
    }
    if is_deleting(&object) {
        return Ok(());
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let has = |name: &str| finalizers(&object).iter().any(|f| f == name);
    let dependents = state.store.dependents_of(uid);
    let in_turn = standings.contains(&Standing::Waiting) && !dependents.is_empty();
    if in_turn && dependents.iter().any(|(table, key)| waits_for_its_own(state, table, key)) {
        // They wait in a circle: this one no longer holds its owners up.
        change(core, state, &resource, key, Through::Main, |object| {
            for owner in object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
                owner["blockOwnerDeletion"] = Value::Bool(false);
            }
        })?;
    }
    let propagation = if in_turn || has(FOREGROUND) {
        Propagation::Foreground
    } else if has(ORPHAN) {
        Propagation::Orphan
    } else {
        Propagation::Background
    };
    let options = DeleteOptions {
        propagation: Some(propagation),
        uid: Some(uid.to_owned()),
        ..DeleteOptions::default()
    };
    delete_internally(core, state, &resource, key, &options)
}

/// Whether an object is kept until its own dependents have gone.
fn waits_for_its_own(state: &State, table: &str, key: &Key) -> bool {
    state
        .object(table, key)
        .is_some_and(|object| is_deleting(&object) && finalizers(&object).iter().any(|f| f == FOREGROUND))
}

/// Lets an owner under foreground or orphaning deletion go once its dependents allow it.
fn release(core: &Core, state: &mut State, table: &str, key: &Key) -> Result<(), ApiError> {
    let Some(object) = state.object(table, key) else { return Ok(()) };
    let held: Vec<String> = finalizers(&object);
    let holds = |name: &str| held.iter().any(|f| f == name);
    if !is_deleting(&object) || !(holds(FOREGROUND) || holds(ORPHAN)) {
        return Ok(());
    }
    let Some(resource) = state.catalog.of_table(table).cloned() else { return Ok(()) };
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    if holds(ORPHAN) {
        for (table, key) in state.store.dependents_of(&uid) {
            if let Some(resource) = state.catalog.of_table(&table).cloned() {
                disown(core, state, &resource, &key, std::slice::from_ref(&uid))?;
            }
        }
        return unhold(core, state, &resource, key, ORPHAN);
    }
    for (table, key) in blocking(state, &uid) {
        collect(core, state, &table, &key)?;
    }
    if blocking(state, &uid).is_empty() { unhold(core, state, &resource, key, FOREGROUND) } else { Ok(()) }
}

/// The dependents that insist on going before their owner.
fn blocking(state: &State, uid: &str) -> Vec<(String, Key)> {
    let insists = |object: &Value| owners(object).iter().any(|owner| owner.uid == uid && owner.blocks);
    state
        .store
        .dependents_of(uid)
        .into_iter()
        .filter(|(table, key)| state.object(table, key).is_some_and(|object| insists(&object)))
        .collect()
}

fn disown(
    core: &Core,
    state: &mut State,
    resource: &Arc<Resource>,
    key: &Key,
    uids: &[String],
) -> Result<(), ApiError> {
    change(core, state, resource, key, Through::Main, |object| {
        if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
            owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == uid.as_str()));
            if owners.is_empty() {
                crate::object::set_meta(object, "ownerReferences", Value::Null);
            }
        }
    })
}

fn unhold(
    core: &Core,
    state: &mut State,
    resource: &Arc<Resource>,
    key: &Key,
    finalizer: &str,
) -> Result<(), ApiError> {
    change(core, state, resource, key, Through::Main, |object| {
        let left: Vec<String> = finalizers(object).into_iter().filter(|f| f != finalizer).collect();
        crate::object::set_meta(object, "finalizers", left);
    })
}
