//! What is said over the control socket: one request per connection, one JSON value per line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::enter::Way;
use crate::error::{LabError, Result};
use crate::options::{Name, NewNode, Role};

/// Something asked of a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// How things are.
    Status,
    /// Answers when nothing is waited for any more; says meanwhile what is.
    Ready {
        /// For how long.
        seconds: u64,
    },
    /// Makes a node and boots it.
    AddNode(NewNode),
    /// Ends a node, forgets its disk and its Node object.
    RemoveNode {
        /// Which.
        node: String,
    },
    /// Ends a node and boots it again from its disk.
    Reboot {
        /// Which.
        node: String,
        /// With a goodbye.
        orderly: bool,
        /// Boot it again; else it stays off until the next reboot.
        again: bool,
    },
    /// Lets something go wrong.
    Harm(Fault),
    /// Undoes what [`Request::Harm`] did: of one kind and place, or all of it.
    Heal {
        /// What; everything if none.
        fault: Option<Fault>,
    },
    /// How to get into something.
    Way {
        /// A node, a pod (`namespace/name`, or its name alone), `outside`, `router`, `fabric`, `control`.
        target: String,
    },
}

/// Something that goes wrong on the fabric on request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fault")]
pub enum Fault {
    /// The cable is pulled.
    Cut {
        /// Whose.
        end: String,
        /// Of which underlay network.
        network: u8,
    },
    /// Two ends do not hear each other.
    Part {
        /// One.
        a: String,
        /// The other.
        b: String,
        /// On which underlay network.
        network: u8,
    },
    /// Some packets are lost.
    Lose {
        /// Of and to whom.
        end: String,
        /// Only those from and to this one.
        peer: Option<String>,
        /// On which underlay network.
        network: u8,
        /// How many of a million.
        of_a_million: u32,
    },
}

impl Fault {
    /// Whether both are of one kind and place, however bad.
    pub fn is_where(&self, other: &Fault) -> bool {
        match (self, other) {
            (Fault::Lose { end, peer, network, .. }, Fault::Lose { end: e, peer: p, network: n, .. }) => {
                let turned = peer.as_ref() == Some(e) && p.as_ref() == Some(end);
                network == n && ((end, peer) == (e, p) || turned)
            }
            (Fault::Part { a, b, network }, Fault::Part { a: c, b: d, network: n }) => {
                network == n && ((a, b) == (c, d) || (a, b) == (d, c))
            }
            (Fault::Cut { .. }, Fault::Cut { .. }) => self == other,
            (Fault::Cut { .. } | Fault::Part { .. } | Fault::Lose { .. }, _) => false,
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Cut { end, network } => write!(f, "{end} is cut off network {network}"),
            Fault::Part { a, b, network } => {
                write!(f, "{a} and {b} do not hear each other on network {network}")
            }
            Fault::Lose { end, peer, network, of_a_million } => {
                let share = f64::from(*of_a_million) / 10_000.0;
                match peer {
                    Some(peer) => {
                        write!(f, "{share} % lost between {end} and {peer} on network {network}")
                    }
                    None => write!(f, "{share} % lost of and to {end} on network {network}"),
                }
            }
        }
    }
}

/// A line of an answer. The last one is not `Progress`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// What is being waited for.
    Progress(Vec<Waiting>),
    /// It is done; what came of it.
    Done(Value),
    /// See [`LabError::Refused`].
    Refused(String),
    /// See [`LabError::Failed`].
    Failed(String),
    /// See [`LabError::TimedOut`].
    TimedOut {
        /// What did not come.
        waiting_for: String,
        /// Within how long.
        seconds: u64,
    },
}

impl Reply {
    /// The last line of an answer.
    pub(crate) fn of<T: Serialize>(result: Result<T>) -> Reply {
        match result.map(|value| serde_json::to_value(value)) {
            Ok(Ok(value)) => Reply::Done(value),
            Ok(Err(error)) => Reply::Failed(format!("writing the answer: {error}")),
            Err(LabError::Refused(why)) => Reply::Refused(why),
            Err(LabError::TimedOut { waiting_for, within }) => {
                Reply::TimedOut { waiting_for, seconds: within.as_secs() }
            }
            Err(error @ LabError::Failed { .. }) => Reply::Failed(error.chain()),
        }
    }

    /// What the last line says, or what is being waited for.
    pub(crate) fn read(self) -> std::result::Result<Result<Value>, Vec<Waiting>> {
        match self {
            Reply::Progress(waiting) => Err(waiting),
            Reply::Done(value) => Ok(Ok(value)),
            Reply::Refused(why) => Ok(Err(LabError::Refused(why))),
            Reply::Failed(chain) => Ok(Err(match chain.split_once(": ") {
                Some((attempt, why)) => LabError::failed(attempt, why),
                None => LabError::failed("the lab", chain),
            })),
            Reply::TimedOut { waiting_for, seconds } => {
                Ok(Err(LabError::TimedOut { waiting_for, within: Duration::from_secs(seconds) }))
            }
        }
    }
}

/// Something that is being waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// For what.
    #[serde(rename = "for")]
    pub what: String,
    /// Since how many seconds.
    pub seconds: f64,
    /// What was last heard of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
}

/// How a lab is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its name.
    pub name: Name,
    /// Nothing is being waited for.
    pub ready: bool,
    /// Since it was started, in seconds.
    pub seconds: f64,
    /// `embedded` or `kube`.
    pub control_plane: String,
    /// Where the API is reached from the caller's network.
    pub server: Option<String>,
    /// An administrator's kubeconfig for there.
    pub kubeconfig: PathBuf,
    /// Where the files of the lab are.
    pub directory: PathBuf,
    /// The programs of the control plane.
    pub programs: BTreeMap<String, ProgramStatus>,
    /// The nodes, in order of their numbers.
    pub nodes: Vec<NodeStatus>,
    /// What goes wrong on request.
    pub faults: Vec<Fault>,
    /// What is being waited for.
    pub waiting: Vec<Waiting>,
}

/// How a program is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// It runs.
    pub running: bool,
    /// How often it was started.
    pub starts: u32,
    /// How it ended the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_end: Option<String>,
}

/// How a node is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: Name,
    /// Its number; its addresses follow from it.
    pub number: u16,
    /// See [`Role`].
    pub role: Role,
    /// The pool it is in.
    pub pool: String,
    /// Its addresses, of the first underlay network.
    pub addresses: Vec<IpNet>,
    /// How far it is.
    pub stage: Stage,
    /// Since it is there, in seconds.
    pub seconds: f64,
    /// How often it was booted.
    pub boots: u32,
    /// Pods on it that run.
    pub pods: usize,
    /// What keeps it from the next stage, as far as it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Somebody on it asks for a restart, and the lab waits to be told; see [`crate::Restarts`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_restart: bool,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It does not run.
    Off,
    /// Its processes start.
    Booting,
    /// Its network service brings up its interfaces.
    Interfaces,
    /// Its switch starts.
    Switch,
    /// `netferry host-init` runs.
    HostInit,
    /// It has not registered with the API yet.
    Registering,
    /// The API knows it; its pod network is not there yet.
    NotReady,
    /// Pods can start.
    Ready,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stage::Off => "off",
            Stage::Booting => "booting",
            Stage::Interfaces => "interfaces",
            Stage::Switch => "switch",
            Stage::HostInit => "host-init",
            Stage::Registering => "registering",
            Stage::NotReady => "not ready",
            Stage::Ready => "ready",
        })
    }
}

/// The answer to [`Request::Way`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WayThere {
    /// From the lab's own process on.
    pub way: Way,
}
