//! Lists that are sets or maps: nothing may stand in them twice.

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};

use super::{Additional, ListType, Schema};

/// Every item of a set, and every key of a list map, that stands there twice.
pub(crate) fn duplicates(schema: &Schema, value: &Value, at: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if let Some(property) = schema.properties.get(key) {
                    errors.append(&mut duplicates(property, inner, &at.child(key)));
                } else if let Additional::Of(of) = &schema.additional {
                    errors.append(&mut duplicates(of, inner, &at.key(key)));
                }
            }
        }
        Value::Array(list) => {
            match &schema.list_type {
                Some(ListType::Set) => {
                    errors.extend(
                        second_appearances(list).map(|i| FieldError::duplicate(at.index(i), &list[i])),
                    );
                }
                Some(ListType::Map(keys)) => errors.append(&mut duplicate_keys(keys, list, at)),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(items) = &schema.items {
                for (index, inner) in list.iter().enumerate() {
                    errors.append(&mut duplicates(items, inner, &at.index(index)));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    errors
}

fn duplicate_keys(keys: &[String], list: &[Value], at: &Path) -> Vec<FieldError> {
    if let Some(index) = list.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        return vec![FieldError::invalid(at.index(index), &list[index], detail)];
    }
    let identities: Vec<Value> = list
        .iter()
        .map(|item| {
            let entry = |key: &String| item.get(key).map(|value| (key.clone(), value.clone()));
            Value::Object(keys.iter().filter_map(entry).collect::<Map<_, _>>())
        })
        .collect();
    second_appearances(&identities).map(|i| FieldError::duplicate(at.index(i), &identities[i])).collect()
}

/// The index at which a value appears for the second time; a third and fourth time are not told.
fn second_appearances(list: &[Value]) -> impl Iterator<Item = usize> {
    (0..list.len()).filter(|i| list[..*i].iter().filter(|earlier| **earlier == list[*i]).count() == 1)
}
