//! Finding the old value of what is being validated, so that what did not change is not refused anew.

use serde_json::{Map, Value};

use super::{Additional, ListType, Schema};

/// A value and the one it replaces, at the same place of the same schema.
#[derive(Clone, Copy)]
pub(crate) struct Correlated<'a> {
    schema: &'a Schema,
    new: &'a Value,
    old: &'a Value,
}

impl<'a> Correlated<'a> {
    /// The roots of two versions of an object.
    pub(crate) fn new(schema: &'a Schema, new: &'a Value, old: &'a Value) -> Correlated<'a> {
        Correlated { schema, new, old }
    }

    /// The field of this name, where both have it and the schema knows it.
    pub(crate) fn key(self, name: &str) -> Option<Correlated<'a>> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        let schema: &Schema = match (self.schema.properties.get(name), &self.schema.additional) {
            (Some(property), _) => property,
            (None, Additional::Of(of)) => of,
            (None, Additional::Any | Additional::Refused) => return None,
        };
        Some(Correlated { schema, new, old })
    }

    /// The item at this index of the new list. Only items of list maps have an old self.
    pub(crate) fn index(self, index: usize) -> Option<Correlated<'a>> {
        let new = self.new.as_array()?.get(index)?;
        let old = old_item(self.schema, new, self.old)?;
        let schema: &Schema = self.schema.items.as_ref()?;
        Some(Correlated { schema, new, old })
    }

    /// Whether nothing changed here. What the schema does not know counts as changed: its old value cannot be found.
    pub(crate) fn unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|key| self.key(key).is_some_and(Correlated::unchanged))
            }
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                match self.schema.list_type {
                    Some(ListType::Map(_)) => {
                        (0..new.len()).all(|index| self.index(index).is_some_and(Correlated::unchanged))
                    }
                    Some(ListType::Atomic | ListType::Set) | None => new == old,
                }
            }
            (new, old) => new == old,
        }
    }
}

/// The item of `old_list` with the same keys as `item`. `None` for any list but a list map.
pub(crate) fn old_item<'a>(schema: &Schema, item: &Value, old_list: &'a Value) -> Option<&'a Value> {
    let Some(ListType::Map(keys)) = &schema.list_type else { return None };
    let item = item.as_object()?;
    let defaulted =
        |map: &Map<String, Value>, key: &str| map.get(key).cloned().filter(|value| !value.is_null());
    old_list.as_array()?.iter().find(|old| {
        old.as_object().is_some_and(|old| keys.iter().all(|key| defaulted(old, key) == defaulted(item, key)))
    })
}
