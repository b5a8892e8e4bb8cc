//! Replacing an object, whoever made the replacement: a PUT, a patch, an apply, a subresource.

use serde_json::{Value, json};

use super::{Cx, admission, asked_revision};
use crate::field::{FieldError, Path};
use crate::names;
use crate::object::{finalizers, generation, is_deleting, meta, set_meta};
use crate::resource::Through;
use crate::ssa;
use crate::status::ApiError;

/// What clients are told when somebody else was faster.
pub(crate) const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// A replacement in the making.
pub(crate) struct Replacement {
    /// The new object, decoded and defaulted.
    pub(crate) object: Value,
    /// Its managed fields are already settled (an apply).
    pub(crate) tracked: bool,
    /// A uid in it says which object is meant (a PUT); elsewhere it is a field that may not change.
    pub(crate) identified: bool,
}

/// Replaces the object `name` by what `make` makes of it. `creates` lets an apply, or a PUT to a kind that allows it,
/// bring the object into being. Returns the object and whether it is new.
pub(crate) fn replace(
    cx: &mut Cx<'_>,
    name: &str,
    through: Through,
    creates: bool,
    make: impl FnOnce(&mut Cx<'_>, Option<&Value>) -> Result<Replacement, ApiError>,
) -> Result<(Value, bool), ApiError> {
    let resource = cx.resource.clone();
    let old = cx.current(name);
    let Some(old) = old else {
        if !creates {
            return Err(cx.not_found(name));
        }
        let Replacement { object, tracked, .. } = make(cx, None)?;
        names::match_name(&object, name)?;
        if tracked && !meta(&object, "uid").is_empty() {
            let uid = meta(&object, "uid");
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(cx.conflict(name, &why));
        }
        asked_revision(&object)?;
        let mut object = object;
        set_meta(&mut object, "resourceVersion", Value::Null);
        return Ok((super::create::create(cx, object, tracked)?, true));
    };
    let Replacement { mut object, tracked, identified } = make(cx, Some(&old))?;
    let namespace = if resource.namespaced { cx.namespace.as_str() } else { "" };
    names::match_namespace(&mut object, namespace)?;
    names::match_name(&object, name)?;
    if !tracked {
        object = cx.tracked(through, &old, object);
    }
    cx.warnings.extend(names::dedup_owners(&mut object, tracked));
    check_identity(cx, name, &mut object, &old, identified)?;
    names::inherit(&mut object, &old);
    if through == Through::Main {
        admission::allocate(cx, &mut object, Some(&old))?;
    }
    resource.behaviour.prepare_update(through, &mut object, &old);
    names::inherit(&mut object, &old);
    // Before the two are compared: an empty list and none are the same.
    resource.settle(&mut object);
    if resource.behaviour.has_generation() && resource.behaviour.spec_changed(through, &object, &old) {
        set_meta(&mut object, "generation", generation(&old) + 1);
    }
    let own = resource.behaviour.validate_update(through, &object, &old);
    let errors = names::update_errors(&object, &old, &resource, own);
    if !errors.is_empty() {
        return Err(cx.invalid(name, &errors));
    }
    cx.warnings.extend(resource.behaviour.update_warnings(through, &object, &old));
    ssa::keep_times(&old, &mut object);
    if cx.dry_run {
        return Ok((object, false));
    }
    if is_deleting(&old)
        && finalizers(&object).is_empty()
        && grace_is_over(&old)
        && super::delete::may_vanish(cx, &object)
    {
        let key = cx.key(name);
        let table = cx.table();
        cx.state.remove(&table, &key)?;
        return Ok((object, false));
    }
    if object == old {
        return Ok((old, false));
    }
    let event = cx.commit(object)?;
    Ok((super::presented(&resource, &event.object), false))
}

fn grace_is_over(old: &Value) -> bool {
    old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
}

/// The write must be meant for this very object, in the state the writer has seen.
fn check_identity(
    cx: &Cx<'_>,
    name: &str,
    object: &mut Value,
    old: &Value,
    identified: bool,
) -> Result<(), ApiError> {
    let (uid, old_uid) = (meta(object, "uid").to_owned(), meta(old, "uid").to_owned());
    if identified && !uid.is_empty() && uid != old_uid {
        let place =
            if cx.namespace.is_empty() { name.to_owned() } else { format!("{}/{name}", cx.namespace) };
        // A dry run asks the storage below its prefix.
        let prefix = if cx.dry_run { "" } else { "/registry" };
        let key = format!("{prefix}/{}/{place}", cx.resource.registry_path());
        return Err(names::uid_conflict(&cx.resource.group, &cx.resource.plural, name, &key, &uid, &old_uid));
    }
    let asked = asked_revision(object)?;
    if asked == 0 {
        if !cx.resource.behaviour.unconditional_update() {
            let error = FieldError::invalid(
                Path::new("metadata.resourceVersion"),
                &json!(0),
                "must be specified for an update",
            );
            return Err(ApiError::invalid(&cx.resource.group, &cx.resource.plural, name, &[error]));
        }
    } else if asked.to_string() != meta(old, "resourceVersion") {
        return Err(cx.conflict(name, STALE));
    }
    set_meta(object, "resourceVersion", meta(old, "resourceVersion").to_owned());
    Ok(())
}
