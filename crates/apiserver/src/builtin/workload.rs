//! Deployments, ReplicaSets and DaemonSets: a pod template, a selector, and how to roll.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::access::{entries, fill_map, items, keep, number, object_at, present, remove, text};
use super::pod::{spec as podspec, validate as podvalidate};
use super::scaling::{int_or_percent, is_zero, not_over_100_percent};
use super::table::{self, AGE, Heading, NAME, columns};
use super::validate;
use crate::field::{FieldError, Path, Problem};
use crate::resource::{Behaviour, Column, Subresource, Through};
use crate::selector::LabelSelector;

/// Which of the three.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    ReplicaSet,
    DaemonSet,
}

pub(super) struct Workloads(pub(super) Kind);

impl Behaviour for Workloads {
    fn default(&self, object: &mut Value) {
        let spec = object_at(object, "spec");
        match self.0 {
            Kind::Deployment => {
                fill_map(spec, "replicas", 1);
                roll(spec, "strategy", &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))]);
                fill_map(spec, "revisionHistoryLimit", 10);
                fill_map(spec, "progressDeadlineSeconds", 600);
            }
            Kind::ReplicaSet => fill_map(spec, "replicas", 1),
            Kind::DaemonSet => {
                roll(spec, "updateStrategy", &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))]);
                fill_map(spec, "revisionHistoryLimit", 10);
            }
        }
        if let Some(template) = object.pointer_mut("/spec/template/spec") {
            podspec::default(template);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
        if self.0 == Kind::DaemonSet {
            stamp_template(object, template_generation(object).max(1));
        }
    }

    fn prepare_update(&self, through: Through, object: &mut Value, old: &Value) {
        match through {
            Through::Sub(Subresource::Status) => {
                keep(object, old, "spec");
                if self.0 == Kind::Deployment {
                    let was = &old["metadata"];
                    keep(&mut object["metadata"], was, "labels");
                }
            }
            Through::Main | Through::Sub(_) => {
                keep(object, old, "status");
                if self.0 == Kind::DaemonSet {
                    let changed = object.pointer("/spec/template") != old.pointer("/spec/template");
                    stamp_template(object, template_generation(old) + i64::from(changed));
                }
            }
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        match self.0 {
            Kind::Deployment => deployment_errors(object),
            Kind::ReplicaSet => replica_set_errors(object),
            Kind::DaemonSet => daemon_set_errors(object),
        }
    }

    fn validate_update(&self, through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        if through == Through::Sub(Subresource::Status) {
            return self.status_errors(object);
        }
        let selector = validate::immutable(object, old, "/spec/selector", Path::new("spec.selector"));
        let mut errors = Vec::new();
        if self.0 == Kind::DaemonSet {
            errors.extend(selector);
            errors.extend(self.validate(object));
        } else {
            errors.extend(self.validate(object));
            errors.extend(selector);
        }
        errors
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.0 != Kind::DaemonSet {
            let complaints = crate::names::dns1123_label(text(object, "/metadata/name"));
            if !complaints.is_empty() {
                warnings.push(format!(
                    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
                     a DNS label is recommended: [{}]",
                    complaints.join(" ")
                ));
            }
        }
        if let Some(template) = object.pointer("/spec/template") {
            warnings.extend(podvalidate::warnings(&template["spec"], &Path::new("spec.template.spec")));
        }
        warnings
    }

    fn spec_changed(&self, through: Through, object: &Value, old: &Value) -> bool {
        let differs = |pointer: &str| object.pointer(pointer) != old.pointer(pointer);
        through != Through::Sub(Subresource::Status)
            && (differs("/spec") || self.0 == Kind::Deployment && differs("/metadata/annotations"))
    }

    fn columns(&self) -> Vec<Column> {
        const TEMPLATE: [Heading; 3] = [
            ("Containers", "string", 1, "The names of the template's containers."),
            ("Images", "string", 1, "The images of the template's containers."),
            ("Selector", "string", 1, "The pods that belong to it."),
        ];
        let own: &[Heading] = match self.0 {
            Kind::Deployment => &[
                NAME,
                ("Ready", "string", 0, "How many pods are ready, of how many."),
                ("Up-to-date", "string", 0, "How many pods have the current template."),
                ("Available", "string", 0, "How many pods have been ready long enough."),
                AGE,
            ],
            Kind::ReplicaSet => &[
                NAME,
                ("Desired", "integer", 0, "How many pods there should be."),
                ("Current", "integer", 0, "How many pods there are."),
                ("Ready", "integer", 0, "How many pods are ready."),
                AGE,
            ],
            Kind::DaemonSet => &[
                NAME,
                ("Desired", "integer", 0, "How many nodes should run a pod."),
                ("Current", "integer", 0, "How many nodes that should run a pod do."),
                ("Ready", "integer", 0, "How many of them are ready."),
                ("Up-to-date", "integer", 0, "How many of them have the current template."),
                ("Available", "integer", 0, "How many of them have been ready long enough."),
                ("Node Selector", "string", 0, "The nodes it is for."),
                AGE,
            ],
        };
        columns(&[own, &TEMPLATE].concat())
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let status = |field: &str| json!(number(object, &format!("/status/{field}")));
        let age = table::age(object, now);
        let mut cells = vec![table::name(object)];
        match self.0 {
            Kind::Deployment => cells.extend([
                json!(format!("{}/{}", status("readyReplicas"), number(object, "/spec/replicas"))),
                status("updatedReplicas"),
                status("availableReplicas"),
                age,
            ]),
            Kind::ReplicaSet => cells.extend([
                json!(number(object, "/spec/replicas")),
                status("replicas"),
                status("readyReplicas"),
                age,
            ]),
            Kind::DaemonSet => cells.extend([
                status("desiredNumberScheduled"),
                status("currentNumberScheduled"),
                status("numberReady"),
                status("updatedNumberScheduled"),
                status("numberAvailable"),
                json!(table::labels(object, "/spec/template/spec/nodeSelector")),
                age,
            ]),
        }
        let (names, images) = table::containers(&object["spec"]["template"]["spec"]);
        let selector = object.pointer("/spec/selector").filter(|s| !s.is_null());
        let selector = if self.0 == Kind::Deployment {
            table::selector(selector)
        } else {
            table::selector_or_none(selector)
        };
        cells.extend([json!(names), json!(images), json!(selector)]);
        cells
    }

    fn row_metadata(&self, metadata: &mut Value) {
        // Inside a server it is a field, and becomes an annotation only when the whole object is written out.
        if let Some(annotations) = metadata.get_mut("annotations") {
            remove(annotations, TEMPLATE_GENERATION);
            if annotations.as_object().is_some_and(Map::is_empty) {
                remove(metadata, "annotations");
            }
        }
    }

    fn reset_fields(&self, through: Through) -> Vec<Vec<&'static str>> {
        match (through, self.0) {
            (Through::Main, _) => vec![vec!["status"]],
            (Through::Sub(_), Kind::Deployment) => vec![vec!["spec"], vec!["metadata", "labels"]],
            (Through::Sub(_), Kind::ReplicaSet | Kind::DaemonSet) => vec![vec!["spec"]],
        }
    }
}

impl Workloads {
    fn status_errors(&self, object: &Value) -> Vec<FieldError> {
        let path = Path::new("status");
        let status = &object["status"];
        let mut errors: Vec<FieldError> = entries(object, "/status")
            .filter_map(|(field, value)| validate::not_negative(Some(value), path.child(field)))
            .collect();
        let count = |field: &str| status[field].as_i64().unwrap_or_default();
        let mut above = |field: &str, limit: &str, complaint: &str| {
            if count(field) > count(limit) {
                errors.push(FieldError::invalid(path.child(field), &json!(count(field)), complaint));
            }
        };
        let total = "cannot be greater than status.replicas";
        match self.0 {
            Kind::Deployment => {
                above("updatedReplicas", "replicas", total);
                above("readyReplicas", "replicas", total);
                above("availableReplicas", "replicas", total);
                above("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas");
            }
            Kind::ReplicaSet => {
                above("fullyLabeledReplicas", "replicas", total);
                above("readyReplicas", "replicas", total);
                above("availableReplicas", "replicas", total);
                above("availableReplicas", "readyReplicas", "cannot be greater than readyReplicas");
            }
            Kind::DaemonSet => {}
        }
        errors
    }
}

/// A rolling strategy, with its limits filled in.
fn roll(spec: &mut Map<String, Value>, field: &str, limits: &[(&str, Value)]) {
    let strategy = spec.entry(field).or_insert_with(|| json!({}));
    if text(strategy, "/type").is_empty() {
        strategy["type"] = json!("RollingUpdate");
    }
    if text(strategy, "/type") == "RollingUpdate" {
        let rolling = object_at(strategy, "rollingUpdate");
        for (limit, value) in limits {
            fill_map(rolling, limit, value.clone());
        }
    }
}

/// The counter a DaemonSet keeps of its templates, in the annotation that replaced a field.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    object["metadata"]["annotations"][TEMPLATE_GENERATION]
        .as_str()
        .and_then(|g| g.parse().ok())
        .unwrap_or_default()
}

fn stamp_template(object: &mut Value, generation: i64) {
    object_at(&mut object["metadata"], "annotations")
        .insert(TEMPLATE_GENERATION.to_owned(), json!(generation.to_string()));
}

fn template_errors(object: &Value, kind: &str) -> Vec<FieldError> {
    let path = Path::new("spec.template");
    let Some(template) = object.pointer("/spec/template") else { return Vec::new() };
    let mut errors = podvalidate::template(template, &path);
    let spec = path.child("spec");
    let policy = &template["spec"]["restartPolicy"];
    if policy != "Always" {
        errors.push(FieldError::not_supported(spec.child("restartPolicy"), policy, &["Always"]));
    }
    if present(template, "/spec/activeDeadlineSeconds") {
        errors.push(FieldError::forbidden(
            spec.child("activeDeadlineSeconds"),
            format!("activeDeadlineSeconds in {kind} is not Supported"),
        ));
    }
    errors
}

/// A selector that does not select the template would leave every new pod unowned.
fn mismatch(object: &Value) -> Option<FieldError> {
    let labels = object.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    let selector = object.pointer("/spec/selector").unwrap_or(&Value::Null);
    let matches = LabelSelector::from_object(Some(selector))
        .is_some_and(|selector| selector.matches_labels(labels.as_object()));
    (!matches).then(|| {
        FieldError::invalid(
            Path::new("spec.template.metadata.labels"),
            labels,
            "`selector` does not match template `labels`",
        )
    })
}

fn is_empty_selector(selector: &Value) -> bool {
    entries(selector, "/matchLabels").next().is_none() && items(selector, "/matchExpressions").is_empty()
}

/// What Deployments and ReplicaSets ask of selector and template.
fn selection_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.selector");
    let selector = object.pointer("/spec/selector").filter(|s| !s.is_null());
    let mut errors = Vec::new();
    match selector {
        None => errors.push(FieldError::required(path.clone(), "")),
        Some(selector) => {
            errors.extend(validate::selector(Some(selector), &path));
            if is_empty_selector(selector) {
                errors.push(FieldError::invalid(
                    path.clone(),
                    selector,
                    "empty selector is invalid for deployment",
                ));
            }
        }
    }
    if let Some(selector) = selector.filter(|_| !errors.is_empty())
        && !is_empty_selector(selector)
    {
        errors.push(FieldError::invalid(path, selector, "invalid label selector"));
        return errors;
    }
    if !selector.is_some_and(is_empty_selector) {
        errors.extend(mismatch(object));
    }
    errors.extend(template_errors(object, "ReplicaSet"));
    errors
}

fn deployment_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let spec = &object["spec"];
    let check = |field: &str| validate::not_negative(spec.get(field), path.child(field));
    let mut errors: Vec<FieldError> = check("replicas").into_iter().collect();
    errors.extend(selection_errors(object));
    errors.extend(deployment_strategy_errors(&spec["strategy"], &path.child("strategy")));
    errors.extend(check("minReadySeconds"));
    errors.extend(check("revisionHistoryLimit"));
    errors.extend(check("progressDeadlineSeconds"));
    if number(spec, "/progressDeadlineSeconds") <= number(spec, "/minReadySeconds") {
        errors.push(FieldError::invalid(
            path.child("progressDeadlineSeconds"),
            &spec["progressDeadlineSeconds"],
            "must be greater than minReadySeconds",
        ));
    }
    errors
}

fn deployment_strategy_errors(strategy: &Value, path: &Path) -> Vec<FieldError> {
    let rolling = path.child("rollingUpdate");
    match text(strategy, "/type") {
        "Recreate" if strategy.get("rollingUpdate").is_some() => {
            vec![FieldError::forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")]
        }
        "Recreate" => Vec::new(),
        "RollingUpdate" => {
            let (unavailable, surge) =
                (&strategy["rollingUpdate"]["maxUnavailable"], &strategy["rollingUpdate"]["maxSurge"]);
            let at = rolling.child("maxUnavailable");
            let mut errors: Vec<FieldError> = int_or_percent(unavailable, &at).into_iter().collect();
            errors.extend(int_or_percent(surge, &rolling.child("maxSurge")));
            if is_zero(unavailable) && is_zero(surge) {
                errors.push(FieldError::invalid(
                    at.clone(),
                    unavailable,
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
            errors.extend(not_over_100_percent(unavailable, &at));
            errors
        }
        _ => vec![strategy_not_supported(strategy, path, &["Recreate", "RollingUpdate"])],
    }
}

fn strategy_not_supported(strategy: &Value, path: &Path, supported: &[&str]) -> FieldError {
    let error = FieldError::not_supported(path.clone(), &Value::Null, supported);
    // Shown with the names the fields have inside a server, not those of the API.
    let shown = format!("{{\"Type\":{},\"RollingUpdate\":null}}", strategy["type"]);
    FieldError { problem: Problem::NotSupported, value: Some(shown), ..error }
}

fn replica_set_errors(object: &Value) -> Vec<FieldError> {
    let check =
        |field: &str| validate::not_negative(object["spec"].get(field), Path::new("spec").child(field));
    let mut errors: Vec<FieldError> = check("replicas").into_iter().collect();
    errors.extend(check("minReadySeconds"));
    errors.extend(selection_errors(object));
    errors
}

fn daemon_set_errors(object: &Value) -> Vec<FieldError> {
    let path = Path::new("spec");
    let spec = &object["spec"];
    let selector = spec.get("selector").filter(|s| !s.is_null());
    let mut errors = validate::selector(selector, &path.child("selector"));
    if errors.is_empty() {
        errors.extend(mismatch(object));
    }
    if let Some(selector) = selector.filter(|s| is_empty_selector(s)) {
        errors.push(FieldError::invalid(
            path.child("selector"),
            selector,
            "empty selector is invalid for daemonset",
        ));
    }
    errors.extend(template_errors(object, "DaemonSet"));
    errors.extend(validate::not_negative(spec.get("minReadySeconds"), path.child("minReadySeconds")));
    errors.extend(daemon_strategy_errors(&spec["updateStrategy"], &path.child("updateStrategy")));
    errors
        .extend(validate::not_negative(spec.get("revisionHistoryLimit"), path.child("revisionHistoryLimit")));
    errors
}

fn daemon_strategy_errors(strategy: &Value, path: &Path) -> Vec<FieldError> {
    match text(strategy, "/type") {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let (unavailable, surge) =
                (&strategy["rollingUpdate"]["maxUnavailable"], &strategy["rollingUpdate"]["maxSurge"]);
            let (at_unavailable, at_surge) = (path.child("maxUnavailable"), path.child("maxSurge"));
            let mut errors: Vec<FieldError> =
                int_or_percent(unavailable, &at_unavailable).into_iter().collect();
            errors.extend(int_or_percent(surge, &at_surge));
            errors.extend(not_over_100_percent(unavailable, &at_unavailable));
            errors.extend(not_over_100_percent(surge, &at_surge));
            match (is_zero(unavailable), is_zero(surge)) {
                (false, false) => errors.push(FieldError::invalid(
                    at_surge,
                    surge,
                    "may not be set when maxUnavailable is non-zero",
                )),
                (true, true) => {
                    errors.push(FieldError::required(at_unavailable, "cannot be 0 when maxSurge is 0"));
                }
                (true, false) | (false, true) => {}
            }
            errors
        }
        _ => vec![strategy_not_supported(strategy, path, &["RollingUpdate", "OnDelete"])],
    }
}
