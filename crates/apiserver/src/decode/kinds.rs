//! The group, version and kind a body claims to have.

use super::Expect;
use super::doc::Doc;
use crate::field::quoted;
use crate::status::ApiError;

/// What a body says it is; empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Claimed {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The Go type the real server peeks into a body with.
const PEEK: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

impl Claimed {
    /// Reads `apiVersion` and `kind`; everything else may still be wrong.
    pub(super) fn read(doc: &Doc) -> Result<Claimed, String> {
        let wrong = |why: String| {
            Err(format!("couldn't get version/kind; json parse error: json: cannot unmarshal {why}"))
        };
        let fields = match doc {
            Doc::Object(fields) => fields.as_slice(),
            Doc::Null => &[],
            Doc::Bool(_) | Doc::Number(_) | Doc::String(_) | Doc::Array(_) => {
                return wrong(format!("{} into Go value of type {PEEK}", doc.go_name()));
            }
        };
        let (mut api_version, mut kind) = ("", "");
        for (name, value) in fields {
            let place = match name.as_str() {
                "apiVersion" => &mut api_version,
                "kind" => &mut kind,
                _ => continue,
            };
            match value {
                Doc::String(text) => *place = text,
                Doc::Null => {}
                Doc::Bool(_) | Doc::Number(_) | Doc::Array(_) | Doc::Object(_) => {
                    return wrong(format!("{} into Go struct field .{name} of type string", value.go_name()));
                }
            }
        }
        let (group, version) = match api_version.split_once('/') {
            None => ("", api_version),
            Some((_, rest)) if rest.contains('/') => {
                return Err(format!("unexpected GroupVersion string: {api_version}"));
            }
            Some(parts) => parts,
        };
        Ok(Claimed { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() })
    }

    /// What is missing is what the URL says.
    pub(super) fn or(&self, expect: &Expect) -> Claimed {
        let mut whole = self.clone();
        if whole.kind.is_empty() {
            whole.kind.clone_from(&expect.kind);
        }
        if whole.version.is_empty() && (whole.group.is_empty() || whole.group == expect.group) {
            whole.group.clone_from(&expect.group);
            whole.version.clone_from(&expect.version);
        }
        whole
    }

    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Refuses a body of another kind than the URL's, in the words its fate has on the real server: a kind nobody
    /// knows, a kind that cannot become the expected one, or the right kind in another version.
    pub(super) fn check_built_in(
        &self,
        expect: &Expect,
        unfit: &dyn Fn(&str) -> ApiError,
    ) -> Result<(), ApiError> {
        let version_fits = self.version == expect.version || expect.also.contains(&self.version.as_str());
        if (&self.group, &self.kind) == (&expect.group, &expect.kind) && version_fits {
            return Ok(());
        }
        if !is_registered(&self.group, &self.version, &self.kind) {
            return Err(unfit(&self.unregistered()));
        }
        if self.is_related(expect) {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({}) does not match the expected API version ({})",
                self.api_version(),
                expect.api_version()
            )));
        }
        Err(unfit(&self.inconvertible(expect)))
    }
}

impl Claimed {
    /// As [`Claimed::check_built_in`], for what a patch made: another version of the same kind is taken.
    pub(super) fn check_patched(&self, expect: &Expect) -> Result<(), String> {
        let related = self.is_related(expect);
        if related && (self.group == expect.group && self.version == expect.version) {
            return Ok(());
        }
        if !is_registered(&self.group, &self.version, &self.kind) {
            return Err(self.unregistered());
        }
        if related { Ok(()) } else { Err(self.inconvertible(expect)) }
    }

    /// Refuses the body of a delete that is of another kind. Every group has `DeleteOptions`, so the version is free.
    pub(super) fn check_delete_options(mut self) -> Result<(), String> {
        if self.kind.is_empty() || self.kind == "DeleteOptions" {
            return Ok(());
        }
        if self.version.is_empty() {
            self.version = "v1".to_owned();
        }
        Err(self.unregistered())
    }

    /// Whether this is the expected kind, in whatever version. Three groups had a Scale before it moved.
    fn is_related(&self, expect: &Expect) -> bool {
        self.kind == expect.kind && (self.kind == "Scale" || internal(&self.group) == internal(&expect.group))
    }

    fn unregistered(&self) -> String {
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:110\"",
            quoted(&self.kind),
            quoted(&self.api_version())
        )
    }

    fn inconvertible(&self, expect: &Expect) -> String {
        let package = internal(&expect.group);
        format!(
            "converting ({}.{}) to ({package}.{}): unknown conversion",
            self.version, self.kind, expect.kind
        )
    }
}

/// The Go package a group's kinds are converted to. Groups that share one hold the same kinds.
fn internal(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "extensions" => "apps",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// The kinds a real server knows without being told by a custom resource definition. Lists and the kinds of `meta.k8s.io`
/// belong to every group.
const REGISTERED: &[(&str, &[&str], &[&str])] = &[
    (
        "",
        &["v1"],
        &[
            "Binding",
            "ComponentStatus",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "apps",
        &["v1", "v1beta1", "v1beta2"],
        &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
    ),
    ("apps", &["v1beta1", "v1beta2"], &["Scale"]),
    (
        "extensions",
        &["v1beta1"],
        &["Scale", "DaemonSet", "Deployment", "ReplicaSet", "Ingress", "NetworkPolicy"],
    ),
    ("autoscaling", &["v1", "v2"], &["HorizontalPodAutoscaler"]),
    ("autoscaling", &["v1"], &["Scale"]),
    ("batch", &["v1"], &["CronJob", "Job"]),
    ("coordination.k8s.io", &["v1", "v1beta1"], &["Lease"]),
    ("discovery.k8s.io", &["v1", "v1beta1"], &["EndpointSlice"]),
    ("events.k8s.io", &["v1", "v1beta1"], &["Event"]),
    (
        "networking.k8s.io",
        &["v1", "v1beta1"],
        &["Ingress", "IngressClass", "NetworkPolicy", "IPAddress", "ServiceCIDR"],
    ),
    ("policy", &["v1", "v1beta1"], &["PodDisruptionBudget", "Eviction"]),
    (
        "rbac.authorization.k8s.io",
        &["v1", "v1beta1", "v1alpha1"],
        &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    ),
    (
        "storage.k8s.io",
        &["v1", "v1beta1"],
        &["StorageClass", "VolumeAttachment", "CSIDriver", "CSINode", "CSIStorageCapacity"],
    ),
    ("apiextensions.k8s.io", &["v1", "v1beta1"], &["CustomResourceDefinition"]),
    ("authentication.k8s.io", &["v1"], &["TokenRequest"]),
    ("authentication.k8s.io", &["v1", "v1beta1"], &["TokenReview"]),
    ("authentication.k8s.io", &["v1", "v1beta1", "v1alpha1"], &["SelfSubjectReview"]),
    (
        "authorization.k8s.io",
        &["v1", "v1beta1"],
        &[
            "SelfSubjectAccessReview",
            "SubjectAccessReview",
            "LocalSubjectAccessReview",
            "SelfSubjectRulesReview",
        ],
    ),
];

fn is_registered(group: &str, version: &str, kind: &str) -> bool {
    const EVERYWHERE: [&str; 8] = [
        "CreateOptions",
        "DeleteOptions",
        "GetOptions",
        "ListOptions",
        "PatchOptions",
        "UpdateOptions",
        "WatchEvent",
        "Status",
    ];
    REGISTERED.iter().any(|(in_group, versions, kinds)| {
        *in_group == group
            && versions.contains(&version)
            && (kinds.contains(&kind.strip_suffix("List").unwrap_or(kind))
                || (EVERYWHERE.contains(&kind) && (kind != "Status" || group.is_empty())))
    })
}
