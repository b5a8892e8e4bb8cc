//! Checks that several kinds share, with the sentences clients already know.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::field::{FieldError, Path};
use crate::names;
use crate::selector::LabelSelector;

fn each(complaints: Vec<String>, value: &str, path: &Path) -> Vec<FieldError> {
    complaints.into_iter().map(|c| FieldError::invalid(path.clone(), &json!(value), c)).collect()
}

/// A label key.
pub(super) fn label_name(value: &str, path: Path) -> Vec<FieldError> {
    each(names::qualified_name(value), value, &path)
}

/// A label value, its complaints in one sentence.
pub(super) fn label_value(value: &str, path: Path) -> Option<FieldError> {
    let complaints = names::label_value(value);
    (!complaints.is_empty()).then(|| FieldError::invalid(path, &json!(value), complaints.join(";")))
}

/// A DNS label.
pub(super) fn label_dns(value: &str, path: Path) -> Vec<FieldError> {
    each(names::dns1123_label(value), value, &path)
}

/// A DNS subdomain.
pub(super) fn subdomain(value: &str, path: Path) -> Vec<FieldError> {
    each(names::dns1123_subdomain(value), value, &path)
}

/// A name of a port.
pub(super) fn port_name(value: &str, path: Path) -> Vec<FieldError> {
    each(names::port_name(value), value, &path)
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
    names::validate_labels(object.pointer(pointer), path)
}

/// A label selector.
pub(super) fn selector(selector: Option<&Value>, path: &Path) -> Vec<FieldError> {
    selector.map_or_else(Vec::new, |selector| LabelSelector::validate_object(selector, path))
}

/// A field that may never change.
pub(super) fn immutable(object: &Value, old: &Value, pointer: &str, path: Path) -> Option<FieldError> {
    let (is, was) = (object.pointer(pointer), old.pointer(pointer));
    (is != was).then(|| FieldError::invalid(path, is.unwrap_or(&Value::Null), "field is immutable"))
}
