//! Disruption budgets: their status is kept current, so that an eviction can be judged by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::change;
use crate::object::{is_deleting, meta, owners};
use crate::resource::{Subresource, Through};
use crate::selector::LabelSelector;
use crate::server::{Core, State};
use crate::status::ApiError;
use crate::store::{Event, Key};

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// How long an evicted pod that has not begun to go counts as gone.
const EVICTION_SETTLES_WITHIN: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

pub(super) fn after(core: &Core, state: &mut State, table: &str, event: &Arc<Event>) -> Result<(), ApiError> {
    if !matches!(table, "pods" | BUDGETS | "replicasets.apps" | "deployments.apps") {
        return Ok(());
    }
    let namespace = &event.object.key.namespace;
    let budgets: Vec<Key> = state
        .store
        .table(BUDGETS)
        .map(|table| table.in_namespace(namespace).map(|stored| stored.key.clone()).collect())
        .unwrap_or_default();
    for key in budgets {
        sync(core, state, &key)?;
    }
    Ok(())
}

/// Looks again at the budgets that wait for evicted pods to go.
pub(super) fn tick(core: &Core, state: &mut State) -> Result<(), ApiError> {
    let Some(table) = state.store.table(BUDGETS) else { return Ok(()) };
    let waiting: Vec<Key> = table
        .all()
        .filter(|stored| stored.object()["status"]["disruptedPods"].is_object())
        .map(|stored| stored.key.clone())
        .collect();
    for key in waiting {
        sync(core, state, &key)?;
    }
    Ok(())
}

/// The pods of the budget's namespace that its selector matches.
pub(crate) fn selected_pods(state: &State, budget: &Value) -> Vec<Value> {
    let Some(chosen) = chosen_by(budget) else { return Vec::new() };
    let Some(table) = state.store.table("pods") else { return Vec::new() };
    table
        .in_namespace(meta(budget, "namespace"))
        .filter(|stored| chosen.matches_labels(Some(&stored.labels)))
        .map(|stored| stored.object())
        .collect()
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn sync(core: &Core, state: &mut State, key: &Key) -> Result<(), ApiError> {
    let Some(budget) = state.object(BUDGETS, key) else { return Ok(()) };
    if is_deleting(&budget) {
        return Ok(());
    }
    let pods = selected_pods(state, &budget);
    let now = core.clock.now();
    let status = match counts(state, &budget, &pods) {
        Ok((expected, desired)) => {
            let disrupted = still_disrupted(&budget, &pods, now);
            for until in disrupted.values().filter_map(given_up_at) {
                state.remind(until);
            }
            let healthy = pods
                .iter()
                .filter(|pod| {
                    !is_deleting(pod) && !disrupted.contains_key(meta(pod, "name")) && is_ready(pod)
                })
                .count();
            let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
            let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
            let condition =
                if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            let mut status = json!({
                "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
                "disruptionsAllowed": allowed, "observedGeneration": budget["metadata"]["generation"],
                "conditions": [condition_of(&budget, condition.0, condition.1, "", &core.clock.stamp())],
            });
            if !disrupted.is_empty() {
                status["disruptedPods"] = json!(disrupted);
            }
            status
        }
        Err(why) => {
            let mut status = budget["status"].clone();
            status["disruptionsAllowed"] = json!(0);
            status["observedGeneration"] = budget["metadata"]["generation"].clone();
            status["conditions"] =
                json!([condition_of(&budget, "False", "SyncFailed", &why, &core.clock.stamp())]);
            status
        }
    };
    if budget["status"] == status {
        return Ok(());
    }
    let Some(resource) = state.catalog.of_table(BUDGETS).cloned() else { return Ok(()) };
    change(core, state, &resource, key, Through::Sub(Subresource::Status), |object| object["status"] = status)
}

fn condition_of(budget: &Value, status: &str, reason: &str, message: &str, now: &str) -> Value {
    let old = budget["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|c| c["type"] == "DisruptionAllowed");
    let since =
        old.filter(|c| c["status"] == status).and_then(|c| c["lastTransitionTime"].as_str()).unwrap_or(now);
    json!({
        "type": "DisruptionAllowed", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since, "observedGeneration": budget["metadata"]["generation"],
    })
}

/// How many pods there should be, and how many of them healthy.
fn counts(state: &State, budget: &Value, pods: &[Value]) -> Result<(i64, i64), String> {
    let spec = &budget["spec"];
    if !spec["maxUnavailable"].is_null() {
        let expected = expected_scale(state, pods)?;
        let spared = scaled(&spec["maxUnavailable"], expected);
        return Ok((expected, (expected - spared).max(0)));
    }
    let floor = &spec["minAvailable"];
    if let Some(number) = floor.as_i64() {
        return Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), number));
    }
    if floor.is_null() {
        return Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), 1));
    }
    let expected = expected_scale(state, pods)?;
    Ok((expected, scaled(floor, expected)))
}

/// A number, or a percentage rounded up.
fn scaled(value: &Value, of: i64) -> i64 {
    match value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok()) {
        Some(percent) => (percent * of + 99) / 100,
        None => value.as_i64().unwrap_or_default(),
    }
}

/// What the controllers of these pods want in all. Pods without a controller do not count.
fn expected_scale(state: &State, pods: &[Value]) -> Result<i64, String> {
    let mut wanted: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = owners(pod).into_iter().find(|owner| owner.controller) else { continue };
        let namespace = meta(pod, "namespace");
        let (uid, replicas) = replicas_of(state, namespace, &owner)
            .ok_or_else(|| format!("found no controllers for pod {:?}", meta(pod, "name")))?;
        wanted.insert(uid, replicas);
    }
    Ok(wanted.values().sum())
}

/// The size of the controller, or of the Deployment behind a ReplicaSet.
fn replicas_of(state: &State, namespace: &str, owner: &crate::object::Owner) -> Option<(String, i64)> {
    let resource = state.resource_of(&owner.api_version, &owner.kind)?;
    let object = state.object(&resource.store_name(), &Key::new(namespace, &owner.name))?;
    if meta(&object, "uid") != owner.uid {
        return None;
    }
    if resource.kind == "ReplicaSet"
        && let Some(above) = owners(&object).into_iter().find(|o| o.controller && o.kind == "Deployment")
    {
        return replicas_of(state, namespace, &above);
    }
    let replicas = object["spec"]["replicas"].as_i64()?;
    Some((owner.uid.clone(), replicas))
}

/// The evicted pods that are still there and may yet go.
fn still_disrupted(budget: &Value, pods: &[Value], now: jiff::Timestamp) -> BTreeMap<String, Value> {
    let Some(disrupted) = budget["status"]["disruptedPods"].as_object() else { return BTreeMap::new() };
    disrupted
        .iter()
        .filter(|(name, since)| {
            let waits = pods.iter().any(|pod| meta(pod, "name") == name.as_str() && !is_deleting(pod));
            waits && given_up_at(since).is_some_and(|until| now < until)
        })
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect()
}

/// When an eviction noted at `since` counts as failed.
fn given_up_at(since: &Value) -> Option<jiff::Timestamp> {
    let since: jiff::Timestamp = since.as_str()?.parse().ok()?;
    since.checked_add(EVICTION_SETTLES_WITHIN).ok()
}

/// The budgets of the pod's namespace that select it.
pub(crate) fn matching_budgets(state: &State, pod: &Value) -> Vec<Value> {
    let Some(table) = state.store.table(BUDGETS) else { return Vec::new() };
    table
        .in_namespace(meta(pod, "namespace"))
        .map(|stored| stored.object())
        .filter(|budget| chosen_by(budget).is_some_and(|chosen| chosen.matches(pod)))
        .collect()
}

/// What a budget selects: nothing without a selector, everything with an empty one.
fn chosen_by(budget: &Value) -> Option<LabelSelector> {
    let selector = &budget["spec"]["selector"];
    if selector.is_null() { None } else { LabelSelector::from_object(Some(selector)) }
}

/// Says in the condition that the last disruption was taken.
pub(crate) fn set_insufficient(budget: &mut Value, now: &str) {
    let condition = condition_of(budget, "False", "InsufficientPods", "", now);
    budget["status"]["conditions"] = json!([condition]);
}
