//! Questions about the caller: who am I, and may I. There is no authorisation here: whoever is let in may do everything.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ACCESS_REVIEW, SELF_REVIEW, decoded, tracked};
use crate::decode::{Decoded, Expect};
use crate::field::{FieldError, Path};
use crate::http::present::to_bytes;
use crate::http::route::ResourcePath;
use crate::http::{Call, Encoding, Outcome};
use crate::query::{WriteKind, WriteOptions};
use crate::server::Core;
use crate::ssa;
use crate::status::ApiError;

/// The answer to a review; none when the path is no review.
pub(crate) fn answer(core: &Core, call: &Call, path: ResourcePath<'_>) -> Result<Option<Outcome>, ApiError> {
    let expect: &Expect = match (path.group, path.version, path.resource) {
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews") => &ACCESS_REVIEW,
        ("authentication.k8s.io", "v1", "selfsubjectreviews") => &SELF_REVIEW,
        _ => return Ok(None),
    };
    if call.method != Method::POST {
        return Err(ApiError::method_not_allowed(path.group, path.resource, call.method.as_str()));
    }
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let Decoded { object: mut review, warnings } = decoded(call, expect, options.validation)?;
    review["status"] = if expect.kind == "SelfSubjectReview" {
        review["metadata"]["creationTimestamp"] = json!(core.clock.stamp());
        json!({"userInfo": call.identity.to_info()})
    } else {
        let manager = ssa::manager_name(&options.manager, call.agent());
        review = tracked(expect, None, review, &manager, &core.clock.stamp());
        check_access(&review)?;
        json!({"allowed": true})
    };
    Ok(Some(Outcome::Whole {
        code: StatusCode::CREATED,
        body: to_bytes(&review),
        warnings,
        encoding: Encoding::Json,
    }))
}

/// A question about access is about one thing, and has no name.
fn check_access(review: &Value) -> Result<(), ApiError> {
    let at = |field: &str| Path::new("spec").child(field);
    let spec = &review["spec"];
    let mut errors = Vec::new();
    match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(_), Some(paths)) => {
            // Shown with the names the fields have inside a server.
            let inside = json!({"Path": paths["path"].as_str().unwrap_or_default(),
                                "Verb": paths["verb"].as_str().unwrap_or_default()});
            errors.push(FieldError::invalid(
                at("nonResourceAttributes"),
                &inside,
                "cannot be specified in combination with resourceAttributes",
            ));
        }
        (None, None) => errors.push(FieldError::invalid(
            at("resourceAttributes"),
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        (Some(_), None) | (None, Some(_)) => {}
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("authorization.k8s.io", "", "", &errors)) }
}
