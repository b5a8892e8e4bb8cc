//! Services.

mod allocate;
mod validate;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use allocate::{Allocated, Ranges, allocate_service};

use super::access::{fill, flag, items, items_mut, keep, number, object_at, present, remove, text};
use super::table::{self, AGE, NAME, columns, or};
use crate::field::FieldError;
use crate::resource::{Behaviour, Column, NameRule, Subresource, Through};

/// How long a client sticks to an endpoint when affinity is asked for without a time.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) struct Services;

impl Behaviour for Services {
    fn default(&self, object: &mut Value) {
        let spec = object_at(object, "spec");
        for (field, value) in [("sessionAffinity", "None"), ("type", "ClusterIP")] {
            if spec.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                spec.insert(field.to_owned(), json!(value));
            }
        }
        let spec = &mut object["spec"];
        default_affinity(spec);
        for port in items_mut(spec, "/ports") {
            fill(port, "protocol", "TCP");
            let number = port["port"].clone();
            let target = &mut port["targetPort"];
            if target.is_null() || *target == json!(0) || *target == json!("") {
                *target = number;
            }
        }
        let kind = text(spec, "/type").to_owned();
        if is_external(spec) && text(spec, "/externalTrafficPolicy").is_empty() {
            spec["externalTrafficPolicy"] = json!("Cluster");
        }
        if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
            fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            fill(spec, "allocateLoadBalancerNodePorts", true);
            for ingress in items_mut(object, "/status/loadBalancer/ingress") {
                if !text(ingress, "/ip").is_empty() {
                    fill(ingress, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
        drop_meaningless(&mut object["spec"]);
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        if through == Through::Sub(Subresource::Status) {
            keep(object, old, "spec");
            return;
        }
        keep(object, old, "status");
        drop_dependent(object, old);
        drop_meaningless(&mut object["spec"]);
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        validate::service(object)
    }

    fn validate_update(&self, through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        if through == Through::Sub(Subresource::Status) {
            return validate::status(object);
        }
        let mut errors = validate::change(object, old);
        errors.extend(validate::service(object));
        errors
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![
            ("spec.clusterIP", text(object, "/spec/clusterIP").to_owned()),
            ("spec.type", text(object, "/spec/type").to_owned()),
        ]
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            NAME,
            ("Type", "string", 0, "How it is exposed."),
            ("Cluster-IP", "string", 0, "The address inside the cluster."),
            ("External-IP", "string", 0, "Where it is reached from outside."),
            ("Port(s)", "string", 0, "The ports it listens on."),
            AGE,
            ("Selector", "string", 1, "The pods it sends traffic to."),
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let ports: Vec<String> = items(object, "/spec/ports")
            .iter()
            .map(|p| match number(p, "/nodePort") {
                0 => format!("{}/{}", number(p, "/port"), text(p, "/protocol")),
                node => format!("{}:{node}/{}", number(p, "/port"), text(p, "/protocol")),
            })
            .collect();
        vec![
            table::name(object),
            json!(text(object, "/spec/type")),
            json!(or(text(object, "/spec/clusterIPs/0"), "<none>")),
            json!(external(object)),
            json!(or(&ports.join(","), "<none>")),
            table::age(object, now),
            json!(table::labels(object, "/spec/selector")),
        ]
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        vec![vec![if through == Through::Main { "status" } else { "spec" }]]
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label1035
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

fn default_affinity(spec: &mut Value) {
    match text(spec, "/sessionAffinity") {
        "None" => remove(spec, "sessionAffinityConfig"),
        "ClientIP" if !present(spec, "/sessionAffinityConfig/clientIP/timeoutSeconds") => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
        }
        _ => {}
    }
}

/// Whether traffic from outside can reach the service.
fn is_external(spec: &Value) -> bool {
    match text(spec, "/type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec, "/externalIPs").is_empty(),
        _ => false,
    }
}

/// Whether a load balancer asks each node for its health.
fn needs_health_check(spec: &Value) -> bool {
    text(spec, "/type") == "LoadBalancer" && text(spec, "/externalTrafficPolicy") == "Local"
}

fn has_node_ports(spec: &Value) -> bool {
    matches!(text(spec, "/type"), "NodePort" | "LoadBalancer")
}

fn node_ports(spec: &Value) -> Vec<i64> {
    items(spec, "/ports").iter().map(|p| number(p, "/nodePort")).filter(|p| *p != 0).collect()
}

/// A change of type takes with it what the old type had and the new one cannot have, if the user left it as it was.
fn drop_dependent(object: &mut Value, old: &Value) {
    let (was, is) = (&old["spec"], &mut object["spec"]);
    let same = |is: &Value, field: &str| is.get(field) == was.get(field);
    let is_name = |spec: &Value| text(spec, "/type") == "ExternalName";
    if !is_name(was) && is_name(is) {
        if same(is, "clusterIP") && same(is, "clusterIPs") {
            remove(is, "clusterIP");
            remove(is, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(is, field) {
                remove(is, field);
            }
        }
    }
    if has_node_ports(was) && !has_node_ports(is) {
        let before = node_ports(was);
        if node_ports(is).iter().all(|p| before.contains(p)) {
            items_mut(is, "/ports").iter_mut().for_each(|p| remove(p, "nodePort"));
        }
    }
    if needs_health_check(was) && !needs_health_check(is) && same(is, "healthCheckNodePort") {
        remove(is, "healthCheckNodePort");
    }
    let balanced = |spec: &Value| text(spec, "/type") == "LoadBalancer";
    if balanced(was) && !balanced(is) {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(is, field) {
                remove(is, field);
            }
        }
    }
    if is_external(was) && !is_external(is) && same(is, "externalTrafficPolicy") {
        remove(is, "externalTrafficPolicy");
    }
    if !balanced(is) {
        object["status"]["loadBalancer"] = json!({});
    }
}

/// A name outside the cluster has no traffic inside it to steer.
fn drop_meaningless(spec: &mut Value) {
    if text(spec, "/type") == "ExternalName" {
        remove(spec, "internalTrafficPolicy");
    }
}

/// Where a service is reached from outside, in a cell.
fn external(object: &Value) -> String {
    let addresses: Vec<&str> = items(object, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match text(object, "/spec/type") {
        "ClusterIP" | "NodePort" => or(&addresses.join(","), "<none>").to_owned(),
        "LoadBalancer" => {
            let mut balanced: Vec<&str> = items(object, "/status/loadBalancer/ingress")
                .iter()
                .map(|i| or(text(i, "/ip"), text(i, "/hostname")))
                .filter(|a| !a.is_empty())
                .collect();
            balanced.sort_unstable();
            balanced.dedup();
            or(&[balanced, addresses].concat().join(","), "<pending>").to_owned()
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Whether the load balancer wants node ports.
fn allocates_node_ports(spec: &Value) -> bool {
    match text(spec, "/type") {
        "NodePort" => true,
        "LoadBalancer" => {
            !present(spec, "/allocateLoadBalancerNodePorts") || flag(spec, "/allocateLoadBalancerNodePorts")
        }
        _ => false,
    }
}
