//! JSON as CEL sees it, by its schema.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as CelValue};
use serde_json::Value;

use crate::schema::{Additional, Kind, ListType, Schema, object_meta};

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name under which rules speak of a field.
pub(super) fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// A value as its rules see it. Fields the schema does not know are not visible.
pub(super) fn to_cel(schema: &Schema, value: &Value, is_resource: bool, functions: &Context<'_>) -> CelValue {
    Converter { functions }.convert(schema, value, None, is_resource)
}

/// The old value of something. Items of sets and list maps come in the order of `new`, because those lists are equal
/// whatever their order.
pub(super) fn old_to_cel(
    schema: &Schema,
    old: &Value,
    new: &Value,
    is_resource: bool,
    functions: &Context<'_>,
) -> CelValue {
    Converter { functions }.convert(schema, old, Some(new), is_resource)
}

struct Converter<'c> {
    functions: &'c Context<'c>,
}

impl Converter<'_> {
    fn convert(&self, schema: &Schema, value: &Value, like: Option<&Value>, is_resource: bool) -> CelValue {
        match value {
            Value::Null => CelValue::Null,
            Value::Bool(b) => CelValue::Bool(*b),
            Value::Number(n) => number(schema, n),
            Value::String(text) => self.text(schema, text),
            Value::Array(list) => {
                let Some(items) = &schema.items else { return plain(value) };
                let ordered = in_order_of(schema, list, like.and_then(Value::as_array));
                let converted =
                    ordered.into_iter().map(|(item, like)| self.convert(items, item, like, false)).collect();
                CelValue::List(Arc::new(converted))
            }
            Value::Object(map) => {
                let mut entries = HashMap::with_capacity(map.len());
                for (name, inner) in map {
                    let like = like.and_then(|like| like.get(name));
                    let (key, converted) = if is_resource && name == "metadata" {
                        (name.clone(), self.name_only(inner))
                    } else if let Some(property) = schema.properties.get(name) {
                        (escaped(name), self.convert(property, inner, like, property.embedded_resource))
                    } else if let Additional::Of(of) = &schema.additional {
                        (name.clone(), self.convert(of, inner, like, of.embedded_resource))
                    } else if matches!(schema.additional, Additional::Any)
                        || is_resource && (name == "apiVersion" || name == "kind")
                    {
                        (name.clone(), plain(inner))
                    } else if schema.preserve_unknown && schema.kind.is_none() {
                        (escaped(name), plain(inner))
                    } else {
                        continue;
                    };
                    entries.insert(Key::String(Arc::new(key)), converted);
                }
                CelValue::Map(Map { map: Arc::new(entries) })
            }
        }
    }

    /// Of its metadata a resource's rules see the name alone: everything else may change without the resource changing.
    fn name_only(&self, metadata: &Value) -> CelValue {
        let shown: serde_json::Map<String, Value> = ["name", "generateName"]
            .into_iter()
            .filter_map(|key| metadata.get(key).map(|value| (key.to_owned(), value.clone())))
            .collect();
        self.convert(&object_meta(), &Value::Object(shown), None, false)
    }

    fn text(&self, schema: &Schema, text: &str) -> CelValue {
        let as_is = || CelValue::String(Arc::new(text.to_owned()));
        if schema.int_or_string {
            return as_is();
        }
        match schema.limits.format.as_deref() {
            Some("duration") => self.call("duration(text)", text).unwrap_or_else(as_is),
            Some("date-time" | "datetime") => self.call("timestamp(text)", text).unwrap_or_else(as_is),
            Some("date") => self.call("timestamp(text)", &format!("{text}T00:00:00Z")).unwrap_or_else(as_is),
            Some("byte") => self.call("base64.decode(text)", text).unwrap_or_else(as_is),
            Some(_) | None => as_is(),
        }
    }

    fn call(&self, expression: &str, text: &str) -> Option<CelValue> {
        let program = Program::compile(expression).ok()?;
        let mut scope = self.functions.new_inner_scope();
        scope.add_variable_from_value("text", CelValue::String(Arc::new(text.to_owned())));
        program.execute(&scope).ok()
    }
}

fn number(schema: &Schema, n: &serde_json::Number) -> CelValue {
    let float = n.as_f64().unwrap_or_default();
    match (schema.kind, n.as_i64()) {
        (Some(Kind::Number), _) | (_, None)
            if !(schema.kind == Some(Kind::Integer) && float.fract() == 0.0) =>
        {
            CelValue::Float(float)
        }
        (_, Some(whole)) => CelValue::Int(whole),
        (_, None) => CelValue::Int(float as i64),
    }
}

/// A value no schema speaks of.
fn plain(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(b) => CelValue::Bool(*b),
        Value::Number(n) => {
            n.as_i64().map_or_else(|| CelValue::Float(n.as_f64().unwrap_or_default()), CelValue::Int)
        }
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(list) => CelValue::List(Arc::new(list.iter().map(plain).collect())),
        Value::Object(map) => {
            let entries = map.iter().map(|(k, v)| (Key::String(Arc::new(k.clone())), plain(v))).collect();
            CelValue::Map(Map { map: Arc::new(entries) })
        }
    }
}

/// The items of a list, each with the item of `like` it belongs to, in the order of `like` where order means nothing.
fn in_order_of<'v>(
    schema: &Schema,
    list: &'v [Value],
    like: Option<&'v Vec<Value>>,
) -> Vec<(&'v Value, Option<&'v Value>)> {
    let Some(like) = like else { return list.iter().map(|item| (item, None)).collect() };
    let same = |item: &Value, other: &Value| match &schema.list_type {
        Some(ListType::Map(keys)) => keys.iter().all(|key| item.get(key) == other.get(key)),
        Some(ListType::Set) => item == other,
        Some(ListType::Atomic) | None => false,
    };
    match &schema.list_type {
        Some(ListType::Atomic) | None => {
            list.iter().enumerate().map(|(index, item)| (item, like.get(index))).collect()
        }
        Some(ListType::Set | ListType::Map(_)) => {
            let mut ordered: Vec<(&Value, Option<&Value>)> = Vec::with_capacity(list.len());
            for other in like {
                if let Some(item) = list.iter().find(|item| same(item, other)) {
                    ordered.push((item, Some(other)));
                }
            }
            ordered.extend(
                list.iter()
                    .filter(|item| !like.iter().any(|other| same(item, other)))
                    .map(|item| (item, None)),
            );
            ordered
        }
    }
}
