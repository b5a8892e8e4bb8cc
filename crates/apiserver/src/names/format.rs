//! What names, labels and their like may look like. Every check returns what is wrong, in words clients know; nothing
//! wrong is an empty list.

const ALPHANUMERIC_ENDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// `(e.g. 'a',  or 'b', regex used for validation is '…')`, after the message.
fn shaped(message: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// Letters, digits and `inner` in the middle; letters and digits at both ends.
fn has_ends(text: &str, end: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => end(*first) && end(*last) && bytes.iter().all(|b| end(*b) || inner(*b)),
        (None, _) | (_, None) => false,
    }
}

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_name_part(text: &str) -> bool {
    has_ends(text, |b| b.is_ascii_alphanumeric(), |b| matches!(b, b'-' | b'_' | b'.'))
}

fn is_label(text: &str) -> bool {
    has_ends(text, lower_or_digit, |b| b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// A label or annotation key: an optional DNS prefix, a slash, a name.
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(dns1123_subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                shaped(ALPHANUMERIC_ENDS, QUALIFIED_NAME, &examples)
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", too_long(63)));
    }
    if !is_name_part(name) {
        wrong.push(format!("name part {}", shaped(ALPHANUMERIC_ENDS, QUALIFIED_NAME, &examples)));
    }
    wrong
}

/// A label's value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !(text.is_empty() || is_name_part(text)) {
        let message =
            format!("a valid label must be an empty string or {}", &ALPHANUMERIC_ENDS["must ".len()..]);
        wrong.push(shaped(&message, &format!("({QUALIFIED_NAME})?"), &["MyValue", "my_value", "12345"]));
    }
    wrong
}

/// One component of a DNS name, as RFC 1123 has it.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !is_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            shaped(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// A DNS name, as RFC 1123 has it.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push(too_long(253));
    }
    if !is_subdomain(text) {
        wrong.push(shaped(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    wrong
}

/// One component of a DNS name, as RFC 1035 has it: it starts with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push(too_long(63));
    }
    if !(is_label(text) && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)) {
        wrong.push(shaped(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// Anything that can stand between two slashes of a URL.
pub fn path_segment(text: &str, is_prefix: bool) -> Vec<String> {
    if !is_prefix && matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// The name of a port (an IANA service name).
pub fn port_name(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 15 {
        wrong.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|b| lower_or_digit(b) || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}
