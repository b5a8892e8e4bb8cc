//! Whether the network is this operator's to run.

use netferry_api::overlay::{OperatorNetworkSpec, Plugin};

/// Whose the network is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// Ours.
    ByUs,
    /// Ours, but somebody said that we let it be for now.
    NotNow,
    /// The older plugin's, whose pods are not ours to run.
    BySdn,
    /// Somebody else's.
    ByOthers,
}

/// Whose the network is.
pub(crate) fn served(spec: &OperatorNetworkSpec) -> Served {
    let unmanaged =
        spec.management_state.as_deref().is_some_and(|state| state != "Managed" && state != "Force");
    let plugin = spec.default_network.as_ref().and_then(|network| network.plugin.as_deref());
    // Nobody says: the plugin this product is about.
    match plugin.map_or(Some(Plugin::OvnKubernetes), Plugin::named) {
        None => Served::ByOthers,
        Some(_) if unmanaged => Served::NotNow,
        Some(Plugin::OpenShiftSdn) => Served::BySdn,
        Some(Plugin::OvnKubernetes) => Served::ByUs,
    }
}

#[cfg(test)]
mod tests {
    use netferry_api::overlay::DefaultNetwork;

    use super::*;

    #[test]
    fn a_network_that_is_unmanaged_or_somebody_else_s_is_not_ours() {
        let of = |plugin: Option<&str>, state: Option<&str>| {
            let plugin = plugin.map(str::to_owned);
            served(&OperatorNetworkSpec {
                default_network: Some(DefaultNetwork { plugin, ..DefaultNetwork::default() }),
                management_state: state.map(str::to_owned),
                ..OperatorNetworkSpec::default()
            })
        };
        assert_eq!(served(&OperatorNetworkSpec::default()), Served::ByUs);
        for state in [None, Some("Managed"), Some("Force")] {
            assert_eq!(of(None, state), Served::ByUs);
            assert_eq!(of(Some("OVNKubernetes"), state), Served::ByUs);
            assert_eq!(of(Some("OpenShiftSDN"), state), Served::BySdn);
        }
        for state in ["Unmanaged", "Removed"] {
            assert_eq!(of(None, Some(state)), Served::NotNow);
            assert_eq!(of(Some("OpenShiftSDN"), Some(state)), Served::NotNow);
        }
        assert_eq!(of(Some("Calico"), None), Served::ByOthers);
    }
}
