//! Apply: merging a configuration into an object, and refusing to.

use http::StatusCode;
use serde_json::{Value, json};

use super::fields::show;
use super::managed::{self, Owners};
use super::track::{has_uid, never_owned, tracked};
use super::typed::{Duplicates, Misfits, fits};
use super::update::Conflict;
use super::{Target, empty, last_applied};
use crate::status::ApiError;

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
        let nothing = empty::empty(target);
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
    let unfit = |what: &str, object: &Value, why: Misfits| {
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
