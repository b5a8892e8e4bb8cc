//! The endpoints of Services.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::cache::{Cache, is_over, is_ready};
use super::fit::selects;
use super::template::owner;
use super::write::{Kind, What, Write};

/// The label that says whose slice it is.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";
const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
const US: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// How many endpoints a slice holds.
const MOST: usize = 100;

pub(super) fn look(cache: &Cache, namespace: &str, name: &str) -> Vec<Write> {
    let Some(service) = cache.services.get(namespace, name) else { return Vec::new() };
    let spec = service.spec.clone().unwrap_or_default();
    // Whoever selects nothing writes slices by hand.
    let Some(selector) = spec.selector.filter(|selector| !selector.is_empty()) else { return Vec::new() };
    if service.metadata.deletion_timestamp.is_some() || spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let mut groups: BTreeMap<Group, Vec<Value>> = BTreeMap::new();
    let families = spec.ip_families.clone().unwrap_or_else(|| vec!["IPv4".into()]);
    for pod in cache.pods.of_namespace(namespace) {
        if !selects(&selector, pod.labels()) || is_over(pod) {
            continue;
        }
        let ports = ports_of(spec.ports.as_deref().unwrap_or_default(), pod);
        for family in &families {
            let Some(address) = address_of(pod, family) else { continue };
            let group = Group { family: family.clone(), ports: ports.to_string() };
            groups.entry(group).or_default().push(endpoint(cache, service, pod, address));
        }
    }
    let ours = |slice: &&Arc<EndpointSlice>| slice.labels().get(MANAGER).map(String::as_str) == Some(US);
    let there: Vec<&Arc<EndpointSlice>> = cache.slices_of(namespace, name).filter(ours).collect();
    settle(service, groups, &there)
}

/// Endpoints that fit into one slice: of one family, with the same ports.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Group {
    family: String,
    /// As text: JSON has no order.
    ports: String,
}

/// The differences between the slices there are and those there should be. Endpoints stay in the slice they are in.
fn settle(
    service: &Service,
    groups: BTreeMap<Group, Vec<Value>>,
    there: &[&Arc<EndpointSlice>],
) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut kept: BTreeSet<String> = BTreeSet::new();
    for (group, endpoints) in groups {
        let mut wanted: BTreeMap<String, Value> =
            endpoints.into_iter().map(|one| (one["addresses"][0].to_string(), one)).collect();
        let ports: Value = serde_json::from_str(&group.ports).unwrap_or(Value::Null);
        let same_group = |slice: &&&Arc<EndpointSlice>| {
            slice.address_type == group.family && json!(slice.ports.clone().unwrap_or_default()) == ports
        };
        let mut slices: Vec<(&Arc<EndpointSlice>, Vec<Value>)> = Vec::new();
        for slice in there.iter().filter(same_group) {
            let stay = slice
                .endpoints
                .iter()
                .filter_map(|one| wanted.remove(&json!(one.addresses.first()).to_string()));
            slices.push((slice, stay.collect()));
        }
        let mut newcomers = wanted.into_values();
        for (_, endpoints) in &mut slices {
            let room = MOST.saturating_sub(endpoints.len());
            endpoints.extend(newcomers.by_ref().take(room));
        }
        for (slice, endpoints) in slices {
            if endpoints.is_empty() {
                continue;
            }
            kept.insert(slice.name_any());
            writes.extend(change(service, slice, endpoints));
        }
        let mut rest: Vec<Value> = newcomers.collect();
        while !rest.is_empty() {
            let more = rest.split_off(rest.len().min(MOST));
            writes.push(create(service, &group.family, &ports, std::mem::replace(&mut rest, more)));
        }
    }
    // A Service nobody stands behind keeps its last slice, empty, as the real controller keeps one.
    let mut empty = there.iter().filter(|slice| !kept.contains(&slice.name_any()));
    if kept.is_empty() && writes.is_empty() {
        let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
        match empty.next() {
            Some(slice) => writes.extend(change(service, slice, Vec::new())),
            None => {
                let family = families.first().map_or("IPv4", String::as_str);
                writes.push(create(service, family, &json!([]), Vec::new()));
            }
        }
    }
    writes.extend(empty.map(|slice| {
        let uid = slice.uid().unwrap_or_default();
        of_slice(slice, What::Delete { uid, grace: None })
    }));
    writes
}

fn create(service: &Service, family: &str, ports: &Value, endpoints: Vec<Value>) -> Write {
    let namespace = service.namespace().unwrap_or_default();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", service.name_any()),
            "namespace": namespace,
            "labels": labels(service),
            "ownerReferences": [owner(service)],
        },
        "addressType": family,
        "ports": ports,
        "endpoints": endpoints,
    });
    Write::new(Kind::EndpointSlice, &namespace, "", What::Create(slice))
}

fn change(service: &Service, slice: &EndpointSlice, endpoints: Vec<Value>) -> Option<Write> {
    let labels = labels(service);
    let now: Vec<Value> = slice.endpoints.iter().map(|one| json!(one)).collect();
    let labelled = labels.iter().all(|(key, value)| slice.labels().get(key) == Some(value));
    if labelled && now == endpoints {
        return None;
    }
    let patch = json!({
        "metadata": {"resourceVersion": slice.resource_version(), "labels": labels},
        "endpoints": endpoints,
    });
    Some(of_slice(slice, What::Merge(patch)))
}

fn of_slice(slice: &EndpointSlice, what: What) -> Write {
    Write::new(Kind::EndpointSlice, &slice.namespace().unwrap_or_default(), &slice.name_any(), what)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.labels().clone();
    labels.insert(SERVICE.into(), service.name_any());
    labels.insert(MANAGER.into(), US.into());
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    if address == Some("None") {
        labels.insert(HEADLESS.into(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels
}

fn address_of(pod: &Pod, family: &str) -> Option<IpAddr> {
    let status = pod.status.as_ref()?;
    let listed = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone());
    let mut all = listed.chain(status.pod_ip.clone()).filter_map(|text| text.parse::<IpAddr>().ok());
    all.find(|address| address.is_ipv4() == (family == "IPv4"))
}

/// The ports of a Service at one pod. One it has no number for is left out.
fn ports_of(ports: &[ServicePort], pod: &Pod) -> Value {
    let containers = || {
        pod.spec.iter().flat_map(|spec| {
            let init = spec
                .init_containers
                .iter()
                .flatten()
                .filter(|c| c.restart_policy.as_deref() == Some("Always"));
            spec.containers.iter().chain(init)
        })
    };
    let resolved = ports.iter().filter_map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let number = match &port.target_port {
            None => port.port,
            Some(IntOrString::Int(0)) => port.port,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(name)) => {
                containers()
                    .flat_map(|container| container.ports.iter().flatten())
                    .find(|one| {
                        one.name.as_ref() == Some(name)
                            && one.protocol.as_deref().unwrap_or("TCP") == protocol
                    })?
                    .container_port
            }
        };
        let mut one =
            json!({"name": port.name.clone().unwrap_or_default(), "protocol": protocol, "port": number});
        if let Some(app) = &port.app_protocol {
            one["appProtocol"] = json!(app);
        }
        Some(one)
    });
    resolved.collect()
}

fn endpoint(cache: &Cache, service: &Service, pod: &Pod, address: IpAddr) -> Value {
    let spec = service.spec.clone().unwrap_or_default();
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let serving = is_ready(pod);
    let ready = spec.publish_not_ready_addresses == Some(true) || (serving && !terminating);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let mut one = json!({
        "addresses": [address.to_string()],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": pod.namespace(), "name": pod.name_any(), "uid": pod.uid()},
    });
    if let Some(node) = node {
        let labels = cache.nodes.get("", &node).map(|node| node.labels().clone()).unwrap_or_default();
        if let Some(zone) = labels.get("topology.kubernetes.io/zone") {
            one["zone"] = json!(zone);
        }
        one["nodeName"] = json!(node);
    }
    let named = pod.spec.as_ref().filter(|pod| pod.subdomain.as_deref() == service.metadata.name.as_deref());
    if let Some(hostname) = named.and_then(|pod| pod.hostname.as_deref()).filter(|name| !name.is_empty()) {
        one["hostname"] = json!(hostname);
    }
    one
}

#[cfg(test)]
mod tests;
