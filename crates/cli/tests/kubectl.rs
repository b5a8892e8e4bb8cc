//! An ordinary kubectl against `netferry apiserver`: everything one types, on one object of every kind.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::Server;
use serde_json::Value;

/// kubectl, and a server with our definitions applied.
struct Cluster {
    kubectl: PathBuf,
    dir: tempfile::TempDir,
    _server: Server,
}

impl Cluster {
    fn new() -> Cluster {
        let kubectl = netferry_testkit::assets().expect("the real programs are at hand").join("kubectl");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let server = Server::start(dir.path(), "127.0.0.1:0", &["--kubeconfig-out", "kubeconfig"]);
        let cluster = Cluster { kubectl, dir, _server: server };
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
        cluster.ok(&["apply", "-f", crds]);
        cluster.ok(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=20s"]);
        cluster
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("KUBECONFIG", "kubeconfig")
            .env("HOME", self.dir.path());
        command
    }

    fn run(&self, args: &[&str], stdin: &str) -> (bool, String) {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()).expect("kubectl reads");
        let output = child.wait_with_output().expect("kubectl ends");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).expect("kubectl writes text"))
    }

    fn ok(&self, args: &[&str]) -> String {
        self.ok_with(args, "")
    }

    fn ok_with(&self, args: &[&str], stdin: &str) -> String {
        let (done, said) = self.run(args, stdin);
        assert!(done, "kubectl {}\n{stdin}\n{said}", args.join(" "));
        said
    }

    fn refused(&self, args: &[&str]) -> String {
        let (done, said) = self.run(args, "");
        assert!(!done, "kubectl {} was not refused:\n{said}", args.join(" "));
        said
    }
}

/// One object of the tables, and how kubectl is told of it.
struct Subject {
    manifest: String,
    kind: String,
    name: String,
    namespace: Option<String>,
}

fn subjects(table: &str) -> Vec<Subject> {
    let documents = table.split("\n---\n");
    documents
        .map(|manifest| {
            let object: Value = serde_saphyr::from_str(manifest).expect("the table is YAML");
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let api_version = text(&object["apiVersion"]).expect("an apiVersion");
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            Subject {
                manifest: manifest.to_owned(),
                kind: format!("{}.{version}.{group}", text(&object["kind"]).expect("a kind")),
                name: text(&object["metadata"]["name"]).expect("a name"),
                namespace: text(&object["metadata"]["namespace"]),
            }
        })
        .collect()
}

/// What `kubectl patch --type=strategic` comes to.
#[derive(Clone, Copy, PartialEq)]
enum Strategic {
    Merges,
    Refused,
}

/// The whole life of one object, by kubectl alone.
fn live(cluster: &Cluster, subject: &Subject, strategic: Strategic) {
    let Subject { manifest, kind, name, namespace } = subject;
    let namespace = namespace.as_deref().unwrap_or("default");
    let on = |verb: &[&str], rest: &[&str]| -> Vec<String> {
        [verb, &[kind.as_str(), name.as_str(), "--namespace", namespace], rest]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect()
    };
    let run = |verb: &[&str], rest: &[&str]| {
        let args = on(verb, rest);
        cluster.ok(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let annotation = |key: &str| run(&["get"], &["-o", &format!("jsonpath={{.metadata.annotations.{key}}}")]);

    let said = cluster.ok_with(&["apply", "-f", "-"], manifest);
    assert!(said.ends_with("created\n"), "{kind}: {said}");
    let said = cluster.ok_with(&["apply", "-f", "-"], manifest);
    // kubectl always sends a budget's selector, and calls that configured, with the real server too.
    assert!(said.ends_with("unchanged\n") || said.ends_with("configured\n"), "{kind}: {said}");
    let said = cluster.ok_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifest);
    assert!(said.ends_with("serverside-applied\n"), "{kind}: {said}");

    assert_eq!(run(&["get"], &[]).lines().count(), 2, "{kind}: a header and a row");
    assert!(run(&["get"], &["-o", "name"]).trim_end().ends_with(&format!("/{name}")), "{kind}");
    assert!(run(&["describe"], &[]).contains(name.as_str()), "{kind}");

    run(&["patch"], &["--type=merge", "--patch", r#"{"metadata":{"annotations":{"merged":"yes"}}}"#]);
    assert_eq!(annotation("merged"), "yes", "{kind}");
    run(
        &["patch"],
        &["--type=json", "--patch", r#"[{"op":"add","path":"/metadata/annotations/json","value":"yes"}]"#],
    );
    assert_eq!(annotation("json"), "yes", "{kind}");
    let patch = ["--type=strategic", "--patch", r#"{"metadata":{"annotations":{"strategic":"yes"}}}"#];
    match strategic {
        Strategic::Merges => {
            run(&["patch"], &patch);
            assert_eq!(annotation("strategic"), "yes", "{kind}");
        }
        Strategic::Refused => {
            let args = on(&["patch"], &patch);
            let said = cluster.refused(&args.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(
                said.contains("accepted media types include: application/json-patch+json"),
                "{kind}: {said}"
            );
        }
    }
    run(&["label"], &["tour=yes"]);
    let labelled = cluster.ok(&["get", kind, "--namespace", namespace, "-l", "tour=yes", "-o", "name"]);
    assert!(labelled.trim_end().ends_with(&format!("/{name}")), "{kind}: {labelled}");
    run(&["annotate"], &["merged-", "annotated=yes"]);
    assert_eq!((annotation("merged"), annotation("annotated")), (String::new(), "yes".to_owned()), "{kind}");

    let args = on(&["get"], &["--watch", "--output-watch-events", "-o", "custom-columns=EVENT:.type"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut watch = cluster.command(&args).stdout(Stdio::piped()).spawn().expect("kubectl runs");
    let mut events = BufReader::new(watch.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert_eq!(
        (events.next().as_deref(), events.next().as_deref()),
        (Some("EVENT"), Some("ADDED")),
        "{kind}"
    );
    run(&["delete"], &["--timeout=20s"]);
    let deleted = events.any(|event| event == "DELETED");
    watch.kill().expect("the watch is stopped");
    watch.wait().expect("the watch ends");
    assert!(deleted, "{kind}: the watch did not see the object go");
    run(&["wait"], &["--for=delete", "--timeout=20s"]);
}

#[test]
fn every_built_in_kind_lives_and_dies_by_kubectl_alone() {
    let cluster = Cluster::new();
    for subject in subjects(include_str!("kubectl/built-in.yaml")) {
        live(&cluster, &subject, Strategic::Merges);
    }
}

#[test]
fn every_custom_kind_lives_and_dies_by_kubectl_alone() {
    let cluster = Cluster::new();
    let subjects = subjects(include_str!("kubectl/custom.yaml"));
    assert_eq!(subjects.len(), netferry_api_kinds(), "the table names every kind we define");
    for subject in subjects {
        live(&cluster, &subject, Strategic::Refused);
    }
}

fn netferry_api_kinds() -> usize {
    let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    std::fs::read_dir(crds).expect("the definitions").count()
}

#[test]
fn api_resources_names_every_kind_once() {
    let cluster = Cluster::new();
    let said = cluster.ok(&["api-resources", "--no-headers"]);
    let tables = [include_str!("kubectl/built-in.yaml"), include_str!("kubectl/custom.yaml")];
    for subject in tables.into_iter().flat_map(subjects) {
        let (kind, version) = subject.kind.split_once('.').expect("kind.version.group");
        let (version, group) = version.split_once('.').expect("version.group");
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/") };
        let lines = said.lines().filter(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.last() == Some(&kind) && words.iter().any(|word| word.starts_with(&api_version))
        });
        assert_eq!(lines.count(), 1, "{} in:\n{said}", subject.kind);
    }
}

#[test]
fn a_condition_can_be_waited_for() {
    let cluster = Cluster::new();
    let table = [
        ("v1", "Node", "node/waiting", "Ready", ""),
        ("apps/v1", "Deployment", "deployment/waiting", "Available", DEPLOYMENT),
        (
            "operator.openshift.io/v1",
            "Network",
            "network.operator.openshift.io/waiting",
            "Progressing",
            "spec: {}",
        ),
    ];
    for (api_version, kind, target, condition, rest) in table {
        let manifest =
            format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: waiting}}\n{rest}\n");
        cluster.ok_with(&["apply", "-f", "-"], &manifest);
        cluster.refused(&["wait", &format!("--for=condition={condition}"), target, "--timeout=0"]);
        let status = format!(
            r#"{{"status":{{"conditions":[{{"type":"{condition}","status":"True","reason":"Tried",
               "message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}}]}}}}"#
        );
        cluster.ok(&["patch", target, "--subresource=status", "--type=merge", "--patch", &status]);
        let said = cluster.ok(&["wait", &format!("--for=condition={condition}"), target, "--timeout=20s"]);
        assert!(said.contains("condition met"), "{said}");
    }
}

const DEPLOYMENT: &str = "spec:
  selector: {matchLabels: {app: waiting}}
  template:
    metadata: {labels: {app: waiting}}
    spec: {containers: [{name: c, image: i}]}";

#[test]
fn describe_shows_the_events_of_an_object() {
    let cluster = Cluster::new();
    cluster.ok_with(&["apply", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\n");
    let uid = cluster.ok(&["get", "configmap", "seen", "-o", "jsonpath={.metadata.uid}"]);
    let event = format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: seen.1, namespace: default}}\n\
         involvedObject: {{apiVersion: v1, kind: ConfigMap, name: seen, namespace: default, uid: {uid}}}\n\
         reason: Ferried\nmessage: it reached the other side\ntype: Normal\n"
    );
    cluster.ok_with(&["apply", "-f", "-"], &event);
    let said = cluster.ok(&["describe", "configmap", "seen"]);
    assert!(said.contains("Ferried") && said.contains("it reached the other side"), "{said}");
}

#[test]
fn drain_waits_for_a_budget_and_goes_on_without_one() {
    let cluster = Cluster::new();
    let setting = "apiVersion: v1\nkind: Node\nmetadata: {name: leaving}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {name: guest, namespace: default, labels: {app: guest}}\n\
        spec: {nodeName: leaving, containers: [{name: c, image: i}]}\n---\n\
        apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: guest, namespace: default}\n\
        spec: {minAvailable: 1, selector: {matchLabels: {app: guest}}}\n";
    cluster.ok_with(&["apply", "-f", "-"], setting);
    let ready = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
    cluster.ok(&["patch", "pod", "guest", "--subresource=status", "--type=merge", "--patch", ready]);
    let drain = ["drain", "leaving", "--force", "--grace-period=0"];

    let said = cluster.refused(&[drain.as_slice(), &["--timeout=1s"]].concat());
    assert!(said.contains("Cannot evict pod as it would violate the pod's disruption budget"), "{said}");
    cluster.ok(&["get", "pod", "guest"]);

    cluster.ok(&["delete", "poddisruptionbudget", "guest"]);
    let said = cluster.ok(&[drain.as_slice(), &["--timeout=20s"]].concat());
    assert!(said.contains("node/leaving drained"), "{said}");
    let said = cluster.ok(&["get", "node", "leaving"]);
    assert!(said.contains("SchedulingDisabled"), "{said}");
}
