//! Field paths and sets of them, and their `FieldsV1` form.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::scalar;

/// One step from a value to something inside it.
#[derive(Clone, Debug)]
pub enum Element {
    /// `f:name`: a field of an object.
    Field(String),
    /// `k:{"name":"a"}`: the item of a list map with these keys, sorted by name.
    Key(Vec<(String, Value)>),
    /// `v:"a"`: an item of a set.
    Item(Value),
    /// `i:0`: an item by its position.
    Index(i64),
}

impl Element {
    /// The step to a named field.
    pub fn field(name: impl Into<String>) -> Element {
        Element::Field(name.into())
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Item(_) => 2,
            Element::Index(_) => 3,
        }
    }

    /// The key under which the element stands in `FieldsV1`.
    fn encode(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(keys) => {
                let parts: Vec<String> =
                    keys.iter().map(|(k, v)| format!("{}:{}", json!(k), scalar::to_json(v))).collect();
                format!("k:{{{}}}", parts.join(","))
            }
            Element::Item(value) => format!("v:{}", scalar::to_json(value)),
            Element::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads a `FieldsV1` key. `None` for kinds of elements this version does not know, which are dropped.
    fn decode(text: &str) -> Result<Option<Element>, BadFields> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err(BadFields(format!("field path element {text:?} is too short")));
        };
        match kind {
            "f:" => Ok(Some(Element::field(rest))),
            "v:" => serde_json::from_str(rest)
                .map(|value| Some(Element::Item(scalar::as_float(value))))
                .map_err(|_| BadFields(format!("{text:?} does not hold a value"))),
            "k:" => serde_json::from_str::<Map<String, Value>>(rest)
                .map(|keys| keys.into_iter().map(|(name, value)| (name, scalar::as_float(value))))
                .map(|keys| Some(Element::Key(keys.collect())))
                .map_err(|_| BadFields(format!("{text:?} does not hold keys"))),
            "i:" => rest
                .parse()
                .map(|index| Some(Element::Index(index)))
                .map_err(|_| BadFields(format!("{text:?} does not hold an index"))),
            other if other.ends_with(':') => Ok(None),
            _ => Err(BadFields(format!("field path element {text:?} lacks its colon"))),
        }
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(keys) => {
                let parts: Vec<String> =
                    keys.iter().map(|(k, v)| format!("{k}={}", scalar::in_path(v))).collect();
                write!(f, "[{}]", parts.join(","))
            }
            Element::Item(value) => write!(f, "[={}]", scalar::in_path(value)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => a
                .iter()
                .zip(b)
                .map(|((ak, av), (bk, bv))| ak.cmp(bk).then_with(|| scalar::compare(av, bv)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Element::Item(a), Element::Item(b)) => scalar::compare(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// `fieldsV1` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("reading fieldsV1: {0}")]
pub struct BadFields(pub String);

/// A set of fields, as a tree. A field with members below it is not thereby a member itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The fields at this level that belong to the set.
    pub members: BTreeSet<Element>,
    /// What belongs to the set below this level. No subtree is empty.
    pub children: BTreeMap<Element, Set>,
}

impl Set {
    /// A set of these paths.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [Element]>) -> Set {
        let mut set = Set::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Adds one path; the fields above it are not added. The empty path is nobody's.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Hangs a subtree in, unless it is empty.
    pub(crate) fn graft(&mut self, at: Element, below: Set) {
        if !below.is_empty() {
            match self.children.get_mut(&at) {
                Some(there) => *there = there.union(&below),
                None => {
                    self.children.insert(at, below);
                }
            }
        }
    }

    /// Whether nothing belongs to the set.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Set::is_empty)
    }

    /// Whether the path belongs to the set.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|below| below.has(rest)),
        }
    }

    /// Every path of the set, those nearer the root first at each level.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, prefix: &mut Vec<Element>, all: &mut Vec<Vec<Element>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            all.push(path);
        }
        for (element, below) in &self.children {
            prefix.push(element.clone());
            below.collect(prefix, all);
            prefix.pop();
        }
    }

    /// What belongs to either.
    pub fn union(&self, other: &Set) -> Set {
        let mut all = self.clone();
        all.members.extend(other.members.iter().cloned());
        for (element, below) in &other.children {
            match all.children.get_mut(element) {
                Some(there) => *there = there.union(below),
                None => {
                    all.children.insert(element.clone(), below.clone());
                }
            }
        }
        all
    }

    /// What belongs to both.
    pub fn intersection(&self, other: &Set) -> Set {
        let members = self.members.intersection(&other.members).cloned().collect();
        let mut both = Set { members, children: BTreeMap::new() };
        for (element, below) in &self.children {
            if let Some(there) = other.children.get(element) {
                both.graft(element.clone(), below.intersection(there));
            }
        }
        both
    }

    /// What belongs to `self` alone. A member of `other` does not take the fields below it away.
    pub fn difference(&self, other: &Set) -> Set {
        self.subtract(other, false)
    }

    /// What belongs to `self` alone, where a member of `other` takes everything below it away too.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.subtract(other, true)
    }

    fn subtract(&self, other: &Set, with_descendants: bool) -> Set {
        let members = self.members.difference(&other.members).cloned().collect();
        let mut rest = Set { members, children: BTreeMap::new() };
        for (element, below) in &self.children {
            if with_descendants && other.members.contains(element) {
                continue;
            }
            match other.children.get(element) {
                Some(there) => rest.graft(element.clone(), below.subtract(there, with_descendants)),
                None => {
                    rest.children.insert(element.clone(), below.clone());
                }
            }
        }
        rest
    }

    /// The set as the value of `fieldsV1`.
    pub fn to_fields(&self) -> Value {
        Value::Object(self.encode(false))
    }

    fn encode(&self, is_member_itself: bool) -> Map<String, Value> {
        let mut fields = Map::new();
        if is_member_itself {
            fields.insert(".".to_owned(), json!({}));
        }
        for member in &self.members {
            if !self.children.contains_key(member) {
                fields.insert(member.encode(), json!({}));
            }
        }
        for (element, below) in &self.children {
            let both = self.members.contains(element);
            fields.insert(element.encode(), Value::Object(below.encode(both)));
        }
        fields
    }

    /// Reads the value of `fieldsV1`.
    pub fn from_fields(fields: &Value) -> Result<Set, BadFields> {
        Ok(Set::decode(fields)?.0)
    }

    /// The set below a `fieldsV1` node, and whether the node itself is a member of its parent.
    fn decode(node: &Value) -> Result<(Set, bool), BadFields> {
        let mut set = Set::default();
        let mut is_member = false;
        match node {
            Value::Null => {}
            Value::Object(fields) => {
                for (key, below) in fields {
                    if key == "." {
                        is_member = true;
                        continue;
                    }
                    let Some(element) = Element::decode(key)? else { continue };
                    let (below, member) = Set::decode(below)?;
                    if member {
                        set.members.insert(element.clone());
                    }
                    set.graft(element, below);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(BadFields(format!("expected an object, found {node}")));
            }
        }
        let is_member = is_member || (set.members.is_empty() && set.children.is_empty());
        Ok((set, is_member))
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.paths().iter().map(|path| show(path)).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// A path as messages show it: `.spec.containers[name="a"].image`.
pub fn show(path: &[Element]) -> String {
    path.iter().map(Element::to_string).collect()
}
