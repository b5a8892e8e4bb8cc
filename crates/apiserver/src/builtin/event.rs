//! Events: one store, seen as `v1` and as `events.k8s.io/v1`.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::access::{number, present, text};
use super::duration::since;
use super::table::{columns, or};
use super::validate;
use crate::decode::written;
use crate::field::{FieldError, Path};
use crate::resource::{Behaviour, Column, NameRule, Through};
use crate::schema::{Schema, SchemaRef};

/// The fields that are called differently: in `v1`, in `events.k8s.io/v1`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

static CORE: LazyLock<SchemaRef> = LazyLock::new(|| super::schema("", "io.k8s.api.core.v1.Event"));
static EVENTS: LazyLock<SchemaRef> =
    LazyLock::new(|| super::schema("events.k8s.io", "io.k8s.api.events.v1.Event"));

/// The API a client sees the events through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Api {
    Core,
    Events,
}

/// Turns an `events.k8s.io/v1` Event into the `v1` one that is stored.
pub fn event_to_core(event: &Value) -> Value {
    convert(event, "v1", &CORE, |(core, events)| (events, core))
}

/// Turns a stored `v1` Event into an `events.k8s.io/v1` one.
pub fn event_from_core(event: &Value) -> Value {
    convert(event, "events.k8s.io/v1", &EVENTS, |names| names)
}

fn convert(
    event: &Value,
    api_version: &str,
    into: &Schema,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let mut converted = Map::new();
    for (key, value) in event.as_object().into_iter().flatten() {
        let renamed = RENAMED.into_iter().map(direction).find(|(from, _)| from == key);
        converted.insert(renamed.map_or(key.as_str(), |(_, to)| to).to_owned(), value.clone());
    }
    converted.insert("apiVersion".to_owned(), json!(api_version));
    let mut converted = Value::Object(converted);
    written::complete(&mut converted, into);
    converted
}

pub(super) struct Events {
    pub(super) seen: Api,
}

impl Events {
    fn as_core(&self, object: &Value) -> Value {
        match self.seen {
            Api::Core => object.clone(),
            Api::Events => event_to_core(object),
        }
    }
}

impl Behaviour for Events {
    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let event = self.as_core(object);
        let mut errors = lenient_errors(&event, self.seen);
        if self.seen == Api::Events {
            errors.extend(series_errors(&event));
            errors.extend(strict_errors(&event));
        }
        errors
    }

    fn validate_update(&self, _through: Through, object: &Value, old: &Value) -> Vec<FieldError> {
        let event = self.as_core(object);
        let mut errors = lenient_errors(&event, self.seen);
        if self.seen == Api::Events {
            let old = self.as_core(old);
            if event.get("series") != old.get("series") {
                errors.extend(series_errors(&event));
            }
            for field in [
                "involvedObject",
                "reason",
                "message",
                "source",
                "firstTimestamp",
                "lastTimestamp",
                "count",
                "type",
                "eventTime",
                "action",
                "related",
                "reportingComponent",
                "reportingInstance",
            ] {
                let shown = if field == "reportingComponent" { "reportingController" } else { field };
                errors.extend(validate::immutable(&event, &old, &format!("/{field}"), Path::new(shown)));
            }
        }
        errors
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let event = self.as_core(object);
        let of = |pointer: &str| text(&event, pointer).to_owned();
        let controller = of("/reportingComponent");
        let about = |field: &str| of(&format!("/involvedObject/{field}"));
        match self.seen {
            Api::Core => vec![
                ("involvedObject.kind", about("kind")),
                ("involvedObject.namespace", about("namespace")),
                ("involvedObject.name", about("name")),
                ("involvedObject.uid", about("uid")),
                ("involvedObject.apiVersion", about("apiVersion")),
                ("involvedObject.resourceVersion", about("resourceVersion")),
                ("involvedObject.fieldPath", about("fieldPath")),
                ("reason", of("/reason")),
                ("source", or(text(&event, "/source/component"), &controller).to_owned()),
                ("reportingComponent", controller),
                ("type", of("/type")),
            ],
            Api::Events => vec![
                ("regarding.kind", about("kind")),
                ("regarding.namespace", about("namespace")),
                ("regarding.name", about("name")),
                ("regarding.uid", about("uid")),
                ("regarding.apiVersion", about("apiVersion")),
                ("regarding.resourceVersion", about("resourceVersion")),
                ("regarding.fieldPath", about("fieldPath")),
                ("reason", of("/reason")),
                ("reportingController", controller),
                ("type", of("/type")),
            ],
        }
    }

    fn columns(&self) -> Vec<Column> {
        columns(&[
            ("Last Seen", "string", 0, "How long ago it happened last."),
            ("Type", "string", 0, "Normal or Warning."),
            ("Reason", "string", 0, "What happened, in one word."),
            ("Object", "string", 0, "What it happened to."),
            ("Subobject", "string", 1, "The part of the object it happened to."),
            ("Source", "string", 1, "Who reports it."),
            ("Message", "string", 0, "What happened, in a sentence."),
            ("First Seen", "string", 1, "How long ago it happened first."),
            ("Count", "string", 1, "How often it happened."),
            ("Name", "string", 1, "The event's own name."),
        ])
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let event = self.as_core(object);
        let of = |pointer: &str| text(&event, pointer);
        let first_time = if present(&event, "/firstTimestamp") { "firstTimestamp" } else { "eventTime" };
        let first = since(&event[first_time], now);
        let mut last = if present(&event, "/lastTimestamp") {
            since(&event["lastTimestamp"], now)
        } else {
            first.clone()
        };
        let mut count = number(&event, "/count").max(1);
        if present(&event, "/series") {
            last = since(&event["series"]["lastObservedTime"], now);
            count = number(&event, "/series/count");
        }
        let kind = of("/involvedObject/kind").to_lowercase();
        let target = match of("/involvedObject/name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        let component = or(of("/source/component"), of("/reportingComponent"));
        let source = match or(of("/source/host"), of("/reportingInstance")) {
            "" => component.to_owned(),
            host => format!("{component}, {host}"),
        };
        vec![
            json!(last),
            json!(of("/type")),
            json!(of("/reason")),
            json!(target),
            json!(of("/involvedObject/fieldPath")),
            json!(source),
            json!(of("/message").trim()),
            json!(first),
            json!(count),
            json!(of("/metadata/name")),
        ]
    }

    fn name_rule(&self) -> NameRule {
        // The older API never looked at names.
        if self.seen == Api::Core { NameRule::PathSegment } else { NameRule::Subdomain }
    }

    fn has_generation(&self) -> bool {
        false
    }

    fn create_on_update(&self) -> bool {
        true
    }
}

fn needless(field: &str) -> FieldError {
    FieldError::invalid(Path::new(field), &json!(""), "needs to be unset")
}

/// What every event has to satisfy, through whichever API it comes.
fn lenient_errors(event: &Value, seen: Api) -> Vec<FieldError> {
    let of = |pointer: &str| text(event, pointer);
    let (own, about) = (of("/metadata/namespace"), of("/involvedObject/namespace"));
    let mut errors = Vec::new();
    let astray = match (present(event, "/eventTime"), about) {
        (false, "") => !matches!(own, "" | "default"),
        (false, about) => own != about,
        (true, "") => !matches!(own, "default" | "kube-system"),
        (true, _) => false,
    };
    if astray {
        errors.push(FieldError::invalid(
            Path::new("involvedObject.namespace"),
            &json!(about),
            "does not match event.namespace",
        ));
    }
    if present(event, "/eventTime") {
        let controller = Path::new(match seen {
            Api::Core => "reportingComponent",
            Api::Events => "reportingController",
        });
        if of("/reportingComponent").is_empty() {
            errors.push(FieldError::required(controller.clone(), ""));
        }
        errors.extend(validate::label_name(of("/reportingComponent"), controller));
        for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
            let value = of(&format!("/{field}"));
            if value.is_empty() {
                errors.push(FieldError::required(Path::new(field), ""));
            }
            errors.extend(too_long(field, value, limit));
        }
        errors.extend(too_long("message", of("/message"), 1024));
    }
    errors.extend(validate::subdomain(own, Path::new("namespace")));
    errors
}

fn too_long(field: &str, value: &str, limit: usize) -> Option<FieldError> {
    (value.len() > limit).then(|| {
        FieldError::invalid(Path::new(field), &json!(""), format!("can have at most {limit} characters"))
    })
}

fn series_errors(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if present(event, "/series") {
        if number(event, "/series/count") < 2 {
            errors.push(FieldError::invalid(Path::new("series.count"), &json!(""), "should be at least 2"));
        }
        if !present(event, "/series/lastObservedTime") {
            errors.push(FieldError::required(Path::new("series.lastObservedTime"), ""));
        }
    }
    errors
}

/// What the newer API asks for besides: the older one's fields stay empty.
fn strict_errors(event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !present(event, "/eventTime") {
        errors.push(FieldError::required(Path::new("eventTime"), ""));
    }
    let kind = text(event, "/type");
    if kind != "Normal" && kind != "Warning" {
        let complaint = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid(Path::new("type"), &json!(""), complaint));
    }
    errors.extend(
        ["firstTimestamp", "lastTimestamp"]
            .iter()
            .filter(|f| present(event, &format!("/{f}")))
            .map(|f| needless(f)),
    );
    if number(event, "/count") != 0 {
        errors.push(needless("count"));
    }
    if !text(event, "/source/component").is_empty() || !text(event, "/source/host").is_empty() {
        errors.push(needless("source"));
    }
    errors
}
