//! What a value says of fields, read by its type: whether it fits, and which fields it mentions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::{Element, Set};
use super::scalar;
use super::types::{Atomic, Form, ListMerge, Scalar, Type};

/// What is wrong with a value, in the words clients already match on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Misfits(Vec<(String, String)>);

impl Misfits {
    fn one(text: impl Into<String>) -> Misfits {
        Misfits(vec![(String::new(), text.into())])
    }

    fn below(mut self, element: &Element) -> Misfits {
        let prefix = element.to_string();
        for (path, _) in &mut self.0 {
            path.insert_str(0, &prefix);
        }
        self
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Misfits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(path, text)| if path.is_empty() { text.clone() } else { format!("{path}: {text}") })
            .collect();
        match lines.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "errors:\n  {}", many.join("\n  ")),
        }
    }
}

impl std::error::Error for Misfits {}

/// Whether the same key may stand twice in a set or list map.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// Objects written before the list had keys, or through a plain update.
    Allowed,
    /// A configuration that is applied.
    Refused,
}

/// Checks that `value` can be read by its type at all.
pub(crate) fn fits(value: &Value, ty: Type<'_>, duplicates: Duplicates) -> Result<(), Misfits> {
    let found = misfits(value, ty, duplicates);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn misfits(value: &Value, ty: Type<'_>, duplicates: Duplicates) -> Misfits {
    if value.is_null() {
        return Misfits::default();
    }
    let unlike = |what: &str| Misfits::one(format!("expected {what}, got &{{{}}}", scalar::loosely(value)));
    match ty.form(value) {
        Form::Map => value.as_object().map_or_else(|| unlike("map"), |map| map_misfits(map, ty, duplicates)),
        Form::List => {
            value.as_array().map_or_else(|| unlike("list"), |list| list_misfits(list, ty, duplicates))
        }
        Form::Scalar => scalar_misfit(value, ty.scalar().unwrap_or(Scalar::Any)),
    }
}

fn map_misfits(fields: &Map<String, Value>, ty: Type<'_>, duplicates: Duplicates) -> Misfits {
    let mut found = Misfits::default();
    for (name, below) in fields {
        let element = Element::field(name);
        match ty.named(name).or_else(|| ty.unnamed()) {
            Some(field) => found.0.extend(misfits(below, field, duplicates).below(&element).0),
            None => {
                // One undeclared field is enough; the rest of the object is not looked at.
                found.0.extend(Misfits::one("field not declared in schema").below(&element).0);
                break;
            }
        }
    }
    found
}

fn list_misfits(items: &[Value], ty: Type<'_>, duplicates: Duplicates) -> Misfits {
    let merge = ty.list().unwrap_or(ListMerge::Atomic);
    let mut found = Misfits::default();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = if merge == ListMerge::Atomic {
            Element::Index(index as i64)
        } else {
            match ty.element_of(merge, item) {
                Ok(element) => element,
                Err(why) => {
                    // Without a key nothing below can be named.
                    found.0.extend(Misfits::one(format!("element {index}: {why}")).0);
                    return found;
                }
            }
        };
        if !seen.insert(element.clone()) && duplicates == Duplicates::Refused {
            found.0.extend(Misfits::one(format!("duplicate entries for key {element}")).0);
        }
        found.0.extend(misfits(item, ty.item(), duplicates).below(&element).0);
    }
    found
}

fn scalar_misfit(value: &Value, wanted: Scalar) -> Misfits {
    match (wanted, value) {
        (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => Misfits::default(),
        (Scalar::Numeric, other) => {
            Misfits::one(format!("expected numeric (int or float), got {}", scalar::type_name(other)))
        }
        (Scalar::String, other) => Misfits::one(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            scalar::exactly(other)
        )),
        (Scalar::Boolean, other) => {
            Misfits::one(format!("expected boolean, got &{{{}}}", scalar::loosely(other)))
        }
        (Scalar::Any, other) => {
            Misfits::one(format!("expected any scalar, got &{{{}}}", scalar::loosely(other)))
        }
    }
}

/// The fields a value mentions: its leaves, the items of its sets and list maps, the entries of its maps, and
/// fields that are empty or null. An object the schema names is not a member for what it holds.
pub(crate) fn field_set(value: &Value, ty: Type<'_>) -> Set {
    let mut set = Set::default();
    gather(value, ty, &mut set);
    set
}

/// Gathers what lies below `value`; returns whether `value` is a leaf and so a member of its parent's set.
fn gather(value: &Value, ty: Type<'_>, set: &mut Set) -> bool {
    match ty.form(value) {
        Form::Scalar => true,
        Form::Map => {
            if ty.map() == Some(Atomic(true)) {
                return true;
            }
            if let Value::Object(fields) = value {
                for (name, below) in fields {
                    let mut inner = Set::default();
                    let leaf = gather(below, ty.field(name), &mut inner);
                    let hollow = below.is_null() || below.as_object().is_some_and(Map::is_empty);
                    add(set, Element::field(name), inner, leaf || hollow || ty.named(name).is_none());
                }
            }
            false
        }
        Form::List => {
            let merge = ty.list().unwrap_or(ListMerge::Atomic);
            if merge == ListMerge::Atomic {
                return true;
            }
            if let Value::Array(items) = value {
                gather_items(items, merge, ty, set);
            }
            false
        }
    }
}

fn gather_items(items: &[Value], merge: ListMerge<'_>, ty: Type<'_>, set: &mut Set) {
    let mut by_key: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = ty.element_of(merge, item) {
            by_key.entry(element).or_default().push(item);
        }
    }
    for (element, sharing) in by_key {
        let mut inner = Set::default();
        // Of items that share a key nothing is known but that they are there.
        if let [item] = sharing.as_slice() {
            gather(item, ty.item(), &mut inner);
        }
        add(set, element, inner, true);
    }
}

fn add(set: &mut Set, element: Element, inner: Set, member: bool) {
    if member {
        set.members.insert(element.clone());
    }
    set.graft(element, inner);
}

/// The set with every named field above a member made a member too: what an applied configuration mentioned by
/// mentioning something inside it.
pub(crate) fn with_named_fields(set: &Set, ty: Type<'_>) -> Set {
    let mut all = Set { members: set.members.clone(), ..Set::default() };
    let freely = ty.map().is_some();
    for (element, below) in &set.children {
        let below_type = match element {
            Element::Field(name) if freely => {
                if ty.named(name).is_some() {
                    all.members.insert(element.clone());
                }
                Some(ty.field(name))
            }
            Element::Key(_) if ty.list().is_some() => Some(ty.item()),
            Element::Field(_) | Element::Key(_) | Element::Item(_) | Element::Index(_) => None,
        };
        let below = match below_type {
            Some(below_type) => with_named_fields(below, below_type),
            None => below.clone(),
        };
        all.children.insert(element.clone(), below);
    }
    all
}

/// Brings a set written under an older schema in line: where a list or object has become atomic since, whoever
/// owned something inside it owns it as a whole.
pub(crate) fn reconciled(set: &Set, ty: Type<'_>) -> Set {
    let mut now = set.clone();
    match ty.first_form() {
        Form::Scalar => {}
        Form::Map if ty.is_freeform() => {}
        Form::Map => {
            for (element, below) in &set.children {
                let Element::Field(name) = element else { continue };
                if let Some(field) = ty.named(name).or_else(|| ty.unnamed()) {
                    settle(&mut now, element, below, field);
                }
            }
        }
        Form::List => {
            for (element, below) in &set.children {
                settle(&mut now, element, below, ty.item());
            }
        }
    }
    now
}

fn settle(now: &mut Set, element: &Element, below: &Set, ty: Type<'_>) {
    let whole = match ty.first_form() {
        Form::Map => !ty.is_freeform() && ty.map() == Some(Atomic(true)) && !below.is_empty(),
        Form::List => ty.list() == Some(ListMerge::Atomic),
        Form::Scalar => false,
    };
    if whole {
        now.children.remove(element);
        now.members.insert(element.clone());
    } else {
        now.children.insert(element.clone(), reconciled(below, ty));
    }
}
