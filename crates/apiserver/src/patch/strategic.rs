//! Strategic merge patch: a merge patch that knows which lists are maps by another name.
//!
//! A list whose schema names a merge key is merged item by item, one of scalars as a set, any other is replaced.
//! Directives inside the patch change that: `$patch` (replace, delete), `$retainKeys`,
//! `$deleteFromPrimitiveList/<field>` and `$setElementOrder/<field>`.

use serde_json::{Map, Value};

use super::plain;
use crate::decode::go::short_name;
use crate::field::quoted;
use crate::schema::Schema;
use crate::status::ApiError;
use crate::text::printed;

type Object = Map<String, Value>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Merges a patch into an object. Whole-object directives are taken out of the patch, as messages show it afterwards.
pub(super) fn merge(current: &Value, patch: &mut Object, schema: &Schema) -> Result<Value, ApiError> {
    let current = current.as_object().cloned().unwrap_or_default();
    objects(current, patch.clone(), Some(schema)).map(|merged| {
        strip_consumed(patch);
        Value::Object(merged)
    })
}

/// The real server shows the patch after merging has eaten its directives.
fn strip_consumed(patch: &mut Object) {
    patch.retain(|key, _| key != PATCH && key != RETAIN_KEYS && !key.starts_with(SET_ORDER));
    for value in patch.values_mut() {
        if let Value::Object(inner) = value {
            strip_consumed(inner);
        }
    }
}

fn objects(mut current: Object, mut patch: Object, schema: Option<&Schema>) -> Result<Object, ApiError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            Some(_) | None => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut current, &mut patch)?;
    set_orders(&mut current, &mut patch, schema)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM_LIST) {
            let field = field_of(&key, DELETE_FROM_LIST, "invalid patch format of primitive list")?;
            if let (Some(Value::Array(items)), Value::Array(gone)) = (current.get_mut(field), &value) {
                delete_from(items, gone)?;
            }
            continue;
        }
        if value.is_null() {
            current.remove(&key);
            continue;
        }
        let merged = match (current.remove(&key), value) {
            (Some(Value::Object(there)), Value::Object(value)) => {
                let inner = schema.and_then(|schema| schema.properties.get(&key));
                Some(Value::Object(objects(there, value, inner.map(|inner| &**inner))?))
            }
            (Some(Value::Array(there)), Value::Array(value)) => {
                Some(Value::Array(lists(there, value, List::of(schema, &key))?))
            }
            (_, mut value) => {
                drop_nulls(&mut value);
                without_directives(value)
            }
        };
        if let Some(merged) = merged {
            current.insert(key, merged);
        }
    }
    Ok(current)
}

/// What the schema says of a list.
#[derive(Clone, Copy)]
struct List<'s> {
    merges: bool,
    key: Option<&'s str>,
    item: Option<&'s Schema>,
}

impl<'s> List<'s> {
    fn of(schema: Option<&'s Schema>, field: &str) -> List<'s> {
        let Some(schema) = schema.and_then(|schema| schema.properties.get(field)) else {
            return List { merges: false, key: None, item: None };
        };
        List {
            merges: schema.patch_strategy.merge,
            key: schema.patch_merge_key.as_deref(),
            item: schema.items.as_deref(),
        }
    }

    /// What makes two items the same: their key, or all of them.
    fn identity<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        match (self.key, item) {
            (Some(key), Value::Object(fields)) => fields.get(key),
            (Some(_), _) => None,
            (None, item) => Some(item),
        }
    }

    fn position(&self, items: &[Value], item: &Value) -> Option<usize> {
        let wanted = self.identity(item)?;
        items.iter().position(|other| self.identity(other) == Some(wanted))
    }
}

fn lists(current: Vec<Value>, patch: Vec<Value>, list: List<'_>) -> Result<Vec<Value>, ApiError> {
    if !list.merges {
        return Ok(patch);
    }
    if current.is_empty() && patch.is_empty() {
        return Ok(current);
    }
    if !of_objects(&current, &patch)? {
        let mut merged: Vec<Value> = Vec::new();
        for item in current.iter().chain(&patch) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        let list = List { key: None, ..list };
        return ordered(merged, &patch, &current, list);
    }
    let Some(key) = list.key else {
        return Err(plain("cannot merge lists without merge key for struct"));
    };
    let (current, patch) = item_directives(current, patch, key)?;
    let mut merged = current.clone();
    for item in &patch {
        let Value::Object(fields) = item else { continue };
        if !fields.contains_key(key) {
            return Err(no_merge_key(fields, key));
        }
        match list.position(&merged, item) {
            Some(at) => {
                let there = std::mem::take(&mut merged[at]);
                let Value::Object(there) = there else { continue };
                merged[at] = Value::Object(objects(there, fields.clone(), list.item)?);
            }
            None => merged.push(item.clone()),
        }
    }
    ordered(merged, &patch, &current, list)
}

/// Items that carry `$patch` act on the list and vanish from the patch.
fn item_directives(
    mut current: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let mut rest = Vec::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(PATCH) else {
            rest.push(item);
            continue;
        };
        let Value::Object(fields) = &item else { continue };
        match directive.as_str() {
            Some("delete") => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                current.retain(|other| other.get(key) != Some(value));
            }
            Some("replace") => replace = true,
            Some("merge") => return Err(plain("merging lists cannot yet be specified in the patch")),
            Some(_) | None => return Err(unknown_directive(directive, fields)),
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (current, rest) })
}

/// Puts a merged list in order: what the patch mentions in the patch's order, the rest in the order it had, woven
/// together so that neither order is disturbed.
fn ordered(
    merged: Vec<Value>,
    patch_order: &[Value],
    old_order: &[Value],
    list: List<'_>,
) -> Result<Vec<Value>, ApiError> {
    if let Some(key) = list.key {
        for item in merged.iter().chain(patch_order).chain(old_order) {
            let Value::Object(fields) = item else { return Err(not_that("map[string]interface {}", item)) };
            if !fields.contains_key(key) {
                return Err(no_merge_key(fields, key));
            }
        }
    }
    let (mut mentioned, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| list.position(patch_order, item).is_some());
    sort_by(&mut mentioned, patch_order, list);
    sort_by(&mut rest, old_order, list);
    let mut out = Vec::with_capacity(mentioned.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for item in mentioned {
        while let Some(earlier) =
            rest.next_if(|other| match (list.position(old_order, other), list.position(old_order, &item)) {
                (Some(other), Some(item)) => other < item,
                (Some(_) | None, _) => false,
            })
        {
            out.push(earlier);
        }
        out.push(item);
    }
    out.extend(rest);
    Ok(out)
}

/// An insertion sort, because items the order does not know are not comparable: like upstream's, they move to the
/// front, the last of them first.
fn sort_by(items: &mut [Value], order: &[Value], list: List<'_>) {
    let before = |a: &Value, b: &Value| match (list.position(order, a), list.position(order, b)) {
        (Some(a), Some(b)) => a < b,
        (Some(_) | None, _) => true,
    };
    for i in 1..items.len() {
        let mut j = i;
        while j > 0 && before(&items[j], &items[j - 1]) {
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}

fn retain_keys(current: &mut Object, patch: &mut Object) -> Result<(), ApiError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || ApiError::bad_request("invalid patch format of retainKeys");
    let Value::Array(retained) = retained else { return Err(malformed()) };
    let kept = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    for (key, value) in patch.iter() {
        let directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        if !value.is_null() && !directive && !kept(key) {
            return Err(malformed());
        }
    }
    current.retain(|key, _| kept(key));
    Ok(())
}

/// `$setElementOrder/<field>`: merges the field's list now and puts it in the order the directive lists.
fn set_orders(current: &mut Object, patch: &mut Object, schema: Option<&Schema>) -> Result<(), ApiError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            Some(other) => return Err(not_that("[]interface {}", &other)),
            None => continue,
        };
        let field = field_of(&directive, SET_ORDER, "invalid patch format of setElementOrder list")?;
        let there = as_list(current.get(field))?;
        let given = as_list(patch.get(field))?;
        if schema.is_some_and(|schema| !schema.properties.contains_key(field)) {
            let name = schema.and_then(|schema| schema.name.as_deref()).map_or("", short_name);
            return Err(plain(format!(
                "unable to find api field in struct {name} for the json field {}",
                quoted(field)
            )));
        }
        let list = List::of(schema, field);
        check_order(given.as_deref().unwrap_or_default(), &order, list)?;
        let merged = match (there.clone(), given.clone()) {
            (None, None) => continue,
            (Some(there), None) => there,
            (None, Some(given)) => given.into_iter().filter_map(without_directives).collect(),
            (Some(there), Some(given)) => lists(there, given, list)?,
        };
        let there = there.unwrap_or_default();
        of_objects(&there, given.as_deref().unwrap_or_default())?;
        let merged = ordered(merged, &order, &there, list)?;
        current.insert(field.to_owned(), Value::Array(merged));
        patch.remove(field);
    }
    Ok(())
}

/// The items of the patch must stand in the directive, in the same order.
fn check_order(given: &[Value], order: &[Value], list: List<'_>) -> Result<(), ApiError> {
    if given.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::new();
    for item in given {
        match (list.key, item) {
            (Some(_), Value::Object(fields)) if fields.get(PATCH).is_some() => {}
            (Some(_), Value::Object(_)) | (None, _) => kept.push(item),
            (Some(_), other) => return Err(not_that("map[string]interface {}", other)),
        }
    }
    let mut kept = kept.into_iter().peekable();
    for place in order {
        let Some(item) = kept.peek() else { break };
        if let Some(key) = list.key {
            for side in [*item, place] {
                let Value::Object(fields) = side else {
                    return Err(not_that("map[string]interface {}", side));
                };
                if !fields.contains_key(key) {
                    return Err(no_merge_key(fields, key));
                }
            }
        }
        if list.identity(item) == list.identity(place) {
            kept.next();
        }
    }
    if kept.peek().is_some() {
        let show = |items: &[Value]| printed(&Value::Array(items.to_vec()));
        return Err(plain(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            show(given),
            show(order)
        )));
    }
    Ok(())
}

fn delete_from(items: &mut Vec<Value>, gone: &[Value]) -> Result<(), ApiError> {
    if !(items.is_empty() && gone.is_empty()) {
        of_objects(items, gone)?;
    }
    items.retain(|item| !gone.contains(item));
    Ok(())
}

/// Whether lists hold objects; all items must be of one type.
fn of_objects(a: &[Value], b: &[Value]) -> Result<bool, ApiError> {
    let mut items = a.iter().chain(b);
    let Some(first) = items.next() else { return Err(plain("no elements in any of the given slices")) };
    if first.is_array() {
        return Err(unprocessable("lists of lists are not supported"));
    }
    if items.any(|item| go_type(item) != go_type(first)) {
        let show = |items: &[Value]| printed(&Value::Array(items.to_vec()));
        return Err(plain(format!("list element types are not identical: [{} {}]", show(a), show(b))));
    }
    Ok(first.is_object())
}

/// A value that had no counterpart is taken as it is, but for directives: an object that carries `$patch` has nothing
/// to act on.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => Some(Value::Object(
            fields.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(value),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn field_of<'k>(directive: &'k str, prefix: &str, malformed: &str) -> Result<&'k str, ApiError> {
    match directive.split_once('/') {
        Some((head, field)) if head == prefix => Ok(field),
        Some(_) | None => Err(ApiError::bad_request(malformed)),
    }
}

fn as_list(value: Option<&Value>) -> Result<Option<Vec<Value>>, ApiError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(not_that("[]interface {}", other)),
    }
}

fn not_that(wanted: &str, found: &Value) -> ApiError {
    plain(format!("expected a {wanted}, but received a {}", go_type(found)))
}

fn no_merge_key(fields: &Object, key: &str) -> ApiError {
    let shown = printed(&Value::Object(fields.clone()));
    plain(format!("map: {shown} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value, fields: &Object) -> ApiError {
    let shown = match directive {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("%!s({}={})", go_type(directive), printed(directive))
        }
    };
    plain(format!("unknown patch type: {shown} in map: {}", printed(&Value::Object(fields.clone()))))
}

fn unprocessable(message: &str) -> ApiError {
    // Upstream says no more than this, whatever was wrong.
    debug_assert!(!message.is_empty());
    ApiError::rejected()
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
