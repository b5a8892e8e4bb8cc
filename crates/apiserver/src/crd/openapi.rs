//! The keywords of a definition's schema: which may stand where, with which values.

use serde_json::{Map, Value};

use crate::field::{FieldError, Path, Problem};
use crate::schema::cel::Rules;
use crate::schema::{Schema, field_path};

use super::{defaults, goshape, structural};

const ROOT_FIELDS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// What is known on the way down through a schema.
#[derive(Clone)]
struct Place {
    path: Path,
    is_root: bool,
    /// Inside the type or metadata of a resource.
    in_meta: bool,
    /// Why defaults may not be set here.
    no_defaults: Option<String>,
    /// The nearest list around this place whose items cannot be told apart across versions.
    uncorrelated: Option<Path>,
    /// Whether rules are compiled: not inside alternatives, and not in a schema that is wrong elsewhere.
    rules: bool,
}

impl Place {
    fn below(&self, path: Path) -> Place {
        Place { path, is_root: false, ..self.clone() }
    }
}

/// Everything wrong with one schema.
#[derive(Default)]
pub(super) struct Inspection {
    schema: Vec<FieldError>,
    rules: Vec<FieldError>,
}

impl Inspection {
    /// Inspects a whole schema, its structure, defaults and rules included.
    pub(super) fn of(root: &Value, has_status: bool, path: &Path) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if has_status {
            errors.append(&mut root_fields(root, path));
        }
        if root["nullable"] == true {
            errors.push(FieldError::forbidden(path.child("nullable"), "nullable cannot be true at the root"));
        }
        let mut sound = !structural::has_foreign_keywords(root);
        if sound {
            let mut found = structural::validate(root, path);
            if found.is_empty() {
                found = defaults::validate(root, path);
            }
            sound = found.is_empty();
            errors.append(&mut found);
        }
        let mut inspection = Inspection::default();
        inspection.node(
            root,
            &Place {
                path: path.clone(),
                is_root: true,
                in_meta: false,
                no_defaults: None,
                uncorrelated: None,
                rules: sound,
            },
        );
        errors.append(&mut inspection.schema);
        errors.append(&mut inspection.rules);
        errors
    }

    fn node(&mut self, schema: &Value, place: &Place) {
        let before = self.schema.len();
        self.keywords(schema, place);
        self.children(schema, place);
        self.extensions(schema, &place.path);
        self.list_map(schema, &place.path);
        let rules = schema["x-kubernetes-validations"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !rules.is_empty() {
            self.rule_fields(schema, rules, &place.path);
            if self.schema.len() == before && place.rules {
                self.compile(schema, rules, place);
            }
        }
    }

    fn forbid(&mut self, path: Path, detail: &str) {
        self.schema.push(FieldError::forbidden(path, detail));
    }

    fn keywords(&mut self, schema: &Value, place: &Place) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        let path = &place.path;
        let kind = text(&schema["type"]);
        if !kind.is_empty() && !TYPES.contains(&kind) {
            self.schema.push(FieldError::not_supported(path.child("type"), &schema["type"], &TYPES));
        }
        if !schema["default"].is_null()
            && let Some(reason) = &place.no_defaults
        {
            self.forbid(path.child("default"), &format!("must not be set {reason}"));
        }
        for (key, given) in [
            ("id", !text(&schema["id"]).is_empty()),
            ("additionalItems", !schema["additionalItems"].is_null()),
            ("patternProperties", entries(&schema["patternProperties"]).next().is_some()),
            ("definitions", entries(&schema["definitions"]).next().is_some()),
            ("dependencies", schema["dependencies"].is_object()),
            ("$ref", !schema["$ref"].is_null()),
        ] {
            if given {
                self.forbid(path.child(key), &format!("{key} is not supported"));
            }
        }
        if kind == "null" {
            self.forbid(path.child("type"), "type cannot be set to null, use nullable as an alternative");
        }
        if schema["items"].as_array().is_some_and(|items| !items.is_empty()) {
            self.forbid(path.child("items"), "items must be a schema object and not an array");
        }
        if place.in_meta && schema["x-kubernetes-embedded-resource"] == true {
            self.forbid(
                path.child("x-kubernetes-embedded-resource"),
                "must not be used inside of resource meta",
            );
        }
        if schema["uniqueItems"] == true {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path.child("uniqueItems"), detail);
        }
    }

    fn children(&mut self, schema: &Value, place: &Place) {
        let path = &place.path;
        let additional = &schema["additionalProperties"];
        let has_properties = entries(&schema["properties"]).next().is_some();
        if !additional.is_null() {
            if has_properties && *additional != true {
                let detail = "additionalProperties and properties are mutual exclusive";
                self.forbid(path.child("additionalProperties"), detail);
            }
            if additional.is_object() {
                let mut below = place.below(path.child("additionalProperties"));
                if place.in_meta {
                    below.no_defaults =
                        Some("inside additionalProperties applying to object metadata".to_owned());
                }
                self.node(additional, &below);
            }
        }
        for (name, property) in entries(&schema["properties"]) {
            let mut below = place.below(path.child("properties").key(name));
            let is_resource = place.is_root || schema["x-kubernetes-embedded-resource"] == true;
            if is_resource && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
                below.in_meta = true;
                if place.is_root {
                    below.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.node(property, &below);
        }
        let apart = |path: Path| Place { rules: false, ..place.below(path) };
        if schema["not"].is_object() {
            self.node(&schema["not"], &apart(path.child("not")));
        }
        for keyword in ["allOf", "oneOf", "anyOf"] {
            for (index, inner) in schema[keyword].as_array().into_iter().flatten().enumerate() {
                self.node(inner, &apart(path.child(keyword).index(index)));
            }
        }
        for (name, inner) in entries(&schema["definitions"]) {
            self.node(inner, &apart(path.child("definitions").key(name)));
        }
        let mut below = place.below(path.child("items"));
        if schema["x-kubernetes-list-type"] != "map" && below.uncorrelated.is_none() {
            below.uncorrelated = Some(path.clone());
        }
        match &schema["items"] {
            Value::Object(_) => self.node(&schema["items"], &below),
            Value::Array(several) => {
                for (index, inner) in several.iter().enumerate() {
                    self.node(inner, &Place { path: below.path.index(index), ..below.clone() });
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn extensions(&mut self, schema: &Value, path: &Path) {
        if schema["x-kubernetes-preserve-unknown-fields"] == false {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            self.schema.push(FieldError::invalid(path, &Value::Bool(false), "must be true or undefined"));
        }
        let kind = text(&schema["type"]);
        for (key, wanted, known) in [
            ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
            ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
        ] {
            let given = &schema[key];
            if given.is_null() {
                continue;
            }
            let detail = format!("must be {wanted} if {key} is specified");
            if kind.is_empty() {
                self.schema.push(FieldError::required(path.child("type"), detail));
            } else if kind != wanted {
                self.schema.push(FieldError::invalid(path.child("type"), &schema["type"], detail));
            } else if key == "x-kubernetes-list-type" && given == "set" {
                self.items_of_a_set(&schema["items"], &path.child("items"));
            }
            if !known.contains(&text(given)) {
                self.schema.push(FieldError::not_supported(path.child(key), given, known));
            }
        }
    }

    fn items_of_a_set(&mut self, items: &Value, path: &Path) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let list_type = &items["x-kubernetes-list-type"];
        match text(&items["type"]) {
            "array" if !list_type.is_null() && list_type != "atomic" => {
                self.schema.push(FieldError::invalid(
                    path.child("x-kubernetes-list-type"),
                    list_type,
                    detail,
                ));
            }
            "object" if items["x-kubernetes-map-type"] != "atomic" => {
                self.schema.push(FieldError::invalid(path.child("x-kubernetes-map-type"), list_type, detail));
            }
            _ => {}
        }
    }

    fn list_map(&mut self, schema: &Value, path: &Path) {
        let (list_type, items) = (&schema["x-kubernetes-list-type"], &schema["items"]);
        let keys_value = &schema["x-kubernetes-list-map-keys"];
        let keys = keys_value.as_array().map(Vec::as_slice).unwrap_or_default();
        let at = |key: &str| path.child(key);
        if !keys.is_empty() && list_type != "map" {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let path = at("x-kubernetes-list-type");
            self.schema.push(if list_type.is_null() {
                FieldError::required(path, detail)
            } else {
                FieldError::invalid(path, list_type, detail)
            });
        }
        if list_type == "map" {
            if keys.is_empty() {
                let detail = "must not be empty if x-kubernetes-list-type is map";
                self.schema.push(FieldError::required(at("x-kubernetes-list-map-keys"), detail));
            }
            if items.is_null() {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                self.schema.push(FieldError::required(at("items"), detail));
            } else if items["type"] != "object" {
                let shown = Value::from(text(&items["type"]));
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                self.schema.push(FieldError::invalid(at("items").child("type"), &shown, detail));
            } else {
                self.map_keys(keys, keys_value, items, path);
            }
        }
        if items.is_object() && (list_type == "map" || list_type == "set") {
            if items["nullable"] == true {
                let detail = format!("cannot be nullable when x-kubernetes-list-type is {}", text(list_type));
                self.forbid(at("items").child("nullable"), &detail);
            }
            for key in keys.iter().filter(|_| list_type == "map").filter_map(Value::as_str) {
                let Some(property) = items["properties"].get(key) else { continue };
                let here = at("items").child("properties").key(key);
                let required =
                    items["required"].as_array().is_some_and(|list| list.iter().any(|one| one == key));
                let in_keys = "this property is in x-kubernetes-list-map-keys, so it";
                if !required && property["default"].is_null() {
                    let detail = format!("{in_keys} must have a default or be a required property");
                    self.schema.push(FieldError::required(here.child("default"), detail));
                }
                if property["nullable"] == true {
                    self.forbid(here.child("nullable"), &format!("{in_keys} cannot be nullable"));
                }
            }
        }
    }

    fn map_keys(&mut self, keys: &[Value], keys_value: &Value, items: &Value, path: &Path) {
        for (index, key) in keys.iter().enumerate() {
            let path_to_keys = path.child("x-kubernetes-list-map-keys");
            match items["properties"].get(text(key)) {
                Some(property) if ["array", "object"].contains(&text(&property["type"])) => {
                    let here = path.child("items").child("properties").key(text(key)).child("type");
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.schema.push(FieldError::invalid(here, &items["type"], detail));
                }
                Some(_) => {}
                None => {
                    let detail = "entries must all be names of item properties";
                    self.schema.push(FieldError::invalid(path_to_keys.clone(), keys_value, detail));
                }
            }
            if keys[..index].contains(key) {
                let detail = "must not contain duplicate entries";
                self.schema.push(FieldError::invalid(path_to_keys, keys_value, detail));
            }
        }
    }

    fn rule_fields(&mut self, schema: &Value, rules: &[Value], path: &Path) {
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        let breaks = |text: &str| text.contains(['\n', '\r']);
        for (index, rule) in rules.iter().enumerate() {
            let at = |key: &str| path.child("x-kubernetes-validations").index(index).child(key);
            let (expression, message) = (text(&rule["rule"]).trim(), text(&rule["message"]));
            if expression.is_empty() {
                self.schema.push(FieldError::required(at("rule"), "rule is not specified"));
            } else if !message.is_empty() && message.trim().is_empty() {
                let detail = "must be non-empty if specified";
                self.schema.push(FieldError::invalid(at("message"), &rule["message"], detail));
            } else if breaks(message.trim()) {
                self.schema.push(FieldError::invalid(
                    at("message"),
                    &rule["message"],
                    "must not contain line breaks",
                ));
            } else if breaks(expression) && message.is_empty() {
                let detail = "message must be specified if rule contains line breaks";
                self.schema.push(FieldError::required(at("message"), detail));
            }
            let message_expression = text(&rule["messageExpression"]);
            if !message_expression.is_empty() && message_expression.trim().is_empty() {
                let detail = "messageExpression must be non-empty if specified";
                self.schema.push(FieldError::required(at("messageExpression"), detail));
            }
            if !rule["reason"].is_null() && !REASONS.contains(&text(&rule["reason"])) {
                self.schema.push(FieldError::not_supported(at("reason"), &rule["reason"], &REASONS));
            }
            let pointed = text(&rule["fieldPath"]);
            let mut bad_path = |detail: &str| {
                self.schema.push(FieldError::invalid(at("fieldPath"), &rule["fieldPath"], detail));
            };
            if !pointed.is_empty() && pointed.trim().is_empty() {
                bad_path("must be non-empty if specified");
            }
            if breaks(pointed) {
                bad_path("must not contain line breaks");
            }
            if !pointed.is_empty()
                && Schema::from_crd(schema).is_ok_and(|schema| field_path(&schema, pointed).is_err())
            {
                bad_path("must be a valid path");
            }
        }
    }

    fn compile(&mut self, schema: &Value, rules: &[Value], place: &Place) {
        let Ok(parsed) = Schema::from_crd(schema) else { return };
        let is_resource = place.is_root || parsed.embedded_resource;
        for (index, finding) in Rules::check_node(&parsed, is_resource).into_iter().enumerate() {
            let at = |key: &str| place.path.child("x-kubernetes-validations").index(index).child(key);
            let invalid = |path: Path, detail: String| FieldError {
                problem: Problem::Invalid,
                path,
                value: Some(goshape::rule(&rules[index])),
                detail,
            };
            if let Some(why) = finding.rule {
                self.rules.push(invalid(at("rule"), why));
            }
            if let Some(why) = finding.message {
                self.rules.push(invalid(at("messageExpression"), why));
            }
            let optional = &rules[index]["optionalOldSelf"];
            if !finding.uses_old_self && !optional.is_null() {
                let detail = "may not be set if oldSelf is not used in rule";
                self.rules.push(FieldError::invalid(at("optionalOldSelf"), optional, detail));
            }
            if finding.uses_old_self
                && let Some(list) = &place.uncorrelated
            {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.rules.push(FieldError::invalid(at("rule"), &rules[index]["rule"], detail));
            }
        }
    }
}

/// Beside a status of its own the root may hold little, because the status is validated without it.
fn root_fields(root: &Value, path: &Path) -> Vec<FieldError> {
    for field in goshape::fields_of(root) {
        if field == "Type" && root["type"] != "object" {
            return vec![FieldError::invalid(
                path.child("type"),
                &root["type"],
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
            )];
        }
        if !ROOT_FIELDS.contains(&field) {
            return vec![FieldError {
                problem: Problem::Invalid,
                path: path.clone(),
                value: Some(goshape::schema(root)),
                detail: format!(
                    "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                    ROOT_FIELDS.join(" ")
                ),
            }];
        }
    }
    Vec::new()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
