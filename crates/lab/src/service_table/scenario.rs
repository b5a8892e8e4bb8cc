//! Scenarios as they are written.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use crate::programs::probe::Protocol;

const FILES: [(&str, &str); 5] = [
    ("addresses.yaml", include_str!("scenarios/addresses.yaml")),
    ("local.yaml", include_str!("scenarios/local.yaml")),
    ("backends.yaml", include_str!("scenarios/backends.yaml")),
    ("affinity.yaml", include_str!("scenarios/affinity.yaml")),
    ("changes.yaml", include_str!("scenarios/changes.yaml")),
];

/// A story about Services.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// What it shows.
    pub title: String,
    /// Whether it needs a cluster of both families.
    #[serde(default)]
    pub dual: bool,
    /// Pods there are besides the usual ones.
    #[serde(default)]
    pub pods: BTreeMap<String, OwnPod>,
    /// Services by name: `spec`, and `balancer` for the addresses a load balancer delivers.
    #[serde(default)]
    pub services: BTreeMap<String, Written>,
    /// Slices somebody wrote by hand: the pods that stand behind a Service.
    #[serde(default)]
    pub slices: BTreeMap<String, Vec<String>>,
    /// Conversations that go on from the beginning to the end.
    #[serde(default)]
    pub held: Vec<Line>,
    /// Who sends one request after another from the beginning to the end.
    #[serde(default)]
    pub load: Vec<Line>,
    /// What is true at first.
    #[serde(default)]
    pub asks: Vec<Ask>,
    /// What happens then, one after another.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One step: what is done, and what is true after it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Step {
    /// Pods that are started, and are ready before anything is asked.
    pub start: BTreeMap<String, OwnPod>,
    /// Pods that are told to end, and serve on.
    pub end: Vec<String>,
    /// Pods that are gone at once.
    pub kill: Vec<String>,
    /// Services that are made or changed.
    pub services: BTreeMap<String, Written>,
    /// Services that are taken away.
    pub unmake: Vec<String>,
    /// What is true then.
    pub asks: Vec<Ask>,
    /// Who answers what is held then.
    pub held: Option<Answered>,
}

/// A pod of a scenario's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnPod {
    /// On which node, counted from 1.
    pub node: usize,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it calls itself ready.
    #[serde(default = "yes")]
    pub ready: bool,
    /// Whether it lives in its node's own network.
    #[serde(default)]
    pub on_host: bool,
}

fn yes() -> bool {
    true
}

/// A Service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// As for a cluster; addresses of families a cluster does not speak are left out.
    pub spec: Value,
    /// The addresses in its status.
    #[serde(default)]
    pub balancer: Vec<IpAddr>,
}

/// Who asks whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// See [`Ask::from`].
    pub from: Vec<String>,
    /// See [`Ask::to`].
    pub to: To,
    /// See [`Ask::service`].
    pub service: Option<String>,
    /// See [`Ask::protocol`].
    pub protocol: Option<Protocol>,
    /// See [`Ask::port`].
    pub port: Option<u16>,
}

/// A question, and its answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// `pod-1`, `host-2`, `outside`, a backend's name, or `pods` and `hosts` for one on each node.
    pub from: Vec<String>,
    /// Where.
    pub to: To,
    /// Which Service; the only one of the scenario if none is named.
    pub service: Option<String>,
    /// By which protocol; by all of the Service's if none is named.
    pub protocol: Option<Protocol>,
    /// At which port of that address; at all of the Service's if none is named.
    pub port: Option<u16>,
    /// Who answers.
    pub answer: Answered,
    /// Whom the answering side sees.
    pub seen: Option<Seen>,
    /// Whether all answers a client gets are of one backend.
    #[serde(default)]
    pub sticky: bool,
}

/// An address of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum To {
    /// By its name.
    Named(Named),
    /// A node's own address, by the node's name `node-1`.
    Node(String),
    /// These.
    Addresses(Vec<IpAddr>),
}

/// What a Service is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Named {
    /// Its own addresses.
    Cluster,
    /// Its external addresses.
    External,
    /// The addresses a load balancer delivers.
    Balancer,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Answered {
    /// Nobody.
    Not(Not),
    /// Each of these, and nobody else.
    By(Vec<String>),
}

/// How nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Not {
    /// The client is told so at once.
    Refused,
    /// The client is told nothing.
    Silent,
    /// A conversation goes on as it did.
    Unbroken,
}

/// Whom the answering side sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// The client's own address; of a host that on the underlay.
    Itself,
    /// The underlay address of the client's node.
    Node,
    /// The management address of the client's node.
    Management,
    /// The join address of the node that was reached; inside, of the client's own.
    Join,
    /// The underlay address of the node that was reached.
    Reached,
    /// What a pod sees that reached itself.
    Hairpin,
}

/// A scenario nobody can read.
#[derive(Debug, thiserror::Error)]
#[error("reading scenarios from {file}: {why}")]
pub struct ScenarioError {
    /// Which file.
    pub file: &'static str,
    /// What is wrong.
    pub why: String,
}

/// All scenarios there are.
pub fn scenarios() -> Result<Vec<Scenario>, ScenarioError> {
    let mut all = Vec::new();
    for (file, text) in FILES {
        let written: Vec<Scenario> =
            serde_saphyr::from_str(text).map_err(|error| ScenarioError { file, why: error.to_string() })?;
        all.extend(written);
    }
    Ok(all)
}

impl Scenario {
    /// Everything it asks, in order.
    pub fn all_asks(&self) -> impl Iterator<Item = &Ask> {
        self.asks.iter().chain(self.steps.iter().flat_map(|step| &step.asks))
    }
}
