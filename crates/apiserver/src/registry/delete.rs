//! Ending objects: at once, after a grace period, or when their finalizers are done.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Cx, presented};
use crate::clock::stamp;
use crate::object::{finalizers, generation, is_deleting, meta, set_meta, strings};
use crate::query::{DeleteOptions, Propagation};
use crate::resource::Resource;
use crate::status::ApiError;

/// The finalizer that keeps an owner until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an owner until its dependents have let go of it.
pub(crate) const ORPHAN: &str = "orphan";

/// What a deletion came to.
pub(crate) struct Deleted {
    /// What the client is told: the object, or a `Status`.
    pub(crate) answer: Value,
    /// Whether the object is gone.
    pub(crate) gone: bool,
}

/// Deletes `name` as the options say.
pub(crate) fn delete(cx: &mut Cx<'_>, name: &str, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    let resource = cx.resource.clone();
    let Some(object) = cx.current(name) else { return Err(cx.not_found(name)) };
    check_preconditions(&resource, &object, options)?;
    match cx.table().as_str() {
        "namespaces" => delete_namespace(cx, name, object, options),
        "customresourcedefinitions.apiextensions.k8s.io" => delete_definition(cx, name, object, options),
        _ => delete_plain(cx, name, object, options),
    }
}

fn delete_plain(
    cx: &mut Cx<'_>,
    name: &str,
    object: Value,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let resource = cx.resource.clone();
    let mut marked = object.clone();
    let grace = match grace_of(cx, &mut marked, options) {
        Grace::Pending => return Ok(Deleted { answer: answer(&resource, &object), gone: false }),
        Grace::None => None,
        Grace::Of(seconds) => Some(seconds),
    };
    let kept = finalizers_after(&object, options.propagation);
    if let Some(kept) = &kept {
        set_meta(&mut marked, "finalizers", json!(kept));
    }
    let waits_for_finalizers = !finalizers(&marked).is_empty();
    if grace.is_none() && waits_for_finalizers {
        mark_deleting(cx, &mut marked);
    }
    let waits = waits_for_finalizers || grace.is_some_and(|seconds| seconds > 0);
    if cx.dry_run {
        let changed = grace.is_some() || waits_for_finalizers || kept.is_some();
        let answer = if changed { marked } else { answer(&resource, &object) };
        return Ok(Deleted { answer, gone: !waits });
    }
    if grace.is_some() || waits_for_finalizers {
        let event = if marked == object { None } else { Some(cx.commit(marked)?) };
        if waits {
            let answer = event.map_or(object, |event| presented(&resource, &event.object));
            return Ok(Deleted { answer, gone: false });
        }
    }
    let key = cx.key(name);
    let table = cx.table();
    let event = cx.state.remove(&table, &key)?;
    let last = event.map_or(object, |event| presented(&resource, &event.object));
    Ok(Deleted { answer: answer(&resource, &last), gone: true })
}

enum Grace {
    /// The kind knows no grace.
    None,
    /// Already being deleted, and this request does not shorten it.
    Pending,
    /// The object is marked; it goes after so many seconds (at once for 0).
    Of(i64),
}

/// Pods are deleted gracefully: somebody has to stop them first, unless they never ran.
fn grace_of(cx: &Cx<'_>, object: &mut Value, options: &DeleteOptions) -> Grace {
    if cx.table() != "pods" {
        return Grace::None;
    }
    let asked = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let now = cx.core.clock.now();
    if is_deleting(object) {
        let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        if left == 0 {
            return Grace::None;
        }
        let Some(mut seconds) = asked.filter(|seconds| *seconds < left) else { return Grace::Pending };
        let marked: jiff::Timestamp = meta(object, "deletionTimestamp").parse().unwrap_or(now);
        let mut when = marked.saturating_add(jiff::SignedDuration::from_secs(seconds - left)).unwrap_or(now);
        if when < now {
            when = now;
            if seconds != 0 {
                seconds = 1;
            }
        }
        set_meta(object, "deletionTimestamp", stamp(when));
        set_meta(object, "deletionGracePeriodSeconds", seconds);
        return Grace::Of(seconds);
    }
    let mut seconds = asked.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or_default();
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    if object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty()
        || matches!(phase, "Failed" | "Succeeded")
    {
        seconds = 0;
    }
    if seconds < 0 {
        seconds = 1;
    }
    let when = now.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now);
    set_meta(object, "deletionTimestamp", stamp(when));
    set_meta(object, "deletionGracePeriodSeconds", seconds);
    if generation(object) > 0 {
        let next = generation(object) + 1;
        set_meta(object, "generation", next);
    }
    Grace::Of(seconds)
}

/// Marks an object whose finalizers keep it.
pub(crate) fn mark_deleting(cx: &Cx<'_>, object: &mut Value) {
    if !is_deleting(object) {
        if generation(object) > 0 {
            let next = generation(object) + 1;
            set_meta(object, "generation", next);
        }
        set_meta(object, "deletionTimestamp", cx.core.clock.stamp());
    }
    set_meta(object, "deletionGracePeriodSeconds", 0);
}

/// The finalizers the propagation policy asks for, when they differ from those the object has.
fn finalizers_after(object: &Value, propagation: Option<Propagation>) -> Option<Vec<String>> {
    let had = finalizers(object);
    let said = |name: &str| had.iter().any(|f| f == name);
    let (orphan, foreground) = match propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        None => (said(ORPHAN), said(FOREGROUND) && !said(ORPHAN)),
    };
    let mut wanted: Vec<String> = had.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    if orphan {
        wanted.push(ORPHAN.to_owned());
    }
    if foreground {
        wanted.push(FOREGROUND.to_owned());
    }
    let (mut a, mut b) = (had, wanted.clone());
    a.sort();
    b.sort();
    (a != b).then_some(wanted)
}

fn check_preconditions(resource: &Resource, object: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    // The real server names the Kind here, not the resource.
    let refuse =
        |why: String| Err(ApiError::conflict(&resource.group, &resource.kind, meta(object, "name"), &why));
    if let Some(uid) = &options.uid
        && uid != meta(object, "uid")
    {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            meta(object, "uid")
        ));
    }
    if let Some(revision) = &options.revision
        && revision != meta(object, "resourceVersion")
    {
        return refuse(format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({}). The object might have been modified",
            meta(object, "resourceVersion")
        ));
    }
    Ok(())
}

/// Kinds whose deletion answers with the object; all others answer with a `Status`.
fn answers_with_object(resource: &Resource) -> bool {
    resource.group.is_empty()
        && matches!(resource.plural.as_str(), "pods" | "services" | "serviceaccounts" | "namespaces")
}

fn answer(resource: &Resource, object: &Value) -> Value {
    if answers_with_object(resource) {
        return object.clone();
    }
    let mut details =
        json!({"name": meta(object, "name"), "kind": resource.plural, "uid": meta(object, "uid")});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Namespaces nobody may delete.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

fn delete_namespace(
    cx: &mut Cx<'_>,
    name: &str,
    object: Value,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    if IMMORTAL.contains(&name) {
        return Err(ApiError::forbidden("", "namespaces", name, "this namespace may not be deleted"));
    }
    if is_deleting(&object) {
        if strings(&object["spec"]["finalizers"]).is_empty() {
            return delete_plain(cx, name, object, options);
        }
        return Ok(Deleted { answer: object, gone: false });
    }
    let mut marked = object;
    set_meta(&mut marked, "deletionTimestamp", cx.core.clock.stamp());
    marked["status"]["phase"] = json!("Terminating");
    if let Some(kept) = finalizers_after(&marked, options.propagation) {
        set_meta(&mut marked, "finalizers", json!(kept));
    }
    if cx.dry_run {
        return Ok(Deleted { answer: marked, gone: false });
    }
    let resource = cx.resource.clone();
    let event = cx.commit(marked)?;
    Ok(Deleted { answer: presented(&resource, &event.object), gone: false })
}

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// A definition waits for its objects: it is marked here, and goes when the last of them has gone.
fn delete_definition(
    cx: &mut Cx<'_>,
    name: &str,
    object: Value,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    if is_deleting(&object) {
        return delete_plain(cx, name, object, options);
    }
    let mut marked = object;
    set_meta(&mut marked, "deletionTimestamp", cx.core.clock.stamp());
    let mut kept = finalizers(&marked);
    if !kept.iter().any(|f| f == CLEANUP) {
        kept.push(CLEANUP.to_owned());
    }
    set_meta(&mut marked, "finalizers", json!(kept));
    let pending = json!({
        "type": "Terminating", "status": "True", "lastTransitionTime": cx.core.clock.stamp(),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    if let Some(conditions) = marked["status"]["conditions"].as_array_mut() {
        conditions.push(pending);
    }
    if cx.dry_run {
        return Ok(Deleted { answer: marked, gone: false });
    }
    let resource = cx.resource.clone();
    let event = cx.commit(marked)?;
    Ok(Deleted { answer: presented(&resource, &event.object), gone: false })
}

/// Whether an object without finalizers may go: a namespace also waits for its `spec.finalizers`.
pub(crate) fn may_vanish(cx: &Cx<'_>, object: &Value) -> bool {
    cx.table() != "namespaces" || strings(&object["spec"]["finalizers"]).is_empty()
}

/// Deletes on the server's own behalf (garbage collection, namespace termination): whatever the object needs, no questions.
pub(crate) fn delete_internally(
    core: &crate::server::Core,
    state: &mut crate::server::State,
    resource: &Arc<Resource>,
    key: &crate::store::Key,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let mut cx = Cx {
        core,
        state,
        resource: resource.clone(),
        namespace: key.namespace.clone(),
        dry_run: false,
        manager: "kube-controller-manager".to_owned(),
        warnings: Vec::new(),
    };
    match delete(&mut cx, &key.name, options) {
        Err(error) if error.code == http::StatusCode::NOT_FOUND => Ok(()),
        other => other.map(|_| ()),
    }
}
