//! Which node suits which pod: labels, affinity, taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use kube::ResourceExt;

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether every label asked for is there. Asking for none selects nothing: that is how Services mean it.
pub(crate) fn selects(selector: &Labels, labels: &Labels) -> bool {
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Why a node does not take a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unfit {
    Selector,
    Unschedulable,
    Taint(String),
    Full,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Selector => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Unfit::Unschedulable => f.write_str("node(s) were unschedulable"),
            Unfit::Taint(taint) => write!(f, "node(s) had untolerated taint {{{taint}}}"),
            Unfit::Full => f.write_str("Too many pods"),
        }
    }
}

/// Whether a pod may be bound to a node, pods it has aside.
pub(crate) fn fits(pod: &PodSpec, node: &Node) -> Result<(), Unfit> {
    if !chosen(pod, node) {
        return Err(Unfit::Selector);
    }
    let spec = node.spec.as_ref();
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    };
    if spec.is_some_and(|spec| spec.unschedulable == Some(true)) && !tolerated(tolerations, &cordon) {
        return Err(Unfit::Unschedulable);
    }
    let keeps_away = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    // A cordon was judged above, whether its taint is there yet or not.
    let mut taints = taints.iter().filter(keeps_away).filter(|taint| taint.key != cordon.key);
    match taints.find(|taint| !tolerated(tolerations, taint)) {
        Some(taint) => {
            let value = taint.value.as_deref().unwrap_or_default();
            Err(Unfit::Taint(format!("{}: {value}", taint.key)))
        }
        None => Ok(()),
    }
}

/// Whether a node has what the pod's selector and required affinity ask for.
pub(crate) fn chosen(pod: &PodSpec, node: &Node) -> bool {
    let labels = node.labels();
    let wanted = pod.node_selector.as_ref();
    if !wanted.is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value))) {
        return false;
    }
    let affinity = pod.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| meets(term, node)))
}

fn meets(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = node.labels();
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = node.name_any();
    // A term that asks for nothing matches nothing.
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|one| holds(one, labels.get(&one.key)))
        && fields.iter().all(|one| one.key == "metadata.name" && holds(one, Some(&name)))
}

fn holds(one: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = one.values.as_deref().unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    let compared = || Some((value.and_then(number)?, values.first().and_then(number)?));
    match one.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(is, than)| is > than),
        "Lt" => compared().is_some_and(|(is, than)| is < than),
        _ => false,
    }
}

/// Whether a taint is tolerated.
pub(crate) fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether this toleration tolerates that taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => key.is_empty() || key == taint.key,
        "Equal" | "" => {
            key == taint.key
                && toleration.value.as_deref().unwrap_or_default()
                    == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(object: Value) -> Node {
        serde_json::from_value(object).unwrap()
    }

    fn pod(spec: Value) -> PodSpec {
        let mut whole = json!({"containers": []});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn affinity(terms: Value) -> PodSpec {
        pod(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }}}))
    }

    #[test]
    fn a_selector_and_a_required_affinity_must_both_be_met() {
        let blue = node(json!({"metadata": {"name": "b", "labels": {"colour": "blue", "size": "7"}}}));
        let term = |key: &str, operator: &str, values: Value| {
            affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        for (spec, takes) in [
            (pod(json!({})), true),
            (pod(json!({"nodeSelector": {"colour": "blue"}})), true),
            (pod(json!({"nodeSelector": {"colour": "red"}})), false),
            (term("colour", "In", json!(["red", "blue"])), true),
            (term("colour", "NotIn", json!(["red", "blue"])), false),
            (term("shape", "NotIn", json!(["round"])), true),
            (term("shape", "Exists", json!([])), false),
            (term("shape", "DoesNotExist", json!([])), true),
            (term("size", "Gt", json!(["6"])), true),
            (term("size", "Lt", json!(["7"])), false),
            (
                affinity(
                    json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]),
                ),
                true,
            ),
            (
                affinity(
                    json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}]),
                ),
                false,
            ),
            (affinity(json!([{}])), false),
        ] {
            assert_eq!(chosen(&spec, &blue), takes, "{spec:?}");
        }
    }

    #[test]
    fn taints_keep_away_whoever_does_not_tolerate_them() {
        let tainted = |taint: Value| node(json!({"metadata": {"name": "n"}, "spec": {"taints": [taint]}}));
        let tolerating = |one: Value| pod(json!({"tolerations": [one]}));
        let taint = json!({"key": "role", "value": "db", "effect": "NoSchedule"});
        for (toleration, takes) in [
            (json!({"key": "role", "operator": "Exists"}), true),
            (json!({"key": "role", "value": "db", "effect": "NoSchedule"}), true),
            (json!({"key": "role", "value": "web"}), false),
            (json!({"key": "role", "value": "db", "effect": "NoExecute"}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            assert_eq!(
                fits(&tolerating(toleration.clone()), &tainted(taint.clone())).is_ok(),
                takes,
                "{toleration}"
            );
        }
        let prefer = json!({"key": "role", "value": "db", "effect": "PreferNoSchedule"});
        assert_eq!(fits(&pod(json!({})), &tainted(prefer)), Ok(()), "a preference keeps nobody away");
    }

    #[test]
    fn a_cordoned_node_takes_only_who_tolerates_that() {
        let cordoned = node(json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true, "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        ]}}));
        assert_eq!(fits(&pod(json!({})), &cordoned), Err(Unfit::Unschedulable));
        let daemon =
            json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
        assert_eq!(fits(&pod(daemon), &cordoned), Ok(()));
    }
}
