//! Text in the form the Go programs of Kubernetes print it. Clients match on these messages, so a value
//! inside one has to be quoted, escaped and ordered the way they have seen it before.

use serde_json::Value;

use crate::field::{number, quoted};

/// One byte of a JSON document in single quotes, as Go's JSON scanner names the character it stumbled on.
/// Bytes beyond ASCII show as the code point of the same number, not as the character they begin.
pub fn quoted_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        byte => {
            let quoted = quoted(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

/// A value as Go's `%v` prints what it decoded: `map[a:1 b:[x y]]`, strings bare, null as `<nil>`.
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => s.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", printed(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_character_a_scanner_stumbled_on_is_quoted_by_its_byte() {
        for (byte, shown) in [
            (b'a', "'a'"),
            (b'\'', "'\\''"),
            (b'"', "'\"'"),
            (1, "'\\x01'"),
            (0xc3, "'Ã'"),
            (b'\\', "'\\\\'"),
        ] {
            assert_eq!(quoted_byte(byte), shown);
        }
    }

    #[test]
    fn values_print_like_go_maps() {
        let value = json!({"b": [1, "x", null, true], "a": {"c": 1.5}});
        assert_eq!(printed(&value), "map[a:map[c:1.5] b:[1 x <nil> true]]");
        assert_eq!(printed(&json!(1e30)), "1e+30");
        assert_eq!(printed(&json!(1e-7)), "1e-07");
    }
}
