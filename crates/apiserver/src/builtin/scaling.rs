//! Counts given as a number or as a percentage.

use serde_json::Value;

use crate::field::{FieldError, Path};

/// The percentage, where it is one.
fn percent(value: &Value) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Refuses what is neither a percentage nor a number from 0.
pub(super) fn int_or_percent(value: &Value, path: &Path) -> Option<FieldError> {
    let complaint = if value.as_i64().is_some_and(|n| n < 0) {
        "must be greater than or equal to 0"
    } else if value.is_string() && percent(value).is_none() {
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
         validation is '[0-9]+%')"
    } else {
        return None;
    };
    Some(FieldError::invalid(path.clone(), value, complaint))
}

/// Refuses more than `100%`.
pub(super) fn not_over_100_percent(value: &Value, path: &Path) -> Option<FieldError> {
    (percent(value)? > 100).then(|| FieldError::invalid(path.clone(), value, "must not be greater than 100%"))
}

/// Whether a count is 0 or `0%`.
pub(super) fn is_zero(value: &Value) -> bool {
    value.as_i64() == Some(0) || percent(value) == Some(0)
}
