//! Whose a network is to run, by what its operator's `Network` says.

use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, OperatorNetworkSpec, Plugin};

/// Whose the network is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
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
pub fn served(spec: &OperatorNetworkSpec) -> Served {
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

/// The network as it runs. Where ours is published an edit of the plugin alone ends nothing: nodes run it, and newcomers and a
/// change that is under way need somebody to look after them. Nor do its ranges change before others are published: an edit
/// that took away those of IPv6 would let the sizes of links fall below what IPv6 needs. That neither is followed is said
/// elsewhere.
pub fn as_it_runs(mut network: OperatorNetwork, config: Option<&ConfigNetwork>) -> OperatorNetwork {
    let published = config.and_then(|config| config.status.as_ref()?.network_type.as_deref());
    let ours = Plugin::OvnKubernetes.as_str();
    if published == Some(ours)
        && let Some(asked) = &mut network.spec.default_network
        && asked.plugin.is_some()
    {
        asked.plugin = Some(ours.to_owned());
    }
    let ranges = config.and_then(|config| Some(&config.status.as_ref()?.cluster_network));
    if let Some(ranges) = ranges.filter(|ranges| !ranges.is_empty()) {
        network.spec.cluster_network.clone_from(ranges);
    }
    network
}

#[cfg(test)]
mod tests {
    use netferry_api::overlay::{ClusterNetworkEntry, ConfigNetworkStatus, DefaultNetwork};

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

    #[test]
    fn ranges_that_are_published_stay_until_others_are() {
        let ranges = |cidrs: &[&str]| -> Vec<ClusterNetworkEntry> {
            let entry = |cidr: &&str| ClusterNetworkEntry {
                cidr: Some((*cidr).to_owned()),
                ..ClusterNetworkEntry::default()
            };
            cidrs.iter().map(entry).collect()
        };
        let (both, four) = (["10.0.0.0/14", "fd01::/48"], ["10.0.0.0/14"]);
        let asked = || {
            let spec =
                OperatorNetworkSpec { cluster_network: ranges(&four), ..OperatorNetworkSpec::default() };
            OperatorNetwork::new("cluster", spec)
        };
        let published = |cidrs: &[&str]| {
            let mut config = ConfigNetwork::new("cluster", Default::default());
            let cluster_network = ranges(cidrs);
            config.status = Some(ConfigNetworkStatus { cluster_network, ..ConfigNetworkStatus::default() });
            config
        };
        assert_eq!(as_it_runs(asked(), Some(&published(&both))).spec.cluster_network, ranges(&both));
        for config in [None, Some(published(&[]))] {
            assert_eq!(as_it_runs(asked(), config.as_ref()).spec.cluster_network, ranges(&four));
        }
    }

    #[test]
    fn a_plugin_that_runs_is_not_ended_by_an_edit_of_its_name() {
        let asked = |plugin: Option<&str>| {
            let plugin = plugin.map(str::to_owned);
            let network = DefaultNetwork { plugin, ..DefaultNetwork::default() };
            let spec =
                OperatorNetworkSpec { default_network: Some(network), ..OperatorNetworkSpec::default() };
            OperatorNetwork::new("cluster", spec)
        };
        let published = |plugin: Option<&str>| {
            let mut config = ConfigNetwork::new("cluster", Default::default());
            let network_type = plugin.map(str::to_owned);
            config.status = Some(ConfigNetworkStatus { network_type, ..ConfigNetworkStatus::default() });
            config
        };
        let of = |name, config: Option<&ConfigNetwork>| served(&as_it_runs(asked(name), config).spec);
        for name in [None, Some("OVNKubernetes"), Some("OpenShiftSDN"), Some("Calico")] {
            assert_eq!(of(name, Some(&published(Some("OVNKubernetes")))), Served::ByUs);
        }
        for config in [None, Some(published(None)), Some(published(Some("OpenShiftSDN")))] {
            assert_eq!(of(Some("OpenShiftSDN"), config.as_ref()), Served::BySdn);
            assert_eq!(of(Some("Calico"), config.as_ref()), Served::ByOthers);
        }
    }
}
