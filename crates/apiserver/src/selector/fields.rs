//! Field selectors: `metadata.name=x,status.phase!=Running`.

use serde_json::Value;

use crate::field::quoted;
use crate::resource::Resource;
use crate::status::ApiError;

/// One term: a field is, or is not, a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldTerm {
    /// `status.phase`
    pub field: String,
    /// Without escapes.
    pub value: String,
    /// `=` and `==`, or `!=`.
    pub equal: bool,
}

/// A parsed selector: all its terms must hold. One without terms selects everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FieldSelector {
    /// The terms, as written.
    pub terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Parses `?fieldSelector=`. Whether its fields can be selected by is another question: [`FieldSelector::check`].
    pub fn parse(text: &str) -> Result<FieldSelector, ApiError> {
        let mut terms = Vec::new();
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            let Some((field, equal, value)) = term(part) else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value)
                .map_err(|why| ApiError::bad_request(format!("invalid field selector: {why}")))?;
            terms.push(FieldTerm { field: field.to_owned(), value, equal });
        }
        Ok(FieldSelector { terms })
    }

    /// Refuses fields a resource cannot be selected by. `selectable` are those it has besides its name and namespace.
    pub fn check(&self, selectable: &[&str], custom: bool) -> Result<(), ApiError> {
        for FieldTerm { field, .. } in &self.terms {
            let known = matches!(field.as_str(), "metadata.name" | "metadata.namespace");
            if known || selectable.contains(&field.as_str()) {
                continue;
            }
            // Kinds with selectable fields of their own came to their message by another way than those without.
            return Err(ApiError::bad_request(if selectable.is_empty() && !custom {
                format!(
                    "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                    quoted(field)
                )
            } else {
                format!("field label not supported: {field}")
            }));
        }
        Ok(())
    }

    /// [`FieldSelector::check`] for a resource as the catalogue has it.
    pub fn check_for(&self, resource: &Resource) -> Result<(), ApiError> {
        let fields = resource.behaviour.selectable(&Value::Object(serde_json::Map::new()));
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_ref()).collect();
        self.check(&names, resource.custom)
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether an object is selected. `value_of` gives the selectable fields' values; an unset one is empty.
    pub fn matches(&self, value_of: impl Fn(&str) -> String) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field) == term.value) == term.equal)
    }

    /// Whether an object of a resource is selected.
    pub fn matches_object(&self, resource: &Resource, object: &Value) -> bool {
        if self.terms.is_empty() {
            return true;
        }
        let fields = resource.behaviour.selectable(object);
        self.matches(|field| match field {
            "metadata.name" | "metadata.namespace" => {
                let (_, name) = field.split_once('.').unwrap_or_default();
                object["metadata"][name].as_str().unwrap_or_default().to_owned()
            }
            field => {
                fields.iter().find(|(name, _)| *name == field).map(|(_, v)| v.to_string()).unwrap_or_default()
            }
        })
    }

    /// The value a field must have, if the selector asks for exactly one: lets a list for one name be a get.
    pub fn exactly(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

/// Parts between commas that no backslash protects.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(part: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in part.char_indices() {
        let rest = &part[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&part[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(format!("invalid escape sequence: \\{other}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}
