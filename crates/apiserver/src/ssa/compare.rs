//! What differs between two values, field by field.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Element, Set};
use super::scalar;
use super::types::{Atomic, Form, ListMerge, Type};

/// The difference between two values. No field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Only the second has it.
    pub(crate) added: Set,
    /// Both have it, with different values.
    pub(crate) modified: Set,
    /// Only the first has it.
    pub(crate) removed: Set,
}

impl Comparison {
    /// The comparison without the fields in `set` and everything below them.
    pub(crate) fn without(&self, set: &Set) -> Comparison {
        Comparison {
            added: self.added.recursive_difference(set),
            modified: self.modified.recursive_difference(set),
            removed: self.removed.recursive_difference(set),
        }
    }

    fn graft(&mut self, element: Element, inner: Comparison, change: Option<Change>) {
        match change {
            Some(Change::Added) => drop(self.added.members.insert(element.clone())),
            Some(Change::Modified) => drop(self.modified.members.insert(element.clone())),
            Some(Change::Removed) => drop(self.removed.members.insert(element.clone())),
            None => {}
        }
        self.added.graft(element.clone(), inner.added);
        self.modified.graft(element.clone(), inner.modified);
        self.removed.graft(element, inner.removed);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Removed,
}

/// Compares two values of one type.
pub(crate) fn compare(old: &Value, new: &Value, ty: Type<'_>) -> Comparison {
    let mut found = Comparison::default();
    walk(Some(old), Some(new), ty, &mut found);
    found
}

/// Collects the differences below a place and returns what happened to the place itself.
fn walk(old: Option<&Value>, new: Option<&Value>, ty: Type<'_>, found: &mut Comparison) -> Option<Change> {
    let form = |value: Option<&Value>| value.map(|value| ty.form_of(value));
    let (old_form, new_form) = (form(old), form(new));
    let first = ty.first_form();
    match (old_form, new_form) {
        // The value changed its form (say, from a list to an object): seen from both.
        (Some(a), Some(b)) if a != b => {
            let change = walk_as(a.unwrap_or(first), old, new, ty, found);
            walk_as(b.unwrap_or(first), old, new, ty, found).or(change)
        }
        (_, Some(form)) | (Some(form), None) => walk_as(form.unwrap_or(first), old, new, ty, found),
        (None, None) => None,
    }
}

fn walk_as(
    form: Form,
    old: Option<&Value>,
    new: Option<&Value>,
    ty: Type<'_>,
    found: &mut Comparison,
) -> Option<Change> {
    match form {
        Form::Scalar => leaf(old, new),
        Form::Map => {
            let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let empty = |map: Option<&serde_json::Map<String, Value>>| map.is_none_or(|map| map.is_empty());
            if ty.map() == Some(Atomic(true)) || (empty(a) && empty(b)) {
                return leaf(old, new);
            }
            let mut names: Vec<&String> = a.into_iter().flat_map(|a| a.keys()).collect();
            names.extend(
                b.into_iter().flat_map(|b| b.keys()).filter(|k| !a.is_some_and(|a| a.contains_key(*k))),
            );
            for name in names {
                let (before, after) = (a.and_then(|a| a.get(name)), b.and_then(|b| b.get(name)));
                descend(Element::field(name), before, after, ty.field(name), found);
            }
            presence(old, new)
        }
        Form::List => {
            let (a, b) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
            let merge = ty.list().unwrap_or(ListMerge::Atomic);
            let empty = |list: Option<&Vec<Value>>| list.is_none_or(|list| list.is_empty());
            if merge == ListMerge::Atomic || (empty(a) && empty(b)) {
                return leaf(old, new);
            }
            items(a.map_or(&[], Vec::as_slice), b.map_or(&[], Vec::as_slice), merge, ty, found);
            presence(old, new)
        }
    }
}

fn descend(element: Element, old: Option<&Value>, new: Option<&Value>, ty: Type<'_>, found: &mut Comparison) {
    let mut inner = Comparison::default();
    let change = walk(old, new, ty, &mut inner);
    found.graft(element, inner, change);
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Option<Change> {
    match (old, new) {
        (Some(old), Some(new)) if !scalar::equal(old, new) => Some(Change::Modified),
        _ => presence(old, new),
    }
}

fn presence(old: Option<&Value>, new: Option<&Value>) -> Option<Change> {
    match (old, new) {
        (None, Some(_)) => Some(Change::Added),
        (Some(_), None) => Some(Change::Removed),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// Compares list items by their keys. Items that share a key are compared together, as one atomic thing.
fn items(old: &[Value], new: &[Value], merge: ListMerge<'_>, ty: Type<'_>, found: &mut Comparison) {
    let mut by_key: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        if let Ok(element) = ty.element_of(merge, item) {
            by_key.entry(element).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(element) = ty.element_of(merge, item) {
            by_key.entry(element).or_default().1.push(item);
        }
    }
    for (element, (before, after)) in by_key {
        match (before.as_slice(), after.as_slice()) {
            ([] | [_], [] | [_]) => {
                descend(element, before.first().copied(), after.first().copied(), ty.item(), found);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len()
                    && before.iter().zip(&after).all(|(a, b)| scalar::equal(a, b));
                if !same {
                    found.modified.members.insert(element);
                }
            }
            ([_, _, ..], [] | [_]) => {
                if let Some(single) = after.first() {
                    descend(element.clone(), None, Some(single), ty.item(), found);
                }
                found.removed.members.insert(element);
            }
            ([] | [_], [_, _, ..]) => {
                if let Some(single) = before.first() {
                    descend(element.clone(), Some(single), None, ty.item(), found);
                }
                found.added.members.insert(element);
            }
        }
    }
}
