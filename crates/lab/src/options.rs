//! What a lab is made of.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::addressing::Families;
use crate::error::{LabError, Result};

/// A name for a lab or one of its nodes.
///
/// Invariant: what Kubernetes takes as a node's name and a path takes as one part, short enough for a socket's path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Name, String> {
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let ends = |c: Option<char>| c.is_some_and(|c| c != '-');
        let shaped = text.chars().all(fine) && ends(text.chars().next()) && ends(text.chars().last());
        if shaped && text.len() <= 32 && !Name::RESERVED.contains(&text) {
            return Ok(Name(text.to_owned()));
        }
        Err(format!(
            "{text:?}: expected up to 32 of a-z, 0-9 and - (not at the ends), and none of {}",
            Name::RESERVED.join(", ")
        ))
    }
}

impl Name {
    /// What the parts of a lab that are not nodes are called.
    const RESERVED: [&str; 5] = ["api", "control", "fabric", "outside", "router"];
}

impl TryFrom<String> for Name {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Name, String> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the Kubernetes API comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlPlane {
    /// The small server of this program.
    #[default]
    Embedded,
    /// The real etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
    Kube {
        /// The directory of their executables.
        assets: PathBuf,
    },
}

/// How long a lab lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// Until it is taken down.
    #[default]
    Detached,
    /// Until the process that started it ends, however that happens.
    OfCaller,
}

/// When a node restarts that asks for it from inside, as a machine configuration makes it do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restarts {
    /// At once.
    #[default]
    AtOnce,
    /// When the lab is told to reboot it; until then it runs on, and its status says that it asked. Whoever measures
    /// paths can so make room for it first.
    WhenTold,
}

/// Which of our own programs run in the lab. A lab of bare nodes is a place to work on one of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// The operator, in the control plane.
    pub operator: bool,
    /// `netferry host-init` at each node's boot.
    pub host_init: bool,
    /// The agent, on each node.
    pub agent: bool,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts::ALL
    }
}

impl Parts {
    /// A whole lab.
    pub const ALL: Parts = Parts { operator: true, host_init: true, agent: true };
    /// Machines, a switch on each, and an API.
    pub const NONE: Parts = Parts { operator: false, host_init: false, agent: false };
}

/// What a lab is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Its name; labs of different names know nothing of each other.
    pub name: Name,
    /// Where labs keep their state, each in a directory of its name.
    pub root: PathBuf,
    /// The `netferry` executable.
    pub program: PathBuf,
    /// The `netferry-cni` executable.
    pub cni: PathBuf,
    /// How many nodes there are at first; the first is a control plane node, the others are workers.
    pub nodes: u16,
    /// The network is for one machine: nothing is wrapped, and nobody touches its uplink.
    #[serde(default)]
    pub single_node: bool,
    /// Which families it speaks.
    pub families: Families,
    /// Further underlay networks, with an interface on each node.
    pub networks: u8,
    /// The largest packet of the underlay.
    pub mtu: u32,
    /// What nodes' interfaces begin with, where it is less than the underlay carries.
    pub host_mtu: Option<u32>,
    /// Where the Kubernetes API comes from.
    pub control_plane: ControlPlane,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Which of our programs run.
    pub parts: Parts,
    /// When a node restarts that asks for it.
    pub restarts: Restarts,
}

impl Options {
    /// More nodes than anybody has tried.
    pub const MOST_NODES: u16 = 1000;
    /// As many as there are ranges for.
    pub const MOST_NETWORKS: u8 = 9;
    /// What the overlay's headers and Kubernetes' operators leave for pods.
    pub const OVERHEAD: u32 = 100;
    /// Where labs are by default.
    pub const ROOT: &str = "/run/netferry-lab";

    /// A lab of three nodes, of the executables at these paths.
    pub fn new(name: Name, program: PathBuf, cni: PathBuf) -> Options {
        Options {
            name,
            root: Options::ROOT.into(),
            program,
            cni,
            nodes: 3,
            single_node: false,
            families: Families::V4,
            networks: 0,
            mtu: 1500,
            host_mtu: None,
            control_plane: ControlPlane::Embedded,
            lifetime: Lifetime::Detached,
            parts: Parts::ALL,
            restarts: Restarts::AtOnce,
        }
    }

    /// Refuses what cannot work, before anything is made.
    pub fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(LabError::Refused(why));
        if self.nodes > Options::MOST_NODES {
            return refuse(format!("{} nodes: at most {}", self.nodes, Options::MOST_NODES));
        }
        if self.single_node && self.nodes > 1 {
            return refuse(format!("{} nodes: a network for one machine has a place for one", self.nodes));
        }
        if self.networks > Options::MOST_NETWORKS {
            return refuse(format!("{} further networks: at most {}", self.networks, Options::MOST_NETWORKS));
        }
        // IPv6 needs 1280 for pods, and their packets are carried in others.
        let least = match self.families {
            Families::V4 => 576 + self.overhead(),
            Families::V6 | Families::Dual => 1280 + self.overhead(),
        };
        if self.mtu < least || self.mtu > 65_000 {
            return refuse(format!("an underlay MTU of {}: expected {least} to 65000", self.mtu));
        }
        if let Some(host) = self.host_mtu
            && !(least..=self.mtu).contains(&host)
        {
            return refuse(format!(
                "a host MTU of {host}: expected {least} to {}, which the underlay carries",
                self.mtu
            ));
        }
        if !self.program.is_file() {
            return refuse(format!("{}: no such program", self.program.display()));
        }
        if self.parts.agent && !self.cni.is_file() {
            return refuse(format!(
                "{}: not there; pods need netferry-cni beside netferry: cargo build -p netferry-cni",
                self.cni.display()
            ));
        }
        Ok(())
    }

    /// The largest packet of nodes, at first.
    pub fn host_mtu(&self) -> u32 {
        self.host_mtu.unwrap_or(self.mtu)
    }

    /// The largest packet of pods, at first.
    pub fn pod_mtu(&self) -> u32 {
        self.host_mtu() - self.overhead()
    }

    /// Whether agent and operator are one process, on the one node there is.
    pub fn solo(&self) -> bool {
        self.single_node && self.parts.operator && self.parts.agent
    }

    fn overhead(&self) -> u32 {
        if self.single_node { 0 } else { Options::OVERHEAD }
    }
}

/// What a node is to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// One of those the cluster is run from. It takes pods, as in a cluster of few machines.
    ControlPlane,
    /// Where pods run.
    #[default]
    Worker,
}

impl Role {
    /// The label that says so.
    pub fn label(self) -> &'static str {
        match self {
            Role::ControlPlane => "node-role.kubernetes.io/control-plane",
            Role::Worker => "node-role.kubernetes.io/worker",
        }
    }

    /// The pool a node of this role is in when nobody says otherwise.
    pub fn pool(self) -> &'static str {
        match self {
            Role::ControlPlane => "master",
            Role::Worker => "worker",
        }
    }
}

/// A node to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewNode {
    /// Its name; `node-N` if none is given.
    pub name: Option<Name>,
    /// See [`Role`].
    pub role: Role,
    /// The pool it is in, if another than its role's.
    pub pool: Option<Name>,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_node_name_or_mean_a_part_of_the_lab_are_refused() {
        for right in ["lab", "node-1", "a", "7"] {
            assert!(right.parse::<Name>().is_ok(), "{right}");
        }
        let long = "x".repeat(33);
        for wrong in ["", "-a", "a-", "A", "a.b", "../up", "a/b", "control", "outside", "fabric", &long] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_lab_that_cannot_work_is_refused_before_it_is_made() {
        let here = std::env::current_exe().expect("this test's program");
        let fine = Options::new("lab".parse().unwrap(), here.clone(), here);
        assert!(fine.check().is_ok());
        let alone = Options { nodes: 1, single_node: true, mtu: 600, ..fine.clone() };
        assert!(alone.check().is_ok(), "nothing is carried in others");
        let wrong: [fn(&mut Options); 9] = [
            |o| o.nodes = 5000,
            |o| (o.nodes, o.single_node) = (2, true),
            |o| o.networks = 10,
            |o| o.mtu = 600,
            |o| (o.mtu, o.families) = (1300, Families::Dual),
            |o| o.mtu = 70_000,
            |o| o.host_mtu = Some(1501),
            |o| o.host_mtu = Some(600),
            |o| o.cni = "/nowhere/netferry-cni".into(),
        ];
        for change in wrong {
            let mut options = fine.clone();
            change(&mut options);
            assert!(matches!(options.check(), Err(LabError::Refused(_))), "{options:?}");
        }
    }
}
