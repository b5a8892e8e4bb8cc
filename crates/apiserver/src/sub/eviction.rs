//! `pods/eviction`: deletion that asks the disruption budgets first.

use serde_json::{Value, json};

use crate::names;
use crate::object::{is_deleting, meta};
use crate::query::{DeleteOptions, Query};
use crate::react::{is_ready, matching_budgets};
use crate::registry::Cx;
use crate::registry::delete::delete;
use crate::registry::update::{Replacement, replace};
use crate::resource::{Subresource, Through};
use crate::status::ApiError;
use crate::store::Key;

/// Evicts the pod `name` as the body and the query ask, or says which budget forbids it.
pub(crate) fn evict(
    cx: &mut Cx<'_>,
    name: &str,
    mut eviction: Value,
    query: &Query,
) -> Result<Value, ApiError> {
    names::match_namespace(&mut eviction, &cx.namespace)?;
    if meta(&eviction, "name") != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::parse(query, Some(&eviction["deleteOptions"]))?;
    options.dry_run |= cx.dry_run;
    cx.dry_run = options.dry_run;
    let Some(pod) = cx.current(name) else { return Err(cx.not_found(name)) };
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    // A pod that does not serve, or is already going, costs no budget.
    let free = matches!(phase, "Succeeded" | "Failed" | "Pending") || is_deleting(&pod);
    if !free {
        let mut budgets = matching_budgets(cx.state, &pod);
        if budgets.len() > 1 {
            return Err(ApiError::unclassified(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if let Some(budget) = budgets.pop() {
            charge(cx, &pod, &budget)?;
        }
    }
    if !cx.dry_run && !is_deleting(&pod) {
        mark_evicted(cx, name)?;
    }
    delete(cx, name, &options)?;
    Ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
}

/// Says on the pod why it goes, for those who see it go.
fn mark_evicted(cx: &mut Cx<'_>, name: &str) -> Result<(), ApiError> {
    let Some(mut pod) = cx.current(name) else { return Ok(()) };
    let why = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": cx.core.clock.stamp(),
    });
    match pod["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != "DisruptionTarget");
            conditions.push(why);
        }
        None => pod["status"]["conditions"] = json!([why]),
    }
    cx.commit(pod).map(|_| ())
}

/// Takes one disruption from the budget.
fn charge(cx: &mut Cx<'_>, pod: &Value, budget: &Value) -> Result<(), ApiError> {
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    if !is_ready(pod) {
        let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        let within = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        if always || within {
            return Ok(());
        }
    }
    let name = meta(budget, "name");
    if number("observedGeneration") < crate::object::generation(budget) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(forbidden_now(&why));
    }
    if number("disruptionsAllowed") <= 0 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        return Err(forbidden_now(&why));
    }
    if cx.dry_run {
        return Ok(());
    }
    let key = Key::new(meta(budget, "namespace"), name);
    let Some(resource) = cx.state.catalog.of_table("poddisruptionbudgets.policy").cloned() else {
        return Ok(());
    };
    let now = cx.core.clock.stamp();
    let pod_name = meta(pod, "name").to_owned();
    let mut budget_cx = Cx {
        core: cx.core,
        state: cx.state,
        resource,
        namespace: key.namespace.clone(),
        dry_run: false,
        manager: "kube-apiserver".to_owned(),
        warnings: Vec::new(),
    };
    replace(&mut budget_cx, &key.name, Through::Sub(Subresource::Status), false, |_, old| {
        let mut object = old.cloned().unwrap_or_default();
        let left = object["status"]["disruptionsAllowed"].as_i64().unwrap_or_default() - 1;
        object["status"]["disruptionsAllowed"] = json!(left);
        object["status"]["disruptedPods"][&pod_name] = json!(now);
        if left == 0 {
            crate::react::set_insufficient(&mut object, &now);
        }
        Ok(Replacement { object, tracked: false, identified: false })
    })
    .map(|_| ())
}

fn forbidden_now(why: &str) -> ApiError {
    let mut error =
        ApiError::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.");
    error.details = Some(json!({"causes": [{"reason": "DisruptionBudget", "message": why}]}));
    error
}
