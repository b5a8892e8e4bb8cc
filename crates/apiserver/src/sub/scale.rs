//! `/scale`: the size of a workload, whatever its kind.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{SCALE, decoded};
use crate::crd::Scale;
use crate::decode::Decoded;
use crate::field::{FieldError, Path};
use crate::http::present::to_bytes;
use crate::http::{Call, Encoding, Outcome};
use crate::names;
use crate::object::meta;
use crate::patch::{self, PatchKind};
use crate::query::{WriteKind, WriteOptions};
use crate::registry::update::{Replacement, STALE, replace};
use crate::registry::{Cx, read};
use crate::resource::{Resource, Subresource, Through};
use crate::server::Core;
use crate::ssa;
use crate::status::ApiError;

/// Where built-in workloads keep their size.
fn paths(resource: &Resource) -> Scale {
    resource.behaviour.scale().cloned().unwrap_or_else(|| Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: None,
    })
}

/// Answers a call on `/scale`.
pub(crate) fn serve(
    core: &Arc<Core>,
    call: &Call,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
) -> Result<Outcome, ApiError> {
    let (scale, warnings) = match call.method.as_str() {
        "GET" => {
            let stored = read::get(core, resource, namespace, name, None)?;
            (seen(resource, &crate::registry::presented(resource, &stored)), Vec::new())
        }
        "PUT" => {
            let options = WriteOptions::parse(&call.query, WriteKind::Update)?;
            let mut wanted = decoded(call, &SCALE, options.validation)?;
            names::match_name(&wanted.object, name)?;
            names::match_namespace(&mut wanted.object, namespace)?;
            set(core, call, resource, namespace, name, &options, Asked::Whole(wanted))?
        }
        "PATCH" => {
            let kind = PatchKind::from_content_type(call.content_type(), resource.custom)?;
            if kind == PatchKind::Apply {
                let options = WriteOptions::parse(&call.query, WriteKind::Apply)?;
                let applied = crate::decode::applied(&call.body, options.validation)?.object;
                set(core, call, resource, namespace, name, &options, Asked::Applied(applied))?
            } else {
                let options = WriteOptions::parse(&call.query, WriteKind::Patch)?;
                set(core, call, resource, namespace, name, &options, Asked::Patched(kind, &call.body))?
            }
        }
        _ => {
            return Err(ApiError::method_not_allowed(
                &resource.group,
                &resource.plural,
                call.method.as_str(),
            ));
        }
    };
    Ok(Outcome::Whole { code: StatusCode::OK, body: to_bytes(&scale), warnings, encoding: Encoding::Json })
}

/// How a new size is asked for.
enum Asked<'a> {
    Whole(Decoded),
    Patched(PatchKind, &'a [u8]),
    Applied(Value),
}

/// A Scale without a size is one of size 0, and is written so.
fn sized(mut scale: Value) -> Value {
    if scale["spec"]["replicas"] == 0
        && let Some(spec) = scale["spec"].as_object_mut()
    {
        spec.remove("replicas");
    }
    scale
}

fn seen(resource: &Resource, object: &Value) -> Value {
    let paths = paths(resource);
    let count = |path: &str| Scale::get(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = json!({
        "name": meta(object, "name"), "uid": meta(object, "uid"),
        "resourceVersion": meta(object, "resourceVersion"),
        "creationTimestamp": meta(object, "creationTimestamp"),
    });
    if !meta(object, "namespace").is_empty() {
        metadata["namespace"] = json!(meta(object, "namespace"));
    }
    let mut status = json!({"replicas": count(&paths.status_replicas)});
    let selector = match &paths.label_selector {
        Some(path) => Scale::get(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None if resource.custom => String::new(),
        None => printed_selector(&object["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    let replicas = count(&paths.spec_replicas);
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// A workload's selector as the text a client can list pods with.
fn printed_selector(selector: &Value) -> String {
    let mut terms: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values = crate::object::strings(&expression["values"]);
        values.sort();
        terms.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    terms.sort();
    terms.join(",")
}

fn set(
    core: &Arc<Core>,
    call: &Call,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
    options: &WriteOptions,
    asked: Asked<'_>,
) -> Result<(Value, Vec<String>), ApiError> {
    core.write(|state| {
        let mut cx = Cx {
            core,
            state,
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            dry_run: options.dry_run,
            manager: ssa::manager_name(&options.manager, call.agent()),
            warnings: Vec::new(),
        };
        let (object, _) = replace(&mut cx, name, Through::Sub(Subresource::Scale), false, |cx, old| {
            let mut object = old.cloned().unwrap_or_default();
            let live = seen(&cx.resource, &object);
            let applies = matches!(asked, Asked::Applied(_));
            let wanted = match asked {
                Asked::Whole(Decoded { object, warnings }) => {
                    cx.warnings.extend(warnings);
                    object
                }
                Asked::Patched(kind, body) => {
                    let patched = patch::apply(kind, body, &live, &SCALE, options.validation)?;
                    cx.warnings.extend(patched.warnings);
                    patched.object
                }
                Asked::Applied(applied) => sized(applied),
            };
            let write = if applies {
                ssa::ScaleWrite::Apply { applied: &wanted, force: options.force }
            } else {
                ssa::ScaleWrite::Update(&wanted)
            };
            let place = paths(&cx.resource);
            let path = Scale::segments(&place.spec_replicas);
            let api_version = cx.resource.api_version();
            let now = cx.core.clock.stamp();
            let scaled = ssa::scale(&object, &api_version, &path, &live, write, &cx.manager, &now)?;
            let said = meta(&scaled.scale, "resourceVersion");
            if !said.is_empty() && said != meta(&object, "resourceVersion") {
                return Err(cx.conflict(name, STALE));
            }
            let replicas = scaled.scale["spec"]["replicas"].as_i64().unwrap_or_default();
            if replicas < 0 {
                let why = "must be greater than or equal to 0";
                let error = FieldError::invalid(Path::new("spec.replicas"), &json!(replicas), why);
                return Err(ApiError::invalid("autoscaling", "Scale", name, &[error]));
            }
            let mut field = &mut object;
            for segment in path {
                field = &mut field[segment];
            }
            *field = json!(replicas);
            scaled.own(&mut object);
            Ok(Replacement { object, tracked: true, identified: false })
        })?;
        Ok((seen(resource, &object), cx.warnings))
    })
}
