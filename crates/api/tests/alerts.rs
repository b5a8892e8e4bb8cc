//! The alerts of `deploy/monitoring` are about metrics that exist, fire and clear, and link to a runbook.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(tree().join(path)).expect("a readable file")
}

/// The groups of rules, as Prometheus reads them.
fn groups() -> Value {
    let object: Value = serde_saphyr::from_str(&read("deploy/monitoring/alerts.yaml")).expect("an object");
    object["spec"].clone()
}

fn rules() -> Vec<Value> {
    let groups = groups();
    let groups = groups["groups"].as_array().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_array().expect("rules").clone()).collect()
}

fn text<'a>(rule: &'a Value, place: &str) -> &'a str {
    rule.pointer(place).and_then(Value::as_str).expect("text")
}

#[test]
fn every_alert_fires_on_its_fault_and_clears_when_it_is_over() {
    let found = Command::new(tree().join("scripts/promtool")).output().expect("bash runs");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let promtool = Path::new(String::from_utf8_lossy(&found.stdout).trim()).join("promtool");
    let tests = read("deploy/monitoring/alerts.test.yaml");
    let dir = std::env::temp_dir().join(format!("netferry-alerts-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    // JSON is YAML.
    std::fs::write(dir.join("rules.yaml"), groups().to_string()).expect("a file");
    std::fs::write(dir.join("tests.yaml"), &tests).expect("a file");
    let mut failures = Vec::new();
    for (verb, file) in [("check", "rules.yaml"), ("test", "tests.yaml")] {
        let done = Command::new(&promtool)
            .args([verb, "rules"])
            .arg(dir.join(file))
            .output()
            .expect("promtool runs");
        if !done.status.success() {
            failures.push([done.stdout, done.stderr].concat());
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
    assert!(failures.is_empty(), "{}", String::from_utf8_lossy(&failures.concat()));
    for rule in rules() {
        let alert = text(&rule, "/alert");
        let cases = tests.split("alert_rule_test:").skip(1).filter(|case| case.contains(alert));
        let (fires, clears) = cases.fold((false, false), |(fires, clears), case| {
            (fires || case.contains("exp_alerts"), clears || case.contains(&format!("alertname: {alert}}}")))
        });
        assert!(fires && clears, "{alert} is not tested in both directions");
    }
}

/// The text of every source below a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let text = |path: PathBuf| {
        if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).expect("text") }
    };
    entries.map(text).collect()
}

#[test]
fn every_metric_of_an_alert_is_one_of_ours() {
    let ours =
        ["operator", "agent"].map(|name| sources(&tree().join("crates").join(name).join("src"))).concat();
    for rule in rules() {
        let named = text(&rule, "/expr").split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let metrics: Vec<&str> = named.filter(|word| word.starts_with("netferry_")).collect();
        assert!(!metrics.is_empty(), "{rule}");
        for metric in metrics {
            // The suffix of a counter is the encoder's.
            let name = metric.strip_suffix("_total").unwrap_or(metric);
            assert!(ours.contains(&format!("\"{name}\"")), "{metric} is measured nowhere");
        }
    }
}

#[test]
fn every_alert_links_to_a_section_of_the_guide() {
    for rule in rules() {
        let runbook = text(&rule, "/annotations/runbook");
        let (page, section) = runbook.split_once('#').expect("page#section");
        let slug = |heading: &str| {
            let kept = heading.to_lowercase().replace(' ', "-");
            kept.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect::<String>()
        };
        let page = read(page);
        let mut headings = page
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .map(|line| line.trim_start_matches('#').trim());
        assert!(headings.any(|heading| slug(heading) == section), "{runbook} leads nowhere");
    }
}
