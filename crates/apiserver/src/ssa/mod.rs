//! Server-side apply and field management.
//!
//! Pure functions over objects and their schemas. Whoever serves a write calls, in this order:
//!
//! 1. [`check_options`] on the request's options, and [`manager_name`] for the name to track it under;
//! 2. for an apply patch [`apply`] on the stored object (or null, to create) and the decoded patch; for create,
//!    update and the other patches [`track_update`] on the stored object and the wanted one. Both come after
//!    decoding and defaulting and before the kind's `prepare_*` steps: what the server adds by itself (addresses,
//!    generations, what admission fills in) belongs to nobody. The result of [`apply`] is not defaulted yet and
//!    holds the nulls the patch holds, so it goes the way of a decoded body;
//!    A write through `/scale` is tracked by [`scale`] instead;
//! 3. [`keep_times`] on an update, right before it is compared with the stored object to see whether there is
//!    anything to write: a write that changed nothing but times is none.

mod compare;
mod empty;
mod fields;
mod last_applied;
mod managed;
mod merge;
mod options;
mod scalar;
mod scale;
mod typed;
mod types;
mod update;

#[cfg(test)]
mod tests;

use http::StatusCode;
use serde_json::{Value, json};

pub use fields::{BadFields, Element, Set, show};
pub use options::{check_manager, check_options, manager_name};
pub use scale::{ScaleWrite, Scaled, scale};

use crate::resource::{Resource, Subresource, Through};
use crate::schema::Schema;
use crate::status::ApiError;
use managed::{Owner, Owners};
use typed::{Duplicates, fits};
use types::Type;
use update::{Conflict, Place, Versions};

/// The resource a write goes to.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The schema of the whole object.
    pub schema: &'a Schema,
    /// The version of the request: `apps/v1`.
    pub api_version: &'a str,
    /// `Deployment`.
    pub kind: &'a str,
    /// Every `apiVersion` the resource has; fields owned in another are forgotten. Empty: not known, so a built-in
    /// kind has the one of the request and a custom resource all of its group.
    pub served: &'a [String],
    /// `status` for a write through that subresource.
    pub subresource: Option<&'a str>,
    /// Fields this write cannot set (`status` through the main resource), which therefore nobody owns through it.
    pub reset: &'a [Vec<&'static str>],
}

/// The name of a subresource as `managedFields` show it; none for the main resource.
pub fn subresource_name(through: Through) -> Option<&'static str> {
    match through {
        Through::Main => None,
        Through::Sub(sub) => Some(match sub {
            Subresource::Status => "status",
            Subresource::Scale => "scale",
            Subresource::Binding => "binding",
            Subresource::Eviction => "eviction",
            Subresource::Token => "token",
            Subresource::Finalize => "finalize",
            Subresource::EphemeralContainers => "ephemeralcontainers",
            Subresource::Resize => "resize",
        }),
    }
}

impl<'a> Target<'a> {
    /// The target of a write to `resource`; `api_version` and `reset` are `resource.api_version()` and
    /// `resource.behaviour.reset_fields(through)`, kept by the caller.
    pub fn of(
        resource: &'a Resource,
        through: Through,
        api_version: &'a str,
        reset: &'a [Vec<&'static str>],
    ) -> Target<'a> {
        Target {
            schema: &resource.schema,
            api_version,
            kind: &resource.kind,
            served: &[],
            subresource: subresource_name(through),
            reset,
        }
    }

    fn place(&self) -> Place<'a> {
        let mut reset = Set::default();
        for path in self.reset {
            reset.insert(&path.iter().map(|name| Element::field(*name)).collect::<Vec<_>>());
        }
        let versions = if !self.served.is_empty() {
            Versions::Listed(self.served)
        } else if empty::is_built_in(self.api_version, self.kind) {
            Versions::One(self.api_version)
        } else {
            Versions::GroupOf(self.api_version)
        };
        Place { ty: Type::object(self.schema), api_version: self.api_version, versions, reset }
    }

    fn owner(&self, manager: &str, applied: bool) -> Owner {
        Owner {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            subresource: self.subresource.unwrap_or_default().to_owned(),
            api_version: self.api_version.to_owned(),
            applied,
            time: None,
            set: Set::default(),
        }
    }
}

/// Tracks a create, an update or a patch that is not an apply: returns `new` with its `managedFields` brought up to
/// date. `old` is the stored object; one without a uid (null, say) means `new` is being created.
///
/// Never fails: an object that cannot be tracked is returned without `managedFields`.
pub fn track_update(target: &Target<'_>, old: &Value, mut new: Value, manager: &str, now: &str) -> Value {
    let built_in = empty::is_built_in(target.api_version, target.kind);
    let owners = if target.subresource.is_none() && managed::asks_for_reset(&new, built_in) {
        Owners::new()
    } else {
        // Clients that know nothing of managedFields send none and must not lose them; through a subresource
        // they cannot be set at all.
        let sent = match target.subresource {
            None => managed::decode(&new).ok().filter(|sent| !sent.is_empty()),
            Some(_) => None,
        };
        sent.unwrap_or_else(|| managed::decode(old).unwrap_or_default())
    };
    managed::remove_from(&mut new);
    let creates = !has_uid(old);
    if owners.is_empty() && !creates {
        return new;
    }
    let nothing = empty::empty(target.api_version, target.kind);
    let old = if creates { &nothing } else { old };
    if let Some(owners) = tracked(target, old, &new, owners, manager, now) {
        managed::encode_into(&mut new, &owners);
    }
    new
}

fn has_uid(object: &Value) -> bool {
    object.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

/// The owners after a plain write; `None` where the objects cannot be read by their schema.
fn tracked(
    target: &Target<'_>,
    old: &Value,
    new: &Value,
    owners: Owners,
    manager: &str,
    now: &str,
) -> Option<Owners> {
    let place = target.place();
    fits(new, place.ty, Duplicates::Allowed).ok()?;
    fits(old, place.ty, Duplicates::Allowed).ok()?;
    let (set, mut owners) = place.update(old, new, owners);
    let set = set.difference(&never_owned());
    if !set.is_empty() {
        let mut writer = target.owner(manager, false);
        let identity = writer.identity();
        writer.set = match owners.get(&identity) {
            Some(before) => set.union(&before.set),
            None => set,
        };
        writer.time = Some(now.to_owned());
        owners.insert(identity, writer);
    }
    managed::cap_updaters(&mut owners);
    Some(owners)
}

/// Applies a configuration. `live` is the stored object; one without a uid (null, say) means the object is to be
/// created. `now` is in RFC 3339, to the second.
///
/// Returns the object to go on with: merged, without what `manager` alone had applied and applies no more, its
/// `managedFields` up to date. Nothing is defaulted or validated.
pub fn apply(
    target: &Target<'_>,
    live: &Value,
    applied: &Value,
    manager: &str,
    force: bool,
    now: &str,
) -> Result<Value, ApiError> {
    let sought = (target.api_version, target.kind);
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    if (text("apiVersion"), text("kind")) != sought {
        return Err(ApiError::bad_request(format!("invalid object type: {}", type_of(applied))));
    }
    let owners = managed::decode(live)
        .map_err(|why| unexplained(format!("failed to decode managed fields: {why}")))?;
    let nothing;
    let live = if has_uid(live) {
        live
    } else {
        nothing = json!({"apiVersion": target.api_version, "kind": target.kind});
        &nothing
    };

    let mut outcome = apply_once(target, live, applied, owners.clone(), manager, force, now);
    if let (Err(Refusal::Conflicts(conflicts)), last_applied::KUBECTL) = (&outcome, manager) {
        let place = target.place();
        if let Some(allowed) = last_applied::adoptable(live, place.ty, target.api_version, target.kind) {
            let mut left = conflicts.clone();
            left.retain(|conflict| !allowed.has(&conflict.path));
            outcome = if left.is_empty() {
                apply_once(target, live, applied, owners, manager, true, now)
            } else {
                Err(Refusal::Conflicts(left))
            };
        }
    }
    match outcome {
        Ok((mut object, owners)) => {
            if manager == last_applied::KUBECTL {
                last_applied::refresh(&mut object, applied);
            }
            managed::encode_into(&mut object, &owners);
            Ok(object)
        }
        Err(Refusal::Conflicts(conflicts)) => Err(conflict(&conflicts)),
        Err(Refusal::Other(error)) => Err(error),
    }
}

enum Refusal {
    Conflicts(Vec<Conflict>),
    Other(ApiError),
}

fn apply_once(
    target: &Target<'_>,
    live: &Value,
    applied: &Value,
    mut owners: Owners,
    manager: &str,
    force: bool,
    now: &str,
) -> Result<(Value, Owners), Refusal> {
    let place = target.place();
    if owners.is_empty() && has_uid(live) {
        // The first apply to an object nobody tracked: what is there belongs to somebody, so that it can conflict.
        let nothing = empty::empty(target.api_version, target.kind);
        owners = tracked(target, &nothing, live, owners, "before-first-apply", now).ok_or_else(|| {
            Refusal::Other(unexplained(format!(
                "failed to create manager for existing fields: failed to convert new object ({}) to smd typed",
                named(live)
            )))
        })?;
    }
    if managed::entries_of(applied).is_some() {
        return Err(Refusal::Other(ApiError::bad_request("metadata.managedFields must be nil")));
    }
    let unfit = |what: &str, object: &Value, why: typed::Misfits| {
        let message = format!("failed to create typed {what} object ({}): {why}", named(object));
        Refusal::Other(unexplained(message))
    };
    fits(applied, place.ty, Duplicates::Refused).map_err(|why| unfit("patch", applied, why))?;
    fits(live, place.ty, Duplicates::Allowed).map_err(|why| unfit("live", live, why))?;

    let applier = target.owner(manager, true);
    let identity = applier.identity();
    let (merged, mut owners) =
        place.apply(live, applied, owners, applier, force).map_err(Refusal::Conflicts)?;
    if let Some(applier) = owners.get_mut(&identity) {
        applier.set = applier.set.difference(&never_owned());
        if merged.is_some() {
            applier.time = Some(now.to_owned());
        }
    }
    owners.retain(|_, owner| !owner.set.is_empty());
    let mut object = merged.unwrap_or_else(|| live.clone());
    managed::remove_from(&mut object);
    Ok((object, owners))
}

/// The fields every object has by itself.
fn never_owned() -> Set {
    let mut set = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Element::field(name)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&[Element::field("metadata"), Element::field(name)]);
    }
    set
}

/// `group/version, Kind=kind`.
fn type_of(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = match text("apiVersion").split_once('/') {
        Some((_, version)) if version.contains('/') => return "/, Kind=".to_owned(),
        Some(both) => both,
        None => ("", text("apiVersion")),
    };
    format!("{group}/{version}, Kind={}", text("kind"))
}

/// `namespace/name; group/version, Kind=kind`.
fn named(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), type_of(object))
}

/// A 500 without a reason, which is what a server answers that did not expect the error.
fn unexplained(message: String) -> ApiError {
    ApiError::unclassified(message)
}

fn conflict(conflicts: &[Conflict]) -> ApiError {
    let message = match conflicts {
        [one] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", one.owner.shown(), show(&one.path))
        }
        many => {
            let mut lines: Vec<String> = Vec::new();
            let mut last = None;
            for conflict in many {
                let identity = conflict.owner.identity();
                if last.as_ref() != Some(&identity) {
                    lines.push(format!("conflicts with {}:", conflict.owner.shown()));
                    last = Some(identity);
                }
                lines.push(format!("- {}", show(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.owner.shown()),
                "field": show(&conflict.path),
            })
        })
        .collect();
    ApiError {
        details: Some(json!({"causes": causes})),
        ..ApiError::new(StatusCode::CONFLICT, "Conflict", message)
    }
}

/// Puts the times of `old`'s `managedFields` back into `new` when nothing else differs between the two, so that a
/// write that changed nothing is not stored.
pub fn keep_times(old: &Value, new: &mut Value) {
    let times = |object: &Value| -> Option<Vec<Option<Value>>> {
        Some(managed::entries_of(object)?.iter().map(|entry| entry.get("time").cloned()).collect())
    };
    let (Some(before), Some(after)) = (times(old), times(new)) else { return };
    if before.is_empty() || before.len() != after.len() || before == after {
        return;
    }
    let mut restored = new.clone();
    let entries = restored.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for (entry, time) in entries.into_iter().flatten().filter_map(Value::as_object_mut).zip(before) {
        match time {
            Some(time) => drop(entry.insert("time".to_owned(), time)),
            None => drop(entry.remove("time")),
        }
    }
    if restored == *old {
        *new = restored;
    }
}
