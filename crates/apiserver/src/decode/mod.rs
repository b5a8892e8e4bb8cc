//! Request bodies: bytes to objects, with the real server's refusals.
//!
//! The order of the checks is part of the contract, because a body with two faults is refused for one of them:
//! the media type, the syntax, the group and kind, the types of the fields, then what strict validation finds.

pub(crate) mod budget;
pub(crate) mod doc;
mod format;
pub(crate) mod go;
pub(crate) mod json;
mod kinds;
mod typed;
pub(crate) mod written;
pub(crate) mod yaml;

#[cfg(test)]
pub(crate) mod tests;

use serde_json::Value;

use self::doc::Doc;
use crate::builtin;
use crate::field::{FieldError, Path};
pub use crate::query::FieldValidation;
use crate::resource::Resource;
use crate::schema::{Schema, SchemaRef, check_embedded_types, prune};
use crate::status::ApiError;

/// The largest body the server reads.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// How a body is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

/// What a body is expected to be.
#[derive(Clone, Debug)]
pub struct Expect {
    /// API group; empty for the core one.
    pub group: String,
    /// `v1`
    pub version: String,
    /// Other versions of the group the body may be in, for a kind that is the same in them.
    pub also: &'static [&'static str],
    /// `Pod`
    pub kind: String,
    /// The schema of the whole object.
    pub schema: SchemaRef,
    /// Whether this is a custom resource: pruned by its own schema, and never without a kind.
    pub custom: bool,
}

impl Expect {
    /// An object of the resource itself.
    pub fn of(resource: &Resource) -> Expect {
        Expect {
            group: resource.group.clone(),
            version: resource.version.clone(),
            also: &[],
            kind: resource.kind.clone(),
            schema: resource.schema.clone(),
            custom: resource.custom,
        }
    }

    /// `autoscaling/v1`, `v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// An object, and what the client should be told about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Decoded {
    /// The object; unknown fields are gone.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// The media type of a body from its `Content-Type`. A body without one is JSON.
pub fn media(content_type: Option<&str>) -> Result<Media, ApiError> {
    let full = content_type.unwrap_or_default();
    let name = full.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match name.as_str() {
        "application/json" => Ok(Media::Json),
        "" if full.is_empty() => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" => Err(ApiError::unsupported_media_type(
            "the embedded API server does not implement application/vnd.kubernetes.protobuf; \
             accepted media types include: application/json, application/yaml",
        )),
        _ => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Refuses a body beyond [`BODY_LIMIT`].
pub fn within_limit(length: usize) -> Result<(), ApiError> {
    if length > BODY_LIMIT {
        return Err(ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}")));
    }
    Ok(())
}

/// Decodes a body into an object of the expected kind.
///
/// A built-in comes back in the shape its Go type would be written in: without unknown fields, nulls and empty
/// optional fields, with the fields that are always written. A custom resource comes back pruned.
/// Defaults are not applied.
pub fn object(
    media: Media,
    body: &[u8],
    expect: &Expect,
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    within_limit(body.len())?;
    let unrecognized = |why: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            expect.kind,
            summary(body)
        ))
    };
    let mut strict = Vec::new();
    let doc = match media {
        Media::Json => json::parse(body)
            .map_err(|why| unrecognized(format!("couldn't get version/kind; json parse error: {why}")))?,
        Media::Yaml => {
            let yaml = yaml::parse(body).map_err(unrecognized)?;
            strict.extend(yaml.strict_error());
            yaml.doc
        }
    };
    let claimed = kinds::Claimed::read(&doc).map_err(unrecognized)?;
    if expect.custom && claimed.kind.is_empty() {
        let body = String::from_utf8_lossy(body);
        return Err(unrecognized(format!("Object 'Kind' is missing in '{body}'")));
    }
    let handled = claimed.or(expect);
    let unfit = |why: &str| {
        ApiError::bad_request(format!(
            "{} in version {} cannot be handled as a {}: {why}",
            handled.kind,
            crate::field::quoted(&handled.version),
            expect.kind
        ))
    };
    if !expect.custom {
        handled.check_built_in(expect, &unfit)?;
    }
    let mut found = if expect.custom { custom(&doc, &expect.schema) } else { built_in(&doc, &expect.schema) }
        .map_err(|why| unfit(&why))?;
    strict.append(&mut found.strict);
    let warnings = judge(strict, validation).map_err(|why| unfit(&why))?;
    if expect.custom {
        check_custom(&claimed, expect, &found.value)?;
    } else {
        named(&mut found.value, expect);
    }
    Ok(Decoded { object: found.value, warnings })
}

/// Decodes the body of a server-side apply: any document, to be judged by the schema when it is merged.
pub(crate) fn applied(body: &[u8], validation: FieldValidation) -> Result<Decoded, ApiError> {
    let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let yaml = yaml::parse(body).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
    let warnings = judge(yaml.strict_error().into_iter().collect(), validation)
        .map_err(|why| ApiError::bad_request(format!("error strict decoding YAML: {why}")))?;
    let object = match yaml.doc.to_value() {
        // An empty body is an object that says nothing; what it is missing is told where it is merged.
        Value::Null => Value::Object(serde_json::Map::new()),
        other @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => other,
    };
    if !object.is_object() {
        return Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            yaml.doc.go_name()
        )));
    }
    Ok(Decoded { object, warnings })
}

/// The options in the body of a delete; none when there is no body.
pub(crate) fn delete_options(content_type: Option<&str>, body: &[u8]) -> Result<Option<Value>, ApiError> {
    if body.is_empty() {
        return Ok(None);
    }
    within_limit(body.len())?;
    let refuse =
        |why: String| ApiError::unclassified(format!("couldn't get version/kind; json parse error: {why}"));
    let doc = match media(content_type)? {
        Media::Json => json::parse(body).map_err(refuse)?,
        Media::Yaml => yaml::parse(body).map_err(ApiError::unclassified)?.doc,
    };
    kinds::Claimed::read(&doc)
        .and_then(|claimed| claimed.check_delete_options())
        .map_err(ApiError::unclassified)?;
    let typed = typed::decode(&doc, builtin::delete_options(), "");
    match typed.error {
        Some(error) => Err(ApiError::unclassified(error)),
        None => Ok(Some(typed.value)),
    }
}

/// The object a value is once it has been through the decoder: unknown fields gone, always-written fields there.
/// What the server itself makes out of parts (an applied object, for one) needs this before it is stored.
///
/// The error is the decoder's text, without a Status around it.
pub fn normalise(value: &Value, expect: &Expect) -> Result<(Value, Vec<String>), String> {
    let doc = Doc::from(value);
    let found = if expect.custom { custom(&doc, &expect.schema)? } else { built_in(&doc, &expect.schema)? };
    Ok((found.value, found.strict))
}

/// [`normalise`] for what a JSON or merge patch made, which may have touched the kind as well.
pub(crate) fn patched(value: &Value, expect: &Expect) -> Result<(Value, Vec<String>), String> {
    let claimed = kinds::Claimed::read(&Doc::from(value))?;
    if expect.custom {
        if claimed.kind.is_empty() {
            return Err(format!("Object 'Kind' is missing in '{value}'"));
        }
        return normalise(value, expect);
    }
    claimed.or(expect).check_patched(expect)?;
    let (mut object, strict) = normalise(value, expect)?;
    named(&mut object, expect);
    Ok((object, strict))
}

/// [`normalise`] for what a strategic merge made. The real server does not go through JSON here, so a value of the wrong
/// type is refused in other words, and the kind is not looked at.
pub(crate) fn converted(value: &Value, expect: &Expect) -> Result<(Value, Vec<String>), String> {
    let typed = typed::convert(&Doc::from(value), &expect.schema);
    if let Some(error) = typed.error {
        return Err(error);
    }
    let mut object = typed.value;
    named(&mut object, expect);
    Ok((object, typed.strict))
}

fn named(object: &mut Value, expect: &Expect) {
    object["apiVersion"] = Value::String(expect.api_version());
    object["kind"] = Value::String(expect.kind.clone());
}

/// Refuses a patched custom resource whose kind or version is no longer its own.
pub(crate) fn check_patched_custom(object: &Value, expect: &Expect) -> Result<(), ApiError> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version, expected) = (text("kind"), text("apiVersion"), expect.api_version());
    let mut errors = Vec::new();
    let must = |field: &str, found: &str, wanted: &str| {
        FieldError::invalid(Path::new(field), &Value::String(found.to_owned()), format!("must be {wanted}"))
    };
    if kind != expect.kind {
        errors.push(must("kind", kind, &expect.kind));
    }
    if api_version != expected {
        errors.push(must("apiVersion", api_version, &expected));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    Err(ApiError::invalid(group, kind, name, &errors))
}

/// An object and the strict errors about it, in the order they are told.
struct Found {
    value: Value,
    strict: Vec<String>,
}

fn built_in(doc: &Doc, schema: &Schema) -> Result<Found, String> {
    let typed = typed::decode(doc, schema, "");
    match typed.error {
        Some(error) => Err(error),
        None => Ok(Found { value: typed.value, strict: typed.strict }),
    }
}

/// A custom resource's body is free until its schema prunes it; its metadata is a Go struct like any other.
fn custom(doc: &Doc, schema: &Schema) -> Result<Found, String> {
    let mut strict = Vec::new();
    doc.duplicates("", &mut strict);
    let mut value = doc.to_value();
    if let Some(metadata) = doc.get("metadata") {
        let typed = typed::decode(metadata, builtin::object_meta(), "metadata");
        if let Some(error) = typed.error {
            return Err(error);
        }
        strict.extend(typed.strict.into_iter().filter(|text| text.starts_with("unknown")));
        value["metadata"] = match typed.value {
            Value::Object(metadata) => Value::Object(metadata),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Value::Object(serde_json::Map::new())
            }
        };
    }
    let unknown = prune(schema, &mut value);
    if let Some(error) = check_embedded_types(schema, &value) {
        return Err(error.to_string());
    }
    strict.extend(unknown.iter().map(|path| format!("unknown field {}", crate::field::quoted(path))));
    Ok(Found { value, strict })
}

fn check_custom(claimed: &kinds::Claimed, expect: &Expect, value: &Value) -> Result<(), ApiError> {
    let expected = expect.api_version();
    if claimed.api_version() != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            claimed.api_version()
        )));
    }
    if claimed.kind != expect.kind {
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let error = FieldError::invalid(
            Path::new("kind"),
            &Value::String(claimed.kind.clone()),
            format!("must be {}", expect.kind),
        );
        return Err(ApiError::invalid(&expect.group, &claimed.kind, name, &[error]));
    }
    Ok(())
}

/// Turns strict errors into a refusal's text or into warnings.
pub(crate) fn judge(strict: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if strict.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", strict.join(", "))),
        FieldValidation::Warn => Ok(strict.iter().flat_map(|text| warning_lines(text)).collect()),
    }
}

fn warning_lines(text: &str) -> Vec<String> {
    for prefix in ["yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"] {
        if let Some(lines) = text.strip_prefix(prefix) {
            return lines.lines().map(|line| line.trim().to_owned()).collect();
        }
    }
    vec![text.to_owned()]
}

/// The beginning of a body, for the message that it is not understood.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (head, more) = if body.len() > SHOWN { (&body[..SHOWN], " ...") } else { (body, "") };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}
