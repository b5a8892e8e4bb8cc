//! Deployments: from one template to the next, never with more or fewer pods than allowed.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cache::Cache;
use super::template::{hash_of, owner};
use super::write::{Kind, What, Write};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn look(cache: &Cache, namespace: &str, name: &str) -> Vec<Write> {
    let Some(deployment) = cache.deployments.get(namespace, name) else { return Vec::new() };
    let (Some(uid), Some(spec)) = (deployment.uid(), deployment.spec.as_ref()) else { return Vec::new() };
    if deployment.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let hash = hash_of(&spec.template);
    let mut sets: Vec<&Arc<ReplicaSet>> = cache.sets_of(&uid).collect();
    // Oldest first: that is the order in which they are scaled down and forgotten.
    sets.sort_by_key(|set| (revision(set), set.name_any()));
    let (new, old): (Vec<_>, Vec<_>) =
        sets.into_iter().partition(|set| set.labels().get(HASH) == Some(&hash));
    let rollout = Rollout { deployment, spec, hash, new: new.first().copied(), old };
    let mut writes = rollout.act();
    writes.extend(rollout.status());
    writes
}

struct Rollout<'a> {
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    hash: String,
    new: Option<&'a Arc<ReplicaSet>>,
    old: Vec<&'a Arc<ReplicaSet>>,
}

impl Rollout<'_> {
    fn desired(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// How many pods there may be too many, and how many too few.
    fn allowance(&self) -> (i32, i32) {
        let rolling = self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let usual = IntOrString::String("25%".into());
        let surge = rolling.and_then(|rolling| rolling.max_surge.clone()).unwrap_or_else(|| usual.clone());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.clone()).unwrap_or(usual);
        match (part_of(&surge, self.desired(), true), part_of(&unavailable, self.desired(), false)) {
            // Nothing could ever happen.
            (0, 0) => (0, 1),
            both => both,
        }
    }

    fn recreates(&self) -> bool {
        let strategy = self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        strategy == Some("Recreate")
    }

    fn act(&self) -> Vec<Write> {
        let revisions = self.old.iter().map(|set| revision(set));
        let next = revisions.max().unwrap_or(0) + 1;
        let mut writes = Vec::new();
        if self.spec.paused == Some(true) {
            // Its size may change, its template not.
            let active = self.new.into_iter().chain(self.old.iter().copied()).filter(|set| asked(set) > 0);
            if let [only] = active.collect::<Vec<_>>()[..] {
                writes.extend(scaled(only, self.desired()));
            }
            return writes;
        }
        let Some(new) = self.new else {
            writes.push(self.create(next));
            return writes;
        };
        if revision(new) < next {
            let patch = json!({"metadata": {"annotations": {REVISION: next.to_string()}}});
            writes.push(of_set(new, What::Merge(patch)));
        }
        let written = revision(new).max(next).to_string();
        if self.deployment.annotations().get(REVISION) != Some(&written) {
            let patch = json!({"metadata": {"annotations": {REVISION: written}}});
            let (namespace, name) =
                (self.deployment.namespace().unwrap_or_default(), self.deployment.name_any());
            // Through the status: an annotation changed otherwise would count as a new generation.
            writes.push(Write::new(Kind::Deployment, &namespace, &name, What::Status(patch)));
        }
        if self.recreates() {
            writes.extend(self.recreate(new));
        } else {
            writes.extend(self.roll(new));
        }
        writes.extend(self.forget());
        writes
    }

    fn create(&self, revision: i64) -> Write {
        let namespace = self.deployment.namespace().unwrap_or_default();
        let mut template = json!(self.spec.template);
        let mut selector = json!(self.spec.selector);
        template["metadata"]["labels"][HASH] = json!(self.hash);
        selector["matchLabels"][HASH] = json!(self.hash);
        let old: i32 = self.old.iter().map(|set| asked(set)).sum();
        let replicas = if self.recreates() {
            if self.old.iter().all(|set| there(set) == 0 && asked(set) == 0) { self.desired() } else { 0 }
        } else {
            (self.desired() + self.allowance().0 - old).clamp(0, self.desired())
        };
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("{}-{}", self.deployment.name_any(), self.hash),
                "namespace": namespace,
                "labels": template["metadata"]["labels"],
                "annotations": {REVISION: revision.to_string()},
                "ownerReferences": [owner(self.deployment)],
            },
            "spec": {"replicas": replicas, "selector": selector, "template": template,
                "minReadySeconds": self.spec.min_ready_seconds.unwrap_or(0)},
        });
        Write::new(Kind::ReplicaSet, &namespace, "", What::Create(set))
    }

    /// All old pods end before the first new one starts.
    fn recreate(&self, new: &ReplicaSet) -> Vec<Write> {
        let mut writes: Vec<Write> = self.old.iter().filter_map(|set| scaled(set, 0)).collect();
        if self.old.iter().all(|set| asked(set) == 0 && there(set) == 0) {
            writes.extend(scaled(new, self.desired()));
        }
        writes
    }

    fn roll(&self, new: &ReplicaSet) -> Vec<Write> {
        let (surge, unavailable) = self.allowance();
        let desired = self.desired();
        let total: i32 = asked(new) + self.old.iter().map(|set| asked(set)).sum::<i32>();
        let mut writes = Vec::new();
        let wanted = if asked(new) >= desired {
            desired
        } else {
            asked(new) + (desired + surge - total).clamp(0, desired - asked(new))
        };
        writes.extend(scaled(new, wanted));

        // New pods that do not serve yet count as if they were missing.
        let least = desired - unavailable;
        let pending = (asked(new) - available(new)).max(0);
        let mut may_go = (total - least - pending).max(0);
        let serving: i32 = available(new) + self.old.iter().map(|set| available(set)).sum::<i32>();
        let mut serving_may_go = (serving - least).max(0);
        for set in &self.old {
            // What does not serve goes first, whatever happens to the rest.
            let idle = (asked(set) - available(set)).clamp(0, may_go);
            let serving = (asked(set) - idle).min(may_go - idle).min(serving_may_go).max(0);
            may_go -= idle + serving;
            serving_may_go -= serving;
            writes.extend(scaled(set, asked(set) - idle - serving));
        }
        writes
    }

    /// Old sets without pods are kept for going back, but not for ever.
    fn forget(&self) -> Vec<Write> {
        let limit = usize::try_from(self.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
        let empty: Vec<_> = self
            .old
            .iter()
            .filter(|set| asked(set) == 0 && there(set) == 0 && set.metadata.deletion_timestamp.is_none())
            .collect();
        let surplus = empty.len().saturating_sub(limit);
        let deletion = |set: &&&Arc<ReplicaSet>| {
            of_set(set, What::Delete { uid: set.uid().unwrap_or_default(), grace: None })
        };
        empty.iter().take(surplus).map(deletion).collect()
    }

    fn status(&self) -> Option<Write> {
        let all = || self.new.into_iter().chain(self.old.iter().copied());
        let sum = |of: fn(&ReplicaSet) -> i32| all().map(|set| of(set)).sum::<i32>();
        let (replicas, ready, serving) = (sum(there), sum(ready), sum(available));
        let updated = self.new.map_or(0, |new| there(new));
        let enough = serving >= self.desired() - self.allowance().1.min(self.desired());
        let complete = updated == self.desired() && replicas == updated && serving == updated;
        let some = |n: i32| if n == 0 { Value::Null } else { json!(n) };
        let name = self.deployment.name_any();
        let set = self.new.map_or_else(String::new, |new| new.name_any());
        let conditions = self.conditions(&[
            if enough {
                (
                    "Available",
                    "True",
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.".to_owned(),
                )
            } else {
                (
                    "Available",
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.".to_owned(),
                )
            },
            if complete {
                (
                    "Progressing",
                    "True",
                    "NewReplicaSetAvailable",
                    format!("ReplicaSet \"{set}\" has successfully progressed."),
                )
            } else {
                ("Progressing", "True", "ReplicaSetUpdated", format!("ReplicaSet \"{set}\" is progressing."))
            },
        ]);
        let wanted = json!({
            "observedGeneration": self.deployment.metadata.generation,
            "replicas": some(replicas),
            "updatedReplicas": some(updated),
            "readyReplicas": some(ready),
            "availableReplicas": some(serving),
            "unavailableReplicas": some((replicas.max(self.desired()) - serving).max(0)),
            "conditions": conditions,
        });
        let now = json!(self.deployment.status.clone().unwrap_or_default());
        let same = wanted.as_object().into_iter().flatten().all(|(key, value)| now[key] == *value);
        let namespace = self.deployment.namespace().unwrap_or_default();
        let patch = What::Status(json!({"status": wanted}));
        (!same).then(|| Write::new(Kind::Deployment, &namespace, &name, patch))
    }

    fn conditions(&self, wanted: &[(&str, &str, &str, String)]) -> Value {
        let status = self.deployment.status.clone().unwrap_or_default();
        let mut all = json!(status.conditions.unwrap_or_default());
        let now = json!(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        for (kind, status, reason, message) in wanted {
            let old = all.as_array().and_then(|all| all.iter().position(|one| one["type"] == **kind));
            let before = old.map_or(Value::Null, |at| all[at].clone());
            if before["status"] == **status && before["reason"] == **reason && before["message"] == **message
            {
                continue;
            }
            let since =
                if before["status"] == **status { before["lastTransitionTime"].clone() } else { now.clone() };
            let one = json!({"type": kind, "status": status, "reason": reason, "message": message,
                "lastUpdateTime": now, "lastTransitionTime": since});
            match (old, all.as_array_mut()) {
                (Some(at), Some(all)) => all[at] = one,
                (None, Some(all)) => all.push(one),
                (_, None) => {}
            }
        }
        all
    }
}

fn asked(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn there(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn ready(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn scaled(set: &ReplicaSet, to: i32) -> Option<Write> {
    let patch = json!({
        "metadata": {"resourceVersion": set.resource_version()},
        "spec": {"replicas": to},
    });
    (asked(set) != to).then(|| of_set(set, What::Merge(patch)))
}

fn of_set(set: &ReplicaSet, what: What) -> Write {
    Write::new(Kind::ReplicaSet, &set.namespace().unwrap_or_default(), &set.name_any(), what)
}

/// A number, or a part of a whole in percent.
pub(super) fn part_of(part: &IntOrString, whole: i32, up: bool) -> i32 {
    match part {
        IntOrString::Int(n) => (*n).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let share = percent.max(0) * i64::from(whole.max(0));
            let share = if up { (share + 99) / 100 } else { share / 100 };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn deployment(replicas: i32, image: &str, strategy: Value) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 2,
                "annotations": {REVISION: "2"}},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "strategy": strategy,
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": image}]}}},
        })
    }

    fn hash(image: &str) -> String {
        let deployment: Deployment = serde_json::from_value(deployment(1, image, json!({}))).unwrap();
        hash_of(&deployment.spec.unwrap().template)
    }

    fn set(image: &str, revision: u32, asked: i32, available: i32) -> Value {
        json!({
            "metadata": {"name": format!("web-{}", hash(image)), "namespace": "shop", "uid": image,
                "resourceVersion": "5",
                "labels": {"app": "web", HASH: hash(image)}, "annotations": {REVISION: revision.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]},
            "spec": {"replicas": asked, "selector": {}, "template": {"spec": {"containers": []}}},
            "status": {"replicas": asked, "readyReplicas": available, "availableReplicas": available},
        })
    }

    fn rolling(surge: Value, unavailable: Value) -> Value {
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    }

    /// What sets are scaled to, new and old.
    fn steps(strategy: Value, desired: i32, new: (i32, i32), old: (i32, i32)) -> (Option<i64>, Option<i64>) {
        let cache = cache(vec![
            ("Deployment", deployment(desired, "two", strategy)),
            ("ReplicaSet", set("two", 2, new.0, new.1)),
            ("ReplicaSet", set("one", 1, old.0, old.1)),
        ]);
        let writes = look(&cache, "shop", "web");
        let of = |image: &str| {
            let name = format!("web-{}", hash(image));
            writes.iter().filter(|write| write.name == name).find_map(|write| match &write.what {
                What::Merge(patch) => patch["spec"]["replicas"].as_i64(),
                What::Create(_) | What::Status(_) | What::Delete { .. } | What::Bind { .. } => None,
            })
        };
        (of("two"), of("one"))
    }

    #[test]
    fn a_new_template_makes_a_new_set_within_the_surge() {
        let cache = cache(vec![
            ("Deployment", deployment(4, "two", rolling(json!(1), json!(0)))),
            ("ReplicaSet", set("one", 1, 4, 4)),
        ]);
        let writes = look(&cache, "shop", "web");
        let What::Create(made) = &writes[0].what else { panic!("{writes:?}") };
        assert_eq!(made["spec"]["replicas"], 1);
        assert_eq!(made["metadata"]["name"], json!(format!("web-{}", hash("two"))));
        assert_eq!(made["spec"]["selector"]["matchLabels"][HASH], json!(hash("two")));
        assert_eq!(made["metadata"]["annotations"][REVISION], "2");
    }

    #[test]
    fn a_rollout_goes_as_far_as_surge_and_availability_allow() {
        let one_more = || rolling(json!(1), json!(0));
        for (strategy, desired, new, old, becomes) in [
            (one_more(), 4, (1, 0), (4, 4), (None, None)),
            (one_more(), 4, (1, 1), (4, 4), (None, Some(3))),
            (one_more(), 4, (1, 1), (3, 3), (Some(2), None)),
            (one_more(), 4, (4, 4), (1, 1), (None, Some(0))),
            (rolling(json!(0), json!(1)), 4, (0, 0), (4, 4), (None, Some(3))),
            (rolling(json!(0), json!(1)), 4, (0, 0), (3, 3), (Some(1), None)),
            (rolling(json!("25%"), json!("25%")), 4, (1, 0), (4, 4), (None, Some(3))),
            // Old pods that do not serve go at once.
            (one_more(), 4, (1, 0), (4, 2), (None, None)),
            (rolling(json!(2), json!(1)), 4, (2, 2), (4, 1), (None, Some(1))),
            // Both none would never end.
            (rolling(json!(0), json!(0)), 2, (0, 0), (2, 2), (None, Some(1))),
        ] {
            assert_eq!(steps(strategy.clone(), desired, new, old), becomes, "{strategy} {new:?} {old:?}");
        }
    }

    #[test]
    fn recreating_ends_all_before_it_starts_one() {
        let recreate = || json!({"type": "Recreate"});
        assert_eq!(steps(recreate(), 3, (0, 0), (3, 3)), (None, Some(0)));
        assert_eq!(steps(recreate(), 3, (0, 0), (0, 0)), (Some(3), None));
    }

    #[test]
    fn parts_in_percent_are_rounded_in_favour_of_going_on_and_of_serving() {
        let percent = |text: &str| IntOrString::String(text.into());
        assert_eq!(part_of(&percent("25%"), 3, true), 1);
        assert_eq!(part_of(&percent("25%"), 3, false), 0);
        assert_eq!(part_of(&percent("100%"), 3, false), 3);
        assert_eq!(part_of(&IntOrString::Int(2), 3, false), 2);
    }
}
