//! Changing the MTU of a running cluster: what asks for it, what nodes report.

pub mod annotations;
pub mod conditions;
mod observed;
mod probes;
mod trial;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use observed::{
    CniMtu, FixedMtu, InterfaceMtu, InterfaceRole, MtuObserved, NicRange, RouteMtu, UnfitObservation,
};
pub use probes::{LossyWay, MtuProbes, NarrowWay};
pub use trial::{MtuTrial, TrialObserved};

/// The MTU of the pods and that of the hosts, changed together.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MtuMigration {
    /// The pods' MTU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MtuChange>,
    /// The hosts' MTU; `from` is needed only where hosts differ or have not reported theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MtuChange>,
}

/// From one MTU to another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MtuChange {
    /// What it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// What it shall be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
}
