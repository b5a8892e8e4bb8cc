//! NetworkPolicies.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{items, items_mut, present, text};
use super::table::{self, AGE, NAME, columns, selector_or_none};
use super::validate;
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column};

pub(super) struct NetworkPolicies;

impl Behaviour for NetworkPolicies {
    fn default(&self, object: &mut Value) {
        for rules in ["/spec/ingress", "/spec/egress"] {
            for rule in items_mut(object, rules) {
                for port in items_mut(rule, "/ports") {
                    super::access::fill(port, "protocol", "TCP");
                }
            }
        }
        if items(object, "/spec/policyTypes").is_empty() {
            let types = if items(object, "/spec/egress").is_empty() {
                json!(["Ingress"])
            } else {
                json!(["Ingress", "Egress"])
            };
            super::access::object_at(object, "spec").insert("policyTypes".to_owned(), types);
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let spec = Path::new("spec");
        let mut errors = validate::selector(object.pointer("/spec/podSelector"), &spec.child("podSelector"));
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for (at, rule) in items(object, &format!("/spec/{direction}")).iter().enumerate() {
                let path = spec.child(direction).index(at);
                for (nth, port) in items(rule, "/ports").iter().enumerate() {
                    errors.extend(port_errors(port, &path.child("ports").index(nth)));
                }
                for (nth, peer) in items(rule, &format!("/{peers}")).iter().enumerate() {
                    errors.extend(peer_errors(peer, &path.child(peers).index(nth)));
                }
            }
        }
        let types = items(object, "/spec/policyTypes");
        let path = spec.child("policyTypes");
        if types.len() > 2 {
            errors.push(FieldError::invalid(
                path,
                &json!(types),
                "may not specify more than two policyTypes",
            ));
            return errors;
        }
        for (at, kind) in types.iter().enumerate() {
            if kind != "Ingress" && kind != "Egress" {
                errors.push(FieldError::not_supported(path.index(at), kind, &["Ingress", "Egress"]));
            }
        }
        errors
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[NAME, ("Pod-Selector", "string", 0, "The pods the policy is about."), AGE])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let selector = selector_or_none(object.pointer("/spec/podSelector"));
        vec![table::name(object), json!(selector), table::age(object, now)]
    }
}

fn port_errors(port: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let protocol = text(port, "/protocol");
    if present(port, "/protocol") && !["TCP", "UDP", "SCTP"].contains(&protocol) {
        errors.push(FieldError::not_supported(
            path.child("protocol"),
            &json!(protocol),
            &["TCP", "UDP", "SCTP"],
        ));
    }
    let end = port.get("endPort").and_then(Value::as_i64);
    let end_path = path.child("endPort");
    match (port.get("port"), end) {
        (Some(Value::Number(number)), end) => {
            let number = number.as_i64().unwrap_or_default();
            errors.extend(validate::port_number(number, path.child("port")));
            if let Some(end) = end {
                if end < number {
                    errors.push(FieldError::invalid(
                        end_path.clone(),
                        &json!(number),
                        "must be greater than or equal to `port`",
                    ));
                }
                errors.extend(validate::port_number(end, end_path));
            }
        }
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                let complaint = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::invalid(end_path, &json!(end), complaint));
            }
            errors.extend(validate::port_name(name, path.child("port")));
        }
        (_, Some(end)) => {
            let complaint = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(end_path, &json!(end), complaint));
        }
        (_, None) => {}
    }
    errors
}

fn peer_errors(peer: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["podSelector", "namespaceSelector"] {
        errors.extend(validate::selector(peer.get(field), &path.child(field)));
    }
    if let Some(block) = peer.get("ipBlock") {
        errors.extend(block_errors(block, &path.child("ipBlock")));
    }
    let given =
        ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|f| peer.get(**f).is_some()).count();
    if given == 0 {
        errors.push(FieldError::required(path.clone(), "must specify a peer"));
    } else if given > 1 && peer.get("ipBlock").is_some() {
        errors.push(FieldError::forbidden(path.clone(), "may not specify both ipBlock and another peer"));
    }
    errors
}

fn block_errors(block: &Value, path: &Path) -> Vec<FieldError> {
    let cidr = text(block, "/cidr");
    if cidr.is_empty() {
        return vec![FieldError::required(path.child("cidr"), "")];
    }
    let mut errors: Vec<FieldError> =
        validate::cidr(&block["cidr"], path.child("cidr")).into_iter().collect();
    let Some(whole) = validate::parse_cidr(cidr) else { return errors };
    for (at, except) in items(block, "/except").iter().enumerate() {
        let path = path.child("except").index(at);
        match validate::parse_cidr(except.as_str().unwrap_or_default()) {
            None => errors.extend(validate::cidr(except, path)),
            Some(part) if !whole.contains(&part.network()) || whole.prefix_len() >= part.prefix_len() => {
                errors.push(FieldError::invalid(path, except, "must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
    errors
}
