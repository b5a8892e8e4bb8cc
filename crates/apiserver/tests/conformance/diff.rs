//! Where two JSON values differ, in words.

use serde_json::Value;

/// One line per difference.
pub(crate) fn lines(recorded: &Value, got: &Value) -> Vec<String> {
    let mut out = Vec::new();
    compare("", recorded, got, &mut out);
    out
}

fn compare(at: &str, recorded: &Value, got: &Value, out: &mut Vec<String>) {
    match (recorded, got) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let at = format!("{at}/{key}");
                match b.get(key) {
                    Some(other) => compare(&at, value, other, out),
                    None => out.push(format!("{at}: recorded {}, missing", short(value))),
                }
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                out.push(format!("{at}/{key}: not recorded, got {}", short(value)));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (index, pair) in a.iter().zip(b).enumerate() {
                compare(&format!("{at}/{index}"), pair.0, pair.1, out);
            }
            for (index, value) in a.iter().enumerate().skip(b.len()) {
                out.push(format!("{at}/{index}: recorded {}, missing", short(value)));
            }
            for (index, value) in b.iter().enumerate().skip(a.len()) {
                out.push(format!("{at}/{index}: not recorded, got {}", short(value)));
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{at}: recorded {}, got {}", short(a), short(b))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Removes what `pattern` (a JSON pointer in which `*` stands for any segment) leads to.
pub(crate) fn remove(value: &mut Value, pattern: &[&str]) {
    let Some((first, rest)) = pattern.split_first() else { return };
    let first = first.replace("~1", "/").replace("~0", "~");
    match value {
        Value::Object(fields) => {
            if rest.is_empty() {
                fields.retain(|key, _| first != "*" && *key != first);
            } else {
                fields
                    .iter_mut()
                    .filter(|(key, _)| first == "*" || **key == first)
                    .for_each(|(_, inner)| remove(inner, rest));
            }
        }
        Value::Array(items) => {
            let chosen = |index: usize| first == "*" || first == index.to_string();
            if rest.is_empty() {
                let mut index = 0;
                items.retain(|_| {
                    index += 1;
                    !chosen(index - 1)
                });
            } else {
                items
                    .iter_mut()
                    .enumerate()
                    .filter(|(i, _)| chosen(*i))
                    .for_each(|(_, inner)| remove(inner, rest));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether everything in `part` is in `whole`. Lists are compared item by item, as far as `part` goes.
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (_, Value::Null) => true,
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|w| contains(w, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() >= part.len() && whole.iter().zip(part).all(|(w, p)| contains(w, p))
        }
        (whole, part) => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_difference_is_one_line_with_its_place() {
        let found =
            lines(&json!({"a": [1, 2], "b": {"c": "x"}, "d": 1}), &json!({"a": [1, 3, 4], "b": {"c": "y"}}));
        let expected = [
            "/a/1: recorded 2, got 3",
            "/a/2: not recorded, got 4",
            r#"/b/c: recorded "x", got "y""#,
            "/d: recorded 1, missing",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_star_removes_in_every_item() {
        let mut value = json!({"items": [{"a": 1, "b": 2}, {"a": 3}]});
        remove(&mut value, &["items", "*", "a"]);
        assert_eq!(value, json!({"items": [{"b": 2}, {}]}));
    }
}
