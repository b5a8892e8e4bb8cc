//! `serviceaccounts/token`: a token for a service account, on request.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::decoded;
use crate::auth::Claims;
use crate::clock::stamp;
use crate::field::{FieldError, Path};
use crate::http::present::to_bytes;
use crate::http::{Call, Encoding, Outcome};
use crate::object::strings;
use crate::query::{WriteKind, WriteOptions};
use crate::server::Core;
use crate::status::ApiError;
use crate::store::Key;

const GROUP: &str = "authentication.k8s.io";
/// The shortest and the longest life a token may be asked to have.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// Issues a token for the account `name`.
pub(crate) fn issue(core: &Arc<Core>, call: &Call, namespace: &str, name: &str) -> Result<Outcome, ApiError> {
    WriteOptions::parse(&call.query, WriteKind::Create)?;
    let request = decoded(call, GROUP, "v1", "TokenRequest")?;
    let account = core
        .lock()
        .object("serviceaccounts", &Key::new(namespace, name))
        .ok_or_else(|| ApiError::not_found("", "serviceaccounts", name))?;
    let spec = &request["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(3600);
    let path = || Path::new("spec.expirationSeconds");
    let mut errors = Vec::new();
    if seconds < SHORTEST {
        errors.push(FieldError::invalid(
            path(),
            &json!(seconds),
            "may not specify a duration less than 10 minutes",
        ));
    }
    if seconds > LONGEST {
        errors.push(FieldError::invalid(
            path(),
            &json!(seconds),
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid(GROUP, "TokenRequest", "", &errors));
    }
    let mut audiences = strings(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(Claims::default_audience());
    }
    let now = core.clock.now();
    let claims = Claims::of(&account, &audiences, now.as_second(), seconds, core.ids.uid());
    let expires = jiff::Timestamp::from_second(claims.exp).unwrap_or(now);
    let mut answer = json!({
        "kind": "TokenRequest", "apiVersion": format!("{GROUP}/v1"),
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": stamp(now)},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec.get("boundObjectRef").cloned().unwrap_or(Value::Null)},
        "status": {"token": core.secret.sign(&claims), "expirationTimestamp": stamp(expires)},
    });
    crate::object::set_meta(&mut answer, "managedFields", Value::Null);
    Ok(Outcome::Whole {
        code: StatusCode::CREATED,
        body: to_bytes(&answer),
        warnings: Vec::new(),
        encoding: Encoding::Json,
    })
}
