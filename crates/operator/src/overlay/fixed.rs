//! What a running cluster cannot be told to become, beside who lives where.

use netferry_api::migration::MigrationMode as AskedMode;
use netferry_api::overlay::{ConfigNetworkStatus, OperatorNetworkSpec, Plugin};
use netferry_core::mtu::check::{ChangeRefusal, DualStack, Migration, MigrationMode, Settings, may_become};
use netferry_core::overlay::host::GENEVE_PORT;
use netferry_core::overlay::networks::Networks;

/// What of an edit a cluster with these ranges cannot follow: ranges while a change is under way, and the tunnels' port.
///
/// What ranges may become without a change depends on who lives in them, which is asked elsewhere.
pub(super) fn cannot_follow(
    spec: &OperatorNetworkSpec,
    status: &ConfigNetworkStatus,
    deployed: &Networks,
    wanted: &Networks,
) -> Vec<ChangeRefusal> {
    let named = |network_type: &Option<String>| network_type.clone().filter(|name| !name.is_empty());
    let mode = match spec.migration.as_ref().and_then(|migration| migration.mode) {
        Some(AskedMode::Live) => MigrationMode::Live,
        Some(AskedMode::Offline | AskedMode::Unset) | None => MigrationMode::Offline,
    };
    let under_way = status.migration.as_ref();
    let asked = spec.migration.as_ref();
    let old = Settings {
        network_type: Plugin::OvnKubernetes.as_str().to_owned(),
        migration: under_way.map(|m| Migration { network_type: named(&m.network_type), mode }),
        cluster: deployed.cluster().to_vec(),
        service: deployed.service().iter().collect(),
        // Every switch has it: it is never told another.
        geneve_port: u32::from(GENEVE_PORT),
        vxlan_port: 0,
        sdn_mode: String::new(),
        hybrid: None,
        may_widen: true,
        hosted: false,
        dual_stack: DualStack::Any,
    };
    let ovn = spec.default_network.as_ref().and_then(|network| network.ovn_kubernetes_config.as_ref());
    let mut new = Settings {
        migration: asked.map(|m| Migration { network_type: named(&m.network_type), mode }),
        geneve_port: ovn.and_then(|ovn| ovn.geneve_port).unwrap_or(old.geneve_port),
        ..old.clone()
    };
    if under_way.is_some() {
        new.cluster = wanted.cluster().to_vec();
        new.service = wanted.service().iter().collect();
    }
    may_become(&old, &new).err().unwrap_or_default()
}
