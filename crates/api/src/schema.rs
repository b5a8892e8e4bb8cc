//! Pieces of schema that several kinds share, and that a derive cannot know.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A CEL rule as it stands in `x-kubernetes-validations`.
///
/// Only what both the real server and the embedded one evaluate: no `sortBy`, no `cel.bind`, no
/// optional field selection (`self.?x`), no comprehension over two variables.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// An object nobody below the user's own tools looks into.
pub(crate) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// As [`free_form`], for fields that existing objects hold as an explicit `null`.
pub(crate) fn nullable_free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

pub(crate) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A number of nodes or a percentage of them.
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true
    })
}

/// A label selector, replaced as a whole: merging two selectors field by field selects what
/// neither author asked for.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string" },
                        "operator": { "type": "string" },
                        "values": {
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic"
                        }
                    }
                },
                "x-kubernetes-list-type": "atomic"
            }
        },
        "x-kubernetes-map-type": "atomic"
    })
}

pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "key": { "type": "string" },
                "operator": { "type": "string" },
                "value": { "type": "string" },
                "effect": { "type": "string" },
                "tolerationSeconds": { "type": "integer", "format": "int64" }
            }
        },
        "x-kubernetes-list-type": "atomic"
    })
}

const CONDITION_TYPE: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// The standard conditions: one per type, reason mandatory.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": { "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                },
                "message": { "type": "string", "maxLength": 32768 }
            }
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}

/// An operator's conditions: as [`conditions`], but reason and message may be missing.
pub(crate) fn operator_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "status", "type"],
            "properties": {
                "type": { "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "reason": { "type": "string" },
                "message": { "type": "string" }
            }
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}

/// Rules of a network written in CIDR notation, IPv4, no longer than `longest`.
///
/// A leading zero is refused by name: one reader takes `010` for ten, another for eight.
pub(crate) fn v4_subnet(longest: u8) -> Value {
    json!([
        rule(
            "isCIDR(self) && cidr(self).ip().family() == 4 && !self.matches('(^|[.])0[0-9]')",
            "must be an IPv4 network in CIDR notation, such as 100.64.0.0/16"
        ),
        rule(
            &format!("!isCIDR(self) || cidr(self).prefixLength() <= {longest}"),
            &format!("must hold enough addresses: the prefix may be at most /{longest}")
        ),
        rule("!isCIDR(self) || !self.startsWith('0.')", "the first octet must not be 0"),
    ])
}

/// Rules of a network written in CIDR notation, IPv6, no longer than /125.
pub(crate) fn v6_subnet() -> Value {
    json!([
        rule(
            "isCIDR(self) && cidr(self).ip().family() == 6 && !self.contains('.')",
            "must be an IPv6 network in CIDR notation without an embedded IPv4 address, such as fd98::/64"
        ),
        rule(
            "!isCIDR(self) || cidr(self).prefixLength() <= 125",
            "must hold enough addresses: the prefix may be at most /125"
        ),
    ])
}

/// For a status: what is missing there was not written, and a server must not make it up.
pub(crate) fn without_defaults(schema: &mut Schema) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("default");
        }
    }
}
