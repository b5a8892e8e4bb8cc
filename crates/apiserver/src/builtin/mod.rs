//! The built-in kinds: what they are called, what a server fills in, refuses and prints for each of them.
//!
//! [`resources`] is the table of everything that is served. The rest is what needs more than one object: admitting a
//! pod ([`admit_pod`]), handing out a service's addresses ([`allocate_service`]), seeing one event through two APIs
//! ([`event_to_core`], [`event_from_core`]), reading what typed Go clients write ([`protobuf_to_json`]).
//!
//! A write goes through a [`Behaviour`] in this order: `default`, then what the writer owns is noted, then admission
//! and allocation, `prepare_create` or `prepare_update`, `validate` or `validate_update`.
//!
//! # What differs from Kubernetes
//!
//! Validation covers what manifests get wrong in practice. Not checked, and accepted here: affinity and topology
//! spread terms, security contexts, DNS configuration, host aliases, resource claims, windows and OS fields, image
//! names, environment names and sources, projected volume sources and exotic volume types (and their defaults),
//! ephemeral containers' contents, huge pages and extended resource rules, pod and container status transitions other
//! than restarts, deprecated annotations, certificates in TLS secrets, finalizer names in namespaces, RBAC aggregation
//! selectors. A refused change of a pod's spec does not show the difference it found. Only the two system priority
//! classes exist.

mod access;
mod budget;
mod configmap;
mod definition;
pub mod duration;
mod endpointslice;
mod event;
mod keyed;
mod lease;
mod namespace;
mod networkpolicy;
mod node;
mod openapi;
mod pod;
mod protobuf;
pub mod quantity;
mod rbac;
mod resources;
mod scaling;
mod secret;
mod service;
mod serviceaccount;
mod table;
mod validate;
mod workload;

use std::sync::{Arc, LazyLock};

pub use definition::{definition_cells, definition_columns};
pub use event::{event_from_core, event_to_core};
pub use openapi::openapi_document;
pub use pod::{admit_pod, pod_service_account};
pub use protobuf::{ProtobufError, protobuf_to_json};
pub use service::{Allocated, Ranges, allocate_service};

use crate::resource::{Behaviour, Resource, Subresource};
use crate::schema::{Loader, Schema, SchemaRef};

/// One line of the table of kinds.
struct Kind {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    category: Option<&'static str>,
    namespaced: bool,
    sub: &'static [Subresource],
    type_name: &'static str,
    behaviour: Arc<dyn Behaviour>,
}

/// Every built-in resource but CustomResourceDefinition, whose behaviour is `crd`'s: see [`definition_schema`].
pub fn resources() -> Vec<Resource> {
    kinds().into_iter().map(Kind::into_resource).collect()
}

/// The schema of CustomResourceDefinition.
pub fn definition_schema() -> SchemaRef {
    schema(
        "apiextensions.k8s.io",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    )
}

impl Kind {
    fn into_resource(self) -> Resource {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        Resource {
            group: self.group.to_owned(),
            version: "v1".to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short),
            categories: self.category.into_iter().map(str::to_owned).collect(),
            namespaced: self.namespaced,
            subresources: self.sub.to_vec(),
            schema: schema(self.group, self.type_name),
            behaviour: self.behaviour,
            storage_version: "v1".to_owned(),
            custom: false,
            revised: false,
            deprecation: None,
        }
    }

    fn short(mut self, short: &'static [&'static str]) -> Kind {
        self.short = short;
        self
    }

    /// Shown by `kubectl get all`.
    fn in_all(mut self) -> Kind {
        self.category = Some("all");
        self
    }

    fn sub(mut self, sub: &'static [Subresource]) -> Kind {
        self.sub = sub;
        self
    }

    fn cluster_wide(mut self) -> Kind {
        self.namespaced = false;
        self
    }
}

/// A namespaced kind.
fn kind<B: Behaviour + 'static>(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    type_name: &'static str,
    behaviour: B,
) -> Kind {
    Kind {
        group,
        kind,
        plural,
        short: &[],
        category: None,
        namespaced: true,
        sub: &[],
        type_name,
        behaviour: Arc::new(behaviour),
    }
}

macro_rules! typed {
    ($package:literal, $kind:literal) => {
        concat!("io.k8s.api.", $package, ".v1.", $kind)
    };
}

fn kinds() -> Vec<Kind> {
    use Subresource::{Binding, EphemeralContainers, Eviction, Finalize, Resize, Scale, Status, Token};
    vec![
        kind("", "ConfigMap", "configmaps", typed!("core", "ConfigMap"), configmap::ConfigMaps)
            .short(&["cm"]),
        kind("", "Event", "events", typed!("core", "Event"), event::Events { seen: event::Api::Core })
            .short(&["ev"]),
        kind("", "Namespace", "namespaces", typed!("core", "Namespace"), namespace::Namespaces)
            .short(&["ns"])
            .sub(&[Finalize, Status])
            .cluster_wide(),
        kind("", "Node", "nodes", typed!("core", "Node"), node::Nodes)
            .short(&["no"])
            .sub(&[Status])
            .cluster_wide(),
        kind("", "Pod", "pods", typed!("core", "Pod"), pod::Pods).short(&["po"]).in_all().sub(&[
            Binding,
            EphemeralContainers,
            Eviction,
            Resize,
            Status,
        ]),
        kind("", "Secret", "secrets", typed!("core", "Secret"), secret::Secrets),
        kind(
            "",
            "ServiceAccount",
            "serviceaccounts",
            typed!("core", "ServiceAccount"),
            serviceaccount::ServiceAccounts,
        )
        .short(&["sa"])
        .sub(&[Token]),
        kind("", "Service", "services", typed!("core", "Service"), service::Services)
            .short(&["svc"])
            .in_all()
            .sub(&[Status]),
        kind(
            "apps",
            "DaemonSet",
            "daemonsets",
            typed!("apps", "DaemonSet"),
            workload::Workloads(workload::Kind::DaemonSet),
        )
        .short(&["ds"])
        .in_all()
        .sub(&[Status]),
        kind(
            "apps",
            "Deployment",
            "deployments",
            typed!("apps", "Deployment"),
            workload::Workloads(workload::Kind::Deployment),
        )
        .short(&["deploy"])
        .in_all()
        .sub(&[Scale, Status]),
        kind(
            "apps",
            "ReplicaSet",
            "replicasets",
            typed!("apps", "ReplicaSet"),
            workload::Workloads(workload::Kind::ReplicaSet),
        )
        .short(&["rs"])
        .in_all()
        .sub(&[Scale, Status]),
        kind("coordination.k8s.io", "Lease", "leases", typed!("coordination", "Lease"), lease::Leases),
        kind(
            "discovery.k8s.io",
            "EndpointSlice",
            "endpointslices",
            typed!("discovery", "EndpointSlice"),
            endpointslice::EndpointSlices,
        ),
        kind(
            "events.k8s.io",
            "Event",
            "events",
            typed!("events", "Event"),
            event::Events { seen: event::Api::Events },
        )
        .short(&["ev"]),
        kind(
            "networking.k8s.io",
            "NetworkPolicy",
            "networkpolicies",
            typed!("networking", "NetworkPolicy"),
            networkpolicy::NetworkPolicies,
        )
        .short(&["netpol"]),
        kind(
            "policy",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            typed!("policy", "PodDisruptionBudget"),
            budget::Budgets,
        )
        .short(&["pdb"])
        .sub(&[Status]),
        access_kind("ClusterRoleBinding", "clusterrolebindings", typed!("rbac", "ClusterRoleBinding"), true),
        access_kind("ClusterRole", "clusterroles", typed!("rbac", "ClusterRole"), true),
        access_kind("RoleBinding", "rolebindings", typed!("rbac", "RoleBinding"), false),
        access_kind("Role", "roles", typed!("rbac", "Role"), false),
    ]
}

fn access_kind(name: &'static str, plural: &'static str, type_name: &'static str, cluster: bool) -> Kind {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let made = if name.ends_with("Binding") {
        kind(GROUP, name, plural, type_name, rbac::Bindings { cluster })
    } else {
        kind(GROUP, name, plural, type_name, rbac::Roles { cluster })
    };
    if cluster { made.cluster_wide() } else { made }
}

/// A built-in type by the group whose document describes it and its name there: `io.k8s.api.core.v1.Pod`.
pub(crate) fn schema(group: &str, name: &str) -> SchemaRef {
    let components = openapi::components(group).expect("every served group has its document");
    Loader::new(components).load(name).expect("the OpenAPI documents hold every type they refer to")
}

/// The type of every object's `metadata`.
pub(crate) fn object_meta() -> &'static Schema {
    static META: LazyLock<SchemaRef> =
        LazyLock::new(|| schema("", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    &META
}

/// The type of the body of a delete.
pub(crate) fn delete_options() -> &'static Schema {
    static OPTIONS: LazyLock<SchemaRef> =
        LazyLock::new(|| schema("", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"));
    &OPTIONS
}
