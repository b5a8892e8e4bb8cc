//! Runs one case against one server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, header};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::case::{Auth, Case, Crd, Step, Until, yaml};
use crate::diff;
use crate::normal::Normal;
use crate::server::{Answer, Server};
use crate::vars::{Vars, put};
use crate::watch::Watch;

/// How long anything may take: the real garbage collector learns of a new custom resource only every 30 seconds.
const PATIENCE: Duration = Duration::from_secs(90);
/// How often an `until` asks again.
const AGAIN: Duration = Duration::from_millis(25);

/// What a case was answered, and why it stopped if it did.
pub(crate) struct Outcome {
    pub(crate) answers: Vec<Value>,
    pub(crate) stopped: Option<String>,
}

/// One answer, read to its end.
struct Whole {
    status: u16,
    content_type: String,
    warnings: Vec<String>,
    body: Value,
}

impl Whole {
    async fn read(answer: Answer) -> Result<Whole, String> {
        let (parts, mut stream) = answer.into_parts();
        let mut bytes = Vec::new();
        while let Some(part) = stream.next().await {
            bytes.extend_from_slice(&part?);
        }
        let text = |name| {
            parts.headers.get(name).and_then(|v: &http::HeaderValue| v.to_str().ok()).unwrap_or_default()
        };
        let content = String::from_utf8_lossy(&bytes);
        let parsed = match text(header::CONTENT_TYPE).contains("yaml") {
            true => yaml(&content).ok(),
            false => serde_json::from_slice(&bytes).ok(),
        };
        let body = parsed.unwrap_or_else(|| content.into());
        let warnings = parts.headers.get_all(header::WARNING).iter();
        Ok(Whole {
            status: parts.status.as_u16(),
            content_type: text(header::CONTENT_TYPE).to_owned(),
            warnings: warnings.map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned()).collect(),
            body,
        })
    }

    fn is(&self, until: &Until) -> bool {
        self.status == until.status
            && diff::contains(&self.body, &until.body)
            && until.absent.iter().all(|pointer| self.body.pointer(pointer).is_none())
    }
}

/// A case under way.
struct Run<'a> {
    server: &'a dyn Server,
    vars: Vars,
    normal: Normal,
    watches: BTreeMap<String, Watch>,
    answers: Vec<Value>,
}

/// Runs `case`. `id` is unique to this run.
pub(crate) async fn run(server: &dyn Server, case: &Case, id: &str) -> Outcome {
    let literal = format!("{:?}", case.steps);
    let mut prefixes = Vec::new();
    case.steps.iter().filter_map(|step| step.body.as_ref()).for_each(|body| made_up(body, &mut prefixes));
    let mut run = Run {
        server,
        vars: Vars { id: id.to_owned(), answers: BTreeMap::new() },
        normal: Normal::new(id, literal, &prefixes, case.unordered),
        watches: BTreeMap::new(),
        answers: Vec::new(),
    };
    let stopped = run.all(case).await.err();
    Outcome { answers: run.answers, stopped }
}

impl Run<'_> {
    async fn all(&mut self, case: &Case) -> Result<(), String> {
        if case.namespace {
            self.namespace().await.map_err(|e| format!("making its namespace: {e}"))?;
        }
        if let Some(crd) = &case.crd {
            self.crd(crd).await.map_err(|e| format!("making its custom resource: {e}"))?;
        }
        for (index, step) in case.steps.iter().enumerate() {
            let name = step.called(index);
            let done = timeout(PATIENCE + PATIENCE, self.step(step, &name)).await;
            done.unwrap_or_else(|_| Err("it took too long".into()))
                .map_err(|e| format!("step {name}: {e}"))?;
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step, name: &str) -> Result<(), String> {
        if let Some(path) = &step.watch {
            return self.open(step, name, path).await;
        }
        if let Some(watch) = &step.collect {
            return self.collect(step, watch).await;
        }
        if step.compact {
            let list = self.ask(&Step::get("/api/v1/namespaces?limit=1")).await?;
            let revision = list.body["metadata"]["resourceVersion"].as_str().and_then(|rv| rv.parse().ok());
            return self.server.compact(revision.ok_or("the list has no resourceVersion")?).await;
        }
        let line = step.request.as_deref().ok_or("the step does nothing")?;
        let mut whole = self.ask(step).await?;
        if let Some(until) = &step.until {
            let body = self.vars.json(&until.body)?;
            let until = Until { body, ..until.clone() };
            let deadline = Instant::now() + PATIENCE;
            while !whole.is(&until) {
                if Instant::now() > deadline {
                    return Err(format!(
                        "{line} never became {until:?}; last: {} {}",
                        whole.status, whole.body
                    ));
                }
                sleep(AGAIN).await;
                whole = self.ask(step).await?;
            }
        }
        self.vars.answers.insert(name.to_owned(), whole.body.clone());
        if step.quiet {
            let fine = step.until.is_some() || (200..300).contains(&whole.status);
            return if fine {
                Ok(())
            } else {
                Err(format!("{line} was answered {} {}", whole.status, whole.body))
            };
        }
        let body = self.normal.value(&whole.body);
        let mut answer =
            json!({"step": line, "status": whole.status, "type": whole.content_type, "body": body});
        if !whole.warnings.is_empty() {
            answer["warnings"] = whole.warnings.iter().map(|w| Value::from(self.normal.text(w))).collect();
        }
        self.answers.push(answer);
        Ok(())
    }

    async fn open(&mut self, step: &Step, name: &str, path: &str) -> Result<(), String> {
        let request = self.request(step, &format!("GET {path}"))?;
        let answer =
            timeout(PATIENCE, self.server.send(step.auth, request)).await.map_err(|_| "no answer")??;
        let mut shown = json!({"step": format!("watch {path}"), "status": answer.status().as_u16()});
        let content_type =
            answer.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        shown["type"] = content_type.into();
        if answer.status().is_success() {
            self.watches.insert(name.to_owned(), Watch::read(answer));
        } else {
            let whole = Whole::read(answer).await?;
            shown["body"] = self.normal.value(&whole.body);
        }
        self.answers.push(shown);
        Ok(())
    }

    async fn collect(&mut self, step: &Step, name: &str) -> Result<(), String> {
        let watch = self.watches.get_mut(name).ok_or_else(|| format!("no watch {name} is open"))?;
        let events = watch.collect(step, PATIENCE).await?;
        let events: Vec<_> = events.iter().map(|event| self.normal.value(event)).collect();
        self.answers.push(json!({"step": format!("collect {name}"), "events": events}));
        Ok(())
    }

    async fn ask(&self, step: &Step) -> Result<Whole, String> {
        let line = step.request.as_deref().ok_or("the step asks nothing")?;
        let request = self.request(step, line)?;
        let asked = async { Whole::read(self.server.send(step.auth, request).await?).await };
        let mut whole = timeout(PATIENCE, asked).await.map_err(|_| format!("{line} was not answered"))??;
        for (pointer, names) in &step.keep {
            let names = names.iter().map(|name| self.vars.text(name)).collect::<Result<Vec<_>, _>>()?;
            let segments: Vec<_> = pointer.split('/').skip(1).collect();
            keep(&mut whole.body, &segments, &names);
        }
        Ok(whole)
    }

    fn request(&self, step: &Step, line: &str) -> Result<Request<Bytes>, String> {
        let line = self.vars.text(line)?;
        let (method, path) = line.split_once(' ').ok_or_else(|| format!("{line} is no METHOD /path"))?;
        let agent = step.agent.as_deref().unwrap_or("conformance");
        let mut request = Request::builder()
            .method(method)
            .uri(escaped(path))
            .header(header::ACCEPT, accept(step.accept.as_deref().unwrap_or("json")))
            .header(header::USER_AGENT, format!("{agent}/1.0"));
        for (name, value) in &step.headers {
            request = request.header(name, self.vars.text(value)?);
        }
        let body = match (&step.raw, &step.body) {
            (Some(raw), _) => Some(self.vars.text(raw)?.into_bytes()),
            (None, Some(body)) => {
                let mut body = self.vars.json(body)?;
                for (pointer, new) in &step.edit {
                    put(&mut body, &self.vars.text(pointer)?, self.vars.json(new)?)?;
                }
                Some(body.to_string().into_bytes())
            }
            (None, None) => None,
        };
        if let Some(kind) = content_type(step.content_type.as_deref(), body.is_some()) {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        request.body(body.unwrap_or_default().into()).map_err(|e| format!("{line}: {e}"))
    }

    /// Every case has a namespace of its own; pods in it need the account that comes with it.
    async fn namespace(&mut self) -> Result<(), String> {
        let made = Step {
            body: Some(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}"}})),
            ..Step::ask("POST /api/v1/namespaces", 201)
        };
        self.step(&made, "namespace").await?;
        self.step(&Step::ask("GET /api/v1/namespaces/${ns}/serviceaccounts/default", 200), "account").await
    }

    async fn crd(&mut self, crd: &Crd) -> Result<(), String> {
        let keeps_all = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = crd.schema.clone().unwrap_or(keeps_all);
        let mut version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        for (key, value) in &crd.with {
            version[key] = value.clone();
        }
        let body = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.${{id}}.example.com", crd.plural)},
            "spec": {
                "group": "${id}.example.com",
                "names": {"kind": crd.kind, "plural": crd.plural},
                "scope": crd.scope,
                "versions": [version],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = Step { body: Some(body), ..Step::ask(&format!("POST {definitions}"), 201) };
        self.step(&made, "crd").await?;
        let mut established =
            Step::ask(&format!("GET {definitions}/{}.${{id}}.example.com", crd.plural), 200);
        if let Some(until) = &mut established.until {
            until.body = json!({"status": {"conditions": [
                {"type": "NamesAccepted", "status": "True"},
                {"type": "Established", "status": "True"},
            ]}});
        }
        self.step(&established, "established").await?;
        self.step(&Step::ask(&format!("GET /apis/${{id}}.example.com/v1/{}", crd.plural), 200), "served")
            .await
    }
}

impl Step {
    fn get(path: &str) -> Step {
        Step { quiet: true, until: None, ..Step::ask(&format!("GET {path}"), 200) }
    }

    /// A preparation, repeated until it is answered `status`.
    fn ask(line: &str, status: u16) -> Step {
        Step {
            request: Some(line.to_owned()),
            watch: None,
            collect: None,
            events: None,
            through: None,
            end: false,
            compact: false,
            name: None,
            body: None,
            edit: BTreeMap::new(),
            raw: None,
            content_type: None,
            accept: None,
            agent: None,
            auth: Auth::Token,
            headers: BTreeMap::new(),
            until: Some(Until { status, body: Value::Null, absent: Vec::new() }),
            quiet: true,
            keep: BTreeMap::new(),
        }
    }
}

/// The prefixes in `value` that names are made up from.
fn made_up(value: &Value, prefixes: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            prefixes.extend(fields.get("generateName").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|v| made_up(v, prefixes));
        }
        Value::Array(items) => items.iter().for_each(|v| made_up(v, prefixes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Keeps of the list or map at `pointer` (`*` stands for any segment) only what is called one of `names`.
fn keep(body: &mut Value, pointer: &[&str], names: &[String]) {
    let wanted = |name: &Value| name.as_str().is_some_and(|n| names.iter().any(|w| w == n));
    let called = |item: &Value| {
        let keys = ["name", "groupVersion", "resource", "subresource"];
        wanted(item) || wanted(&item["metadata"]["name"]) || keys.iter().any(|key| wanted(&item[*key]))
    };
    match (pointer, body) {
        ([], Value::Array(items)) => items.retain(called),
        ([], Value::Object(fields)) => fields.retain(|key, _| names.contains(key)),
        (["*", rest @ ..], Value::Array(items)) => items.iter_mut().for_each(|item| keep(item, rest, names)),
        ([first, rest @ ..], body) => {
            if let Some(inner) = body.pointer_mut(&format!("/{first}")) {
                keep(inner, rest, names);
            }
        }
        ([], Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {}
    }
}

fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b' ' | b'"' | b'<' | b'>' | b'{' | b'}' | b'\\' | b'^' | b'`' | b'|' | 0x80.. => {
                out.push_str(&format!("%{byte:02X}"));
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

/// The short names of what clients accept, as `kubectl` and kube's reflectors ask for it.
fn accept(name: &str) -> &str {
    match name {
        "json" => "application/json",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "table-only" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "meta" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "meta-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "discovery" => {
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        }
        other => other,
    }
}

fn content_type(name: Option<&str>, has_body: bool) -> Option<&str> {
    match name {
        None => has_body.then_some("application/json"),
        Some("none") => None,
        Some("yaml") => Some("application/yaml"),
        Some("merge") => Some("application/merge-patch+json"),
        Some("strategic") => Some("application/strategic-merge-patch+json"),
        Some("json-patch") => Some("application/json-patch+json"),
        Some("apply") => Some("application/apply-patch+yaml"),
        Some(other) => Some(other),
    }
}
