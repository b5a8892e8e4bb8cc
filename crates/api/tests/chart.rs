//! The Helm chart installs what the kustomization does, and each of its values reaches what it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program that a script of ours finds, or builds once.
fn built(script: &str, arguments: &[&str], program: &str) -> PathBuf {
    let done = Command::new(tree().join("scripts").join(script)).args(arguments).output().expect("bash runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Path::new(String::from_utf8_lossy(&done.stdout).trim()).join(program)
}

fn helm(arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(built("helm", &[], "helm"))
        .args(arguments)
        .arg(tree().join("deploy/chart"))
        .output()
        .expect("helm runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

fn rendered(settings: &[&str]) -> Objects {
    let mut arguments = vec!["template", "netferry", "--include-crds"];
    arguments.extend(settings.iter().flat_map(|setting| ["--set-json", *setting]));
    objects(&helm(&arguments).expect("the chart is rendered"))
}

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(yaml: &str) -> Objects {
    let documents = yaml.split("\n---\n").filter(|document| document.contains("kind:"));
    let mut all = Objects::new();
    for document in documents {
        let object: Value = serde_saphyr::from_str(document).expect("an object");
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = [text("/kind"), text("/metadata/namespace"), text("/metadata/name")].join("|");
        let before = all.insert(key.clone(), object);
        assert!(before.is_none(), "{key} twice");
    }
    all
}

#[test]
fn the_chart_and_the_kustomization_install_the_same_objects() {
    let kubectl = built("kube-assets", &["--only", "kubectl"], "kubectl");
    let done =
        Command::new(kubectl).arg("kustomize").arg(tree().join("deploy")).output().expect("kubectl runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let kustomized = objects(&String::from_utf8_lossy(&done.stdout));
    let charted = rendered(&[]);
    assert_eq!(charted.keys().collect::<Vec<_>>(), kustomized.keys().collect::<Vec<_>>());
    for (key, object) in &kustomized {
        assert_eq!(&charted[key], object, "{key}");
    }
}

#[test]
fn helm_finds_no_fault_in_the_chart() {
    helm(&["lint", "--strict"]).expect("lint passes");
}

const OPERATOR: &str = "Deployment|netferry|netferry-operator";
const AGENT: &str = "DaemonSet|netferry|netferry-agent";
const POD: &str = "/spec/template/spec";
const MAIN: &str = "/spec/template/spec/containers/0";

/// A value, what it is set to, and what is to be found where: objects and places in them.
struct Reach {
    value: &'static str,
    set: Value,
    found: Vec<(&'static str, String, Value)>,
}

fn reach(value: &'static str, set: Value, found: &[(&'static str, &str, &str, Value)]) -> Reach {
    let found =
        found.iter().map(|(object, base, place, value)| (*object, format!("{base}{place}"), value.clone()));
    Reach { value, set, found: found.collect() }
}

fn reaches() -> Vec<Reach> {
    let tolerations = json!([{"key": "edge", "operator": "Exists"}]);
    let limits = json!({"cpu": "2", "memory": "1Gi"});
    let image = |image: &str| {
        let first = (AGENT, POD, "/initContainers/0/image", json!(image));
        [(OPERATOR, MAIN, "/image", json!(image)), (AGENT, MAIN, "/image", json!(image)), first]
    };
    let both =
        |base, place, value: Value| [(OPERATOR, base, place, value.clone()), (AGENT, base, place, value)];
    let level = json!({"name": "NETFERRY_LOG", "value": "debug"});
    let listening = |object, listen: &str, port: u16, argument| {
        vec![
            (object, MAIN, argument, json!(listen)),
            (object, MAIN, "/livenessProbe/httpGet/port", json!(port)),
            (object, MAIN, "/livenessProbe/httpGet/host", json!("192.0.2.1")),
        ]
    };
    let mut operator_listening = listening(OPERATOR, "192.0.2.1:1234", 1234, "/args/2");
    operator_listening.push((OPERATOR, MAIN, "/readinessProbe/httpGet/port", json!(1234)));
    operator_listening.push((OPERATOR, MAIN, "/readinessProbe/httpGet/host", json!("192.0.2.1")));
    vec![
        reach("image.repository", json!("registry.example/n"), &image("registry.example/n:0.1.0")),
        reach("image.tag", json!("9.9.9"), &image("localhost/netferry:9.9.9")),
        reach("image.pullPolicy", json!("Always"), &both(MAIN, "/imagePullPolicy", json!("Always"))),
        reach("image.pullSecrets", json!(["key"]), &both(POD, "/imagePullSecrets", json!([{"name": "key"}]))),
        reach(
            "apiServer",
            json!({"host": "api.example", "port": 6443}),
            &[(
                "ConfigMap|netferry|netferry-api-server",
                "",
                "/data",
                json!({"KUBERNETES_SERVICE_HOST": "api.example", "KUBERNETES_SERVICE_PORT": "6443"}),
            )],
        ),
        reach(
            "logLevel",
            json!("debug"),
            &[(OPERATOR, MAIN, "/env/3", level.clone()), (AGENT, MAIN, "/env/2", level)],
        ),
        reach("operator.replicas", json!(3), &[(OPERATOR, "/spec", "/replicas", json!(3))]),
        reach("operator.listen", json!("192.0.2.1:1234"), &operator_listening),
        reach("agent.listen", json!("192.0.2.1:1235"), &listening(AGENT, "192.0.2.1:1235", 1235, "/args/6")),
        reach("operator.priorityClassName", json!("p"), &[(OPERATOR, POD, "/priorityClassName", json!("p"))]),
        reach("agent.priorityClassName", json!("p"), &[(AGENT, POD, "/priorityClassName", json!("p"))]),
        reach(
            "operator.resources.limits",
            limits.clone(),
            &[(OPERATOR, MAIN, "/resources/limits", limits.clone())],
        ),
        reach(
            "agent.resources.limits",
            limits.clone(),
            &[(AGENT, MAIN, "/resources/limits", limits.clone())],
        ),
        reach(
            "operator.resources.requests",
            limits.clone(),
            &[(OPERATOR, MAIN, "/resources/requests", limits.clone())],
        ),
        reach("agent.resources.requests", limits.clone(), &[(AGENT, MAIN, "/resources/requests", limits)]),
        reach(
            "operator.tolerations",
            tolerations.clone(),
            &[(OPERATOR, POD, "/tolerations", tolerations.clone())],
        ),
        reach("agent.tolerations", tolerations.clone(), &[(AGENT, POD, "/tolerations", tolerations)]),
    ]
}

#[test]
fn every_value_of_the_chart_reaches_what_it_names_and_nothing_else() {
    let default = rendered(&[]);
    for Reach { value, set, found } in reaches() {
        let mut expected = default.clone();
        let changed = rendered(&[&format!("{value}={set}")]);
        for (object, place, value) in &found {
            assert_ne!(
                default[*object].pointer(place),
                Some(value),
                "{place} has the tested value by default"
            );
            assert_eq!(changed[*object].pointer(place), Some(value), "{place} of {object}");
            expected.insert((*object).to_owned(), changed[*object].clone());
        }
        assert_eq!(changed, expected, "{value} reaches other objects too");
    }
}

#[test]
fn the_namespace_reaches_every_object_of_netferry() {
    let before = rendered(&[]);
    let moved = rendered(&[r#"namespace="elsewhere""#]);
    let renamed = |key: &str| {
        let key = key.replace("|netferry|", "|elsewhere|");
        if key == "Namespace||netferry" { "Namespace||elsewhere".to_owned() } else { key }
    };
    let expected: Vec<String> = before.keys().map(|key| renamed(key)).collect();
    let mut there: Vec<String> = moved.keys().cloned().collect();
    there.sort();
    let mut expected = expected;
    expected.sort();
    assert_eq!(there, expected);
    for (key, object) in &moved {
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["namespace"], "elsewhere", "{key}");
        }
    }
    let without = rendered(&["createNamespace=false"]);
    let gone: Vec<&String> = before.keys().filter(|key| !without.contains_key(*key)).collect();
    assert_eq!(gone, ["Namespace||netferry"]);
}

/// So that a value that is added has to be tested.
#[test]
fn no_value_of_the_chart_is_untested() {
    let text = std::fs::read_to_string(tree().join("deploy/chart/values.yaml")).expect("the values");
    let values: Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut tested: Vec<String> = reaches().iter().map(|reach| reach.value.to_owned()).collect();
    tested.extend(["namespace", "createNamespace"].map(str::to_owned));
    let mut untested = Vec::new();
    let mut left = vec![(String::new(), &values)];
    while let Some((name, value)) = left.pop() {
        if tested.contains(&name) {
            continue;
        }
        let Some(fields) = value.as_object() else {
            untested.push(name);
            continue;
        };
        let dot = if name.is_empty() { "" } else { "." };
        left.extend(fields.iter().map(|(field, value)| (format!("{name}{dot}{field}"), value)));
    }
    assert_eq!(untested, Vec::<String>::new());
}

#[test]
fn a_value_that_cannot_be_is_refused_by_its_name() {
    for (setting, named) in [
        (r#"image.pullPolicy="Sometimes""#, "/image/pullPolicy"),
        (r#"image.tga="1""#, "'tga' not allowed"),
        (r#"apiServer.host="api.example""#, "/apiServer"),
        (r#"operator.listen=":9643""#, "/operator/listen"),
        (r#"agent.listen="here""#, "/agent/listen"),
        ("operator.replicas=0", "/operator/replicas"),
        (r#"namespace="Not a name""#, "/namespace"),
        (r#"agent.tolerations=[{"operator":"Sometimes"}]"#, "/agent/tolerations/0/operator"),
        ("agent.resources.limit={}", "'limit' not allowed"),
    ] {
        let refused = helm(&["template", "netferry", "--set-json", setting]).expect_err(setting);
        assert!(refused.contains(named), "{setting}: {refused}");
    }
}
