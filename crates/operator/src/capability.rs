//! What a capability brings to the operator: data and functions, listed in `lib.rs`.

use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork};
use netferry_core::rollout::choose::Hold;
use netferry_core::rollout::config::MachineConfig;
use netferry_translate::served::Served;

use crate::cluster::Changes;
use crate::lead::Leadership;
use crate::report::{ConditionUpdate, EventNote};
use crate::rollout::ClusterSnapshot;
use crate::round::RoundError;
use crate::writer::Writer;

/// One capability.
pub(crate) struct Capability {
    /// The name of its folders.
    pub(crate) name: &'static str,
    /// A loop of its own, for as long as this process leads.
    pub(crate) run: Option<Run>,
    /// What it adds to every pass of the rollout.
    pub(crate) contribute: Option<Contribute>,
    /// Annotations of nodes that its contribution depends on: a change of one is a reason for a pass.
    pub(crate) node_annotations: &'static [&'static str],
}

/// See [`Capability::run`].
pub(crate) type Run = Box<dyn Fn(Context, Changes) -> BoxFuture<'static, ()> + Send + Sync>;

/// See [`Capability::contribute`].
pub(crate) type Contribute =
    Arc<dyn for<'a> Fn(Pass<'a>) -> BoxFuture<'a, Result<Contribution, RoundError>> + Send + Sync>;

/// What a capability works with while this process leads.
#[derive(Clone)]
pub(crate) struct Context {
    /// For reading.
    pub(crate) client: Client,
    /// For writing.
    pub(crate) writer: Writer,
    /// The right to act.
    pub(crate) leadership: Leadership,
    /// The operator's namespace, where records are kept.
    pub(crate) namespace: String,
}

/// One pass of the rollout. All capabilities see the same snapshot, and nodes are chosen from it too.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    /// What to work with.
    pub(crate) context: &'a Context,
    /// The operator's `Network`, as it runs.
    pub(crate) network: &'a OperatorNetwork,
    /// The cluster's `Network`.
    pub(crate) config: Option<&'a ConfigNetwork>,
    /// Whose the network is.
    pub(crate) served: Served,
    /// Nodes, pools and MachineConfigs. The nodes were read before anything else.
    pub(crate) snapshot: &'a ClusterSnapshot,
}

/// What a capability adds to a pass.
#[derive(Default)]
pub(crate) struct Contribution {
    /// Its MachineConfigs, all of them; `None` if they are unknown, which leaves those that are there.
    pub(crate) configs: Option<Vec<MachineConfig>>,
    /// Why no further node may be taken, if none may.
    pub(crate) hold: Option<Hold>,
    /// Conditions for the operator's `Network`.
    pub(crate) conditions: Vec<ConditionUpdate>,
    /// What happened in this pass.
    pub(crate) events: Vec<EventNote>,
    /// What is wrong. Each gets one Event for as long as it lasts.
    pub(crate) problems: Vec<EventNote>,
    /// Something was written that the next decision depends on: the pass ends here and is made again soon.
    pub(crate) wrote: bool,
    /// Nothing can be decided: nothing is rendered and no node is taken.
    pub(crate) stops: bool,
}
