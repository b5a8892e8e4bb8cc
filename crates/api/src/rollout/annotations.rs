//! How the controller and a node tell each other what to do and what is done
//! (`machineconfiguration.openshift.io/…`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

use crate::annotation::{
    Annotation, AnnotationError, Wired, any_text, any_value, json_annotation, names, nonempty,
    text_annotation,
};

text_annotation! {
    /// `machineconfiguration.openshift.io/currentConfig`: the rendered MachineConfig the node runs.
    CurrentConfig(String), "machineconfiguration.openshift.io/currentConfig", nonempty
}
text_annotation! {
    /// `machineconfiguration.openshift.io/desiredConfig`: the rendered MachineConfig the node is to run.
    DesiredConfig(String), "machineconfiguration.openshift.io/desiredConfig", nonempty
}
text_annotation! {
    /// `machineconfiguration.openshift.io/currentImage`: the operating system image the node runs.
    CurrentImage(String), "machineconfiguration.openshift.io/currentImage", nonempty
}
text_annotation! {
    /// `machineconfiguration.openshift.io/desiredImage`: the operating system image the node is to run.
    DesiredImage(String), "machineconfiguration.openshift.io/desiredImage", nonempty
}
text_annotation! {
    /// `machineconfiguration.openshift.io/controlPlaneTopology`, such as `HighlyAvailable`,
    /// `SingleReplica` or `External`.
    ControlPlaneTopology(String), "machineconfiguration.openshift.io/controlPlaneTopology", nonempty
}
text_annotation! {
    /// `machineconfiguration.openshift.io/post-config-action`: `Rebooting` before a restart, empty after it.
    PostConfigAction(String), "machineconfiguration.openshift.io/post-config-action", any_text
}
text_annotation! {
    /// `machineconfiguration.openshift.io/ssh`: `accessed` once somebody logged in by hand.
    Ssh(String), "machineconfiguration.openshift.io/ssh", nonempty
}
text_annotation! {
    /// `machineconfiguration.openshift.io/generated-by-controller-version`, on a rendered MachineConfig.
    GeneratedByControllerVersion(String), "machineconfiguration.openshift.io/generated-by-controller-version", nonempty
}
any_value!(PostConfigAction(String));

impl PostConfigAction {
    /// Said before a restart.
    pub const REBOOTING: &'static str = "Rebooting";
}

impl Ssh {
    /// The only value that is written.
    pub const ACCESSED: &'static str = "accessed";
}

impl ControlPlaneTopology {
    /// A cluster of one node, which is not drained before it restarts.
    pub const SINGLE_REPLICA: &'static str = "SingleReplica";
    /// A cluster that survives the loss of one control plane node.
    pub const HIGHLY_AVAILABLE: &'static str = "HighlyAvailable";
    /// A cluster whose control plane runs elsewhere.
    pub const EXTERNAL: &'static str = "External";
}

names! {
    /// `machineconfiguration.openshift.io/state`: what the node is doing.
    NodeState {
        /// It runs what it should.
        Done = "Done",
        /// It is on its way.
        Working = "Working",
        /// It failed and tries again.
        Degraded = "Degraded",
        /// It cannot get there without being installed anew.
        Unreconcilable = "Unreconcilable",
        /// It is restarting.
        Rebooting = "Rebooting",
    }
}

impl Annotation for NodeState {
    const KEY: &'static str = "machineconfiguration.openshift.io/state";

    fn parse(value: &str) -> Result<Self, AnnotationError> {
        NodeState::named(value).ok_or_else(|| AnnotationError::Value {
            key: Self::KEY,
            problem: format!("{value:?} is not Done, Working, Degraded, Unreconcilable or Rebooting"),
        })
    }
}

/// `machineconfiguration.openshift.io/reason`: why a node failed; empty when it did not.
///
/// Invariant: at most [`Reason::LIMIT`] bytes. An error may quote a whole configuration, and an
/// object whose annotations grow too large cannot be written at all, not even to say what is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reason(String);

impl Reason {
    /// Most bytes that are kept.
    pub const LIMIT: usize = 2000;

    /// The text, cut off at the limit without splitting a character.
    pub fn new(text: &str) -> Reason {
        Reason(text[..text.floor_char_boundary(Self::LIMIT)].to_owned())
    }

    /// The text.
    pub fn get(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Annotation for Reason {
    const KEY: &'static str = "machineconfiguration.openshift.io/reason";

    fn parse(value: &str) -> Result<Self, AnnotationError> {
        Ok(Reason::new(value))
    }
}

/// What a node asks the drain controller for, and for which configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drain {
    /// Move the pods away: the node is about to take this configuration.
    Drain(String),
    /// Let pods come back: the node runs this configuration.
    Uncordon(String),
}

impl Drain {
    fn understand(key: &'static str, value: &str) -> Result<Drain, AnnotationError> {
        let refuse = |problem| Err(AnnotationError::Value { key, problem });
        match value.split_once('-') {
            Some(("drain" | "uncordon", "")) => refuse(format!("{value:?} names no configuration")),
            Some(("drain", config)) => Ok(Drain::Drain(config.to_owned())),
            Some(("uncordon", config)) => Ok(Drain::Uncordon(config.to_owned())),
            _ => refuse(format!("{value:?} is neither drain-<configuration> nor uncordon-<configuration>")),
        }
    }

    /// The configuration it is about.
    pub fn config(&self) -> &str {
        match self {
            Drain::Drain(config) | Drain::Uncordon(config) => config,
        }
    }
}

impl std::fmt::Display for Drain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Drain::Drain(config) => write!(f, "drain-{config}"),
            Drain::Uncordon(config) => write!(f, "uncordon-{config}"),
        }
    }
}

macro_rules! drain_annotation {
    ($(#[$meta:meta])* $name:ident, $key:literal) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name(pub Drain);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Annotation for $name {
            const KEY: &'static str = $key;

            fn parse(value: &str) -> Result<Self, AnnotationError> {
                Drain::understand(Self::KEY, value).map($name)
            }
        }
    };
}

drain_annotation! {
    /// `machineconfiguration.openshift.io/desiredDrain`: what the node asks for.
    DesiredDrain, "machineconfiguration.openshift.io/desiredDrain"
}
drain_annotation! {
    /// `machineconfiguration.openshift.io/lastAppliedDrain`: what the controller has done; equal to
    /// the request once it succeeded.
    LastAppliedDrain, "machineconfiguration.openshift.io/lastAppliedDrain"
}

text_annotation! {
    /// `netferry.dev/cordoned-for`, on a node: we cordoned it, for this configuration, and lift only such a cordon.
    CordonedFor(String), "netferry.dev/cordoned-for", nonempty
}

impl CordonedFor {
    /// For this configuration; `None` if it has no name.
    pub fn new(config: &str) -> Option<CordonedFor> {
        nonempty(config).ok().map(CordonedFor)
    }
}

/// `netferry.dev/taken`, on a pool: the nodes that were taken and are not known to be back.
///
/// Written before a node is told anything and only over the version that was read, so that two operators cannot take
/// one node too many. The identity of a node's object is part of it: a node that was removed and came back was not taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken(pub BTreeMap<String, String>);

impl Wired for Taken {
    type Wire = BTreeMap<String, String>;

    fn from_wire(wire: Self::Wire) -> Result<Self, String> {
        match wire.iter().find(|(name, uid)| name.is_empty() || uid.is_empty()) {
            Some((name, uid)) => Err(format!("node {name:?} with identity {uid:?} is none")),
            None => Ok(Taken(wire)),
        }
    }

    fn to_wire(&self) -> Self::Wire {
        self.0.clone()
    }
}

json_annotation!(Taken, "netferry.dev/taken");

/// Label of a MachineConfig: the class of nodes it is for.
pub const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";

/// Key of the taint on nodes that wait for their turn, so that evicted pods prefer nodes that had theirs.
pub const UPDATE_IN_PROGRESS_TAINT: &str = "UpdateInProgress";

/// The taint on nodes that wait for their turn.
pub fn update_in_progress() -> Taint {
    Taint {
        key: UPDATE_IN_PROGRESS_TAINT.to_owned(),
        effect: "PreferNoSchedule".to_owned(),
        ..Taint::default()
    }
}
