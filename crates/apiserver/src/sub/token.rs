//! `serviceaccounts/token`: a token for a service account, on request.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{TOKEN_REQUEST, decoded, tracked};
use crate::auth::{Account, Claims};
use crate::clock::stamp;
use crate::decode::Decoded;
use crate::field::{FieldError, Path};
use crate::http::present::to_bytes;
use crate::http::{Call, Encoding, Outcome};
use crate::object::{meta, strings};
use crate::query::{WriteKind, WriteOptions};
use crate::server::Core;
use crate::ssa;
use crate::status::ApiError;
use crate::store::Key;

pub(super) const GROUP: &str = "authentication.k8s.io";
/// The shortest and the longest life a token may be asked to have.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// Issues a token for the account `name`.
pub(crate) fn issue(core: &Arc<Core>, call: &Call, namespace: &str, name: &str) -> Result<Outcome, ApiError> {
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let Decoded { object: mut request, warnings } = decoded(call, &TOKEN_REQUEST, options.validation)?;
    let account = core
        .lock()
        .object("serviceaccounts", &Key::new(namespace, name))
        .ok_or_else(|| ApiError::not_found("", "serviceaccounts", name))?;
    for (field, own) in [("name", name), ("namespace", namespace)] {
        let said = meta(&request, field);
        if !said.is_empty() && said != own {
            let error = FieldError::invalid(
                Path::new("metadata").child(field),
                &json!(said),
                format!("must match the service account {field} if specified"),
            );
            return Err(ApiError::invalid(GROUP, "TokenRequest", name, &[error]));
        }
    }
    let spec = &request["spec"];
    let reference = &spec["boundObjectRef"];
    let bound = check_bound(core, namespace, reference)?;
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
    let mut claims = Claims::of(&account, &audiences, now.as_second(), seconds, core.ids.uid());
    claims.bound.to.extend(bound.map(|(claimed, claim)| (claimed.to_owned(), claim)));
    let expires = jiff::Timestamp::from_second(claims.exp).unwrap_or(now);
    request["spec"]["expirationSeconds"] = json!(seconds);
    let manager = ssa::manager_name(&options.manager, call.agent());
    let mut answer = tracked(&TOKEN_REQUEST, Some("token"), request, &manager, &stamp(now));
    let identity = [
        ("name", name),
        ("namespace", namespace),
        ("uid", meta(&account, "uid")),
        ("creationTimestamp", &stamp(now)),
    ];
    for (field, value) in identity {
        answer["metadata"][field] = json!(value);
    }
    answer["spec"]["audiences"] = json!(audiences);
    answer["status"] = json!({"token": core.secret.sign(&claims), "expirationTimestamp": stamp(expires)});
    Ok(Outcome::Whole {
        code: StatusCode::CREATED,
        body: to_bytes(&answer),
        warnings,
        encoding: Encoding::Json,
    })
}

/// A token may be bound to a Pod, a Secret or a Node that is there: what it is called in the token, its name and uid.
fn check_bound(
    core: &Core,
    namespace: &str,
    bound: &Value,
) -> Result<Option<(&'static str, Account)>, ApiError> {
    if bound.is_null() {
        return Ok(None);
    }
    let text = |field: &str| bound[field].as_str().unwrap_or_default();
    // A core version is written with its empty group.
    let version = text("apiVersion");
    let group_version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    let kind = text("kind");
    let (table, claimed, namespace) = match kind {
        "Pod" => ("pods", "pod", namespace),
        "Secret" => ("secrets", "secret", namespace),
        "Node" => ("nodes", "node", ""),
        other => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group_version}, Kind={other}"
            )));
        }
    };
    let name = text("name");
    let found = core.lock().object(table, &Key::new(namespace, name));
    let object = found.ok_or_else(|| ApiError::not_found("", table, name))?;
    let uid = text("uid");
    if !uid.is_empty() && uid != meta(&object, "uid") {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", kind, name, &why));
    }
    let claim = Account { name: name.to_owned(), uid: meta(&object, "uid").to_owned() };
    Ok(Some((claimed, claim)))
}
