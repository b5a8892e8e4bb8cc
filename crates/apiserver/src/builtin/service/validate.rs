//! What is wrong with a service.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::super::access::{items, number, present, text};
use super::super::validate as common;
use super::{is_external, needs_health_check};
use crate::field::{FieldError, Path, Problem};

fn is_headless(spec: &Value) -> bool {
    text(spec, "/clusterIPs/0") == "None"
}

pub(super) fn service(object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let spec = &object["spec"];
    let kind = text(spec, "/type");
    let ports = items(spec, "/ports");
    let mut errors = Vec::new();
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.push(FieldError::required(path.child("ports"), ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => errors.push(FieldError::invalid(
            path.child("clusterIPs").index(0),
            &json!("None"),
            format!("may not be set to 'None' for {kind} services"),
        )),
        "ExternalName" => errors.extend(external_name(spec, &path)),
        _ => {}
    }
    for (at, port) in ports.iter().enumerate() {
        errors.extend(port_errors(port, &ports[..at], ports.len() > 1, &path.child("ports").index(at)));
    }
    errors.extend(common::labels(spec, "/selector", &path.child("selector")));
    errors.extend(common::one_of(spec, "sessionAffinity", &path, &["ClientIP", "None"]));
    errors.extend(affinity(spec, &path));
    errors.extend(addresses(object));
    for (at, address) in items(spec, "/externalIPs").iter().enumerate() {
        let complaint = match address.as_str().unwrap_or_default().parse::<IpAddr>() {
            Ok(address) => common::local_complaint(address),
            Err(_) => Some(common::NOT_AN_ADDRESS.to_owned()),
        };
        let path = path.child("externalIPs").index(at);
        errors.extend(complaint.map(|complaint| FieldError::invalid(path, address, complaint)));
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(common::one_of(spec, "type", &path, &kinds));
    errors.extend(port_conflicts(spec, &path.child("ports")));
    errors.extend(balancer(spec, &path));
    errors.extend(traffic(spec, &path));
    errors
}

fn external_name(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if present(spec, &format!("/{field}")) {
            errors.push(FieldError::forbidden(path.child(field), "may not be set for ExternalName services"));
        }
    }
    let name = text(spec, "/externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(FieldError::required(path.child("externalName"), "")),
        name => errors.extend(common::subdomain(name, path.child("externalName"))),
    }
    errors
}

fn port_errors(port: &Value, before: &[Value], named: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match text(port, "/name") {
        "" if named => errors.push(FieldError::required(path.child("name"), "")),
        "" => {}
        name => {
            errors.extend(common::label_dns(name, path.child("name")));
            if before.iter().any(|p| text(p, "/name") == name) {
                errors.push(FieldError::duplicate(path.child("name"), &json!(name)));
            }
        }
    }
    errors.extend(common::port_number(number(port, "/port"), path.child("port")));
    errors.extend(common::one_of(port, "protocol", path, &["SCTP", "TCP", "UDP"]));
    match port["targetPort"].as_str() {
        Some(name) => errors.extend(common::port_name(name, path.child("targetPort"))),
        None => errors.extend(common::port_number(number(port, "/targetPort"), path.child("targetPort"))),
    }
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        errors.extend(common::label_name(protocol, path.child("appProtocol")));
    }
    errors
}

fn affinity(spec: &Value, path: &Path) -> Option<FieldError> {
    const LONGEST: i64 = 86_400;
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let wrong = text(spec, "/sessionAffinity") == "ClientIP"
        && !seconds.as_i64().is_some_and(|s| (1..=LONGEST).contains(&s));
    wrong.then(|| {
        FieldError::invalid(
            path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds"),
            seconds,
            format!("must be greater than 0 and less than {LONGEST}"),
        )
    })
}

/// `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` have to agree.
pub(super) fn addresses(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let path = Path::new("spec");
    if text(spec, "/type") == "ExternalName" {
        return Vec::new();
    }
    let list = items(spec, "/clusterIPs");
    let at = path.child("clusterIPs");
    let mut errors = Vec::new();
    match (text(spec, "/clusterIP"), list.first()) {
        ("", None) => {}
        ("", Some(_)) => errors.push(FieldError::invalid(
            at.clone(),
            &json!(list),
            "must be empty when `clusterIP` is not specified",
        )),
        (_, None) => errors.push(FieldError::required(at.clone(), "")),
        (single, Some(first)) if first != single => {
            errors.push(FieldError::invalid(at.clone(), &json!(list), "first value must match `clusterIP`"));
        }
        (_, Some(_)) => {}
    }
    let families = items(spec, "/ipFamilies");
    for (nth, family) in families.iter().enumerate() {
        let path = path.child("ipFamilies").index(nth);
        if family != "IPv4" && family != "IPv6" {
            errors.push(FieldError::not_supported(path.clone(), family, &["IPv4", "IPv6"]));
        }
        if families[..nth].contains(family) {
            errors.push(FieldError::duplicate(path, family));
        }
    }
    if present(spec, "/ipFamilyPolicy") {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        errors.extend(common::one_of(spec, "ipFamilyPolicy", &path, &policies));
    }
    errors.extend(address_errors(list, families, &at));
    errors
}

fn address_errors(list: &[Value], families: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut parsed = Vec::new();
    for (at, address) in list.iter().enumerate() {
        if at == 0 && address == "None" {
            if list.len() > 1 {
                let complaint = "'None' must be the first and only value";
                errors.push(FieldError::invalid(path.clone(), &json!(list), complaint));
            }
            continue;
        }
        match address.as_str().unwrap_or_default().parse::<IpAddr>() {
            Ok(address) => parsed.push(address),
            Err(_) => errors.push(FieldError::invalid(path.index(at), address, common::NOT_AN_ADDRESS)),
        }
    }
    if list.len() > 2 {
        errors.push(FieldError::invalid(path.clone(), &json!(list), "may only hold up to 2 values"));
    }
    if parsed.len() != list.len() {
        return errors;
    }
    if let [first, second] = parsed[..]
        && first.is_ipv4() == second.is_ipv4()
    {
        errors.push(FieldError::invalid(
            path.clone(),
            &json!(list),
            "may specify no more than one IP for each IP family",
        ));
    }
    for (at, (address, family)) in parsed.iter().zip(families).enumerate() {
        let is = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        if let Some(wanted) = family.as_str().filter(|f| *f != is) {
            errors.push(FieldError::invalid(
                path.index(at),
                &list[at],
                format!("expected an {wanted} value as indicated by `ipFamilies[{at}]`"),
            ));
        }
    }
    errors
}

fn port_conflicts(spec: &Value, path: &Path) -> Vec<FieldError> {
    let ports = items(spec, "/ports");
    let mut errors = Vec::new();
    if text(spec, "/type") == "ClusterIP" {
        for at in (0..ports.len()).filter(|at| number(&ports[*at], "/nodePort") != 0) {
            errors.push(FieldError::forbidden(
                path.index(at).child("nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    let clash = |at: usize, field: &str| {
        let same = |p: &Value| p[field] == ports[at][field] && p["protocol"] == ports[at]["protocol"];
        ports[..at].iter().any(same)
    };
    for at in (0..ports.len()).filter(|at| number(&ports[*at], "/nodePort") != 0 && clash(*at, "nodePort")) {
        errors.push(FieldError::duplicate(path.index(at).child("nodePort"), &ports[at]["nodePort"]));
    }
    for at in (0..ports.len()).filter(|at| clash(*at, "port")) {
        errors.push(FieldError {
            problem: Problem::Duplicate,
            path: path.index(at),
            // Shown with the names the fields have inside a server, and only those that clash.
            value: Some(format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                ports[at]["protocol"], ports[at]["port"],
            )),
            detail: String::new(),
        });
    }
    errors
}

fn balancer(spec: &Value, path: &Path) -> Vec<FieldError> {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let mut errors = Vec::new();
    let balanced = text(spec, "/type") == "LoadBalancer";
    let ranges = items(spec, "/loadBalancerSourceRanges");
    // Spelled with a capital upstream; clients match on it.
    let at = path.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        errors.push(FieldError::forbidden(at.clone(), ONLY));
    }
    for (nth, range) in ranges.iter().enumerate() {
        let trimmed = json!(range.as_str().unwrap_or_default().trim());
        errors.extend(common::cidr(&trimmed, at.index(nth)));
    }
    if !balanced {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if present(spec, &format!("/{field}")) {
                errors.push(FieldError::forbidden(path.child(field), ONLY));
            }
        }
    } else if let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) {
        errors.extend(common::label_name(class, path.child("loadBalancerClass")));
    }
    errors
}

fn traffic(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policies = ["Cluster", "Local"];
    if is_external(spec) {
        errors.extend(common::one_of(spec, "externalTrafficPolicy", path, &policies));
    } else if present(spec, "/externalTrafficPolicy") {
        errors.push(FieldError::invalid(
            path.child("externalTrafficPolicy"),
            &spec["externalTrafficPolicy"],
            "may only be set for externally-accessible services",
        ));
    }
    let port = number(spec, "/healthCheckNodePort");
    let at = path.child("healthCheckNodePort");
    if needs_health_check(spec) {
        match port {
            0 => errors.push(FieldError::required(at, "")),
            port => errors.extend(common::port_number(port, at)),
        }
    } else if port != 0 {
        errors.push(FieldError::invalid(
            at,
            &json!(port),
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ));
    }
    if present(spec, "/internalTrafficPolicy") {
        errors.extend(common::one_of(spec, "internalTrafficPolicy", path, &policies));
    }
    if present(spec, "/trafficDistribution") {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        errors.extend(common::one_of(spec, "trafficDistribution", path, &known));
    }
    errors
}

/// What may not change on a service that exists.
pub(super) fn change(object: &Value, old: &Value) -> Vec<FieldError> {
    let (is, was) = (&object["spec"], &old["spec"]);
    let mut errors = Vec::new();
    let names = |spec: &Value| text(spec, "/type") == "ExternalName";
    let named = names(is) || names(was);
    let headless = is_headless(is) && is_headless(was);
    if !named && !headless {
        errors.extend(address_change(is, was));
    }
    if text(is, "/type") == "LoadBalancer"
        && text(was, "/type") == "LoadBalancer"
        && is.get("loadBalancerClass") != was.get("loadBalancerClass")
    {
        errors.push(FieldError::invalid(
            Path::new("spec.loadBalancerClass"),
            &is["loadBalancerClass"],
            "may not change once set",
        ));
    }
    if needs_health_check(is)
        && needs_health_check(was)
        && is["healthCheckNodePort"] != was["healthCheckNodePort"]
    {
        errors.push(FieldError::forbidden(Path::new("spec.healthCheckNodePort"), "field is immutable"));
    }
    errors
}

fn address_change(is: &Value, was: &Value) -> Vec<FieldError> {
    let (new, old) = (items(is, "/clusterIPs"), items(was, "/clusterIPs"));
    let path = Path::new("spec.clusterIPs");
    let mut errors = Vec::new();
    if new.is_empty() && !old.is_empty() {
        errors.push(FieldError::invalid(path.index(0), &json!(new), "primary clusterIP can not be unset"));
    }
    for at in (0..old.len().min(new.len())).filter(|at| new[*at] != old[*at]) {
        errors.push(FieldError::invalid(path.index(at), &json!(new), "may not change once set"));
    }
    if new.len() == 1 && old.len() == 2 && text(is, "/ipFamilyPolicy") != "SingleStack" {
        errors.push(FieldError::invalid(
            Path::new("spec.ipFamilyPolicy"),
            &is["ipFamilyPolicy"],
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        ));
    }
    if is_headless(is) == is_headless(was) {
        let (new, old) = (items(is, "/ipFamilies"), items(was, "/ipFamilies"));
        for _ in (0..old.len().min(new.len())).filter(|at| new[*at] != old[*at]) {
            let path = Path::new("spec.ipFamilies").index(0);
            errors.push(FieldError::invalid(path, &json!(new), "may not change once set"));
        }
    }
    errors
}

/// What is wrong with a new status.
pub(super) fn status(object: &Value) -> Vec<FieldError> {
    let path = Path::new("status.loadBalancer.ingress");
    let ingress = items(object, "/status/loadBalancer/ingress");
    if text(object, "/spec/type") != "LoadBalancer" && !ingress.is_empty() {
        return vec![FieldError::forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let mut errors = Vec::new();
    for (at, one) in ingress.iter().enumerate() {
        let path = path.index(at);
        let address = text(one, "/ip");
        if !address.is_empty() && address.parse::<IpAddr>().is_err() {
            errors.push(FieldError::invalid(path.child("ip"), &json!(address), common::NOT_AN_ADDRESS));
        }
        let mode = path.child("ipMode");
        match (address, one.get("ipMode")) {
            ("", None) => {}
            ("", Some(_)) => {
                errors.push(FieldError::forbidden(mode, "may not be specified when `ip` is not set"));
            }
            (_, None) => errors.push(FieldError::required(mode, "must be specified when `ip` is set")),
            (_, Some(_)) => errors.extend(common::one_of(one, "ipMode", &path, &["Proxy", "VIP"])),
        }
        let name = text(one, "/hostname");
        if !name.is_empty() {
            errors.extend(common::subdomain(name, path.child("hostname")));
            if name.parse::<IpAddr>().is_ok() {
                errors.push(FieldError::invalid(
                    path.child("hostname"),
                    &json!(name),
                    "must be a DNS name, not an IP address",
                ));
            }
        }
    }
    errors
}
