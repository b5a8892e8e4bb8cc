//! What our own definitions accept and refuse: the tables beside them, put to a server.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt;
use http::Request;
use netferry_testkit::wait::until;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::{Auth, directory, yaml};
use crate::diff::{contains, lines};
use crate::server::Server;

/// One row of a table (see the tables' README).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    object: Value,
    #[serde(default)]
    update: Option<Value>,
    #[serde(default)]
    status: Option<Value>,
    expect: Expect,
    #[serde(default)]
    becomes: Value,
    #[serde(default)]
    lacks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Expect {
    Accepted,
    Refused(String),
}

/// Where the objects of one kind live.
struct Place {
    group_version: String,
    kind: String,
    path: String,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    files
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).expect("a file of the tree");
    yaml(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

async fn ask(server: &dyn Server, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .header("user-agent", "conformance/1.0")
        .body(body.map(|b| Bytes::from(b.to_string())).unwrap_or_default())
        .expect("valid parts");
    let answer = server.send(Auth::Token, request).await.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
    let status = answer.status().as_u16();
    let mut stream = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await {
        bytes.extend_from_slice(&part.unwrap_or_else(|e| panic!("{method} {path}: {e}")));
    }
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Applies our definitions and waits until every version is served.
async fn define(server: &dyn Server) -> Vec<Place> {
    let mut places = Vec::new();
    for file in files(&workspace().join("deploy/crds")) {
        let definition: Value = read(&file);
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (status, answer) = ask(server, "POST", definitions, Some(&definition)).await;
        assert_eq!(status, 201, "{}: {answer}", file.display());
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for version in spec["versions"].as_array().into_iter().flatten().filter(|v| v["served"] == true) {
            let group_version = format!("{}/{}", text(&spec["group"]), text(&version["name"]));
            let plural = text(&spec["names"]["plural"]);
            let within = if spec["scope"] == "Namespaced" { "namespaces/default/" } else { "" };
            let path = format!("/apis/{group_version}/{within}{plural}");
            places.push(Place { group_version, kind: text(&spec["names"]["kind"]), path });
        }
    }
    for place in &places {
        until(&format!("{} is served", place.path), async || {
            ask(server, "GET", &place.path, None).await.0 == 200
        })
        .await;
    }
    places
}

/// Puts every row of every table to `server`; `record` writes its answers down. Returns what is wrong, one line each.
pub(crate) async fn run(server: &dyn Server, record: bool) -> Vec<String> {
    let places = define(server).await;
    let mut wrong = Vec::new();
    let mut answers = serde_json::Map::new();
    for table in files(&workspace().join("crates/api/tests/admission")) {
        let topic = table.file_stem().expect("a name").to_string_lossy().into_owned();
        for row in read::<Vec<Row>>(&table) {
            let name = format!("{topic}: {}", row.name);
            let answer = row.put(server, &places).await;
            wrong.extend(row.judge(&answer).into_iter().map(|line| format!("{name}: {line}")));
            answers.insert(name, answer);
        }
    }
    wrong.extend(compare(answers.into(), record));
    wrong
}

impl Row {
    /// Creates, replaces, writes the status, and takes everything away again. The last answer is the row's.
    async fn put(&self, server: &dyn Server, places: &[Place]) -> Value {
        let mut object = self.object.clone();
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = "row".into();
        }
        let place = places
            .iter()
            .find(|p| object["apiVersion"] == p.group_version && object["kind"] == p.kind)
            .unwrap_or_else(|| panic!("{}: no definition serves it", self.name));
        let named = format!("{}/{}", place.path, object["metadata"]["name"].as_str().expect("just named"));
        let (mut code, mut answer) = ask(server, "POST", &place.path, Some(&object)).await;
        let created = code == 201;
        let metadata = answer["metadata"].clone();
        if let Some(update) = self.update.as_ref().filter(|_| created) {
            let mut update = update.clone();
            update["apiVersion"] = object["apiVersion"].clone();
            update["kind"] = object["kind"].clone();
            update["metadata"] = metadata;
            (code, answer) = ask(server, "PUT", &named, Some(&update)).await;
        } else if let Some(status) = self.status.as_ref().filter(|_| created) {
            let mut with_status = answer.clone();
            with_status["status"] = status.clone();
            (code, answer) = ask(server, "PUT", &format!("{named}/status"), Some(&with_status)).await;
        }
        if created {
            let (deleted, answer) = ask(server, "DELETE", &named, None).await;
            assert_eq!(deleted, 200, "{}: {answer}", self.name);
        }
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("metadata");
        }
        json!({"code": code, "body": answer, "early": !created && (self.update.is_some() || self.status.is_some())})
    }

    fn judge(&self, answer: &Value) -> Vec<String> {
        let (code, body) = (answer["code"].as_u64().unwrap_or_default(), &answer["body"]);
        let message = body["message"].as_str().unwrap_or_default();
        if answer["early"] == true {
            return vec![format!("its first step was refused: {message}")];
        }
        match &self.expect {
            Expect::Refused(part) if code != 422 => {
                vec![format!("refused ({part}) was expected, got {code}")]
            }
            Expect::Refused(part) if !message.contains(part) => {
                vec![format!("{part:?} is not said in {message:?}")]
            }
            Expect::Refused(_) => Vec::new(),
            Expect::Accepted if !(200..300).contains(&code) => vec![format!("refused: {message}")],
            Expect::Accepted => {
                let lost = (!contains(body, &self.becomes)).then(|| format!("{body} lacks {}", self.becomes));
                let kept = self.lacks.iter().filter(|path| body.pointer(&pointer(path)).is_some());
                lost.into_iter().chain(kept.map(|path| format!("{path} is still there"))).collect()
            }
        }
    }
}

/// A path of a table, with dots, as a JSON pointer.
fn pointer(path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{}", path.trim_start_matches('.').replace('.', "/"))
    }
}

/// Both servers must give the same answers in full, not only the part a row names.
fn compare(answers: Value, record: bool) -> Vec<String> {
    let path = directory().join("golden").join("admission-tables.json");
    if record {
        let text = serde_json::to_string_pretty(&answers).expect("JSON");
        std::fs::write(&path, text + "\n").unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        return Vec::new();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let recorded: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    lines(&recorded, &answers)
}
