//! Parts of a definition as the real server prints them inside messages: its own structures, every field in its
//! order, absent ones too.

use serde_json::Value;

use crate::field::shown;

/// The fields of a schema: the server's name, ours, and what an absent one looks like.
const SCHEMA: [(&str, &str, &str); 42] = [
    ("ID", "id", "\"\""),
    ("Schema", "$schema", "\"\""),
    ("Ref", "$ref", "null"),
    ("Description", "description", "\"\""),
    ("Type", "type", "\"\""),
    ("Nullable", "nullable", "false"),
    ("Format", "format", "\"\""),
    ("Title", "title", "\"\""),
    ("Default", "default", "null"),
    ("Maximum", "maximum", "null"),
    ("ExclusiveMaximum", "exclusiveMaximum", "false"),
    ("Minimum", "minimum", "null"),
    ("ExclusiveMinimum", "exclusiveMinimum", "false"),
    ("MaxLength", "maxLength", "null"),
    ("MinLength", "minLength", "null"),
    ("Pattern", "pattern", "\"\""),
    ("MaxItems", "maxItems", "null"),
    ("MinItems", "minItems", "null"),
    ("UniqueItems", "uniqueItems", "false"),
    ("MultipleOf", "multipleOf", "null"),
    ("Enum", "enum", "null"),
    ("MaxProperties", "maxProperties", "null"),
    ("MinProperties", "minProperties", "null"),
    ("Required", "required", "null"),
    ("Items", "items", "null"),
    ("AllOf", "allOf", "null"),
    ("OneOf", "oneOf", "null"),
    ("AnyOf", "anyOf", "null"),
    ("Not", "not", "null"),
    ("Properties", "properties", "null"),
    ("AdditionalProperties", "additionalProperties", "null"),
    ("PatternProperties", "patternProperties", "null"),
    ("Dependencies", "dependencies", "null"),
    ("AdditionalItems", "additionalItems", "null"),
    ("Definitions", "definitions", "null"),
    ("ExternalDocs", "externalDocs", "null"),
    ("Example", "example", "null"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", "null"),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", "false"),
    ("XIntOrString", "x-kubernetes-int-or-string", "false"),
    ("XListMapKeys", "x-kubernetes-list-map-keys", "null"),
    ("XListType", "x-kubernetes-list-type", "null"),
];

/// The server's names of the fields a schema has, in its order.
pub(super) fn fields_of(schema: &Value) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = SCHEMA
        .iter()
        .filter(|(_, ours, absent)| {
            let value = &schema[*ours];
            !(value.is_null() || shown(value) == *absent || value.as_array().is_some_and(Vec::is_empty))
        })
        .map(|(theirs, _, _)| *theirs)
        .collect();
    for (theirs, ours) in
        [("XMapType", "x-kubernetes-map-type"), ("XValidations", "x-kubernetes-validations")]
    {
        if !schema[ours].is_null() {
            names.push(theirs);
        }
    }
    names
}

/// A schema.
pub(super) fn schema(value: &Value) -> String {
    let mut fields: Vec<String> = SCHEMA
        .iter()
        .map(|(theirs, ours, absent)| {
            let inner = &value[*ours];
            let printed = match *theirs {
                _ if inner.is_null() => (*absent).to_owned(),
                "AllOf" | "OneOf" | "AnyOf" => all(inner),
                "Not" => schema(inner),
                "Items" => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(inner)),
                "AdditionalProperties" | "AdditionalItems" => match inner.as_bool() {
                    Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
                    None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(inner)),
                },
                "Properties" | "PatternProperties" | "Definitions" => match inner.as_object() {
                    Some(map) => {
                        let entries: Vec<String> = map
                            .iter()
                            .map(|(name, inner)| {
                                format!("{}:{}", shown(&Value::from(&**name)), schema(inner))
                            })
                            .collect();
                        format!("{{{}}}", entries.join(","))
                    }
                    None => "null".to_owned(),
                },
                _ => json(inner),
            };
            format!("\"{theirs}\":{printed}")
        })
        .collect();
    let map_type = &value["x-kubernetes-map-type"];
    fields.push(format!("\"XMapType\":{}", json(map_type)));
    let rules = match value["x-kubernetes-validations"].as_array() {
        Some(rules) => format!("[{}]", rules.iter().map(rule).collect::<Vec<_>>().join(",")),
        None => "null".to_owned(),
    };
    fields.push(format!("\"XValidations\":{rules}"));
    format!("{{{}}}", fields.join(","))
}

fn all(list: &Value) -> String {
    let items: Vec<String> = list.as_array().into_iter().flatten().map(schema).collect();
    format!("[{}]", items.join(","))
}

/// One rule of `x-kubernetes-validations`.
pub(super) fn rule(rule: &Value) -> String {
    let text = |key: &str| json(&Value::from(rule[key].as_str().unwrap_or_default()));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        json(&rule["reason"]),
        text("fieldPath"),
        json(&rule["optionalOldSelf"])
    )
}

/// The list of versions. `shared` says which of schema, subresources, columns and selectable fields stand beside it.
pub(super) fn versions(list: &Value, shared: [bool; 4]) -> String {
    let Some(list) = list.as_array() else { return "null".to_owned() };
    let [schema_shared, subresources_shared, columns_shared, selectable_shared] = shared;
    let version = |version: &Value| {
        let flag = |key: &str| version[key] == true;
        let given = |key: &str, shared: bool| if shared { &Value::Null } else { &version[key] };
        let listed = |value: &Value, print: fn(&Value) -> String| match value.as_array() {
            Some(list) => format!("[{}]", list.iter().map(print).collect::<Vec<_>>().join(",")),
            None => "null".to_owned(),
        };
        let schema = match &given("schema", schema_shared)["openAPIV3Schema"] {
            found if found.is_object() => format!("{{\"OpenAPIV3Schema\":{}}}", schema(found)),
            _ => "null".to_owned(),
        };
        let columns = listed(given("additionalPrinterColumns", columns_shared), column);
        let selectable = listed(given("selectableFields", selectable_shared), |field| {
            format!("{{\"JSONPath\":{}}}", json(&field["jsonPath"]))
        });
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\
             \"Subresources\":{},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable}}}",
            json(&Value::from(version["name"].as_str().unwrap_or_default())),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            json(&version["deprecationWarning"]),
            subresources(given("subresources", subresources_shared)),
        )
    };
    format!("[{}]", list.iter().map(version).collect::<Vec<_>>().join(","))
}

fn subresources(value: &Value) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let status = if value["status"].is_object() { "{}" } else { "null" };
    let scale = match &value["scale"] {
        scale if scale.is_object() => format!(
            "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
            json(&scale["specReplicasPath"]),
            json(&scale["statusReplicasPath"]),
            json(&scale["labelSelectorPath"])
        ),
        _ => "null".to_owned(),
    };
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn column(column: &Value) -> String {
    let text = |key: &str| json(&Value::from(column[key].as_str().unwrap_or_default()));
    format!(
        "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
        text("name"),
        text("type"),
        text("format"),
        text("description"),
        column["priority"].as_i64().unwrap_or_default(),
        text("jsonPath")
    )
}

/// JSON as the server encodes it.
fn json(value: &Value) -> String {
    // A list is shown as JSON where a string would be quoted for people: the same but for the angle brackets' escape.
    let listed = shown(&Value::Array(vec![value.clone()]));
    listed[1..listed.len() - 1].to_owned()
}
