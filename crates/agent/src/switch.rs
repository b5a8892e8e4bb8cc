//! The node's Open vSwitch: who it is and who moves its packets. Its rows are kept by [`crate::zone`].

use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::ChassisId;
use netferry_core::overlay::names;
use netferry_core::overlay::zone::Datapath;
use netferry_ovs::tables::vswitch::OpenVSwitch;
use netferry_ovs::{Client, Desired, Owner, SettleError, Wanted};

/// Who moves the packets on this host: the kernel where it has Open vSwitch's module, else the switch's own process.
pub fn datapath() -> Datapath {
    if Path::new("/sys/module/openvswitch").exists() { Datapath::Kernel } else { Datapath::Userspace }
}

/// Makes sure that the switch has an identity, by which other nodes send to it. One it has is kept; a switch that has
/// lost its database gets the one this node was last known by, because that is where others send to.
pub async fn identity(switch: &Client, last_known: &Node) -> Result<String, SettleError> {
    let has = switch.snapshot().single::<OpenVSwitch>().ok().flatten();
    if let Some(id) = has.and_then(|row| row.row.external_ids.get("system-id").cloned()) {
        return Ok(id);
    }
    let known = last_known.metadata.annotations.as_ref().and_then(|all| ChassisId::read(all).ok().flatten());
    let id = known.map_or_else(|| uuid::Uuid::new_v4().to_string(), |known| known.get().clone());
    let root = Wanted::ensure::<OpenVSwitch>("").put("external_ids", "system-id", &id);
    let owner = Owner::new(names::MARK.0, names::MARK.1, names::ID);
    switch.settle_part(&Desired::new().with(root), &[], &owner, "netferry agent: an identity").await?;
    tracing::info!(id, "the switch has an identity now");
    Ok(id)
}
