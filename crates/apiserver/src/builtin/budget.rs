//! PodDisruptionBudgets.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{keep, number};
use super::scaling::{int_or_percent, not_over_100_percent};
use super::table::{self, AGE, NAME, columns};
use super::validate;
use crate::field::{FieldError, Path, Problem};
use crate::resource::{Behaviour, Column, NameRule, Through};

pub(super) struct Budgets;

impl Behaviour for Budgets {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        keep(object, old, if through == Through::Main { "status" } else { "spec" });
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let path = Path::new("spec");
        let spec = &object["spec"];
        let mut errors = Vec::new();
        if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
            errors.push(FieldError {
                problem: Problem::Invalid,
                path: path.clone(),
                // Shown with the names the fields have inside a server, not those of the API.
                value: Some(format!(
                    "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
                    spec["minAvailable"],
                    spec["selector"],
                    spec["maxUnavailable"],
                    spec["unhealthyPodEvictionPolicy"],
                )),
                detail: "minAvailable and maxUnavailable cannot be both set".to_owned(),
            });
        }
        for field in ["minAvailable", "maxUnavailable"] {
            if let Some(value) = spec.get(field) {
                errors.extend(int_or_percent(value, &path.child(field)));
                errors.extend(not_over_100_percent(value, &path.child(field)));
            }
        }
        errors.extend(validate::selector(spec.get("selector"), &path.child("selector")));
        if spec.get("unhealthyPodEvictionPolicy").is_some() {
            let allowed = ["AlwaysAllow", "IfHealthyBudget"];
            errors.extend(validate::one_of(spec, "unhealthyPodEvictionPolicy", &path, &allowed));
        }
        errors
    }

    fn validate_update(&self, through: Through, object: &Value, _old: &Value) -> Vec<FieldError> {
        if through == Through::Main {
            return self.validate(object);
        }
        ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
            .iter()
            .filter_map(|f| validate::not_negative(object["status"].get(*f), Path::new("status").child(f)))
            .collect()
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            NAME,
            ("Min Available", "string", 0, "How many pods must stay."),
            ("Max Unavailable", "string", 0, "How many pods may be away."),
            ("Allowed Disruptions", "integer", 0, "How many pods may be evicted right now."),
            AGE,
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let shown = |field: &str| match &object["spec"][field] {
            Value::Null => json!("N/A"),
            Value::String(text) => json!(text),
            number @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                json!(number.to_string())
            }
        };
        vec![
            table::name(object),
            shown("minAvailable"),
            shown("maxUnavailable"),
            json!(number(object, "/status/disruptionsAllowed")),
            table::age(object, now),
        ]
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        vec![vec![if through == Through::Main { "status" } else { "spec" }]]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn unconditional_update(&self) -> bool {
        false
    }
}
