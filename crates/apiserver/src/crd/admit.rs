//! Which definitions are accepted, in the words the real server refuses the others with.
//!
//! The server holds definitions in an older shape, in which what all versions share stands beside them; its messages
//! speak of that shape (`spec.validation.openAPIV3Schema` where the user wrote `spec.versions[0].schema`).

use serde_json::Value;

use crate::field::{FieldError, Path, Problem};
use crate::names::{dns1035_label, dns1123_subdomain};
use crate::schema::{Kind, Schema, follow_path};

use super::goshape;
use super::openapi::Inspection;

/// What is wrong with a new definition.
pub(super) fn validate(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, name) = (&definition["spec"], text(&definition["metadata"]["name"]));
    if name != format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"])) {
        errors.push(FieldError::invalid(
            Path::new("metadata.name"),
            &Value::from(name),
            r#"must be spec.names.plural+"."+spec.group"#,
        ));
    }
    errors.append(&mut validate_spec(spec));
    errors.append(&mut validate_names(
        &definition["status"]["acceptedNames"],
        &Path::new("status.acceptedNames"),
    ));
    errors.append(&mut validate_stored_versions(definition));
    errors.append(&mut validate_approval(definition, None));
    errors.append(&mut refuse_preserving(spec));
    errors
}

/// What is wrong with a replacement.
pub(super) fn validate_update(definition: &Value, old: &Value) -> Vec<FieldError> {
    let (spec, before) = (&definition["spec"], &old["spec"]);
    let mut errors = validate_spec(spec);
    let established =
        super::condition(old, "Established").is_some_and(|condition| condition["status"] == "True");
    let mut immutable = |path: &str, pointer: &str| {
        let (new, old) = (spec.pointer(pointer), before.pointer(pointer));
        if new != old {
            let shown = new.cloned().unwrap_or_else(|| Value::from(""));
            errors.push(FieldError::invalid(Path::new(path), &shown, "field is immutable"));
        }
    };
    if established {
        immutable("spec.scope", "/scope");
        immutable("spec.names.kind", "/names/kind");
    }
    immutable("spec.group", "/group");
    immutable("spec.names.plural", "/names/plural");
    errors.append(&mut validate_names(
        &definition["status"]["acceptedNames"],
        &Path::new("status.acceptedNames"),
    ));
    errors.append(&mut validate_stored_versions(definition));
    errors.append(&mut validate_approval(definition, Some(old)));
    if before["preserveUnknownFields"] != true {
        errors.append(&mut refuse_preserving(spec));
    }
    errors
}

/// What is wrong with a new status.
pub(super) fn validate_status(definition: &Value) -> Vec<FieldError> {
    validate_names(&definition["status"]["acceptedNames"], &Path::new("status.acceptedNames"))
}

fn not_label(text: &str) -> Option<String> {
    Some(dns1035_label(text).join(",")).filter(|why| !why.is_empty())
}

fn not_subdomain(text: &str) -> Option<String> {
    Some(dns1123_subdomain(text).join(",")).filter(|why| !why.is_empty())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The field of every version, when it is the same in all.
fn shared<'v>(versions: &'v [Value], field: &str) -> Option<&'v Value> {
    let first = versions.first()?;
    versions.iter().all(|version| same(&version[field], &first[field])).then(|| &first[field])
}

/// Absent and empty are the same to the server.
fn same(a: &Value, b: &Value) -> bool {
    let empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    a == b || (empty(a) && empty(b))
}

fn validate_spec(spec: &Value) -> Vec<FieldError> {
    let at = Path::new("spec");
    let mut errors = Vec::new();
    let group = text(&spec["group"]);
    if group.is_empty() {
        errors.push(FieldError::required(at.child("group"), ""));
    } else if let Some(why) = not_subdomain(group) {
        errors.push(FieldError::invalid(at.child("group"), &spec["group"], why));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            at.child("group"),
            &spec["group"],
            "should be a domain with at least one dot",
        ));
    }
    errors.append(&mut one_of(&at.child("scope"), &spec["scope"], &["Cluster", "Namespaced"]));

    let versions = list(&spec["versions"]);
    let shared_schema = shared(versions, "schema");
    let shared_subresources = shared(versions, "subresources");
    let shared_columns = shared(versions, "additionalPrinterColumns");
    let shared_selectable = shared(versions, "selectableFields");
    if !shared_schema.is_some_and(|schema| schema["openAPIV3Schema"].is_object()) {
        for (index, version) in versions.iter().enumerate() {
            if !version["schema"]["openAPIV3Schema"].is_object() {
                let path = at.child("versions").index(index).child("schema").child("openAPIV3Schema");
                errors.push(FieldError::required(path, ""));
            }
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let path = at.child("versions").index(index);
        if let Some(why) = not_label(text(&version["name"])) {
            errors.push(FieldError::invalid(path.child("name"), &Value::from(text(&version["name"])), why));
        }
        errors.append(&mut validate_deprecation(version, &path));
        if shared_schema.is_none() {
            let has_status = version["subresources"]["status"].is_object();
            errors.append(&mut validate_schema(&version["schema"], has_status, &path.child("schema")));
        }
        if shared_subresources.is_none() {
            errors.append(&mut validate_subresources(&version["subresources"], &path.child("subresources")));
        }
        if shared_columns.is_none() {
            let path = path.child("additionalPrinterColumns");
            errors.append(&mut validate_columns(&version["additionalPrinterColumns"], &path));
        }
        if shared_selectable.is_none() {
            let path = path.child("selectableFields");
            errors.append(&mut validate_selectable(&version["selectableFields"], &version["schema"], &path));
        }
    }
    let versions_are = |detail: &str| FieldError {
        problem: Problem::Invalid,
        path: at.child("versions"),
        value: Some(goshape::versions(
            &spec["versions"],
            [shared_schema, shared_subresources, shared_columns, shared_selectable]
                .map(|shared| shared.is_some()),
        )),
        detail: detail.to_owned(),
    };
    let twice = (1..versions.len())
        .any(|i| versions[..i].iter().any(|earlier| earlier["name"] == versions[i]["name"]));
    if twice {
        errors.push(versions_are("must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        errors.push(versions_are("must have exactly one version marked as storage version"));
    }
    if let Some(first) = versions.first()
        && !text(&first["name"]).is_empty()
        && let Some(why) = not_label(text(&first["name"]))
    {
        errors.push(FieldError::invalid(at.child("version"), &first["name"], why));
    }
    let names = at.child("names");
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"][field]).is_empty() {
            errors.push(FieldError::required(names.child(field), ""));
        }
    }
    errors.append(&mut validate_names(&spec["names"], &names));
    if let Some(schema) = shared_schema {
        let any_status = versions.iter().any(|version| version["subresources"]["status"].is_object());
        errors.append(&mut validate_schema(schema, any_status, &at.child("validation")));
    }
    if let Some(subresources) = shared_subresources {
        errors.append(&mut validate_subresources(subresources, &at.child("subresources")));
    }
    if let Some(columns) = shared_columns {
        errors.append(&mut validate_columns(columns, &at.child("additionalPrinterColumns")));
    }
    if let (Some(selectable), Some(schema)) = (shared_selectable, shared_schema) {
        errors.append(&mut validate_selectable(selectable, schema, &at.child("selectableFields")));
    }
    errors.append(&mut validate_conversion(&spec["conversion"], &at.child("conversion")));
    errors
}

fn one_of(path: &Path, value: &Value, accepted: &[&str]) -> Vec<FieldError> {
    match text(value) {
        "" => vec![FieldError::required(path.clone(), "")],
        found if accepted.contains(&found) => Vec::new(),
        _ => vec![FieldError::not_supported(path.clone(), value, accepted)],
    }
}

fn validate_deprecation(version: &Value, path: &Path) -> Vec<FieldError> {
    let path = path.child("deprecationWarning");
    let Some(warning) = version["deprecationWarning"].as_str() else { return Vec::new() };
    let mut why = Vec::new();
    if version["deprecated"] != true {
        why.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            why.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            why.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
            why.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    }
    why.into_iter()
        .map(|why| FieldError::invalid(path.clone(), &version["deprecationWarning"], why))
        .collect()
}

fn validate_schema(schema: &Value, has_status: bool, path: &Path) -> Vec<FieldError> {
    match &schema["openAPIV3Schema"] {
        root if root.is_object() => Inspection::of(root, has_status, &path.child("openAPIV3Schema")),
        _ => Vec::new(),
    }
}

fn simple_path(path: &Path, value: &Value) -> Vec<FieldError> {
    if text(value).starts_with('.') {
        return Vec::new();
    }
    vec![FieldError::invalid(path.clone(), value, "must be a simple json path starting with .")]
}

fn validate_subresources(subresources: &Value, path: &Path) -> Vec<FieldError> {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for (field, required, roots, where_to) in [
        ("specReplicasPath", true, &[".spec."][..], ".spec"),
        ("statusReplicasPath", true, &[".status."], ".status"),
        ("labelSelectorPath", false, &[".spec.", ".status."], "either .spec or .status"),
    ] {
        let (path, value) = (path.child("scale").child(field), &scale[field]);
        if text(value).is_empty() {
            if required {
                errors.push(FieldError::required(path, ""));
            }
            continue;
        }
        let mut bad = simple_path(&path, value);
        if bad.is_empty() && !roots.iter().any(|root| text(value).starts_with(root)) {
            bad.push(FieldError::invalid(path, value, format!("should be a json path under {where_to}")));
        }
        errors.append(&mut bad);
    }
    errors
}

fn validate_columns(columns: &Value, path: &Path) -> Vec<FieldError> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let mut errors = Vec::new();
    for (index, column) in list(columns).iter().enumerate() {
        let path = path.index(index);
        if text(&column["name"]).is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        let must_be = |known: &[&str]| format!("must be one of {}", known.join(","));
        match text(&column["type"]) {
            "" => errors.push(FieldError::required(path.child("type"), must_be(&TYPES))),
            kind if TYPES.contains(&kind) => {}
            _ => errors.push(FieldError::invalid(path.child("type"), &column["type"], must_be(&TYPES))),
        }
        let format = text(&column["format"]);
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(path.child("format"), &column["format"], must_be(&FORMATS)));
        }
        match text(&column["jsonPath"]) {
            "" => errors.push(FieldError::required(path.child("JSONPath"), "")),
            _ => errors.append(&mut simple_path(&path.child("JSONPath"), &column["jsonPath"])),
        }
    }
    errors
}

fn validate_selectable(selectable: &Value, schema: &Value, path: &Path) -> Vec<FieldError> {
    const MOST: usize = 8;
    let Ok(schema) = Schema::from_crd(&schema["openAPIV3Schema"]) else { return Vec::new() };
    let mut errors = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in list(selectable).iter().enumerate() {
        let (at, value) = (path.index(index).child("jsonPath"), &field["jsonPath"]);
        if text(value).is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (printed, found) = match follow_path(&schema, text(value), false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, value, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if printed == "metadata" || printed.starts_with("metadata.") {
            errors.push(FieldError::invalid(at.clone(), value, "must not point to fields in metadata"));
        }
        if !matches!(found.kind, Some(Kind::String | Kind::Boolean | Kind::Integer)) {
            errors.push(FieldError::invalid(
                at.clone(),
                value,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                 formats are allowed.",
            ));
        }
        if seen.contains(&printed) {
            errors.push(FieldError::duplicate(at, value));
        } else {
            seen.push(printed);
        }
    }
    if seen.len() > MOST {
        errors.push(FieldError {
            problem: Problem::TooMany,
            path: path.clone(),
            value: Some(seen.len().to_string()),
            detail: format!("must have at most {MOST} items"),
        });
    }
    errors
}

fn validate_names(names: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, mixed_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = text(&names[field]);
        let checked = if mixed_case { name.to_lowercase() } else { name.to_owned() };
        if let Some(why) = not_label(&checked).filter(|_| !name.is_empty()) {
            let hint = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(path.child(field), &names[field], format!("{hint}{why}")));
        }
    }
    let each = |field: &str, errors: &mut Vec<FieldError>| {
        for (index, name) in list(&names[field]).iter().enumerate() {
            if let Some(why) = not_label(text(name)) {
                errors.push(FieldError::invalid(path.child(field).index(index), name, why));
            }
        }
    };
    each("shortNames", &mut errors);
    if !text(&names["kind"]).is_empty() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(path.child("listKind"), &names["listKind"], detail));
    }
    each("categories", &mut errors);
    errors
}

/// Conversion by webhook is refused by name: this server converts by changing the version alone.
fn validate_conversion(conversion: &Value, path: &Path) -> Vec<FieldError> {
    if !conversion.is_object() {
        return Vec::new();
    }
    let strategy = &conversion["strategy"];
    let mut errors = one_of(&path.child("strategy"), strategy, &["None", "Webhook"]);
    let webhook = &conversion["webhook"];
    let versions = list(&webhook["conversionReviewVersions"]);
    if strategy == "Webhook" {
        if !webhook["clientConfig"].is_object() {
            let detail = "required when strategy is set to Webhook";
            errors.push(FieldError::required(path.child("webhookClientConfig"), detail));
        }
        if versions.is_empty() {
            errors.push(FieldError::required(path.child("conversionReviewVersions"), ""));
        }
        if errors.is_empty() {
            let detail = "the embedded API server does not call conversion webhooks";
            errors.push(FieldError::forbidden(path.child("strategy"), detail));
        }
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        if webhook["clientConfig"].is_object() {
            errors.push(FieldError::forbidden(path.child("webhookClientConfig"), detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(path.child("conversionReviewVersions"), detail));
        }
    }
    errors
}

fn validate_stored_versions(definition: &Value) -> Vec<FieldError> {
    let path = Path::new("status.storedVersions");
    let stored = &definition["status"]["storedVersions"];
    if list(stored).is_empty() {
        let shown = if stored.is_array() { stored } else { &Value::Null };
        return vec![FieldError::invalid(path, shown, "must have at least one stored version")];
    }
    let mut errors = Vec::new();
    // Each stored version stands for one of the spec's: a name the spec has twice is missing the second time.
    let mut left: Vec<(usize, &Value)> = list(stored).iter().enumerate().collect();
    for version in list(&definition["spec"]["versions"]) {
        let before = left.len();
        left.retain(|(_, name)| **name != version["name"]);
        if version["storage"] == true && left.len() == before {
            let detail = format!("must have the storage version {}", text(&version["name"]));
            errors.push(FieldError::invalid(path.clone(), stored, detail));
        }
    }
    for (index, name) in left {
        let v = text(name);
        errors.push(FieldError::invalid(
            path.index(index),
            name,
            format!(
                "missing from spec.versions; {v} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {v} and removes {v} from \
                 status.storedVersions"
            ),
        ));
    }
    errors
}

const APPROVED: &str = "api-approved.kubernetes.io";

/// Groups of the Kubernetes community need its approval, or the admission that there is none.
fn validate_approval(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = text(&definition["spec"]["group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !is_protected {
        return Vec::new();
    }
    let annotation =
        |definition: &Value| definition["metadata"]["annotations"][APPROVED].as_str().map(str::to_owned);
    let rank = |annotation: &Option<String>| match annotation.as_deref() {
        None | Some("") => 0,
        Some(text) if text.starts_with("unapproved") => 1,
        Some(text) if text.contains("://") => 2,
        Some(_) => 3,
    };
    let new = annotation(definition);
    if old.is_some_and(|old| rank(&annotation(old)) == rank(&new)) {
        return Vec::new();
    }
    let path = Path::new("metadata.annotations").key(APPROVED);
    match rank(&new) {
        0 => vec![FieldError::required(
            path,
            format!("protected groups must have approval annotation {APPROVED:?}, {SEE}"),
        )],
        3 => vec![FieldError::invalid(
            path,
            &Value::from(new.unwrap_or_default()),
            format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting \
                 with \"unapproved\", {SEE}"
            ),
        )],
        _ => Vec::new(),
    }
}

fn refuse_preserving(spec: &Value) -> Vec<FieldError> {
    if spec["preserveUnknownFields"] != true {
        return Vec::new();
    }
    vec![FieldError::invalid(
        Path::new("spec.preserveUnknownFields"),
        &Value::Bool(true),
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
    )]
}
