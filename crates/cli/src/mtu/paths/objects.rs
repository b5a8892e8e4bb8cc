//! What is put into the cluster to measure its paths: on every node a pod that answers, the host that answers, and a
//! Service; and later a pod and the host that ask.

use std::time::Duration;

use jiff::Timestamp;
use netferry_core::mtu::paths::message::Token;
use netferry_core::name::NodeName;
use serde_json::{Value, json};

use crate::path_pod::{Question, to_answer, to_ask};

/// On everything of a measurement: what a run that was killed has left is found by it.
pub(super) const LABEL: &str = "netferry.dev/verify";
/// On its namespace: the second since the epoch at which its pods end by themselves at the latest.
pub(super) const END: &str = "netferry.dev/verify-ends";
/// Which node it is for, by number: the name of a node may be longer than a label.
const SITE: &str = "netferry.dev/verify-site";
const ROLE: &str = "netferry.dev/verify-role";
/// Where a container leaves its last words. Not below `/dev`, where a container may not write.
const REPORT: &str = "/tmp/netferry-paths";

/// What a pod is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    PodAnswers,
    HostAnswers,
    PodAsks,
    HostAsks,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::PodAnswers => "pod-answers",
            Role::HostAnswers => "host-answers",
            Role::PodAsks => "pod-asks",
            Role::HostAsks => "host-asks",
        }
    }

    fn is_on_host(self) -> bool {
        matches!(self, Role::HostAnswers | Role::HostAsks)
    }

    /// The name of the pod of this role for a site.
    pub(super) fn name(self, site: usize) -> String {
        format!("{}-{site}", self.word())
    }
}

/// What all objects of a measurement share.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) namespace: String,
    pub(super) image: String,
    pub(super) port: u16,
    pub(super) token: Token,
    /// Pods end by themselves after this time.
    pub(super) lifetime: Duration,
}

impl Setting {
    pub(super) fn namespace(&self, now: Timestamp) -> Value {
        let end = now.as_second().saturating_add_unsigned(self.lifetime.as_secs());
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": self.namespace,
                "annotations": {END: end.to_string()},
                "labels": {
                    LABEL: "true",
                    // Pods on the host's network are allowed nowhere else, and pings need a raw socket.
                    "pod-security.kubernetes.io/enforce": "privileged",
                },
            },
        })
    }

    pub(super) fn service(&self, site: usize) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": service_name(site), "namespace": self.namespace, "labels": {LABEL: "true"}},
            "spec": {
                "type": "NodePort",
                "ipFamilyPolicy": "PreferDualStack",
                "selector": {SITE: site.to_string(), ROLE: Role::PodAnswers.word()},
                "ports": [{"protocol": "UDP", "port": self.port, "targetPort": self.port}],
            },
        })
    }

    pub(super) fn answers(&self, role: Role, site: usize, node: &NodeName) -> Value {
        let mut pod = self.pod(role, site, node, to_answer(&self.token, self.port, self.lifetime));
        let addresses =
            json!({"name": "ADDRESSES", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}});
        pod["spec"]["containers"][0]["env"] = json!([addresses]);
        pod
    }

    pub(super) fn asks(&self, role: Role, site: usize, node: &NodeName, questions: &[Question]) -> Value {
        self.pod(role, site, node, to_ask(&self.token, REPORT, questions))
    }

    fn pod(&self, role: Role, site: usize, node: &NodeName, arguments: Vec<String>) -> Value {
        let command: Vec<String> = ["netferry".to_owned()].into_iter().chain(arguments).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": role.name(site),
                "namespace": self.namespace,
                "labels": {LABEL: "true", SITE: site.to_string(), ROLE: role.word()},
            },
            "spec": {
                // Not left to a scheduler: which node a pod is on is what a path is about.
                "nodeName": node.as_str(),
                "hostNetwork": role.is_on_host(),
                "restartPolicy": "Never",
                "activeDeadlineSeconds": self.lifetime.as_secs(),
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{
                    "name": "path",
                    // Agents run it, so it is on every node already.
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": command,
                    "terminationMessagePath": REPORT,
                    // Who fails tells why.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {"capabilities": {"add": ["NET_RAW"]}},
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                }],
            },
        })
    }
}

/// The name of the Service for a site.
pub(super) fn service_name(site: usize) -> String {
    format!("at-{site}")
}
