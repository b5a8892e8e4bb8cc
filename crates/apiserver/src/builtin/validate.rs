//! Checks that several kinds share, with the sentences clients already know.

use std::net::IpAddr;
use std::sync::LazyLock;

use ipnet::IpNet;
use regex::Regex;
use serde_json::{Value, json};

use super::access::{entries, items, text};
use crate::field::{FieldError, Path};

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const ALPHANUMERIC: &str = "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                            alphanumeric character";

fn matches(pattern: &'static LazyLock<Regex>, value: &str) -> bool {
    pattern.is_match(value)
}

macro_rules! pattern {
    ($name:ident, $($part:expr),+) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(&["^(?:", $($part),+, ")$"].concat()).expect("the pattern is well-formed")
        });
    };
}
pattern!(IS_QUALIFIED, QUALIFIED);
pattern!(IS_LABEL_1123, LABEL_1123);
pattern!(IS_SUBDOMAIN, LABEL_1123, "(\\.", LABEL_1123, ")*");

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// `… (e.g. 'a',  or 'b', regex used for validation is 'x')`, as every naming rule ends.
fn by_example(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// What is wrong with an RFC 1123 label.
pub(super) fn label_1123_complaints(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > 63 {
        complaints.push(too_long(63));
    }
    if !matches(&IS_LABEL_1123, value) {
        complaints.push(if matches(&IS_SUBDOMAIN, value) {
            "must not contain dots".to_owned()
        } else {
            by_example(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                LABEL_1123,
                &["my-name", "123-abc"],
            )
        });
    }
    complaints
}

/// What is wrong with an RFC 1123 subdomain.
pub(super) fn subdomain_complaints(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > 253 {
        complaints.push(too_long(253));
    }
    if !matches(&IS_SUBDOMAIN, value) {
        complaints.push(by_example(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &format!("{LABEL_1123}(\\.{LABEL_1123})*"),
            &["example.com"],
        ));
    }
    complaints
}

/// What is wrong with a qualified name (`example.com/name`).
pub(super) fn qualified_complaints(value: &str) -> Vec<String> {
    let rule = || by_example(&format!("must {ALPHANUMERIC}"), QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut complaints = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".to_owned());
            } else {
                complaints.extend(subdomain_complaints(prefix).iter().map(|c| format!("prefix part {c}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        complaints.push(format!("name part {}", too_long(63)));
    }
    if !matches(&IS_QUALIFIED, name) {
        complaints.push(format!("name part {}", rule()));
    }
    complaints
}

/// What is wrong with a label's value.
pub(super) fn label_value_complaints(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > 63 {
        complaints.push(too_long(63));
    }
    if !value.is_empty() && !matches(&IS_QUALIFIED, value) {
        complaints.push(by_example(
            &format!("a valid label must be an empty string or {ALPHANUMERIC}"),
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    complaints
}

/// What is wrong with a port's name.
pub(super) fn port_name_complaints(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.len() > 15 {
        complaints.push(too_long(15));
    }
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || !name.bytes().all(allowed) {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

fn each(complaints: Vec<String>, value: &str, path: &Path) -> Vec<FieldError> {
    complaints.into_iter().map(|c| FieldError::invalid(path.clone(), &json!(value), c)).collect()
}

/// A label key.
pub(super) fn label_name(value: &str, path: Path) -> Vec<FieldError> {
    each(qualified_complaints(value), value, &path)
}

/// A label value, its complaints in one sentence.
pub(super) fn label_value(value: &str, path: Path) -> Option<FieldError> {
    let complaints = label_value_complaints(value);
    (!complaints.is_empty()).then(|| FieldError::invalid(path, &json!(value), complaints.join(";")))
}

/// A DNS label.
pub(super) fn label_dns(value: &str, path: Path) -> Vec<FieldError> {
    each(label_1123_complaints(value), value, &path)
}

/// A DNS subdomain.
pub(super) fn subdomain(value: &str, path: Path) -> Vec<FieldError> {
    each(subdomain_complaints(value), value, &path)
}

/// A name of a port.
pub(super) fn port_name(value: &str, path: Path) -> Vec<FieldError> {
    each(port_name_complaints(value), value, &path)
}

/// A port's number.
pub(super) fn port_number(value: i64, path: Path) -> Option<FieldError> {
    (!(1..=65535).contains(&value))
        .then(|| FieldError::invalid(path, &json!(value), "must be between 1 and 65535, inclusive"))
}

/// A number that may not be negative.
pub(super) fn not_negative(value: Option<&Value>, path: Path) -> Option<FieldError> {
    let value = value?;
    (value.as_i64()? < 0).then(|| FieldError::invalid(path, value, "must be greater than or equal to 0"))
}

/// `object[field]` must be there, and one of `allowed`.
pub(super) fn one_of(object: &Value, field: &str, at: &Path, allowed: &[&str]) -> Vec<FieldError> {
    match object.get(field).and_then(Value::as_str).unwrap_or_default() {
        "" => vec![FieldError::required(at.child(field), "")],
        value if allowed.contains(&value) => Vec::new(),
        value => vec![FieldError::not_supported(at.child(field), &json!(value), allowed)],
    }
}

/// What is said of a text that is no address.
pub(super) const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// An address that means another thing on every host can be neither an endpoint nor an external address.
pub(super) fn local_complaint(ip: IpAddr) -> Option<String> {
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        Some(format!("may not be unspecified ({ip})"))
    } else if ip.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned())
    } else if link_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned())
    } else if link_local_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned())
    } else {
        None
    }
}

/// A network in CIDR notation.
pub(super) fn cidr(value: &Value, path: Path) -> Option<FieldError> {
    parse_cidr(value.as_str().unwrap_or_default()).is_none().then(|| {
        FieldError::invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
    })
}

/// Reads a CIDR; bits below the mask are allowed.
pub(super) fn parse_cidr(text: &str) -> Option<IpNet> {
    text.parse().ok()
}

/// Labels of a selector or template.
pub(super) fn labels(object: &Value, pointer: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in entries(object, pointer) {
        errors.extend(label_name(key, path.clone()));
        let value = value.as_str().unwrap_or_default();
        errors.extend(each(label_value_complaints(value), value, path));
    }
    errors
}

/// A label selector.
pub(super) fn selector(selector: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(selector) = selector else { return Vec::new() };
    let mut errors = labels(selector, "/matchLabels", &path.child("matchLabels"));
    for (at, term) in items(selector, "/matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(at);
        let values = items(term, "/values");
        match text(term, "/operator") {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                path.child("operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
        errors.extend(label_name(text(term, "/key"), path.child("key")));
        for (nth, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            errors.extend(each(label_value_complaints(value), value, &path.child("values").index(nth)));
        }
    }
    errors
}

/// Whether labels satisfy a (well-formed) label selector.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let value_of = |key: &str| labels.get(key).and_then(Value::as_str);
    entries(selector, "/matchLabels").all(|(key, value)| value_of(key) == value.as_str())
        && items(selector, "/matchExpressions").iter().all(|term| {
            let value = value_of(text(term, "/key"));
            let listed = items(term, "/values").iter().any(|v| v.as_str() == value);
            match text(term, "/operator") {
                "In" => value.is_some() && listed,
                "NotIn" => value.is_none() || !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// A field that may never change.
pub(super) fn immutable(object: &Value, old: &Value, pointer: &str, path: Path) -> Option<FieldError> {
    let (is, was) = (object.pointer(pointer), old.pointer(pointer));
    (is != was).then(|| FieldError::invalid(path, is.unwrap_or(&Value::Null), "field is immutable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_rules_say_what_they_want() {
        assert_eq!(
            label_1123_complaints("Nope"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
              end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
              '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(label_1123_complaints("a.b"), ["must not contain dots"]);
        assert!(qualified_complaints("example.com/name").is_empty());
        assert_eq!(qualified_complaints("a/b/c").len(), 1);
        assert_eq!(port_name_complaints("80"), ["must contain at least one letter (a-z)"]);
    }

    #[test]
    fn a_selector_selects_by_labels_and_expressions() {
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]}, {"key": "f", "operator": "DoesNotExist"}]});
        assert!(selects(&selector, &json!({"a": "b", "c": "e"})));
        assert!(!selects(&selector, &json!({"a": "b", "c": "x"})));
        assert!(!selects(&selector, &json!({"a": "b", "c": "d", "f": ""})));
    }
}
