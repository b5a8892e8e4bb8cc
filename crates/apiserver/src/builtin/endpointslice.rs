//! EndpointSlices.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{fill, items, items_mut, remove, text};
use super::table::{self, AGE, NAME, columns, first_three};
use super::validate;
use crate::field::{FieldError, Path, Problem};
use crate::resource::{Behaviour, Column, Through};

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;

pub(super) struct EndpointSlices;

impl Behaviour for EndpointSlices {
    fn default(&self, object: &mut Value) {
        for port in items_mut(object, "/ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        drop_topology(object);
    }

    fn prepare_update(&self, _through: Through, object: &mut Value, _old: &Value) {
        drop_topology(object);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = shape_errors(object);
        errors.extend(endpoint_errors(object));
        errors
    }

    fn validate_update(&self, _through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = shape_errors(object);
        // Endpoints that were accepted once are not judged again.
        if object.get("endpoints") != old.get("endpoints") {
            errors.extend(endpoint_errors(object));
        }
        if object.get("addressType") != old.get("addressType") {
            errors.push(FieldError::invalid(
                Path::new("addressType"),
                &object["addressType"],
                "field is immutable",
            ));
        }
        errors
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        if text(object, "/addressType") == "FQDN" {
            vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()]
        } else {
            Vec::new()
        }
    }

    fn spec_changed(&self, _through: Through, object: &Value, old: &Value) -> bool {
        let differs = |pointer: &str| object.pointer(pointer) != old.pointer(pointer);
        ["/endpoints", "/ports", "/addressType", "/metadata/labels"].into_iter().any(differs)
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            NAME,
            ("AddressType", "string", 0, "The kind of addresses in this slice."),
            ("Ports", "string", 0, "The first of the ports every endpoint serves."),
            ("Endpoints", "string", 0, "The first of the addresses."),
            AGE,
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let ports: Vec<String> = items(object, "/ports")
            .iter()
            .map(|p| match (p["port"].as_i64(), p["name"].as_str()) {
                (Some(port), _) => port.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            })
            .collect();
        let addresses: Vec<String> = items(object, "/endpoints")
            .iter()
            .flat_map(|e| items(e, "/addresses"))
            .filter_map(|a| a.as_str().map(str::to_owned))
            .collect();
        vec![
            table::name(object),
            json!(text(object, "/addressType")),
            json!(first_three(&ports)),
            json!(first_three(&addresses)),
            table::age(object, now),
        ]
    }
}

/// `deprecatedTopology` can only be written through an API version that is gone.
fn drop_topology(object: &mut Value) {
    for endpoint in items_mut(object, "/endpoints") {
        remove(endpoint, "deprecatedTopology");
    }
}

fn too_many(path: Path, count: usize, limit: usize) -> Option<FieldError> {
    (count > limit).then(|| FieldError {
        problem: Problem::TooMany,
        path,
        value: Some(count.to_string()),
        detail: format!("must have at most {limit} items"),
    })
}

fn shape_errors(object: &Value) -> Vec<FieldError> {
    let mut errors = validate::one_of(object, "addressType", &Path::root(), &["FQDN", "IPv4", "IPv6"]);
    errors.extend(port_errors(object));
    errors
}

fn endpoint_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("endpoints");
    let kind = text(object, "/addressType");
    let endpoints = items(object, "/endpoints");
    let mut errors = Vec::new();
    if let Some(error) = too_many(path.clone(), endpoints.len(), MAX_ENDPOINTS) {
        return vec![error];
    }
    for (at, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(at).child("addresses");
        let addresses = items(endpoint, "/addresses");
        if addresses.is_empty() {
            errors.push(FieldError::required(path.clone(), "must contain at least 1 address"));
        }
        errors.extend(too_many(path.clone(), addresses.len(), MAX_ADDRESSES));
        for (nth, address) in addresses.iter().enumerate() {
            errors.extend(address_error(address, kind, &path, nth));
        }
        if let Some(node) = endpoint.get("nodeName").and_then(Value::as_str) {
            errors.extend(validate::subdomain(node, Path::new("endpoints").index(at).child("nodeName")));
        }
        if let Some(name) = endpoint.get("hostname").and_then(Value::as_str) {
            errors.extend(validate::label_dns(name, Path::new("endpoints").index(at).child("hostname")));
        }
    }
    errors
}

fn address_error(address: &Value, kind: &str, path: &Path, nth: usize) -> Option<FieldError> {
    let parsed = address.as_str().unwrap_or_default().parse::<IpAddr>();
    match (kind, parsed) {
        ("IPv4", Ok(ip @ IpAddr::V4(_))) | ("IPv6", Ok(ip @ IpAddr::V6(_))) => {
            Some(FieldError::invalid(path.index(nth), address, validate::local_complaint(ip)?))
        }
        // A wrong family is reported on the list, not on the item.
        ("IPv4" | "IPv6", Ok(_)) => {
            Some(FieldError::invalid(path.clone(), address, format!("must be an {kind} address")))
        }
        ("IPv4" | "IPv6", Err(_)) => {
            Some(FieldError::invalid(path.index(nth), address, validate::NOT_AN_ADDRESS))
        }
        _ => None,
    }
}

fn port_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("ports");
    let ports = items(object, "/ports");
    if let Some(error) = too_many(path.clone(), ports.len(), MAX_PORTS) {
        return vec![error];
    }
    let mut errors = Vec::new();
    for (at, port) in ports.iter().enumerate() {
        let path = path.index(at);
        let name = text(port, "/name");
        if !name.is_empty() {
            errors.extend(validate::label_dns(name, path.child("name")));
        }
        if ports[..at].iter().any(|p| text(p, "/name") == name) {
            errors.push(FieldError::duplicate(path.child("name"), &json!(name)));
        }
        errors.extend(validate::one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"]));
    }
    errors
}
