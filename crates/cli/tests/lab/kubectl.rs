//! What a user types.

#![allow(dead_code, reason = "the soak suite uses it too, and each its part")]

use std::io::Write;
use std::process::{Command, Stdio};

use netferry_lab::Lab;

use crate::bench::until;

/// Runs kubectl against a lab; it must succeed.
pub(crate) fn kubectl(lab: &Lab, arguments: &[&str]) -> String {
    kubectl_with(lab, arguments, "")
}

fn kubectl_with(lab: &Lab, arguments: &[&str], input: &str) -> String {
    tried(lab, arguments, input).unwrap_or_else(|errors| panic!("kubectl {arguments:?}: {errors}"))
}

/// What kubectl answers, or what it complains of: the API may be away.
fn tried(lab: &Lab, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new("kubectl")
        .args(arguments)
        .arg("--kubeconfig")
        .arg(lab.state().kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("kubectl reads");
    let output = child.wait_with_output().expect("kubectl ends");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8(output.stdout).expect("text"))
}

/// Applies a manifest.
pub(crate) fn apply(lab: &Lab, manifest: &str) {
    // What begins with a brace is taken for JSON.
    kubectl_with(lab, &["apply", "-f", "-"], &format!("---\n{manifest}"));
}

/// A namespace.
pub(crate) fn namespace(lab: &Lab, name: &str) {
    apply(lab, &format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
}

/// A pod of the built-in program, bound to a node; `more` is put into its only container.
pub(crate) fn pod(lab: &Lab, namespace: &str, name: &str, node: &str, more: &str) {
    apply(
        lab,
        &format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}, \
             spec: {{nodeName: {node}, terminationGracePeriodSeconds: 5, \
             containers: [{{name: main, image: none, {more}}}]}}}}"
        ),
    );
}

/// Waits until a pod is ready; answers its addresses.
pub(crate) fn ready(lab: &Lab, namespace: &str, name: &str) -> Vec<String> {
    let asked = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status} {.status.podIPs[*].ip}";
    let mut answer = String::new();
    until(&format!("pod {namespace}/{name}"), || {
        answer = kubectl(lab, &["get", "pod", "-n", namespace, name, "-o", asked]);
        answer.starts_with("True ")
    });
    answer.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// One field of an object.
pub(crate) fn field(lab: &Lab, namespace: &str, object: &str, path: &str) -> String {
    try_field(lab, namespace, object, path).unwrap_or_else(|errors| panic!("{path} of {object}: {errors}"))
}

/// The same, while the API may be away.
pub(crate) fn try_field(lab: &Lab, namespace: &str, object: &str, path: &str) -> Result<String, String> {
    let asked = format!("jsonpath={{{path}}}");
    tried(lab, &["get", "-n", namespace, object, "--ignore-not-found", "-o", &asked], "")
}
