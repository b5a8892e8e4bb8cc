//! Questions about the caller: who am I, and may I. There is no authorisation here: whoever is let in may do everything.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::decoded;
use crate::http::present::to_bytes;
use crate::http::route::ResourcePath;
use crate::http::{Call, Encoding, Outcome};
use crate::server::Core;
use crate::status::ApiError;

/// The answer to a review; none when the path is no review.
pub(crate) fn answer(core: &Core, call: &Call, path: ResourcePath<'_>) -> Result<Option<Outcome>, ApiError> {
    let (group, kind) = match (path.group, path.version, path.resource) {
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews") => (path.group, "SelfSubjectAccessReview"),
        ("authentication.k8s.io", "v1", "selfsubjectreviews") => (path.group, "SelfSubjectReview"),
        _ => return Ok(None),
    };
    if call.method != Method::POST {
        return Err(ApiError::method_not_allowed(group, path.resource, call.method.as_str()));
    }
    let mut review = decoded(call, group, "v1", kind)?;
    review["kind"] = json!(kind);
    review["apiVersion"] = json!(format!("{group}/v1"));
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    review["status"] = if kind == "SelfSubjectReview" {
        review["metadata"]["creationTimestamp"] = json!(core.clock.stamp());
        json!({"userInfo": call.identity.to_info()})
    } else {
        review["metadata"]["managedFields"] = json!([{
            "manager": crate::ssa::manager_name("", call.agent()), "operation": "Update",
            "apiVersion": format!("{group}/v1"), "time": core.clock.stamp(), "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": owned(&review["spec"], false)},
        }]);
        json!({"allowed": true})
    };
    Ok(Some(Outcome::Whole {
        code: StatusCode::CREATED,
        body: to_bytes(&review),
        warnings: Vec::new(),
        encoding: Encoding::Json,
    }))
}

/// The fields of a value as their writer's, each object's own presence included below the first.
fn owned(value: &Value, present: bool) -> Value {
    let mut fields = serde_json::Map::new();
    if let Some(object) = value.as_object() {
        if present {
            fields.insert(".".to_owned(), json!({}));
        }
        for (name, below) in object {
            fields.insert(format!("f:{name}"), owned(below, true));
        }
    }
    Value::Object(fields)
}
