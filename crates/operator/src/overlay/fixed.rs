//! What a running cluster cannot be told to become, beside who lives where.

use netferry_api::migration::{MigrationMode as AskedMode, MigrationStatus};
use netferry_api::overlay::{OperatorNetworkSpec, Plugin};
use netferry_core::migration::{ChangeRefusal, DualStack, Migration, MigrationMode, Settings, may_become};
use netferry_core::overlay::host::GENEVE_PORT;
use netferry_core::overlay::networks::{ClusterRange, Networks};

/// What a cluster runs, as far as it decides what it can be told.
pub(super) struct Runs<'a> {
    /// The change that is published.
    pub(super) migration: Option<&'a MigrationStatus>,
    /// Whether a change of MTU is under way, published or not.
    pub(super) under_way: bool,
    /// Whether any node has a place.
    pub(super) somebody: bool,
    /// Its ranges.
    pub(super) networks: &'a Networks,
}

impl Runs<'_> {
    /// Whether anything is under way.
    pub(super) fn is_changing(&self) -> bool {
        self.migration.is_some() || self.under_way
    }
}

/// What of an edit a cluster cannot follow: another plugin; other ranges while a change is under way; other sizes of nodes'
/// subnets; and another port of the tunnels.
///
/// What else ranges may become depends on who lives in them, which is asked elsewhere. What nobody writes down of what is
/// applied (the mode of a change of plugin, a hybrid overlay) is not compared.
pub(super) fn cannot_follow(
    spec: &OperatorNetworkSpec,
    runs: &Runs<'_>,
    wanted: &Networks,
) -> Vec<ChangeRefusal> {
    let named = |network_type: &Option<String>| network_type.clone().filter(|name| !name.is_empty());
    let mode = match spec.migration.as_ref().and_then(|migration| migration.mode) {
        Some(AskedMode::Live) => MigrationMode::Live,
        Some(AskedMode::Offline | AskedMode::Unset) | None => MigrationMode::Offline,
    };
    let prepared = runs.migration.and_then(|migration| named(&migration.network_type));
    let asked = spec.migration.as_ref();
    let old = Settings {
        // The only one whose ranges this operator publishes.
        network_type: Plugin::OvnKubernetes.as_str().to_owned(),
        migration: runs.is_changing().then_some(Migration { network_type: prepared, mode }),
        cluster: runs.networks.cluster().to_vec(),
        service: runs.networks.service().iter().collect(),
        // Every switch has it: it is never told another.
        geneve_port: u32::from(GENEVE_PORT),
        vxlan_port: 0,
        sdn_mode: String::new(),
        hybrid: None,
        may_widen: true,
        hosted: false,
        dual_stack: DualStack::Any,
    };
    let network = spec.default_network.as_ref();
    let ovn = network.and_then(|network| network.ovn_kubernetes_config.as_ref());
    let plugin = network.and_then(|network| network.plugin.clone());
    let mut new = Settings {
        network_type: plugin.unwrap_or_else(|| old.network_type.clone()),
        migration: asked.map(|m| Migration { network_type: named(&m.network_type), mode }),
        geneve_port: ovn.and_then(|ovn| ovn.geneve_port).unwrap_or(old.geneve_port),
        ..old.clone()
    };
    if runs.is_changing() {
        new.cluster = wanted.cluster().to_vec();
        new.service = wanted.service().iter().collect();
    } else if runs.somebody {
        new.cluster = old.cluster.iter().map(|range| sized_as(range, wanted)).collect();
    }
    may_become(&old, &new).err().unwrap_or_default()
}

/// A range with the nodes' subnets of the one that is asked for in its place: that it grows, or others come, is no matter
/// here.
fn sized_as(range: &ClusterRange, wanted: &Networks) -> ClusterRange {
    let meets =
        |other: &&ClusterRange| other.net().contains(&range.net()) || range.net().contains(&other.net());
    let asked = wanted.cluster().iter().find(meets);
    let sized = asked.and_then(|asked| ClusterRange::new(range.net(), asked.host_prefix()).ok());
    sized.unwrap_or(*range)
}
