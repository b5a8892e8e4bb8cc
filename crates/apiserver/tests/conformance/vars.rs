//! `${…}`: what a request takes from the case and from earlier answers.

use std::collections::BTreeMap;

use serde_json::Value;

/// What the variables of a case stand for.
pub(crate) struct Vars {
    /// Unique to this run of the case; the name of its namespace and the front of its cluster-wide names.
    pub(crate) id: String,
    /// The answers so far, by the step's name.
    pub(crate) answers: BTreeMap<String, Value>,
}

impl Vars {
    /// Replaces every variable in `text`. `${id}` and `${ns}` are the case's id, `${pad:N}` N letters,
    /// `${step/path}` a value of an earlier answer.
    pub(crate) fn text(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, after) = rest.split_at(start);
            let end = after.find('}').ok_or_else(|| format!("no }} in {text}"))?;
            out.push_str(before);
            let value = self.value(&after[2..end])?;
            out.push_str(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The same in every key and string of `value`; a string that is one variable becomes that value, whatever its type.
    pub(crate) fn json(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(s) => match s.strip_prefix("${").and_then(|s| s.strip_suffix('}')) {
                Some(name) if !name.contains("${") => self.value(name)?,
                _ => Value::String(self.text(s)?),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|v| self.json(v)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(k, v)| Ok((self.text(k)?, self.json(v)?)))
                    .collect::<Result<_, String>>()?,
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn value(&self, name: &str) -> Result<Value, String> {
        if name == "id" || name == "ns" {
            return Ok(self.id.clone().into());
        }
        if let Some(count) = name.strip_prefix("pad:") {
            let count = count.parse().map_err(|_| format!("${{{name}}} names no number"))?;
            return Ok("a".repeat(count).into());
        }
        let (step, path) = name.split_once('/').map_or((name, ""), |(step, path)| (step, path));
        let answer =
            self.answers.get(step).ok_or_else(|| format!("${{{name}}}: no answer to a step {step}"))?;
        let pointer = if path.is_empty() { String::new() } else { format!("/{path}") };
        answer
            .pointer(&pointer)
            .cloned()
            .ok_or_else(|| format!("${{{name}}}: the answer to {step} has no {pointer}"))
    }
}

/// Puts `new` at `pointer`, making the objects on the way; null removes what is there.
pub(crate) fn put(target: &mut Value, pointer: &str, new: Value) -> Result<(), String> {
    let (parent, last) = pointer.rsplit_once('/').ok_or_else(|| format!("{pointer} is no JSON pointer"))?;
    let mut at = target;
    for segment in parent.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(items) => segment.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
            Value::Object(fields) => {
                Some(fields.entry(segment).or_insert_with(|| Value::Object(Default::default())))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
        .ok_or_else(|| format!("{pointer} leads nowhere"))?;
    }
    let last = last.replace("~1", "/").replace("~0", "~");
    match (at, new) {
        (Value::Object(fields), Value::Null) => drop(fields.remove(&last)),
        (Value::Object(fields), new) => drop(fields.insert(last, new)),
        (Value::Array(items), new) => {
            let index: usize = last.parse().map_err(|_| format!("{pointer} is no index"))?;
            if index >= items.len() {
                items.push(new);
            } else if new.is_null() {
                items.remove(index);
            } else {
                items[index] = new;
            }
        }
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), _) => {
            return Err(format!("{pointer} leads nowhere"));
        }
    }
    Ok(())
}
