//! The tables name every kind there is.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::servers::{Kubectl, Scratch, Servers, Which};

/// The objects of the tables, one YAML document each.
pub(crate) fn documents() -> Vec<&'static str> {
    let tables = [include_str!("objects/built-in.yaml"), include_str!("objects/custom.yaml")];
    tables.into_iter().flat_map(|table| table.split("\n---\n")).collect()
}

/// What the server promises to serve, besides what is applied to it.
const BUILT_IN: [&str; 21] = [
    "v1 ConfigMap",
    "v1 Event",
    "v1 Namespace",
    "v1 Node",
    "v1 Pod",
    "v1 Secret",
    "v1 Service",
    "v1 ServiceAccount",
    "apiextensions.k8s.io/v1 CustomResourceDefinition",
    "apps/v1 DaemonSet",
    "apps/v1 Deployment",
    "apps/v1 ReplicaSet",
    "coordination.k8s.io/v1 Lease",
    "discovery.k8s.io/v1 EndpointSlice",
    "events.k8s.io/v1 Event",
    "networking.k8s.io/v1 NetworkPolicy",
    "policy/v1 PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1 ClusterRole",
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1 Role",
    "rbac.authorization.k8s.io/v1 RoleBinding",
];

#[test]
fn the_tables_hold_one_object_of_every_kind_that_is_served() {
    let tabled: BTreeSet<String> = documents()
        .iter()
        .map(|document| {
            let object: Value = serde_saphyr::from_str(document).expect("YAML");
            let text = |name: &str| object[name].as_str().expect("text").to_owned();
            format!("{} {}", text("apiVersion"), text("kind"))
        })
        .collect();
    for promised in BUILT_IN {
        assert!(tabled.contains(promised), "no object of {promised}");
    }
    let servers = Servers::shared();
    let scratch = Scratch::new(&servers, Which::Embedded, Kubectl::Pinned, "kinds");
    let output = scratch
        .kubectl(&["api-resources", "--verbs=create,delete,get,list,patch,update,watch", "--no-headers"])
        .output()
        .expect("kubectl runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let served: BTreeSet<String> = said
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("{} {}", words[words.len() - 3], words[words.len() - 1])
        })
        .filter(|kind| !kind.contains(".example.com/"))
        .collect();
    assert_eq!(served, tabled);
}
