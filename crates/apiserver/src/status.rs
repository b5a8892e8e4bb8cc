//! Refusals, as the `Status` objects Kubernetes clients match on.

use http::StatusCode;
use serde_json::{Value, json};

use crate::field::{FieldError, quoted};

/// A refusal on its way to the client. Everything a client may match on (code, reason, details) is here;
/// `to_status` prints it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status code.
    pub code: StatusCode,
    /// `NotFound`, `Conflict`, … Empty for the few answers that carry none.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// `details`, when there are any.
    pub details: Option<Value>,
    /// `metadata`, where a refusal carries one (the token to go on from an expired list).
    pub metadata: Option<Value>,
    /// Warnings the request earned before it was refused.
    pub warnings: Vec<String>,
}

impl ApiError {
    /// A refusal from its parts.
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> ApiError {
        ApiError {
            code,
            reason,
            message: message.into(),
            details: None,
            metadata: None,
            warnings: Vec::new(),
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> ApiError {
        let mut details = serde_json::Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        }
        self.details = Some(Value::Object(details));
        self
    }

    /// 404 for an object. `resource` is the plural, as in `pods "x" not found`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> ApiError {
        let shown = qualified(resource, group);
        ApiError::new(StatusCode::NOT_FOUND, "NotFound", format!("{shown} {} not found", quoted(name)))
            .about(group, resource, name)
    }

    /// 409 on create.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> ApiError {
        let shown = qualified(resource, group);
        ApiError::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{shown} {} already exists", quoted(name)),
        )
        .about(group, resource, name)
    }

    /// 409 on a stale write; `why` is the sentence after the colon.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
        let shown = qualified(resource, group);
        ApiError::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("Operation cannot be fulfilled on {shown} {}: {why}", quoted(name)),
        )
        .about(group, resource, name)
    }

    /// 422 with its causes. `kind` is the Kind, not the plural.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> ApiError {
        let shown = qualified(kind, group);
        let listed = match errors {
            [] => "<nil>".to_owned(),
            [one] => one.to_string(),
            many => {
                // As an aggregate prints: the same sentence is said once.
                let mut said: Vec<String> = Vec::new();
                for error in many {
                    let text = error.to_string();
                    if !said.contains(&text) {
                        said.push(text);
                    }
                }
                if said.len() == 1 { said.remove(0) } else { format!("[{}]", said.join(", ")) }
            }
        };
        let mut error = ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{shown} {} is invalid: {listed}", quoted(name)),
        )
        .about(group, kind, name);
        if let Some(Value::Object(details)) = &mut error.details
            && !errors.is_empty()
        {
            details.insert("causes".to_owned(), errors.iter().map(FieldError::to_cause).collect());
        }
        error
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403 about an object.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> ApiError {
        let shown = qualified(resource, group);
        let message = if name.is_empty() {
            format!("forbidden: {why}")
        } else {
            format!("{shown} {} is forbidden: {why}", quoted(name))
        };
        ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, resource, name)
    }

    /// 405: the resource exists, the verb does not.
    pub fn method_not_allowed(group: &str, resource: &str, verb: &str) -> ApiError {
        let shown = qualified(resource, group);
        ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind {}", quoted(&shown)),
        )
        .about(group, resource, "")
    }

    /// 405 for a path that has no such method, as a router says it.
    pub fn no_such_method() -> ApiError {
        ApiError {
            details: Some(json!({})),
            ..ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        }
    }

    /// 410: the history a watch or a continued list needs is gone.
    pub fn expired(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::GONE, "Expired", message)
    }

    /// 413.
    pub fn too_large(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 406.
    pub fn not_acceptable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 429: an eviction a disruption budget forbids.
    pub fn too_many_requests(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
    }

    /// 500.
    pub fn internal(message: impl std::fmt::Display) -> ApiError {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }

    /// 500 without a reason: what the real server answers where it does not classify a failure.
    pub fn unclassified(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 422 about a patch that cannot be done: the real server says no more than this.
    pub(crate) fn rejected() -> ApiError {
        ApiError {
            details: Some(json!({})),
            ..ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                "the server rejected our request due to an error in our request",
            )
        }
    }

    /// 404 for a path no resource is served at.
    pub fn no_such_resource() -> ApiError {
        let mut error = ApiError::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        );
        error.details = Some(json!({}));
        error
    }

    /// 504: the client asks about a revision that is still to come.
    pub fn revision_too_large(asked: u64, current: u64) -> ApiError {
        let mut error = ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        error.details = Some(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        error
    }

    /// 501: a part of the Kubernetes API this server does not have, called by its name.
    pub fn not_implemented(what: &str) -> ApiError {
        ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("the embedded API server does not implement {what}; use a full kube-apiserver for it"),
        )
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(metadata) = &self.metadata {
            status["metadata"] = metadata.clone();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// `pods` in the core group, `leases.coordination.k8s.io` elsewhere.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
