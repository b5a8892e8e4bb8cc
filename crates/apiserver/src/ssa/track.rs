//! Plain writes: create, update, and every patch that is not an apply.

use serde_json::Value;

use super::Target;
use super::empty;
use super::fields::{Element, Set};
use super::managed::{self, Owners};
use super::merge::merge;
use super::typed::{Duplicates, fits};

/// Tracks a create, an update or a patch that is not an apply: returns `new` with its `managedFields` brought up to
/// date. `old` is the stored object; one without a uid (null, say) means `new` is being created.
///
/// Never fails: an object that cannot be tracked is returned without `managedFields`.
pub fn track_update(target: &Target<'_>, old: &Value, mut new: Value, manager: &str, now: &str) -> Value {
    let built_in = empty::is_built_in(target.schema);
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
    let nothing = empty::empty(target);
    let old = if creates { &nothing } else { old };
    let completed =
        empty::inherent(target).filter(|_| creates).map(|inherent| merge(&inherent, &new, target.place().ty));
    if let Some(owners) = tracked(target, old, completed.as_ref().unwrap_or(&new), owners, manager, now) {
        managed::encode_into(&mut new, &owners);
    }
    new
}

/// Whether the object is a stored one.
pub(super) fn has_uid(object: &Value) -> bool {
    object.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

/// The owners after a plain write; `None` where the objects cannot be read by their schema.
pub(super) fn tracked(
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

/// The fields every object has by itself.
pub(super) fn never_owned() -> Set {
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
