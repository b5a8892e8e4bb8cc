//! Networks whose MTU nobody would change, however it is asked for.

use anyhow::anyhow;
use netferry_api::overlay::OperatorNetwork;
use netferry_translate::served::{Served, served};

use crate::exit::Failure;

const OBJECT: &str = "Network.operator.openshift.io/cluster";

/// Refuses to ask for a change that nobody would make: it would stand there unanswered, or be refused for ever.
pub(super) fn refuse(network: &OperatorNetwork) -> Result<(), Failure> {
    match served(&network.spec) {
        Served::ByUs => Ok(()),
        Served::NotNow => {
            let state = network.spec.management_state.as_deref().unwrap_or_default();
            Err(Failure::Refused(anyhow!(
                "{OBJECT}: spec.managementState is {state}, so the operator lets the network be; set it to Managed first"
            )))
        }
        Served::BySdn => Err(Failure::Refused(anyhow!(
            "{OBJECT}: spec.defaultNetwork.type is OpenShiftSDN, whose pods are not ours to run, so their MTU is not \
             changed; it can be once the cluster has moved to OVNKubernetes"
        ))),
        Served::ByOthers => Err(by_others(network)),
    }
}

/// The network is that of a plugin nothing is known of.
pub(super) fn by_others(network: &OperatorNetwork) -> Failure {
    let named = network.spec.default_network.as_ref().and_then(|network| network.plugin.as_deref());
    let plugin = named.unwrap_or_default();
    Failure::Refused(anyhow!(
        "{OBJECT}: spec.defaultNetwork.type is {plugin}, a plugin that is not ours; change its MTU by its own means"
    ))
}
