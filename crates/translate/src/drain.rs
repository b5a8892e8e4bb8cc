//! Pods that are in the way of a drain, and the budgets that keep them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use netferry_core::rollout::drain::{Managed, Pod};

use crate::labels::{labels, selector};
use crate::object_name;

/// On pods that a node makes by itself from a file; what the API has of them is a picture.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod as a drain sees it.
pub fn pod(written: &k8s::Pod) -> Pod {
    let meta = &written.metadata;
    let phase = written.status.as_ref().and_then(|status| status.phase.as_deref());
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.kind.as_str());
    let mirror = meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR));
    let managed = match owner {
        _ if mirror => Managed::Node,
        Some("Node") => Managed::Node,
        Some("DaemonSet") => Managed::DaemonSet,
        Some(_) => Managed::Controller,
        None => Managed::Nobody,
    };
    Pod {
        name: object_name(meta),
        managed,
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        leaving: meta.deletion_timestamp.is_some(),
    }
}

/// The budgets, by name, that keep a pod with these labels where it is now; all budgets that select it, if none of
/// them says so, because one of them refused.
pub fn budgets(pod: Option<&BTreeMap<String, String>>, budgets: &[PodDisruptionBudget]) -> Vec<String> {
    let labels = labels(pod);
    let selects = |budget: &&PodDisruptionBudget| {
        let written = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        written.is_some_and(|written| selector(written).is_ok_and(|selector| selector.matches(&labels)))
    };
    let selecting: Vec<&PodDisruptionBudget> = budgets.iter().filter(selects).collect();
    let exhausted = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().is_none_or(|status| status.disruptions_allowed <= 0)
    };
    let any = selecting.iter().any(|budget| exhausted(budget));
    let keep = selecting.into_iter().filter(|budget| !any || exhausted(budget));
    keep.map(|budget| object_name(&budget.metadata).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(meta: Value, phase: &str) -> k8s::Pod {
        let mut pod =
            json!({ "metadata": { "name": "a", "namespace": "shop" }, "status": { "phase": phase } });
        pod["metadata"].as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn it_is_known_who_would_make_a_pod_again() {
        let owned = |kind: &str, controller: bool| {
            let owner = json!({ "apiVersion": "v1", "kind": kind, "name": "x", "uid": "u", "controller": controller });
            written(json!({ "ownerReferences": [owner] }), "Running")
        };
        for (written, managed) in [
            (written(json!({}), "Running"), Managed::Nobody),
            (owned("ReplicaSet", true), Managed::Controller),
            (owned("ReplicaSet", false), Managed::Nobody),
            (owned("DaemonSet", true), Managed::DaemonSet),
            (owned("Node", true), Managed::Node),
            (written(json!({ "annotations": { MIRROR: "x" } }), "Running"), Managed::Node),
        ] {
            assert_eq!(pod(&written).managed, managed, "{written:?}");
        }
    }

    #[test]
    fn a_pod_that_ended_or_is_ending_says_so() {
        for (phase, finished) in [
            ("Pending", false),
            ("Running", false),
            ("Succeeded", true),
            ("Failed", true),
            ("Unknown", false),
        ] {
            assert_eq!(pod(&written(json!({}), phase)).finished, finished, "{phase}");
        }
        let leaving = pod(&written(json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), "Running"));
        assert!(leaving.leaving && leaving.name.to_string() == "shop/a");
    }

    #[test]
    fn the_budget_that_keeps_a_pod_is_named() {
        let budget = |name: &str, selector: Value, allowed: Option<i32>| -> PodDisruptionBudget {
            let status = allowed.map(|allowed| {
                json!({ "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 })
            });
            let object = json!({
                "metadata": { "name": name, "namespace": "shop" },
                "spec": { "selector": selector }, "status": status,
            });
            serde_json::from_value(object).unwrap()
        };
        let web = json!({ "matchLabels": { "app": "web" } });
        let all = [
            budget("none-left", web.clone(), Some(0)),
            budget("some-left", web.clone(), Some(1)),
            budget("not-its", json!({ "matchLabels": { "app": "db" } }), Some(0)),
            budget("nobody-s", Value::Null, Some(0)),
        ];
        let labels: BTreeMap<String, String> = [("app".into(), "web".into())].into();
        assert_eq!(budgets(Some(&labels), &all), ["shop/none-left"]);
        assert_eq!(budgets(Some(&labels), &all[1..]), ["shop/some-left"], "it refused all the same");
        assert_eq!(budgets(Some(&labels), &[budget("new", web, None)]), ["shop/new"]);
        assert_eq!(budgets(None, &all), Vec::<String>::new());
    }
}
