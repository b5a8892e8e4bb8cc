//! The format of a case: a sequence of requests, written as data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// One case. What is answered is not written here but recorded from the real server (see `golden`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// A sentence about the world; also the name of the golden file.
    pub(crate) case: String,
    /// The bullets of the promise it covers (see `bullets`).
    pub(crate) covers: Vec<String>,
    /// Whether the case wants a namespace of its own, called `${ns}`.
    #[serde(default = "yes")]
    pub(crate) namespace: bool,
    /// A custom resource made for this case, in the group `${id}.example.com`.
    #[serde(default)]
    pub(crate) crd: Option<Crd>,
    /// Runs when no other case does: it does something to the server that others would notice.
    #[serde(default)]
    pub(crate) alone: bool,
    /// The accepted differences between the two servers.
    #[serde(default)]
    pub(crate) ignore: Vec<Ignore>,
    /// Whether several errors of one answer may come in any order: where the real server walks a Go map, they do.
    #[serde(default)]
    pub(crate) unordered: bool,
    /// Whether the differences accepted everywhere are not accepted here.
    #[serde(default)]
    pub(crate) exact: bool,
    /// What is asked, in order.
    pub(crate) steps: Vec<Step>,
    /// The file's stem.
    #[serde(skip)]
    pub(crate) topic: String,
}

fn yes() -> bool {
    true
}

/// A short way to write a CustomResourceDefinition with one version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crd {
    pub(crate) kind: String,
    pub(crate) plural: String,
    #[serde(default = "namespaced")]
    pub(crate) scope: String,
    /// The version's schema; one that keeps everything when left out.
    #[serde(default)]
    pub(crate) schema: Option<Value>,
    /// More fields of the version: `subresources`, `additionalPrinterColumns`, `selectableFields`, …
    #[serde(default)]
    pub(crate) with: BTreeMap<String, Value>,
}

fn namespaced() -> String {
    "Namespaced".into()
}

/// A place where the two servers may differ.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ignore {
    /// `<step>/<JSON pointer into its answer>`; `*` stands for any one segment.
    pub(crate) at: String,
    /// Why that is accepted.
    pub(crate) why: String,
}

/// One request, or one look at a watch opened earlier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// `METHOD /path?query`.
    #[serde(rename = "do", default)]
    pub(crate) request: Option<String>,
    /// `/path?query` of a watch to open; it is read in the background.
    #[serde(default)]
    pub(crate) watch: Option<String>,
    /// The watch whose events are taken.
    #[serde(default)]
    pub(crate) collect: Option<String>,
    /// `collect`: how many events.
    #[serde(default)]
    pub(crate) events: Option<usize>,
    /// `collect`: all events up to the first of this type.
    #[serde(default)]
    pub(crate) through: Option<String>,
    /// `collect`: all events until the server ends the watch.
    #[serde(default)]
    pub(crate) end: bool,
    /// Has the server forget its history.
    #[serde(default)]
    pub(crate) compact: bool,
    /// The name later steps use for the answer; else the step's number, from 1.
    #[serde(rename = "as", default)]
    pub(crate) name: Option<String>,
    /// Sent as JSON.
    #[serde(default)]
    pub(crate) body: Option<Value>,
    /// JSON pointers into `body` and what to put there; null removes.
    #[serde(default)]
    pub(crate) edit: BTreeMap<String, Value>,
    /// Sent as it is.
    #[serde(default)]
    pub(crate) raw: Option<String>,
    /// The content type, or a short name of one.
    #[serde(rename = "type", default)]
    pub(crate) content_type: Option<String>,
    /// What is accepted, or a short name of it.
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// The user agent, which names the field manager.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// Who asks.
    #[serde(default)]
    pub(crate) auth: Auth,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The request is repeated until the answer looks like this; that answer is the step's.
    #[serde(default)]
    pub(crate) until: Option<Until>,
    /// The answer is not compared, but must be a success. For preparations.
    #[serde(default)]
    pub(crate) quiet: bool,
    /// JSON pointers to lists or maps and what to keep of them (by `name`, `groupVersion`, `metadata.name` or key):
    /// for answers that list things this server does not have to have.
    #[serde(default)]
    pub(crate) keep: BTreeMap<String, Vec<String>>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Auth {
    /// The administrator's token.
    #[default]
    Token,
    /// Nobody.
    None,
    /// A token nobody was given.
    Wrong,
    /// The administrator's certificate.
    Certificate,
}

/// What an answer has to look like before the case goes on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Until {
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// Every field here is in the answer's body, with this value.
    #[serde(default)]
    pub(crate) body: Value,
    /// JSON pointers that must lead nowhere.
    #[serde(default)]
    pub(crate) absent: Vec<String>,
}

fn ok() -> u16 {
    200
}

impl Step {
    /// What the step is called in reports and captures.
    pub(crate) fn called(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| (index + 1).to_string())
    }
}

impl Case {
    /// The case's name as a file name.
    pub(crate) fn slug(&self) -> String {
        let words: Vec<_> =
            self.case.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
        words.join("_").to_lowercase()
    }
}

/// Where the cases are.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Reads YAML as Kubernetes does: `y` and `on` are words.
pub(crate) fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| e.to_string())
}

/// The differences accepted in every case.
pub(crate) fn accepted_everywhere() -> Vec<Ignore> {
    let text = std::fs::read_to_string(directory().join("accepted.yaml")).expect("the accepted differences");
    yaml(&text).unwrap_or_else(|e| panic!("accepted.yaml is not a list of differences: {e}"))
}

/// Every case of every file, in the order of the files' names.
pub(crate) fn all() -> Vec<Case> {
    let mut files: Vec<_> = std::fs::read_dir(directory().join("cases"))
        .expect("the directory of the cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a file of cases");
        let topic = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let these: Vec<Case> =
            yaml(&text).unwrap_or_else(|e| panic!("{} is not a list of cases: {e}", path.display()));
        cases.extend(these.into_iter().map(|case| Case { topic: topic.clone(), ..case }));
    }
    cases
}

/// The cases whose name contains `NETFERRY_CASE`; all of them when it is not set.
pub(crate) fn chosen() -> Vec<Case> {
    let wanted = std::env::var("NETFERRY_CASE").unwrap_or_default();
    let cases: Vec<_> = all().into_iter().filter(|c| c.case.contains(&wanted) || c.topic == wanted).collect();
    assert!(!cases.is_empty(), "no case is called like NETFERRY_CASE={wanted:?}");
    cases
}
