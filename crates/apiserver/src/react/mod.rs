//! What follows from a change: the work of the controllers every cluster has.
//!
//! On a real cluster the garbage collector, the namespace, service account and disruption controllers watch
//! and write like any client. Here each change is followed by its consequences in the same step, in the order
//! they would reach the store, so that a simulation is repeatable and a lab needs no extra process. Every
//! reaction decides from what the store holds now and may be run again: a server that was killed between a
//! change and its consequences draws them at its next start ([`bootstrap`]).

mod accounts;
mod budgets;
pub(crate) use budgets::{is_ready, matching_budgets, set_insufficient};
mod definitions;
mod garbage;
mod namespaces;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::decode::{self, Expect};
use crate::registry::Cx;
use crate::registry::update::{Replacement, replace};
use crate::resource::{Resource, Through};
use crate::server::{Core, State};
use crate::status::ApiError;
use crate::store::{Event, Key, LogError};

/// The field manager of what controllers do.
const CONTROLLER: &str = "kube-controller-manager";
/// The field manager of what the server does as a server.
const SERVER: &str = "kube-apiserver";

/// Draws the consequences of one change. Says whether all of them could be drawn.
pub(crate) fn after(core: &Core, state: &mut State, table: &str, event: &Arc<Event>) -> bool {
    let results = [
        definitions::after(core, state, table, event),
        namespaces::after(core, state, table, event),
        accounts::after(core, state, table, event),
        garbage::after(core, state, table, event),
        budgets::after(core, state, table, event),
    ];
    let mut drawn = true;
    for error in results.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, table, "a consequence of a change could not be drawn");
        drawn = false;
    }
    drawn
}

/// Makes what every cluster starts with, and finishes what a killed server left unfinished.
pub(crate) fn bootstrap(core: &Core) -> Result<(), LogError> {
    let mut state = core.lock();
    let result = definitions::restore(core, &mut state)
        .and_then(|()| namespaces::make_system_ones(core, &mut state))
        .and_then(|()| namespaces::make_kubernetes_service(core, &mut state));
    if let Err(error) = result {
        return Err(LogError::Unmade { reason: error.message });
    }
    core.settle(&mut state);
    // What was written before a kill may have had consequences nobody drew.
    let everything: Vec<(String, Arc<Event>)> = state
        .store
        .tables()
        .flat_map(|(name, table)| {
            table.all().map(|stored| {
                let event = Event {
                    change: crate::store::Change::Modified,
                    object: stored.clone(),
                    before: Some(stored.clone()),
                };
                (name.clone(), Arc::new(event))
            })
        })
        .collect();
    for (table, event) in everything {
        after(core, &mut state, &table, &event);
    }
    core.settle(&mut state);
    // A kind nobody has written yet has a history too, an empty one: a watch of it may begin at any revision from here on.
    for table in state.catalog.all().map(|resource| resource.store_name()).collect::<Vec<_>>() {
        state.store.table_mut(&table);
    }
    let revision = state.store.revision();
    state.store.forget_until(revision);
    Ok(())
}

/// Does what only the passing of time brings about, when its time has come. Called before every answer, so that in
/// process, where nothing ticks, nobody is shown what should be over.
pub(crate) fn tick(core: &Core) {
    let mut state = core.lock();
    let now = core.clock.now();
    if state.due.is_none_or(|due| now < due) {
        return;
    }
    // Whatever is still to come reminds again.
    state.due = None;
    let results = [namespaces::tick(core, &mut state), budgets::tick(core, &mut state)];
    for error in results.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "what was due could not be done; trying again in a second");
        state.remind(now.saturating_add(jiff::SignedDuration::from_secs(1)).unwrap_or(now));
    }
    core.settle(&mut state);
}

fn context<'a>(core: &'a Core, state: &'a mut State, resource: &Arc<Resource>, namespace: &str) -> Cx<'a> {
    Cx {
        core,
        state,
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        dry_run: false,
        manager: CONTROLLER.to_owned(),
        warnings: Vec::new(),
    }
}

/// Creates an object on the server's own behalf; one that is already there is left alone.
fn make(
    core: &Core,
    state: &mut State,
    manager: &str,
    group: &str,
    version: &str,
    plural: &str,
    mut object: Value,
) -> Result<(), ApiError> {
    let resource = state
        .catalog
        .get(group, version, plural)
        .cloned()
        .ok_or_else(|| ApiError::not_found(group, plural, ""))?;
    object["apiVersion"] = json!(resource.api_version());
    object["kind"] = json!(resource.kind);
    let key = crate::object::key_of(&object);
    if state.store.get(&resource.store_name(), &key).is_some() {
        return Ok(());
    }
    let (mut object, _) =
        decode::normalise(&object, &Expect::of(&resource)).map_err(ApiError::unclassified)?;
    resource.behaviour.default(&mut object);
    let mut cx = context(core, state, &resource, &key.namespace);
    cx.manager = manager.to_owned();
    crate::registry::create::create(&mut cx, object, false).map(|_| ())
}

/// Changes an object on the server's own behalf; one that is gone is left gone.
fn change(
    core: &Core,
    state: &mut State,
    resource: &Arc<Resource>,
    key: &Key,
    through: Through,
    edit: impl FnOnce(&mut Value),
) -> Result<(), ApiError> {
    let mut cx = context(core, state, resource, &key.namespace);
    if resource.group == "apiextensions.k8s.io" {
        // The controllers of definitions run inside a real API server.
        cx.manager = SERVER.to_owned();
    }
    let result = replace(&mut cx, &key.name, through, false, |_, old| {
        let mut object = old.cloned().unwrap_or_default();
        edit(&mut object);
        Ok(Replacement { object, tracked: false, identified: false })
    });
    match result {
        Err(error) if error.code == http::StatusCode::NOT_FOUND => Ok(()),
        other => other.map(|_| ()),
    }
}
