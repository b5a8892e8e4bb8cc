//! Scenarios as they are written, and what they come to in a cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::cell::{Cell, PORTS, PodId};
use super::expect::{self, Expectation, NotAnExpectation};

const FILES: [(&str, &str); 6] = [
    ("ingress.yaml", include_str!("scenarios/ingress.yaml")),
    ("selectors.yaml", include_str!("scenarios/selectors.yaml")),
    ("ports.yaml", include_str!("scenarios/ports.yaml")),
    ("egress.yaml", include_str!("scenarios/egress.yaml")),
    ("blocks.yaml", include_str!("scenarios/blocks.yaml")),
    ("changes.yaml", include_str!("scenarios/changes.yaml")),
];

/// Labels by what has them.
type Labels = BTreeMap<String, BTreeMap<String, String>>;

/// A story about policies.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows.
    pub title: String,
    /// What happens, one after another.
    pub steps: Vec<Step>,
}

/// One step: all policies and further labels there are, and the table they make.
#[derive(Clone, Debug)]
pub struct Step {
    policies: Vec<Value>,
    /// Further labels of pods, by `x/a`.
    pub pods: Labels,
    /// Further labels of namespaces, by `x`.
    pub namespaces: Labels,
    expectations: Vec<Expectation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    title: String,
    #[serde(default)]
    steps: Vec<WrittenStep>,
    // A scenario of one step may say it at once.
    policies: Option<Vec<Value>>,
    #[serde(default)]
    pods: Labels,
    #[serde(default)]
    namespaces: Labels,
    #[serde(default)]
    expect: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    policies: Vec<Value>,
    #[serde(default)]
    pods: Labels,
    #[serde(default)]
    namespaces: Labels,
    #[serde(default)]
    expect: Vec<String>,
}

/// A scenario nobody can read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not YAML of the right shape.
    #[error("reading scenarios from {file}: {why}")]
    Yaml {
        /// Which file.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
    /// An expectation.
    #[error("scenario {title:?}")]
    Expectation {
        /// Of which scenario.
        title: String,
        /// What is wrong.
        #[source]
        source: NotAnExpectation,
    },
    /// A policy.
    #[error("scenario {title:?}: a policy: {why}")]
    Policy {
        /// Of which scenario.
        title: String,
        /// What is wrong.
        why: String,
    },
}

/// All scenarios there are.
pub fn scenarios() -> Result<Vec<Scenario>, ScenarioError> {
    let mut all = Vec::new();
    for (file, text) in FILES {
        let written: Vec<Written> = serde_saphyr::from_str(text)
            .map_err(|error| ScenarioError::Yaml { file, why: error.to_string() })?;
        for one in written {
            all.push(read(one)?);
        }
    }
    Ok(all)
}

fn read(written: Written) -> Result<Scenario, ScenarioError> {
    let Written { title, mut steps, policies, pods, namespaces, expect } = written;
    if let Some(policies) = policies {
        steps.push(WrittenStep { policies, pods, namespaces, expect });
    }
    let steps = steps.into_iter().map(|step| {
        let expectations = step.expect.iter().map(|line| line.parse()).collect::<Result<_, _>>();
        Ok(Step {
            policies: step.policies,
            pods: step.pods,
            namespaces: step.namespaces,
            expectations: expectations
                .map_err(|source| ScenarioError::Expectation { title: title.clone(), source })?,
        })
    });
    Ok(Scenario { steps: steps.collect::<Result<_, _>>()?, title })
}

/// The cluster a scenario happens in: how its namespaces are called, and which addresses its pods have.
#[derive(Clone, Debug)]
pub struct World {
    /// What is put before x, y and z.
    pub prefix: String,
    /// The addresses of each pod, at most one of each family.
    pub addresses: BTreeMap<PodId, Vec<IpAddr>>,
    /// What all of them are in, for each family.
    pub ranges: Vec<IpNet>,
}

impl World {
    /// How a namespace is called in the cluster.
    pub fn namespace(&self, short: char) -> String {
        format!("{}{short}", self.prefix)
    }

    /// The labels of a namespace: its own and what a step adds.
    pub fn namespace_labels(&self, short: char, step: &Step) -> BTreeMap<String, String> {
        let mut labels = step.namespaces.get(&short.to_string()).cloned().unwrap_or_default();
        labels.insert("ns".to_owned(), short.to_string());
        labels.insert("kubernetes.io/metadata.name".to_owned(), self.namespace(short));
        labels
    }

    /// The labels of a pod: its own and what a step adds.
    pub fn pod_labels(&self, pod: PodId, step: &Step) -> BTreeMap<String, String> {
        let mut labels = step.pods.get(&pod.to_string()).cloned().unwrap_or_default();
        labels.insert("pod".to_owned(), pod.name.to_string());
        labels
    }
}

/// A policy in the words of a cluster.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// As it is sent to the API.
    pub manifest: Value,
    /// As it is read back.
    pub policy: NetworkPolicy,
}

impl Step {
    /// Whether a cell is to be open, as the scenario says.
    pub fn open(&self, cell: &Cell) -> bool {
        expect::open(&self.expectations, cell)
    }

    /// Its policies in the words of a cluster.
    pub fn policies(&self, title: &str, world: &World) -> Result<Vec<Expanded>, ScenarioError> {
        let wrong = |why: String| ScenarioError::Policy { title: title.to_owned(), why };
        let mut all = Vec::new();
        for written in &self.policies {
            let mut manifest = written.clone();
            let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or_default();
            let short = namespace.chars().next().ok_or_else(|| wrong("it names no namespace".to_owned()))?;
            manifest["metadata"]["namespace"] = world.namespace(short).into();
            manifest["apiVersion"] = "networking.k8s.io/v1".into();
            manifest["kind"] = "NetworkPolicy".into();
            expand(&mut manifest, world).map_err(wrong)?;
            let policy =
                serde_json::from_value(manifest.clone()).map_err(|error| wrong(error.to_string()))?;
            all.push(Expanded { manifest, policy });
        }
        Ok(all)
    }
}

/// Puts addresses and names of the cluster in the place of what stands for them.
fn expand(value: &mut Value, world: &World) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if let Some(short) = text.strip_prefix('$') {
                let short = short.chars().next().ok_or("$ without a namespace")?;
                *text = world.namespace(short);
            }
        }
        Value::Array(items) => {
            let mut all = Vec::new();
            for mut item in std::mem::take(items) {
                match item.as_object_mut().filter(|peer| peer.contains_key("ipBlockOf")) {
                    Some(peer) => all.extend(blocks(peer, world)?),
                    None => {
                        expand(&mut item, world)?;
                        all.push(item);
                    }
                }
            }
            *items = all;
        }
        Value::Object(fields) => {
            for field in fields.values_mut() {
                expand(field, world)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// One block for each family.
fn blocks(peer: &Map<String, Value>, world: &World) -> Result<Vec<Value>, String> {
    let pod = |name: &Value| -> Result<Vec<IpNet>, String> {
        let id = name.as_str().and_then(PodId::read).ok_or_else(|| format!("{name} is none of the pods"))?;
        let addresses = world.addresses.get(&id).ok_or_else(|| format!("{id} has no addresses"))?;
        Ok(addresses.iter().copied().map(IpNet::from).collect())
    };
    let of = &peer["ipBlockOf"];
    let nets = if of == "*" { world.ranges.clone() } else { pod(of)? };
    let mut except = Vec::new();
    for name in peer.get("except").and_then(Value::as_array).into_iter().flatten() {
        except.extend(pod(name)?);
    }
    let block = |net: &IpNet| {
        let except: Vec<String> =
            except.iter().filter(|e| net.contains(*e)).map(ToString::to_string).collect();
        if except.is_empty() {
            json!({"ipBlock": {"cidr": net.to_string()}})
        } else {
            json!({"ipBlock": {"cidr": net.to_string(), "except": except}})
        }
    };
    Ok(nets.iter().map(block).collect())
}

/// One of the nine pods, on a node.
pub fn pod_manifest(pod: PodId, world: &World, node: &str) -> Value {
    let ports: Vec<Value> = PORTS
        .iter()
        .flat_map(|port| {
            ["TCP", "UDP"].map(|protocol| {
                let name = format!("serve-{port}-{}", protocol.to_lowercase());
                json!({"name": name, "containerPort": port, "protocol": protocol})
            })
        })
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name.to_string(),
            "namespace": world.namespace(pod.namespace),
            "labels": {"pod": pod.name.to_string()},
        },
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "pod",
                "image": "netferry.dev/lab-pod",
                "ports": ports,
                "env": [{"name": "POD_NAME", "value": pod.to_string()}],
            }],
        },
    })
}
