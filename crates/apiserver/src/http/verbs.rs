//! The verbs on resources.

use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, StatusCode};
use serde_json::Value;

use super::accept::{Encoding, negotiate};
use super::present::{Form, Presenter, to_bytes};
use super::route::ResourcePath;
use super::{Call, Outcome};
use crate::catalog::Catalog;
use crate::decode::{self, Expect};
use crate::names;
use crate::patch::{self, PatchKind};
use crate::query::{DeleteOptions, FieldValidation, ListOptions, WriteKind, WriteOptions, get_revision};
use crate::registry::read::{self, Selection};
use crate::registry::update::{Replacement, replace};
use crate::registry::{Cx, create, delete, watch};
use crate::resource::{Resource, Subresource, Through};
use crate::server::{Core, State};
use crate::ssa;
use crate::status::ApiError;
use crate::sub;

/// One call on one resource.
struct Ask<'a> {
    core: &'a Arc<Core>,
    call: &'a Call,
    path: ResourcePath<'a>,
    resource: Arc<Resource>,
    form: Form,
    encoding: Encoding,
}

pub(super) fn resource(
    core: &Arc<Core>,
    catalog: &Catalog,
    call: &Call,
    path: ResourcePath<'_>,
) -> Result<Outcome, ApiError> {
    if let Some(outcome) = sub::review::answer(core, call, path)? {
        return Ok(outcome);
    }
    if (path.group, path.resource) == ("", "bindings") && !path.namespace.is_empty() && path.name.is_empty() {
        // The collection of bindings is another name for the pods' subresource.
        let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
        let binding = sub::decoded(call, &sub::BINDING, options.validation)?.object;
        let name = crate::object::meta(&binding, "name").to_owned();
        if name.is_empty() {
            return Err(ApiError::bad_request("Name parameter required."));
        }
        let pods = ResourcePath { resource: "pods", name: &name, subresource: "binding", ..path };
        return self::resource(core, catalog, call, pods);
    }
    let Some(resource) = catalog.get(path.group, path.version, path.resource).cloned() else {
        return unknown(catalog, path);
    };
    let named = !path.name.is_empty();
    if resource.namespaced && path.namespace.is_empty() && (named || call.method != Method::GET)
        || !resource.namespaced && !path.namespace.is_empty()
    {
        return Err(if named || !resource.namespaced {
            ApiError::no_such_resource()
        } else {
            ApiError::no_such_method()
        });
    }
    let watching = call.method == Method::GET && (path.watch || !named && call.query.is_set("watch"));
    let lists = call.method == Method::GET && !named;
    let (form, encoding) = negotiate(call.accept(), call.query.include_object(), watching, lists)?;
    if form == (Form::Metadata { list: false }) && lists && !watching {
        return Err(ApiError::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            go_list_type(&resource)
        )));
    }
    let ask = Ask { core, call, path, resource, form, encoding };
    let mut outcome = if path.subresource.is_empty() { ask.main()? } else { ask.part()? };
    if let (Outcome::Whole { warnings, .. }, Some(deprecation)) = (&mut outcome, &ask.resource.deprecation) {
        warnings.insert(0, deprecation.clone());
    }
    Ok(outcome)
}

/// What a real server calls the list inside: its refusals say so.
fn go_list_type(resource: &Resource) -> String {
    if resource.custom {
        return "*unstructured.UnstructuredList".to_owned();
    }
    let package = match resource.group.as_str() {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{}", resource.list_kind)
}

/// A resource Kubernetes has and this server does not is refused by name; anything else is not found.
fn unknown(catalog: &Catalog, path: ResourcePath<'_>) -> Result<Outcome, ApiError> {
    if let Some(what) = crate::discovery::left_out(path.group, path.resource) {
        // Not found, as on a server that never had it: who can do without (`kubectl describe namespace` asks for
        // quotas) then does.
        let refused = ApiError::not_implemented(&what);
        return Err(ApiError { code: StatusCode::NOT_FOUND, reason: "NotFound", ..refused });
    }
    if catalog.all().any(|resource| !resource.custom && resource.group == path.group) {
        return Err(ApiError::no_such_resource());
    }
    Ok(Outcome::Plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()))
}

impl Ask<'_> {
    fn main(&self) -> Result<Outcome, ApiError> {
        let named = !self.path.name.is_empty();
        let verb = match (self.call.method.as_str(), named) {
            ("GET", _) if self.path.watch => "watch",
            ("GET", true) => "get",
            ("GET", false) if self.call.query.is_set("watch") => "watch",
            ("GET", false) => "list",
            _ if self.path.watch => return Err(ApiError::no_such_method()),
            ("POST", false) => "create",
            ("PUT", true) => "update",
            ("PATCH", true) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) if self.resource.behaviour.deletes_collections() => "deletecollection",
            _ => return Err(ApiError::no_such_method()),
        };
        self.with_faults(verb, || match verb {
            "get" => self.get(),
            "watch" => self.watch(),
            "list" => self.list(),
            "create" => self.create(),
            "update" => self.update(Through::Main),
            "patch" => self.patch(Through::Main),
            "delete" => self.delete(),
            _ => self.delete_collection(),
        })
    }

    /// A call as the faults armed for it leave it: refused before it does anything, or its answer lost.
    fn with_faults(
        &self,
        verb: &str,
        call: impl FnOnce() -> Result<Outcome, ApiError>,
    ) -> Result<Outcome, ApiError> {
        let (faults, part, name) = (&self.core.faults, self.path.subresource, self.path.name);
        if let Some(error) = faults.refusal(verb, &self.resource, part, name) {
            return Err(error);
        }
        let outcome = call()?;
        match faults.lost_answer(verb, &self.resource, part, name) {
            Some(error) => Err(error),
            None => Ok(outcome),
        }
    }

    fn presenter(&self) -> Presenter {
        Presenter::new(self.resource.clone(), self.form)
    }

    fn whole(&self, code: StatusCode, object: Value, warnings: Vec<String>) -> Outcome {
        let body = to_bytes(&self.presenter().object(object, self.core.clock.now()));
        Outcome::Whole { code, body, warnings, encoding: self.encoding }
    }

    fn get(&self) -> Result<Outcome, ApiError> {
        let not_before = get_revision(&self.call.query)?;
        let stored = read::get(self.core, &self.resource, self.path.namespace, self.path.name, not_before)?;
        let body = self.presenter().stored(&stored, self.core.clock.now());
        Ok(Outcome::Whole { code: StatusCode::OK, body, warnings: Vec::new(), encoding: self.encoding })
    }

    fn selection(&self, options: &mut ListOptions) -> Result<Selection, ApiError> {
        if !self.path.name.is_empty() {
            // The old way to watch one object.
            let name = format!("metadata.name={}", self.path.name);
            options.fields =
                if options.fields.is_empty() { name } else { format!("{},{name}", options.fields) };
        }
        Selection::parse(&self.resource, self.path.namespace, options)
    }

    fn list(&self) -> Result<Outcome, ApiError> {
        let mut options = ListOptions::parse(&self.call.query)?;
        let selection = self.selection(&mut options)?;
        let page = read::list(self.core, &self.resource, &selection, &options)?;
        let body = self.presenter().page(&page, self.core.clock.now());
        Ok(Outcome::Whole { code: StatusCode::OK, body, warnings: Vec::new(), encoding: self.encoding })
    }

    fn watch(&self) -> Result<Outcome, ApiError> {
        let mut options = ListOptions::parse_for(&self.call.query, true)?;
        let selection = self.selection(&mut options)?;
        let events = watch::open(self.core, &self.resource, selection, &options, self.form)?;
        Ok(Outcome::Stream(Body::from_stream(events.map(Ok::<_, std::convert::Infallible>))))
    }

    fn context<'s>(&'s self, state: &'s mut State, options: &WriteOptions) -> Cx<'s> {
        Cx {
            core: self.core,
            state,
            resource: self.resource.clone(),
            namespace: self.path.namespace.to_owned(),
            dry_run: options.dry_run,
            manager: ssa::manager_name(&options.manager, self.call.agent()),
            warnings: Vec::new(),
        }
    }

    /// The body as an object of the resource, its defaults filled in.
    fn body(&self, validation: FieldValidation) -> Result<decode::Decoded, ApiError> {
        let media = decode::media(self.call.content_type())?;
        let expect = Expect::of(&self.resource);
        let mut decoded = decode::object(media, &self.call.body, &expect, validation)?;
        self.resource.behaviour.default(&mut decoded.object);
        Ok(decoded)
    }

    fn create(&self) -> Result<Outcome, ApiError> {
        let options = WriteOptions::parse(&self.call.query, WriteKind::Create)?;
        let decoded = self.body(options.validation)?;
        self.core.write(|state| {
            let mut cx = self.context(state, &options);
            cx.warnings = decoded.warnings;
            let object = create::create(&mut cx, decoded.object, false).map_err(|e| told(&mut cx, e))?;
            Ok(self.whole(StatusCode::CREATED, object, std::mem::take(&mut cx.warnings)))
        })
    }

    fn update(&self, through: Through) -> Result<Outcome, ApiError> {
        let options = WriteOptions::parse(&self.call.query, WriteKind::Update)?;
        let mut decoded = self.body(options.validation)?;
        names::match_name(&decoded.object, self.path.name)?;
        names::match_namespace(&mut decoded.object, self.path.namespace)?;
        let creates = through == Through::Main && self.resource.behaviour.create_on_update();
        self.core.write(|state| {
            let mut cx = self.context(state, &options);
            cx.warnings = decoded.warnings;
            let made = Replacement { object: decoded.object, tracked: false, identified: true };
            let (object, new) = replace(&mut cx, self.path.name, through, creates, |_, _| Ok(made))
                .map_err(|e| told(&mut cx, e))?;
            let code = if new { StatusCode::CREATED } else { StatusCode::OK };
            Ok(self.whole(code, object, std::mem::take(&mut cx.warnings)))
        })
    }

    fn patch(&self, through: Through) -> Result<Outcome, ApiError> {
        let kind = PatchKind::from_content_type(self.call.content_type(), self.resource.custom)?;
        decode::within_limit(self.call.body.len())?;
        let applies = kind == PatchKind::Apply;
        let options =
            WriteOptions::parse(&self.call.query, if applies { WriteKind::Apply } else { WriteKind::Patch })?;
        self.core.write(|state| {
            let mut cx = self.context(state, &options);
            let creates = applies && through == Through::Main;
            let (object, new) = replace(&mut cx, self.path.name, through, creates, |cx, old| {
                if applies {
                    self.applied(cx, old, through, &options)
                } else {
                    let old = old.ok_or_else(|| cx.not_found(self.path.name))?;
                    let expect = Expect::of(&self.resource);
                    let mut patched = patch::apply(kind, &self.call.body, old, &expect, options.validation)?;
                    cx.warnings.append(&mut patched.warnings);
                    self.resource.behaviour.default(&mut patched.object);
                    Ok(Replacement { object: patched.object, tracked: false, identified: false })
                }
            })
            .map_err(|e| told(&mut cx, e))?;
            let code = if new { StatusCode::CREATED } else { StatusCode::OK };
            Ok(self.whole(code, object, std::mem::take(&mut cx.warnings)))
        })
    }

    fn applied(
        &self,
        cx: &mut Cx<'_>,
        old: Option<&Value>,
        through: Through,
        options: &WriteOptions,
    ) -> Result<Replacement, ApiError> {
        let body = decode::applied(&self.call.body, options.validation)?;
        cx.warnings.extend(body.warnings);
        let api_version = self.resource.api_version();
        let reset = self.resource.behaviour.reset_fields(through);
        let target = ssa::Target::of(&self.resource, through, &api_version, &reset);
        let live = old.unwrap_or(&Value::Null);
        let merged =
            ssa::apply(&target, live, &body.object, &cx.manager, options.force, &self.core.clock.stamp())?;
        let expect = Expect::of(&self.resource);
        let (mut object, strict) = decode::normalise(&merged, &expect).map_err(ApiError::bad_request)?;
        cx.warnings.extend(decode::judge(strict, options.validation).map_err(ApiError::bad_request)?);
        self.resource.behaviour.default_applied(&mut object);
        Ok(Replacement { object, tracked: true, identified: false })
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let body = decode::delete_options(self.call.content_type(), &self.call.body)?;
        DeleteOptions::parse(&self.call.query, body.as_ref())
    }

    fn delete(&self) -> Result<Outcome, ApiError> {
        let options = self.delete_options()?;
        self.core.write(|state| {
            let mut cx = self.context(state, &WriteOptions::silent(options.dry_run));
            let deleted = delete::delete(&mut cx, self.path.name, &options)?;
            let waits = !deleted.gone && options.orphan_dependents == Some(false);
            let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
            Ok(self.whole(code, deleted.answer, Vec::new()))
        })
    }

    fn delete_collection(&self) -> Result<Outcome, ApiError> {
        let options = self.delete_options()?;
        let mut listing = ListOptions::parse(&self.call.query)?;
        let selection = self.selection(&mut listing)?;
        let page = read::list(self.core, &self.resource, &selection, &listing)?;
        for stored in &page.items {
            self.core.write(|state| {
                let mut cx = self.context(state, &WriteOptions::silent(options.dry_run));
                cx.namespace.clone_from(&stored.key.namespace);
                match delete::delete(&mut cx, &stored.key.name, &options) {
                    Err(error) if error.code == StatusCode::NOT_FOUND => Ok(()),
                    other => other.map(|_| ()),
                }
            })?;
        }
        let body = self.presenter().page(&page, self.core.clock.now());
        Ok(Outcome::Whole { code: StatusCode::OK, body, warnings: Vec::new(), encoding: self.encoding })
    }

    /// A call on a subresource.
    fn part(&self) -> Result<Outcome, ApiError> {
        let Some(part) =
            self.resource.subresources.iter().copied().find(|s| s.name() == self.path.subresource)
        else {
            let what = format!("{}/{}", self.path.resource, self.path.subresource);
            return Err(match what.as_str() {
                "pods/log" | "pods/exec" | "pods/attach" | "pods/portforward" | "pods/proxy"
                | "nodes/proxy" | "services/proxy" => ApiError::not_implemented(&what),
                _ if self.resource.custom => {
                    ApiError::not_found(&self.resource.group, &self.resource.plural, self.path.name)
                }
                _ => ApiError::no_such_resource(),
            });
        };
        let verb = match self.call.method.as_str() {
            "GET" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "POST" => "create",
            _ => return Err(ApiError::no_such_method()),
        };
        self.with_faults(verb, || self.serve_part(part))
    }

    fn serve_part(&self, part: Subresource) -> Result<Outcome, ApiError> {
        let through = Through::Sub(part);
        let verb = self.call.method.as_str();
        match part {
            Subresource::Status | Subresource::EphemeralContainers | Subresource::Resize => match verb {
                "GET" => self.get(),
                "PUT" => self.update(through),
                "PATCH" => self.patch(through),
                _ => Err(ApiError::no_such_method()),
            },
            Subresource::Finalize if verb == "PUT" => self.update(through),
            Subresource::Scale => {
                sub::scale::serve(self.core, self.call, &self.resource, self.path.namespace, self.path.name)
            }
            Subresource::Binding if verb == "POST" => self.bind(),
            Subresource::Eviction if verb == "POST" => self.evict(),
            Subresource::Token if verb == "POST" => {
                sub::token::issue(self.core, self.call, self.path.namespace, self.path.name)
            }
            Subresource::Finalize | Subresource::Binding | Subresource::Eviction | Subresource::Token => {
                Err(ApiError::no_such_method())
            }
        }
    }

    fn bind(&self) -> Result<Outcome, ApiError> {
        let options = WriteOptions::parse(&self.call.query, WriteKind::Create)?;
        let binding = sub::decoded(self.call, &sub::BINDING, options.validation)?;
        self.core.write(|state| {
            let mut cx = self.context(state, &options);
            cx.warnings = binding.warnings;
            let status =
                sub::binding::bind(&mut cx, self.path.name, binding.object).map_err(|e| told(&mut cx, e))?;
            Ok(self.whole(StatusCode::CREATED, status, std::mem::take(&mut cx.warnings)))
        })
    }

    fn evict(&self) -> Result<Outcome, ApiError> {
        let written = WriteOptions::parse(&self.call.query, WriteKind::Create)?;
        let eviction = sub::decoded(self.call, &sub::EVICTION, written.validation)?;
        self.core.write(|state| {
            let mut cx = self.context(state, &written);
            cx.warnings = eviction.warnings;
            let status = sub::eviction::evict(&mut cx, self.path.name, eviction.object, &self.call.query)
                .map_err(|e| told(&mut cx, e))?;
            Ok(self.whole(StatusCode::CREATED, status, std::mem::take(&mut cx.warnings)))
        })
    }
}

/// A refusal carries the warnings that came up before it.
fn told(cx: &mut Cx<'_>, mut error: ApiError) -> ApiError {
    error.warnings.append(&mut cx.warnings);
    error
}
