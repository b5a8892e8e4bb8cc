use serde_json::Value;

use super::*;

/// Every schema node with its path, roots first.
fn walk<'a>(path: String, schema: &'a Value, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(&path, schema);
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, child) in properties {
            walk(format!("{path}.{name}"), child, visit);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(key) {
            walk(format!("{path}[]"), child, visit);
        }
    }
}

fn schemas() -> Vec<(String, Value)> {
    let mut schemas = Vec::new();
    for crd in definitions() {
        for version in crd["spec"]["versions"].as_array().expect("versions") {
            let name = format!(
                "{}/{}",
                crd["metadata"]["name"].as_str().expect("name"),
                version["name"].as_str().expect("version")
            );
            schemas.push((name, version["schema"]["openAPIV3Schema"].clone()));
        }
    }
    schemas
}

#[test]
fn every_value_in_every_schema_has_exactly_one_type() {
    for (name, schema) in schemas() {
        walk(name, &schema, &mut |path, node| {
            let int_or_string = node.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
            assert_eq!(node.get("type").is_some_and(Value::is_string), !int_or_string, "{path}: {node}");
            for forbidden in ["$ref", "$schema", "$defs", "title", "oneOf", "allOf", "not", "const"] {
                assert!(node.get(forbidden).is_none(), "{path} has {forbidden}");
            }
            assert!(node.get("anyOf").is_none() || int_or_string, "{path} has anyOf");
            assert!(
                node.get("properties").is_none() || node.get("additionalProperties").is_none(),
                "{path} is an object and a map at once"
            );
        });
    }
}

#[test]
fn every_list_says_how_it_merges_or_is_left_as_its_users_know_it() {
    // Users know these without a list type; a server treats them as atomic.
    let untyped = [".clusterNetworks", ".egressIPs", ".egressCIDRs", ".spec.egress", ".spec.egress[].ports"];
    for (name, schema) in schemas() {
        walk(String::new(), &schema, &mut |path, node| {
            if node.get("type") == Some(&Value::from("array")) && !untyped.contains(&path) {
                assert!(node.get("x-kubernetes-list-type").is_some(), "{name}{path}");
            }
        });
    }
}

#[test]
fn only_what_users_must_write_is_required() {
    let mut required = Vec::new();
    for (name, schema) in schemas() {
        walk(String::new(), &schema, &mut |path, node| {
            let names: Vec<_> = node
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let selector = path.ends_with(".matchExpressions[]");
            let status = path.starts_with(".status");
            if !names.is_empty() && !selector && !status {
                required.push(format!("{name}{path}: {}", names.join(" ")));
            }
        });
    }
    required.sort();
    assert_eq!(
        required,
        [
            "clusternetworks.network.openshift.io/v1.clusterNetworks[]: CIDR hostSubnetLength",
            "clusternetworks.network.openshift.io/v1: serviceNetwork clusterNetworks",
            "egressfirewalls.k8s.ovn.org/v1.spec.egress[].ports[]: protocol port",
            "egressfirewalls.k8s.ovn.org/v1.spec.egress[]: type to",
            "egressfirewalls.k8s.ovn.org/v1.spec: egress",
            "egressfirewalls.k8s.ovn.org/v1: spec",
            "egressips.k8s.ovn.org/v1.spec: egressIPs namespaceSelector",
            "egressips.k8s.ovn.org/v1: spec",
            "egressnetworkpolicies.network.openshift.io/v1.spec.egress[]: type to",
            "egressnetworkpolicies.network.openshift.io/v1.spec: egress",
            "egressnetworkpolicies.network.openshift.io/v1: spec",
            "hostsubnets.network.openshift.io/v1: host hostIP subnet",
            "machineconfigpools.machineconfiguration.openshift.io/v1: spec",
            "machineconfigs.machineconfiguration.openshift.io/v1: spec",
            "netnamespaces.network.openshift.io/v1: netname netid",
            "networks.config.openshift.io/v1: spec",
            "networks.operator.openshift.io/v1.spec.additionalNetworks[]: name",
            "networks.operator.openshift.io/v1.spec.additionalRoutingCapabilities: providers",
            "networks.operator.openshift.io/v1.spec.defaultNetwork.ovnKubernetesConfig.bgpManagedConfig: bgpTopology",
            "networks.operator.openshift.io/v1.spec.defaultNetwork.ovnKubernetesConfig.noOverlayConfig: outboundSNAT routing",
        ]
    );
}

#[test]
fn the_embedded_evaluator_understands_every_rule() {
    for (name, schema) in schemas() {
        walk(name, &schema, &mut |path, node| {
            let errors: Vec<_> = kube_cel::compile_schema(node)
                .compilation_errors()
                .iter()
                .map(|error| error.to_string())
                .collect();
            assert!(errors.is_empty(), "{path}: {errors:?}");
        });
    }
}

#[test]
fn kinds_keep_the_short_names_and_versions_their_users_type() {
    let found: Vec<_> = definitions()
        .iter()
        .map(|crd| {
            let names = &crd["spec"]["names"];
            let versions: Vec<_> = crd["spec"]["versions"]
                .as_array()
                .expect("versions")
                .iter()
                .map(|v| {
                    let mark = if v["storage"] == true { "*" } else { "" };
                    let status = if v["subresources"]["status"].is_object() { "+status" } else { "" };
                    format!("{}{mark}{status}", v["name"].as_str().expect("version name"))
                })
                .collect();
            let short = names["shortNames"][0].as_str().unwrap_or("-");
            format!(
                "{} {short} {} {}",
                crd["metadata"]["name"].as_str().expect("name"),
                crd["spec"]["scope"].as_str().expect("scope"),
                versions.join(",")
            )
        })
        .collect();
    let mut found = found;
    found.sort();
    assert_eq!(
        found,
        [
            "clusternetworks.network.openshift.io - Cluster v1*",
            "egressfirewalls.k8s.ovn.org - Namespaced v1*+status",
            "egressips.k8s.ovn.org eip Cluster v1*+status",
            "egressnetworkpolicies.network.openshift.io - Namespaced v1*",
            "hostsubnets.network.openshift.io - Cluster v1*",
            "machineconfigpools.machineconfiguration.openshift.io mcp Cluster v1*+status",
            "machineconfigs.machineconfiguration.openshift.io mc Cluster v1*",
            "netnamespaces.network.openshift.io - Cluster v1*",
            "networks.config.openshift.io - Cluster v1*+status",
            "networks.operator.openshift.io - Cluster v1*+status",
            "nmstates.nmstate.io - Cluster v1*+status,v1beta1+status",
            "nodenetworkconfigurationenactments.nmstate.io nnce Cluster v1beta1*+status",
            "nodenetworkconfigurationpolicies.nmstate.io nncp Cluster v1*+status,v1beta1+status",
            "nodenetworkstates.nmstate.io nns Cluster v1beta1*+status",
        ]
    );
}
