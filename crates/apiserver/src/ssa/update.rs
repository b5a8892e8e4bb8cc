//! Who owns what after a write: the rules shared by plain updates and apply.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::fields::{Element, Set};
use super::managed::{Owner, Owners};
use super::merge::{merge, without};
use super::scalar;
use super::typed::{field_set, reconciled, with_named_fields};
use super::types::Type;

/// The place a write goes to.
pub(crate) struct Place<'a> {
    pub(crate) ty: Type<'a>,
    /// The version of the request.
    pub(crate) api_version: &'a str,
    /// Whether the owners of fields named in a version can be kept: whether the object has that version, too.
    pub(crate) versions: Versions<'a>,
    /// Fields this write cannot set, so nobody owns them through it.
    pub(crate) reset: Set,
}

/// The versions a resource has.
pub(crate) enum Versions<'a> {
    /// These.
    Listed(&'a [String]),
    /// Only this one.
    One(&'a str),
    /// All of this one's group.
    GroupOf(&'a str),
}

impl Versions<'_> {
    fn include(&self, api_version: &str) -> bool {
        let group = |api_version: &str| api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
        match self {
            Versions::Listed(all) => all.iter().any(|one| one == api_version),
            Versions::One(only) => *only == api_version,
            Versions::GroupOf(one) => group(one) == group(api_version),
        }
    }
}

/// A field that two managers want to have different values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub(crate) owner: Owner,
    pub(crate) path: Vec<Element>,
}

impl Place<'_> {
    /// The owners as the schema of today sees them; those in versions that are gone are forgotten.
    fn current(&self, owners: Owners) -> Owners {
        owners
            .into_iter()
            .filter(|(_, owner)| self.versions.include(&owner.api_version))
            .map(|(identity, mut owner)| {
                owner.set = reconciled(&owner.set, self.ty);
                (identity, owner)
            })
            .collect()
    }

    /// Takes from every owner but `writer` what the step from `old` to `new` changed or removed. Without `force` a
    /// change to somebody's field is a conflict.
    fn take(
        &self,
        old: &Value,
        new: &Value,
        owners: &mut Owners,
        writer: Option<&str>,
        force: bool,
    ) -> Result<Comparison, Vec<Conflict>> {
        let everything = compare(old, new, self.ty);
        // Other versions name the same fields, but what this write resets is known for its own version only.
        let mine = everything.without(&self.reset);
        let mut conflicts = Vec::new();
        let mut taken: BTreeMap<String, (Set, &Set)> = BTreeMap::new();
        for (identity, owner) in owners.iter() {
            if Some(identity.as_str()) == writer {
                continue;
            }
            let seen = if owner.api_version == self.api_version { &mine } else { &everything };
            let contested = owner.set.intersection(&seen.modified.union(&seen.added));
            for path in contested.paths() {
                conflicts.push(Conflict { owner: owner.clone(), path });
            }
            taken.insert(identity.clone(), (contested, &seen.removed));
        }
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        for (identity, (contested, removed)) in &taken {
            if let Some(owner) = owners.get_mut(identity) {
                owner.set = owner.set.difference(contested).difference(removed);
            }
        }
        owners.retain(|_, owner| !owner.set.is_empty());
        Ok(mine)
    }

    /// A plain write: returns the fields it set, which nobody else owns any more.
    pub(crate) fn update(&self, old: &Value, new: &Value, owners: Owners) -> (Set, Owners) {
        let mut owners = self.current(owners);
        match self.take(old, new, &mut owners, None, true) {
            Ok(changes) => {
                let set = changes.modified.union(&changes.added).recursive_difference(&self.reset);
                (set, owners)
            }
            Err(_) => (Set::default(), owners),
        }
    }

    /// An apply by `applier` (whose set and time are filled in): returns the merged object, `None` where it is the
    /// live one unchanged.
    pub(crate) fn apply(
        &self,
        live: &Value,
        applied: &Value,
        owners: Owners,
        mut applier: Owner,
        force: bool,
    ) -> Result<(Option<Value>, Owners), Vec<Conflict>> {
        let identity = applier.identity();
        // The time of its last apply counts even where the version of that apply is gone.
        applier.time = owners.get(&identity).and_then(|last| last.time.clone());
        let mut owners = self.current(owners);
        let merged = merge(live, applied, self.ty);
        let last = owners.remove(&identity);
        applier.set = field_set(applied, self.ty).recursive_difference(&self.reset);
        owners.insert(identity.clone(), applier);
        let pruned = match &last {
            Some(last) if !last.set.is_empty() => self.prune(&merged, &owners, last),
            Some(_) | None => merged,
        };
        self.take(live, &pruned, &mut owners, Some(&identity), force)?;
        let unchanged = scalar::equal(live, &pruned);
        Ok(((!unchanged).then_some(pruned), owners))
    }

    /// Drops what the applier applied last time, not this time, and nobody else owns.
    fn prune(&self, merged: &Value, owners: &Owners, last: &Owner) -> Value {
        let named = |set: &Set| with_named_fields(set, self.ty);
        let all = named(&field_set(merged, self.ty));
        let mut pruned = without(merged, &named(&last.set), self.ty);
        let versions: BTreeSet<&str> = owners.values().map(|owner| owner.api_version.as_str()).collect();
        for version in versions {
            let owned = owners
                .values()
                .filter(|owner| owner.api_version == version)
                .fold(Set::default(), |owned, owner| owned.union(&owner.set));
            let kept = named(&field_set(&pruned, self.ty)).union(&named(&owned));
            pruned = without(merged, &all.difference(&kept), self.ty);
        }
        // Removing a field took what lay below it along; whatever of that the applier never had comes back.
        let gone = all.difference(&named(&field_set(&pruned, self.ty)));
        without(merged, &gone.intersection(&named(&last.set)), self.ty)
    }
}
