//! Namespaces: those every cluster has, and the emptying of those that are being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{SERVER, change, make};
use crate::object::{finalizers, is_deleting, strings};
use crate::query::{DeleteOptions, Propagation};
use crate::registry::delete::delete_internally;
use crate::resource::{Resource, Subresource, Through};
use crate::server::{Core, State};
use crate::status::ApiError;
use crate::store::{Change, Event, Key};

const SYSTEM: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

pub(super) fn make_system_ones(core: &Core, state: &mut State) -> Result<(), ApiError> {
    for name in SYSTEM {
        make(core, state, SERVER, "", "v1", "namespaces", json!({"metadata": {"name": name}}))?;
        core.settle(state);
    }
    Ok(())
}

/// The Service in-cluster clients find the API server by: the first address of the range.
pub(super) fn make_kubernetes_service(core: &Core, state: &mut State) -> Result<(), ApiError> {
    // The range's own address is a host's in IPv6, and is nobody's all the same.
    let first = |range: &ipnet::IpNet| range.hosts().find(|host| *host != range.network());
    let Some(address) = core.settings.service_ranges.first().and_then(first) else {
        return Ok(());
    };
    let service = json!({
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": address.to_string(), "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    });
    make(core, state, SERVER, "", "v1", "services", service)
}

pub(super) fn after(core: &Core, state: &mut State, table: &str, event: &Event) -> Result<(), ApiError> {
    let name = match (table, event.change) {
        ("namespaces", Change::Added | Change::Modified) => event.object.key.name.clone(),
        // The last object of a namespace that is being deleted may just have gone.
        (_, Change::Deleted) if !event.object.key.namespace.is_empty() => event.object.key.namespace.clone(),
        _ => return Ok(()),
    };
    match state.object("namespaces", &Key::new("", &name)) {
        Some(namespace) if is_deleting(&namespace) => empty_in_time(core, state, &namespace),
        Some(_) | None => Ok(()),
    }
}

fn empty_in_time(core: &Core, state: &mut State, namespace: &Value) -> Result<(), ApiError> {
    match lingers_until(core, namespace) {
        Some(until) => {
            state.remind(until);
            Ok(())
        }
        None => empty(core, state, crate::object::meta(namespace, "name"), namespace),
    }
}

/// Until when a deleted namespace is still left alone, when it is.
fn lingers_until(core: &Core, namespace: &Value) -> Option<jiff::Timestamp> {
    let wait = core.settings.namespace_lingers;
    if wait.is_zero() {
        return None;
    }
    let deleted: jiff::Timestamp = crate::object::meta(namespace, "deletionTimestamp").parse().ok()?;
    deleted.checked_add(wait).ok().filter(|until| core.clock.now() < *until)
}

/// Empties the namespaces whose time has come.
pub(super) fn tick(core: &Core, state: &mut State) -> Result<(), ApiError> {
    let Some(table) = state.store.table("namespaces") else { return Ok(()) };
    let going: Vec<Value> = table.all().map(|stored| stored.object()).filter(is_deleting).collect();
    for namespace in &going {
        empty_in_time(core, state, namespace)?;
    }
    Ok(())
}

/// Deletes what is in the namespace; lets the namespace go when nothing is left.
fn empty(core: &Core, state: &mut State, name: &str, namespace: &Value) -> Result<(), ApiError> {
    if !strings(&namespace["spec"]["finalizers"]).iter().any(|f| f == "kubernetes") {
        return Ok(());
    }
    for (resource, key) in contents(state, name) {
        let already = state.object(&resource.store_name(), &key).is_some_and(|object| is_deleting(&object));
        if !already {
            let options =
                DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            delete_internally(core, state, &resource, &key, &options)?;
        }
    }
    let left = contents(state, name);
    let Some(resource) = state.catalog.get("", "v1", "namespaces").cloned() else { return Ok(()) };
    let key = Key::new("", name);
    let now = core.clock.stamp();
    let told = remains(state, &left);
    change(core, state, &resource, &key, Through::Sub(Subresource::Status), |object| {
        object["status"]["conditions"] = conditions(&object["status"]["conditions"], &told, &now);
    })?;
    if left.is_empty() {
        change(core, state, &resource, &key, Through::Sub(Subresource::Finalize), |object| {
            if let Some(finalizers) = object["spec"]["finalizers"].as_array_mut() {
                finalizers.retain(|f| f != "kubernetes");
            }
        })?;
    }
    Ok(())
}

/// Everything the namespace holds, each object once.
fn contents(state: &State, name: &str) -> Vec<(Arc<Resource>, Key)> {
    let tables: Vec<String> = state.store.tables().map(|(table, _)| table.clone()).collect();
    tables
        .iter()
        .filter_map(|table| Some((state.catalog.of_table(table)?.clone(), state.store.table(table)?)))
        .filter(|(resource, _)| resource.namespaced)
        .flat_map(|(resource, table)| {
            table.in_namespace(name).map(|stored| (resource.clone(), stored.key.clone())).collect::<Vec<_>>()
        })
        .collect()
}

/// What still stands in the way of a namespace, told as `kubectl describe ns` shows it.
#[derive(Default)]
struct Remains {
    objects: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

fn remains(state: &State, left: &[(Arc<Resource>, Key)]) -> Remains {
    let mut remains = Remains::default();
    for (resource, key) in left {
        *remains.objects.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
        let object = state.object(&resource.store_name(), key).unwrap_or_default();
        for finalizer in finalizers(&object) {
            *remains.finalizers.entry(finalizer).or_default() += 1;
        }
    }
    remains
}

/// `a 1 resource instances, b 2 resource instances`, with a word between the name and the count.
fn counted(counts: &BTreeMap<String, usize>, word: &str) -> String {
    let told: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name} {word} {count} resource instances")).collect();
    told.join(", ")
}

fn conditions(old: &Value, remains: &Remains, now: &str) -> Value {
    let content = match counted(&remains.objects, "has") {
        none if none.is_empty() => (false, "ContentRemoved", "All content successfully removed".to_owned()),
        told => (true, "SomeResourcesRemain", format!("Some resources are remaining: {told}")),
    };
    let held = match counted(&remains.finalizers, "in") {
        none if none.is_empty() => {
            (false, "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
        }
        told => (
            true,
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {told}"),
        ),
    };
    let fine = |reason, message: &str| (false, reason, message.to_owned());
    let rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            fine("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            fine("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            fine("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        ("NamespaceContentRemaining", content),
        ("NamespaceFinalizersRemaining", held),
    ];
    rows.into_iter()
        .map(|(kind, (holds, reason, message))| {
            let status = if holds { "True" } else { "False" };
            let since = old
                .as_array()
                .into_iter()
                .flatten()
                .find(|c| c["type"] == kind && c["status"] == status)
                .and_then(|c| c["lastTransitionTime"].as_str())
                .unwrap_or(now);
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
        })
        .collect()
}
