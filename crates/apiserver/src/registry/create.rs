//! Bringing a new object into being.

use serde_json::{Value, json};

use super::{Cx, admission};
use crate::names;
use crate::object::{is_deleting, meta, meta_mut, set_meta};
use crate::resource::Through;
use crate::status::ApiError;
use crate::store::Key;

/// How often a generated name that is taken is drawn again.
const NAME_DRAWS: usize = 8;

/// Creates a decoded and defaulted object. `tracked` says that its managed fields are already settled (an apply).
pub(crate) fn create(cx: &mut Cx<'_>, mut object: Value, tracked: bool) -> Result<Value, ApiError> {
    let resource = cx.resource.clone();
    let namespace = if resource.namespaced { cx.namespace.as_str() } else { "" };
    names::match_namespace(&mut object, namespace)?;
    let metadata = meta_mut(&mut object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid", "creationTimestamp"] {
        metadata.remove(field);
    }
    if !tracked {
        object = cx.tracked(Through::Main, &Value::Null, object);
    }
    admit(cx, &mut object)?;
    cx.warnings.extend(names::dedup_owners(&mut object, tracked));
    let generated = meta(&object, "name").is_empty() && !meta(&object, "generateName").is_empty();
    if !generated {
        return finish(cx, object);
    }
    let base = meta(&object, "generateName").to_owned();
    for _ in 0..NAME_DRAWS {
        let mut attempt = object.clone();
        let mut random = cx.core.ids.bytes().into_iter();
        set_meta(
            &mut attempt,
            "name",
            names::generate(&base, || u32::from(random.next().unwrap_or_default())),
        );
        match finish(cx, attempt) {
            Err(error) if error.reason == "AlreadyExists" => {}
            done => return done,
        }
    }
    Err(ApiError::already_exists(&resource.group, &resource.plural, &base))
}

fn finish(cx: &mut Cx<'_>, mut object: Value) -> Result<Value, ApiError> {
    let resource = cx.resource.clone();
    let metadata = meta_mut(&mut object);
    metadata.insert("creationTimestamp".to_owned(), json!(cx.core.clock.stamp()));
    metadata.insert("uid".to_owned(), json!(cx.core.ids.uid()));
    if resource.behaviour.has_generation() {
        metadata.insert("generation".to_owned(), json!(1));
    }
    admission::allocate(cx, &mut object, None)?;
    resource.behaviour.prepare_create(&mut object);
    let name = meta(&object, "name").to_owned();
    let errors = names::create_errors(&object, &resource, resource.behaviour.validate(&object));
    if !errors.is_empty() {
        return Err(cx.invalid(&name, &errors));
    }
    cx.warnings.extend(resource.behaviour.warnings(&object));
    resource.settle(&mut object);
    // Storage refuses this, and a dry run never gets there.
    if !cx.dry_run && !meta(&object, "resourceVersion").is_empty() {
        return Err(ApiError::unclassified("resourceVersion should not be set on objects to be created"));
    }
    let key = Key::new(&cx.namespace, &name);
    if cx.state.store.get(&cx.table(), &key).is_some() {
        return Err(ApiError::already_exists(&resource.group, &resource.plural, &name));
    }
    if cx.dry_run {
        return Ok(object);
    }
    let event = cx.commit(object)?;
    Ok(super::presented(&resource, &event.object))
}

/// The admission every cluster has: objects go only into namespaces that are there and staying, and pods run
/// as a service account that exists.
fn admit(cx: &mut Cx<'_>, object: &mut Value) -> Result<(), ApiError> {
    if cx.resource.namespaced {
        let (group, plural) = (cx.resource.group.clone(), cx.resource.plural.clone());
        match cx.state.object("namespaces", &Key::new("", &cx.namespace)) {
            None => return Err(ApiError::not_found("", "namespaces", &cx.namespace)),
            Some(namespace) if is_deleting(&namespace) => {
                let why = format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    cx.namespace
                );
                let mut error = ApiError::forbidden(&group, &plural, meta(object, "name"), &why);
                if let Some(details) = &mut error.details {
                    details["causes"] = json!([{
                        "reason": "NamespaceTerminating",
                        "message": format!("namespace {} is being terminated", cx.namespace),
                        "field": "metadata.namespace",
                    }]);
                }
                return Err(error);
            }
            Some(_) => {}
        }
    }
    if cx.resource.custom {
        let definition =
            cx.state.object("customresourcedefinitions.apiextensions.k8s.io", &Key::new("", &cx.table()));
        if definition.is_some_and(|definition| is_deleting(&definition)) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(
                &cx.resource.group,
                &cx.resource.plural,
                meta(object, "name"),
                why,
            ));
        }
    }
    admission::admit(cx, object)
}
