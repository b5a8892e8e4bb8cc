//! From OpenAPI v3 JSON to [`Schema`].
//!
//! Two dialects arrive here. A custom resource's `openAPIV3Schema` is self-contained. The built-in documents refer
//! from type to type (`$ref`), sometimes in circles, and wrap a reference in `allOf` to hang a default or a
//! description on it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Additional, Kind, Limits, ListType, PatchStrategy, Rule, Schema, SchemaRef};

/// Why a schema could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseError {
    /// A node is not what the keyword asks for.
    #[error("reading the schema at {at}: {keyword} must be {expected}")]
    Shape {
        /// The path of the node, dotted; `.` is the root.
        at: String,
        /// The keyword.
        keyword: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
    /// A `$ref` leads nowhere.
    #[error("reading the schema at {at}: there is no component {name}")]
    Dangling {
        /// The path of the node.
        at: String,
        /// The component's name.
        name: String,
    },
}

const REF_PREFIX: &str = "#/components/schemas/";

/// Built-in types whose document says only `type: object` but which hold whatever they are given.
const OPAQUE: [&str; 3] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
];

impl Schema {
    /// Reads a custom resource's `openAPIV3Schema`.
    pub fn from_crd(schema: &Value) -> Result<SchemaRef, ParseError> {
        let mut loader =
            Loader { components: &Value::Null, custom: true, loaded: BTreeMap::new(), wrapped: Vec::new() };
        loader.node(schema, ".")
    }

    /// Reads one built-in type out of a document's `components.schemas`. Use a [`Loader`] to read several.
    pub fn from_openapi(components: &Value, name: &str) -> Result<SchemaRef, ParseError> {
        Loader::new(components).load(name)
    }
}

/// Reads built-in types, each once: nodes are shared between all types that refer to them.
pub struct Loader<'a> {
    components: &'a Value,
    custom: bool,
    loaded: BTreeMap<String, SchemaRef>,
    /// References that carry a default or a description of their own, to be filled in once their target is there.
    wrapped: Vec<(SchemaRef, SchemaRef, Map<String, Value>)>,
}

impl<'a> Loader<'a> {
    /// A loader over a document's `components.schemas` object.
    pub fn new(components: &'a Value) -> Loader<'a> {
        Loader { components, custom: false, loaded: BTreeMap::new(), wrapped: Vec::new() }
    }

    /// The type of this name, with everything it refers to.
    pub fn load(&mut self, name: &str) -> Result<SchemaRef, ParseError> {
        let node = self.component(name, ".")?;
        // In this order a wrapper of a wrapper finds its target filled: targets are pushed before their users.
        for (promise, target, extras) in std::mem::take(&mut self.wrapped) {
            let mut schema = (*target).clone();
            extend(&mut schema, &extras, ".")?;
            promise.keep(schema);
        }
        Ok(node)
    }

    fn component(&mut self, name: &str, at: &str) -> Result<SchemaRef, ParseError> {
        if let Some(known) = self.loaded.get(name) {
            return Ok(known.clone());
        }
        let raw = self
            .components
            .get(name)
            .ok_or_else(|| ParseError::Dangling { at: at.to_owned(), name: name.to_owned() })?;
        let promise = SchemaRef::promised();
        self.loaded.insert(name.to_owned(), promise.clone());
        let mut schema = self.plain(raw, name)?;
        schema.name = Some(name.to_owned());
        if OPAQUE.contains(&name) {
            schema.preserve_unknown = true;
            schema.additional = Additional::Any;
        }
        promise.keep(schema);
        Ok(promise)
    }

    fn node(&mut self, raw: &Value, at: &str) -> Result<SchemaRef, ParseError> {
        let map = object(raw, at, "a schema")?;
        if self.custom {
            return Ok(SchemaRef::new(self.plain(raw, at)?));
        }
        if let Some(target) = reference(raw) {
            return self.component(target, at);
        }
        if let Some([Some(target)]) = map
            .get("allOf")
            .and_then(Value::as_array)
            .map(|all| all.iter().map(reference).collect::<Vec<_>>())
            .as_deref()
        {
            let target = self.component(target, at)?;
            let mut extras = map.clone();
            extras.remove("allOf");
            if extras.is_empty() {
                return Ok(target);
            }
            let promise = SchemaRef::promised();
            self.wrapped.push((promise.clone(), target, extras));
            return Ok(promise);
        }
        Ok(SchemaRef::new(self.plain(raw, at)?))
    }

    fn plain(&mut self, raw: &Value, at: &str) -> Result<Schema, ParseError> {
        let map = object(raw, at, "a schema")?;
        let mut schema = Schema::default();
        extend(&mut schema, map, at)?;
        if let Some(properties) = map.get("properties") {
            for (name, property) in object(properties, at, "properties")? {
                let node = self.node(property, &below(at, name))?;
                schema.properties.insert(name.clone(), node);
            }
        }
        schema.additional = match map.get("additionalProperties") {
            None | Some(Value::Bool(false) | Value::Null) => Additional::Refused,
            Some(Value::Bool(true)) => Additional::Any,
            Some(of) => Additional::Of(self.node(of, &below(at, "*"))?),
        };
        schema.items = match map.get("items") {
            None | Some(Value::Null) => None,
            Some(items) => Some(self.node(items, &below(at, "[]"))?),
        };
        schema.all_of = self.several(map, "allOf", at)?;
        schema.any_of = self.several(map, "anyOf", at)?;
        schema.one_of = self.several(map, "oneOf", at)?;
        schema.not = match map.get("not") {
            None | Some(Value::Null) => None,
            Some(not) => Some(self.node(not, at)?),
        };
        if !self.custom && schema.limits.format.as_deref() == Some("int-or-string") {
            schema.int_or_string = true;
        }
        // A built-in that says nothing of its type (JSON, JSONSchemaPropsOrBool, …) decodes itself: nothing below is unknown.
        if !self.custom && schema.kind.is_none() && schema.one_of.is_empty() && schema.properties.is_empty() {
            schema.preserve_unknown = true;
        }
        Ok(schema)
    }

    fn several(
        &mut self,
        map: &Map<String, Value>,
        keyword: &'static str,
        at: &str,
    ) -> Result<Vec<SchemaRef>, ParseError> {
        match map.get(keyword) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(all)) => all.iter().map(|one| self.node(one, at)).collect(),
            Some(_) => Err(shape(at, keyword, "a list of schemas")),
        }
    }
}

/// Reads the keywords that stand on a node itself, leaving alone what the node does not mention.
fn extend(schema: &mut Schema, map: &Map<String, Value>, at: &str) -> Result<(), ParseError> {
    for (keyword, value) in map {
        if value.is_null() && keyword != "default" {
            continue;
        }
        match keyword.as_str() {
            "type" => schema.kind = kind(value, at)?,
            "nullable" => schema.nullable = truth(value, at, "nullable")?,
            "description" => schema.description = value.as_str().map(str::to_owned),
            "default" if !value.is_null() => schema.default = Some(value.clone()),
            "x-kubernetes-int-or-string" => {
                schema.int_or_string = truth(value, at, "x-kubernetes-int-or-string")?
            }
            "x-kubernetes-preserve-unknown-fields" => {
                schema.preserve_unknown = truth(value, at, "x-kubernetes-preserve-unknown-fields")?;
            }
            "x-kubernetes-embedded-resource" => {
                schema.embedded_resource = truth(value, at, "x-kubernetes-embedded-resource")?;
            }
            "x-kubernetes-list-type" => {
                schema.list_type = match value.as_str() {
                    Some("atomic") => Some(ListType::Atomic),
                    Some("set") => Some(ListType::Set),
                    Some("map") => Some(ListType::Map(strings(map.get("x-kubernetes-list-map-keys")))),
                    Some(_) | None => return Err(shape(at, "x-kubernetes-list-type", "atomic, set or map")),
                };
            }
            "x-kubernetes-map-type" => schema.atomic = value == "atomic",
            "x-kubernetes-validations" => schema.rules = rules(value, at)?,
            "x-kubernetes-patch-strategy" => {
                let words: Vec<&str> = value.as_str().unwrap_or_default().split(',').collect();
                schema.patch_strategy = PatchStrategy {
                    merge: words.contains(&"merge"),
                    retain_keys: words.contains(&"retainKeys"),
                };
            }
            "x-kubernetes-patch-merge-key" => schema.patch_merge_key = value.as_str().map(str::to_owned),
            _ => limit(&mut schema.limits, keyword, value, at)?,
        }
    }
    Ok(())
}

fn limit(limits: &mut Limits, keyword: &str, value: &Value, at: &str) -> Result<(), ParseError> {
    match keyword {
        "enum" => {
            limits.one_of_values = Some(value.as_array().ok_or_else(|| shape(at, "enum", "a list"))?.clone());
        }
        "required" => limits.required = strings(Some(value)),
        "pattern" => limits.pattern = value.as_str().filter(|p| !p.is_empty()).map(str::to_owned),
        "format" => limits.format = value.as_str().filter(|f| !f.is_empty()).map(str::to_owned),
        "minimum" => limits.minimum = Some(float(value, at, "minimum")?),
        "exclusiveMinimum" => limits.exclusive_minimum = truth(value, at, "exclusiveMinimum")?,
        "maximum" => limits.maximum = Some(float(value, at, "maximum")?),
        "exclusiveMaximum" => limits.exclusive_maximum = truth(value, at, "exclusiveMaximum")?,
        "multipleOf" => limits.multiple_of = Some(float(value, at, "multipleOf")?),
        "minLength" => limits.min_length = Some(count(value, at, "minLength")?),
        "maxLength" => limits.max_length = Some(count(value, at, "maxLength")?),
        "minItems" => limits.min_items = Some(count(value, at, "minItems")?),
        "maxItems" => limits.max_items = Some(count(value, at, "maxItems")?),
        "uniqueItems" => limits.unique_items = truth(value, at, "uniqueItems")?,
        "minProperties" => limits.min_properties = Some(count(value, at, "minProperties")?),
        "maxProperties" => limits.max_properties = Some(count(value, at, "maxProperties")?),
        _ => {}
    }
    Ok(())
}

fn rules(value: &Value, at: &str) -> Result<Vec<Rule>, ParseError> {
    let list = value.as_array().ok_or_else(|| shape(at, "x-kubernetes-validations", "a list of rules"))?;
    let text = |rule: &Value, key: &str| {
        rule.get(key).and_then(Value::as_str).map(str::to_owned).filter(|t| !t.is_empty())
    };
    Ok(list
        .iter()
        .map(|rule| Rule {
            rule: text(rule, "rule").unwrap_or_default(),
            message: text(rule, "message"),
            message_expression: text(rule, "messageExpression"),
            reason: text(rule, "reason"),
            field_path: text(rule, "fieldPath"),
            optional_old_self: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
        })
        .collect())
}

fn kind(value: &Value, at: &str) -> Result<Option<Kind>, ParseError> {
    Ok(Some(match value.as_str() {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        Some("") => return Ok(None),
        Some(_) | None => return Err(shape(at, "type", "object, array, string, integer, number or boolean")),
    }))
}

fn shape(at: &str, keyword: &'static str, expected: &'static str) -> ParseError {
    ParseError::Shape { at: at.to_owned(), keyword, expected }
}

fn below(at: &str, name: &str) -> String {
    if at == "." { format!(".{name}") } else { format!("{at}.{name}") }
}

fn object<'v>(
    value: &'v Value,
    at: &str,
    keyword: &'static str,
) -> Result<&'v Map<String, Value>, ParseError> {
    value.as_object().ok_or_else(|| shape(at, keyword, "an object"))
}

fn reference(raw: &Value) -> Option<&str> {
    raw.get("$ref")?.as_str()?.strip_prefix(REF_PREFIX)
}

fn truth(value: &Value, at: &str, keyword: &'static str) -> Result<bool, ParseError> {
    value.as_bool().ok_or_else(|| shape(at, keyword, "true or false"))
}

fn float(value: &Value, at: &str, keyword: &'static str) -> Result<f64, ParseError> {
    value.as_f64().ok_or_else(|| shape(at, keyword, "a number"))
}

fn count(value: &Value, at: &str, keyword: &'static str) -> Result<u64, ParseError> {
    // Negative limits hold for everything, as zero does.
    match value.as_i64() {
        Some(n) => Ok(u64::try_from(n).unwrap_or(0)),
        None => Err(shape(at, keyword, "a whole number")),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(|s| s.as_str().map(str::to_owned)).collect())
        .unwrap_or_default()
}
