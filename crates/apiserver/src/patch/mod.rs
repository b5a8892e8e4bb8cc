//! Patches: JSON patch, merge patch and strategic merge patch. (Server-side apply has a module of its own.)
//!
//! Each takes the object as it is and gives the object as it should be, decoded once more: what a patch makes of an
//! object is held to the same types as a body that was sent whole.

mod json;
mod merge;
mod strategic;

#[cfg(test)]
mod tests;

use serde_json::{Value, json as object};

use crate::decode::{self, Expect, FieldValidation};
use crate::field::{FieldError, Path};
use crate::status::ApiError;
use crate::text::printed;

/// How a patch is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatchKind {
    /// `application/json-patch+json`: RFC 6902.
    Json,
    /// `application/merge-patch+json`: RFC 7396.
    Merge,
    /// `application/strategic-merge-patch+json`: built-ins only.
    Strategic,
    /// `application/apply-patch+yaml`: server-side apply.
    Apply,
}

const MEDIA: [(&str, PatchKind); 4] = [
    ("application/json-patch+json", PatchKind::Json),
    ("application/merge-patch+json", PatchKind::Merge),
    ("application/strategic-merge-patch+json", PatchKind::Strategic),
    ("application/apply-patch+yaml", PatchKind::Apply),
];

impl PatchKind {
    /// The kind of a patch from its `Content-Type`. Custom resources have no strategic merge.
    pub fn from_content_type(content_type: Option<&str>, custom: bool) -> Result<PatchKind, ApiError> {
        let full = content_type.unwrap_or_default();
        let name = match full.find(';') {
            Some(at) if at > 0 => &full[..at],
            Some(_) | None => full,
        };
        let accepted = MEDIA.iter().filter(|(_, kind)| !(custom && *kind == PatchKind::Strategic));
        if let Some((_, kind)) = accepted.clone().find(|(media, _)| *media == name) {
            return Ok(*kind);
        }
        // A built-in's route knows its media types before its handler sees the request, and says less.
        if !custom && !MEDIA.iter().any(|(media, _)| *media == name.trim()) {
            let mut refusal = ApiError::unsupported_media_type("415: Unsupported Media Type");
            refusal.details = Some(object!({}));
            return Err(refusal);
        }
        let names: Vec<&str> = accepted.map(|(media, _)| *media).collect();
        Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            names.join(", ")
        )))
    }
}

/// A patched object, and what the client should be told about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Patched {
    /// The object as it should be. Defaults are not applied.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Applies a patch that is not server-side apply.
///
/// # Panics
///
/// On [`PatchKind::Apply`], which needs the object's field managers and is not done here.
pub fn apply(
    kind: PatchKind,
    body: &[u8],
    current: &Value,
    expect: &Expect,
    validation: FieldValidation,
) -> Result<Patched, ApiError> {
    match kind {
        PatchKind::Json => {
            let (patched, strict) = json::apply(body, current, validation)?;
            finish(patched, strict, expect, validation)
        }
        PatchKind::Merge => {
            let (patched, strict) = merge::apply(body, current, validation)?;
            finish(patched, strict, expect, validation)
        }
        PatchKind::Strategic => strategic_merge(body, current, expect, validation),
        PatchKind::Apply => panic!("server-side apply is not a patch of this module"),
    }
}

/// What a JSON or merge patch made is decoded as if it had been sent.
fn finish(
    patched: Value,
    mut strict: Vec<String>,
    expect: &Expect,
    validation: FieldValidation,
) -> Result<Patched, ApiError> {
    let refuse = |why: String| invalid(&Value::String(patched.to_string()), why);
    let (object, mut found) = decode::patched(&patched, expect).map_err(refuse)?;
    strict.append(&mut found);
    let warnings = decode::judge(strict, validation).map_err(refuse)?;
    if expect.custom {
        decode::check_patched_custom(&object, expect)?;
    }
    Ok(Patched { object, warnings })
}

fn strategic_merge(
    body: &[u8],
    current: &Value,
    expect: &Expect,
    validation: FieldValidation,
) -> Result<Patched, ApiError> {
    let doc = decode::json::parse(body).map_err(ApiError::bad_request)?;
    let mut strict = Vec::new();
    doc.duplicates("", &mut strict);
    let mut patch = match doc.to_value() {
        Value::Object(patch) => patch,
        Value::Null => serde_json::Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(ApiError::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                doc.go_name()
            )));
        }
    };
    let merged = strategic::merge(current, &mut patch, &expect.schema)?;
    let shown = Value::String(printed(&Value::Object(patch)));
    let (object, mut found) = decode::converted(&merged, expect).map_err(|why| invalid(&shown, why))?;
    strict.append(&mut found);
    let warnings = decode::judge(strict, validation).map_err(|why| invalid(&shown, why))?;
    Ok(Patched { object, warnings })
}

fn invalid(shown: &Value, why: String) -> ApiError {
    let mut refusal = ApiError::invalid("", "", "", &[FieldError::invalid(Path::new("patch"), shown, why)]);
    if let Some(details) = refusal.details.as_mut().and_then(Value::as_object_mut) {
        details.retain(|key, _| key == "causes");
    }
    refusal
}

/// A refusal nobody upstream turned into a Status: 500, no reason, only a message.
fn plain(message: impl Into<String>) -> ApiError {
    ApiError::unclassified(message)
}
