//! Writes through `/scale`, where one field of an object is seen as an object of its own.
//!
//! The owners of that one field are shown as owners of the Scale's `spec.replicas`, the write is tracked there, and
//! what came of it is carried back.

use std::sync::LazyLock;

use serde_json::Value;

use super::fields::{Element, Set};
use super::managed::{self, Owners};
use super::{Target, apply, track_update};
use crate::schema::SchemaRef;
use crate::status::ApiError;

const SCALE: &str = "autoscaling/v1";

/// What is asked of a Scale.
#[derive(Clone, Copy, Debug)]
pub enum ScaleWrite<'a> {
    /// To become this one: an update, or the outcome of a patch.
    Update(&'a Value),
    /// To hold what this one says.
    Apply {
        /// The applied configuration.
        applied: &'a Value,
        /// Whether to take what others own.
        force: bool,
    },
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// The Scale asked for, without `managedFields`. Its `spec.replicas` goes into the object.
    pub scale: Value,
    owners: Owners,
}

impl Scaled {
    /// Writes the owners into the scaled object.
    pub fn own(&self, object: &mut Value) {
        managed::encode_into(object, &self.owners);
    }
}

/// Tracks a write to the Scale of `object`, which keeps its size at `replicas` (`["spec", "replicas"]`), in
/// `api_version`. `live` is the object's Scale as it is now.
pub fn scale(
    object: &Value,
    api_version: &str,
    replicas: &[&str],
    live: &Value,
    write: ScaleWrite<'_>,
    manager: &str,
    now: &str,
) -> Result<Scaled, ApiError> {
    let target = Target {
        schema: &SCHEMA,
        api_version: SCALE,
        kind: "Scale",
        served: &[],
        subresource: Some("scale"),
        reset: &[],
    };
    let path: Vec<Element> = replicas.iter().map(|name| Element::field(*name)).collect();
    let owners = managed::decode(object).unwrap_or_default();
    let mut live = live.clone();
    managed::encode_into(&mut live, &seen(&owners, &path));
    let mut scale = match write {
        ScaleWrite::Update(wanted) => track_update(&target, &live, wanted.clone(), manager, now),
        ScaleWrite::Apply { applied, force } => apply(&target, &live, applied, manager, force, now)?,
    };
    let outcome = managed::decode(&scale).unwrap_or_default();
    managed::remove_from(&mut scale);
    Ok(Scaled { scale, owners: carried_back(owners, outcome, &path, api_version) })
}

fn size() -> [Element; 2] {
    [Element::field("spec"), Element::field("replicas")]
}

/// The owners of the object's size as owners of its Scale's.
fn seen(owners: &Owners, path: &[Element]) -> Owners {
    let mut seen = Owners::new();
    for owner in owners.values().filter(|owner| owner.set.has(path)) {
        let mut owner = owner.clone();
        owner.api_version = SCALE.to_owned();
        owner.set = Set::of([size().as_slice()]);
        seen.insert(owner.identity(), owner);
    }
    seen
}

/// The object's owners after the Scale's changed. An applier that still has the size keeps its entry; an updater is
/// not recognised across the two versions, so its hold on the size becomes an entry without a time.
fn carried_back(owners: Owners, mut outcome: Owners, path: &[Element], api_version: &str) -> Owners {
    let mut back = Owners::new();
    for (identity, mut owner) in owners {
        if owner.set.has(path) && outcome.remove(&identity).is_none() {
            owner.set = owner.set.difference(&Set::of([path]));
        }
        if !owner.set.is_empty() {
            back.insert(identity, owner);
        }
    }
    for (identity, mut owner) in outcome {
        if owner.set.has(&size()) {
            owner.api_version = api_version.to_owned();
            owner.set = Set::of([path]);
            owner.time = None;
            // Kept apart by its old identity: the same updater may have another entry already.
            back.insert(identity, owner);
        }
    }
    back
}

static SCHEMA: LazyLock<SchemaRef> =
    LazyLock::new(|| crate::builtin::schema("apps", "io.k8s.api.autoscaling.v1.Scale"));
