//! The change, as the operator's `Network` asks for it and tells of it.

use anyhow::Context;
use kube::api::{Api, Patch, PatchParams};
use netferry_api::annotation::Annotation as _;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_lab::escort::Escort;
use netferry_lab::meter::Running;
use netferry_lab::paths::in_lab;
use netferry_lab::{During, Lab, LabError, Name};
use serde_json::json;
use tokio::runtime::Runtime;

use super::Sizes;
use super::told::row;
use crate::exit::Failure;
use crate::output;

/// What the operator says where no change is under way.
const IDLE: &str = "Idle";

pub(super) struct Change<'r> {
    runtime: &'r Runtime,
    networks: Api<OperatorNetwork>,
}

impl<'r> Change<'r> {
    pub(super) fn of(runtime: &'r Runtime, lab: &Lab) -> Result<Change<'r>, Failure> {
        let client = runtime.block_on(in_lab::client(&lab.state().kubeconfig()))?;
        Ok(Change { runtime, networks: Api::all(client) })
    }

    /// Asks for a change that finishes by itself.
    pub(super) fn ask(&self, from: Sizes, to: Sizes) -> Result<(), Failure> {
        let patch = json!({
            "metadata": {"annotations": {MtuUnattended::KEY: "true"}},
            "spec": {"migration": {"mtu": {
                "network": {"from": from.pods, "to": to.pods},
                "machine": {"to": to.host},
            }}},
        });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.networks.patch(SINGLETON, &params, &patch);
        self.runtime.block_on(patched).context("asking for the change")?;
        Ok(())
    }

    /// Lets nodes restart as they ask, and tells how it stands, until the change has ended. Each phase is a lap.
    pub(super) fn follow(&self, way: &str, escort: &mut Escort<'_>) -> Result<(), Failure> {
        // The operator has not taken the edit in before it says something else than at rest.
        let mut begun = false;
        for (phase, end) in [("phase one", "PhaseTwo"), ("phase two", IDLE)] {
            escort.lap(format!("{way}, {phase}"))?;
            let holds = || {
                let now = self.phase()?;
                begun |= now != IDLE;
                Ok(begun && (now == end || now == IDLE))
            };
            escort.until(&format!("the end of {phase}"), holds, |escort, node| {
                escort.restart(node)?;
                tell(phase, node, escort.meter())
            })?;
        }
        Ok(())
    }

    /// Where it is, by the operator's word.
    fn phase(&self) -> netferry_lab::Result<String> {
        let network =
            self.runtime.block_on(self.networks.get(SINGLETON)).during("asking where the change is")?;
        let conditions = network.status.map(|status| status.conditions).unwrap_or_default();
        let ours = conditions.into_iter().find(|one| one.type_ == MtuConditionType::InProgress.as_str());
        Ok(ours.and_then(|one| one.reason).unwrap_or_default())
    }
}

fn tell(phase: &str, node: &Name, meter: &Running) -> netferry_lab::Result<()> {
    let report = meter.snapshot().during("asking the meter")?;
    output::print(&row(&report, &format!("{phase}: {node} restarted")))
        .map_err(|error| LabError::failed("telling how it stands", format!("{error:?}")))
}
