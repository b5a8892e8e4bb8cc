//! `netferry mtu pause`, `resume` and `cancel`

use anyhow::anyhow;
use clap::Args;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuPaused;
use netferry_api::overlay::{OperatorNetwork, SINGLETON};
use netferry_core::mtu::plan::undo;
use netferry_translate::mtu::printed_edit;
use serde_json::{Value, json};

use super::seen::{Seen, answer, record};
use crate::exit::Failure;
use crate::output;

/// Take no further node and begin no phase until `netferry mtu resume`
///
/// Nodes that were told already go on; whatever is paused stays safe for as long as it takes. Without a change under way
/// nothing is held but the next one that begins.
#[derive(Debug, Args)]
pub(super) struct PauseArgs {}

/// Go on after `netferry mtu pause`
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {}

/// Take a change back, from wherever it is
///
/// In phase one every node goes back to the old MTU, in phase two the opposite change is made. Nothing is lost on the way.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 3 if no change is under way.

Examples:
  netferry mtu cancel && netferry mtu watch")]
pub(super) struct CancelArgs {}

/// How often a decision is made again because somebody wrote to the `Network` meanwhile; the operator does, too.
pub(super) const TRIES: usize = 10;

/// Edits the operator's `Network`; whether nobody was quicker, where the edit is for one version of it.
pub(super) async fn edit(client: &Client, patch: &Value) -> Result<bool, Failure> {
    let api = Api::<OperatorNetwork>::all(client.clone());
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let edited = async {
        match api.patch(SINGLETON, &params, &patch).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    };
    answer("editing Network.operator.openshift.io/cluster", edited).await
}

/// What to say when somebody always was.
pub(super) fn overtaken() -> Failure {
    Failure::Failed(anyhow!("Network.operator.openshift.io/cluster changes all the time; nothing was edited"))
}

pub(super) async fn pause(client: &Client, namespace: &str) -> Result<(), Failure> {
    set_paused(client, true).await?;
    // Said after it is done: whoever pauses is in a hurry, and it holds whatever can be read.
    let idle = record(client, namespace).await.is_ok_and(|record| record.change.is_none());
    output::print(match idle {
        true => {
            "paused, though no change of MTU is under way: one that begins takes no node until netferry mtu resume\n"
        }
        false => "paused: no further node is taken\n",
    })
}

pub(super) async fn resume(client: &Client) -> Result<(), Failure> {
    set_paused(client, false).await?;
    output::print("resumed\n")
}

async fn set_paused(client: &Client, paused: bool) -> Result<(), Failure> {
    let value = paused.then(|| MtuPaused::from(true).to_string());
    edit(client, &json!({ "metadata": { "annotations": { MtuPaused::KEY: value } } })).await.map(drop)
}

pub(super) async fn cancel(client: &Client, namespace: &str) -> Result<(), Failure> {
    for _ in 0..TRIES {
        let seen = Seen::read(client, namespace).await?;
        let Some(change) = seen.record.change else {
            return Err(Failure::Refused(anyhow!("no change of MTU is under way")));
        };
        let Some(back) = undo(&change) else {
            return output::print("every node is on its way back already\n");
        };
        // For the version this was decided for: in the next phase the way back is another.
        let patch = json!({
            "metadata": { "resourceVersion": seen.network.resource_version() },
            "spec": printed_edit(&back, &seen.network.spec),
        });
        if edit(client, &patch).await? {
            let after = if seen.paused() { " after netferry mtu resume: the change is paused" } else { "" };
            return output::print(&format!("every node goes back to {}{after}\n", change.network.from));
        }
    }
    Err(overtaken())
}
