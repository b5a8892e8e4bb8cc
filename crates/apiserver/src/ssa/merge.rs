//! Laying an applied configuration over a live object, and taking fields out of one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::fields::{Element, Set};
use super::types::{Atomic, Form, ListMerge, Type};

/// The live object with everything the applied one says. Nothing is removed; where both name a leaf, the applied
/// one wins; lists keep the live order until the applied one orders their items otherwise.
pub(crate) fn merge(live: &Value, applied: &Value, ty: Type<'_>) -> Value {
    lay(Some(live), Some(applied), ty).unwrap_or(Value::Null)
}

fn lay(live: Option<&Value>, applied: Option<&Value>, ty: Type<'_>) -> Option<Value> {
    let leaf = || applied.or(live).cloned();
    match ty.form(applied.or(live)?) {
        Form::Scalar => leaf(),
        Form::Map => {
            let (a, b) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            let empty = |map: Option<&Map<String, Value>>| map.is_none_or(|map| map.is_empty());
            if ty.map() == Some(Atomic(true)) || (empty(a) && empty(b)) {
                return leaf();
            }
            let mut merged = Map::new();
            for name in a.into_iter().chain(b).flat_map(|map| map.keys()) {
                if !merged.contains_key(name) {
                    let (before, after) = (a.and_then(|a| a.get(name)), b.and_then(|b| b.get(name)));
                    if let Some(value) = lay(before, after, ty.field(name)) {
                        merged.insert(name.clone(), value);
                    }
                }
            }
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Form::List => {
            let (a, b) = (live.and_then(Value::as_array), applied.and_then(Value::as_array));
            let merge = ty.list().unwrap_or(ListMerge::Atomic);
            let empty = |list: Option<&Vec<Value>>| list.is_none_or(|list| list.is_empty());
            if merge == ListMerge::Atomic || (empty(a) && empty(b)) {
                return leaf();
            }
            let merged = lay_items(a.map_or(&[], Vec::as_slice), b.map_or(&[], Vec::as_slice), merge, ty);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

/// A list's items with their keys. Of items that share a key none can be merged with anything.
struct Keyed<'v> {
    order: Vec<(Element, &'v Value)>,
    by_key: BTreeMap<Element, &'v Value>,
}

impl<'v> Keyed<'v> {
    fn of(items: &'v [Value], merge: ListMerge<'_>, ty: Type<'_>) -> Keyed<'v> {
        const SHARED: &Value = &Value::Null;
        let mut keyed = Keyed { order: Vec::new(), by_key: BTreeMap::new() };
        for item in items {
            if let Ok(element) = ty.element_of(merge, item) {
                keyed.by_key.entry(element.clone()).and_modify(|there| *there = SHARED).or_insert(item);
                keyed.order.push((element, item));
            }
        }
        keyed
    }
}

/// Merges two keyed lists: items of the applied one stand in its order; live items it does not name stay where
/// they stood between them.
fn lay_items(live: &[Value], applied: &[Value], merge: ListMerge<'_>, ty: Type<'_>) -> Vec<Value> {
    let live = Keyed::of(live, merge, ty);
    let applied = Keyed::of(applied, merge, ty);
    let mut common: VecDeque<&Element> = applied
        .order
        .iter()
        .map(|(element, _)| element)
        .filter(|element| live.by_key.contains_key(element))
        .collect();
    let mut next_common = common.pop_front();
    let mut placed: BTreeSet<&Element> = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < live.order.len() || r < applied.order.len() {
        if let (Some((here, _)), Some((there, _))) = (live.order.get(l), applied.order.get(r)) {
            if here == there {
                placed.insert(there);
                merged.extend(lay(
                    live.by_key.get(there).copied(),
                    applied.by_key.get(there).copied(),
                    ty.item(),
                ));
                l += 1;
                r += 1;
                next_common = common.pop_front();
                continue;
            }
            if applied.by_key.contains_key(here) && next_common.is_some_and(|next| next != here) {
                // It has its place in the applied order, and that place is not here.
                l += 1;
                continue;
            }
        }
        if let Some((here, item)) = live.order.get(l) {
            if !applied.by_key.contains_key(here) {
                merged.extend(lay(Some(item), None, ty.item()));
                l += 1;
                continue;
            }
            if placed.contains(here) {
                l += 1;
            }
        }
        if let Some((there, _)) = applied.order.get(r) {
            placed.insert(there);
            merged.extend(lay(
                live.by_key.get(there).copied(),
                applied.by_key.get(there).copied(),
                ty.item(),
            ));
            r += 1;
            if next_common == Some(there) {
                next_common = common.pop_front();
            }
        }
    }
    merged
}

/// The value without the fields in `set`. An atomic value that the set reaches into, and a container that loses all
/// it held, become null.
pub(crate) fn without(value: &Value, set: &Set, ty: Type<'_>) -> Value {
    match ty.form(value) {
        Form::Scalar => value.clone(),
        Form::Map => {
            let Value::Object(fields) = value else { return Value::Null };
            if ty.map() == Some(Atomic(true)) {
                return Value::Null;
            }
            let mut kept = Map::new();
            for (name, below) in fields {
                let element = Element::field(name);
                if !set.members.contains(&element) {
                    kept.insert(name.clone(), without_below(below, set, &element, ty.field(name)));
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Form::List => {
            let Value::Array(items) = value else { return Value::Null };
            let merge = ty.list().unwrap_or(ListMerge::Atomic);
            if merge == ListMerge::Atomic {
                return Value::Null;
            }
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let Ok(element) = ty.element_of(merge, item) else { return Some(item.clone()) };
                    (!set.members.contains(&element)).then(|| without_below(item, set, &element, ty.item()))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
    }
}

fn without_below(value: &Value, set: &Set, element: &Element, ty: Type<'_>) -> Value {
    match set.children.get(element) {
        Some(below) if !below.is_empty() => without(value, below, ty),
        _ => value.clone(),
    }
}
