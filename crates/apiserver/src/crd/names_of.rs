//! The shapes of names, and why a text has not the shape.

/// Why a text is not a DNS-1035 label.
pub(super) fn not_dns_1035(text: &str) -> Option<String> {
    let mut why = Vec::new();
    if text.len() > 63 {
        why.push("must be no more than 63 characters".to_owned());
    }
    if !(text.starts_with(|c: char| c.is_ascii_lowercase()) && is_label_tail(text)) {
        why.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    (!why.is_empty()).then(|| why.join(","))
}

/// Why a text is not a DNS-1123 subdomain.
pub(super) fn not_dns_1123_subdomain(text: &str) -> Option<String> {
    let mut why = Vec::new();
    if text.len() > 253 {
        why.push("must be no more than 253 characters".to_owned());
    }
    let is_label =
        |label: &str| label.starts_with(|c: char| c.is_ascii_alphanumeric()) && is_label_tail(label);
    if !text.split('.').all(is_label) {
        why.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    (!why.is_empty()).then(|| why.join(","))
}

fn is_label_tail(text: &str) -> bool {
    !text.ends_with('-') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}
