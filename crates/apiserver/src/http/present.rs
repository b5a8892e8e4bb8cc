//! The forms an object can be asked for in: itself, its metadata, or a row of a table.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::presented;
use crate::registry::read::Page;
use crate::resource::{Column, Resource};
use crate::store::Stored;

/// What a table row carries of its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

/// What the client asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// The object.
    Whole,
    /// `as=PartialObjectMetadata`, or the list of them.
    Metadata {
        /// Asked for as a list.
        list: bool,
    },
    /// `as=Table`.
    Table(Include),
}

const PARTIAL: &str = "PartialObjectMetadata";
const META_V1: &str = "meta.k8s.io/v1";

/// Turns objects of one resource into the form asked for.
pub(crate) struct Presenter {
    resource: Arc<Resource>,
    form: Form,
    /// Objects are stored in the version asked for, so their bytes go out as they are.
    verbatim: bool,
    /// A watch sends the column definitions with its first event only.
    columns_sent: bool,
}

impl Presenter {
    pub(crate) fn new(resource: Arc<Resource>, form: Form) -> Presenter {
        let verbatim = form == Form::Whole && resource.verbatim();
        Presenter { resource, form, verbatim, columns_sent: false }
    }

    /// One object.
    pub(crate) fn object(&self, object: Value, now: Timestamp) -> Value {
        if object["kind"] == "Status" && object["apiVersion"] == "v1" {
            return object;
        }
        match self.form {
            Form::Whole => object,
            Form::Metadata { .. } => partial(&object),
            Form::Table(include) => {
                let revision = object["metadata"]["resourceVersion"].clone();
                let row = self.row(object, include, now);
                table(self.columns(), vec![row], json!({"resourceVersion": revision}))
            }
        }
    }

    /// One stored object.
    pub(crate) fn stored(&self, stored: &Stored, now: Timestamp) -> Bytes {
        if self.verbatim {
            return stored.json.clone();
        }
        to_bytes(&self.object(presented(&self.resource, stored), now))
    }

    /// A page of a list.
    pub(crate) fn page(&self, page: &Page, now: Timestamp) -> Bytes {
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if !page.next.is_empty() || (self.form == Form::Whole && self.resource.custom) {
            metadata["continue"] = json!(page.next);
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        let objects = || page.items.iter().map(|stored| presented(&self.resource, stored));
        match self.form {
            Form::Whole => self.list(page, &metadata),
            Form::Metadata { .. } => to_bytes(&json!({
                "kind": "PartialObjectMetadataList", "apiVersion": META_V1, "metadata": metadata,
                // Nothing to show is null here, where a list of whole objects would be empty.
                "items": if page.items.is_empty() {
                    Value::Null
                } else {
                    objects().map(|object| partial(&object)).collect()
                },
            })),
            Form::Table(include) => {
                let rows: Vec<Value> = objects().map(|object| self.row(object, include, now)).collect();
                let mut table = table(self.columns(), rows, metadata);
                if page.items.is_empty() && self.resource.group == "apiextensions.k8s.io" {
                    table["rows"] = Value::Null;
                }
                to_bytes(&table)
            }
        }
    }

    fn list(&self, page: &Page, metadata: &Value) -> Bytes {
        let head = json!({"kind": self.resource.list_kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        // What most stored objects begin with: cutting it off is cheaper than parsing the object.
        let typed = self.verbatim.then(|| {
            format!(
                "{{\"apiVersion\":\"{}\",\"kind\":\"{}\",",
                self.resource.api_version(),
                self.resource.kind
            )
        });
        let mut out = to_bytes(&head).to_vec();
        out.pop();
        out.extend_from_slice(b",\"items\":[");
        for (nth, stored) in page.items.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            if self.verbatim && self.resource.custom {
                out.extend_from_slice(&stored.json);
            } else if let Some(rest) =
                typed.as_ref().and_then(|typed| stored.json.strip_prefix(typed.as_bytes()))
            {
                out.push(b'{');
                out.extend_from_slice(rest);
            } else {
                let mut object = presented(&self.resource, stored);
                if !self.resource.custom
                    && let Some(fields) = object.as_object_mut()
                {
                    // A typed list says its kind once, for all of its items.
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                out.extend_from_slice(&to_bytes(&object));
            }
        }
        out.extend_from_slice(b"]}");
        out.into()
    }

    /// One event of a watch, as a line.
    pub(crate) fn event(&mut self, change: &str, stored: &Stored, now: Timestamp) -> Bytes {
        let object: Bytes = match self.form {
            Form::Whole if self.verbatim => stored.json.clone(),
            Form::Whole | Form::Metadata { .. } => {
                to_bytes(&self.object(presented(&self.resource, stored), now))
            }
            Form::Table(include) => {
                let object = presented(&self.resource, stored);
                let revision = object["metadata"]["resourceVersion"].clone();
                let columns = if self.columns_sent { Value::Null } else { self.columns() };
                self.columns_sent = true;
                to_bytes(&table(
                    columns,
                    vec![self.row(object, include, now)],
                    json!({"resourceVersion": revision}),
                ))
            }
        };
        framed(change, &object)
    }

    /// A bookmark: an object with nothing but its revision.
    pub(crate) fn bookmark(&self, metadata: Value) -> Bytes {
        let object = match self.form {
            Form::Whole => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
            Form::Metadata { .. } => json!({"kind": PARTIAL, "apiVersion": META_V1, "metadata": metadata}),
            Form::Table(_) => {
                table(Value::Null, Vec::new(), json!({"resourceVersion": metadata["resourceVersion"]}))
            }
        };
        framed("BOOKMARK", &to_bytes(&object))
    }

    fn columns(&self) -> Value {
        self.resource.behaviour.columns().iter().map(column).collect()
    }

    fn row(&self, object: Value, include: Include, now: Timestamp) -> Value {
        let mut row = json!({"cells": self.resource.behaviour.cells(&object, now)});
        let conditions = self.resource.behaviour.row_conditions(&object);
        if !conditions.is_empty() {
            row["conditions"] = json!(conditions);
        }
        match include {
            Include::None => row["object"] = Value::Null,
            Include::Metadata => {
                row["object"] = partial(&object);
                self.resource.behaviour.row_metadata(&mut row["object"]["metadata"]);
            }
            Include::Object => row["object"] = object,
        }
        row
    }
}

fn column(column: &Column) -> Value {
    json!({
        "name": column.name, "type": column.kind, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

fn table(columns: Value, rows: Vec<Value>, metadata: Value) -> Value {
    json!({"kind": "Table", "apiVersion": META_V1, "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn partial(object: &Value) -> Value {
    json!({"kind": PARTIAL, "apiVersion": META_V1, "metadata": object["metadata"]})
}

fn framed(change: &str, object: &[u8]) -> Bytes {
    let mut frame = format!("{{\"type\":\"{change}\",\"object\":").into_bytes();
    frame.extend_from_slice(object);
    frame.extend_from_slice(b"}\n");
    frame.into()
}

pub(crate) fn to_bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value).expect("a JSON value can be printed").into()
}
