//! What Kubernetes has and this server does not: refused by name, so that nobody takes a gap for an empty list.

/// Groups left out whole.
const GROUPS: [&str; 11] = [
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Resources left out of groups that are served.
const RESOURCES: [(&str, &[&str]); 6] = [
    (
        "",
        &[
            "bindings",
            "componentstatuses",
            "endpoints",
            "limitranges",
            "persistentvolumeclaims",
            "persistentvolumes",
            "podtemplates",
            "replicationcontrollers",
            "resourcequotas",
            "watch",
        ],
    ),
    ("apps", &["controllerrevisions", "statefulsets", "watch"]),
    ("networking.k8s.io", &["ingresses", "ingressclasses", "ipaddresses", "servicecidrs"]),
    ("authentication.k8s.io", &["tokenreviews"]),
    (
        "authorization.k8s.io",
        &["localsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
    ("coordination.k8s.io", &["leasecandidates"]),
];

/// The name to refuse a resource by, when it is one Kubernetes has.
pub(crate) fn left_out(group: &str, resource: &str) -> Option<String> {
    let named = GROUPS.contains(&group)
        || RESOURCES.iter().any(|(g, resources)| *g == group && resources.contains(&resource));
    named.then(|| if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") })
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn what_kubernetes_has_and_we_do_not_is_called_by_its_name() {
        assert_eq!(left_out("batch", "jobs").as_deref(), Some("jobs.batch"));
        assert_eq!(left_out("", "persistentvolumes").as_deref(), Some("persistentvolumes"));
        assert_eq!(left_out("", "pods"), None);
        assert_eq!(left_out("example.com", "widgets"), None);
    }
}
