//! The subresources that are verbs of their own, and the reviews that are answered without being stored.

pub(crate) mod binding;
pub(crate) mod eviction;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod token;

use serde_json::Value;

use crate::decode::{self, Media};
use crate::http::Call;
use crate::status::ApiError;

/// The body of a call to a kind that is never stored.
pub(crate) fn decoded(call: &Call, group: &str, version: &str, kind: &str) -> Result<Value, ApiError> {
    let media = decode::media(call.content_type())?;
    decode::within_limit(call.body.len())?;
    let unreadable = |why: String| {
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let value: Value = match media {
        Media::Json => serde_json::from_slice(&call.body).map_err(|e| unreadable(e.to_string()))?,
        Media::Yaml => serde_saphyr::from_slice(&call.body).map_err(|e| unreadable(e.to_string()))?,
    };
    let expected = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let said = (value["apiVersion"].as_str().unwrap_or(&expected), value["kind"].as_str().unwrap_or(kind));
    if said.1 != kind || crate::object::split_api_version(said.0).0 != group {
        let (_, said_version) = crate::object::split_api_version(said.0);
        return Err(ApiError::bad_request(format!(
            "{} in version {said_version:?} cannot be handled as a {kind}: converting ({}).{} to ({group}).{kind}: unknown conversion",
            said.1, said.0, said.1
        )));
    }
    Ok(value)
}
