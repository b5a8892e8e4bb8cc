//! What else may change, and when: the edits of the operator's `Network` that a running cluster can follow.

use ipnet::IpNet;

use super::ChangeRefusal;
use crate::net::Family;
use crate::overlay::networks::ClusterRange;

/// The name of a plugin, as users write it.
pub type NetworkType = String;

/// How a change of plugin is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MigrationMode {
    /// Node by node.
    Live,
    /// All at once; also what an unset mode means.
    Offline,
}

impl MigrationMode {
    fn name(self) -> &'static str {
        match self {
            MigrationMode::Live => "Live",
            MigrationMode::Offline => "Offline",
        }
    }
}

/// `spec.migration`, as far as it decides what else may change. The features that are carried over are left out: a
/// change may begin and end whatever stands there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Migration {
    /// The plugin to change to; never empty.
    pub network_type: Option<NetworkType>,
    /// How.
    pub mode: MigrationMode,
}

/// A network that other systems' nodes share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hybrid {
    /// Its ranges.
    pub ranges: Vec<ClusterRange>,
    /// Its port.
    pub vxlan_port: Option<u16>,
}

/// Whether the platform takes clusters with both families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DualStack {
    /// Always.
    Any,
    /// Only if they are installed so.
    FromTheStart,
    /// Never.
    Never,
}

/// What is applied, or asked to be, beside the MTU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `spec.defaultNetwork.type`.
    pub network_type: NetworkType,
    /// `spec.migration`.
    pub migration: Option<Migration>,
    /// `spec.clusterNetwork`.
    pub cluster: Vec<ClusterRange>,
    /// `spec.serviceNetwork`.
    pub service: Vec<IpNet>,
    /// OVN's port.
    pub geneve_port: u32,
    /// The older plugin's port.
    pub vxlan_port: u32,
    /// The older plugin's mode.
    pub sdn_mode: String,
    /// See [`Hybrid`].
    pub hybrid: Option<Hybrid>,
    /// Whether the cluster's ranges may grow: OVN can follow that, the older plugin cannot.
    pub may_widen: bool,
    /// Whether the control plane runs elsewhere.
    pub hosted: bool,
    /// What the platform allows.
    pub dual_stack: DualStack,
}

/// Whether a cluster that runs `old` may be told `new`.
///
/// # Errors
/// All that is wrong with it.
pub fn may_become(old: &Settings, new: &Settings) -> Result<(), Vec<ChangeRefusal>> {
    let mut refusals = Vec::new();
    migration(old, new, &mut refusals);
    let by_type = old.migration.as_ref().is_some_and(|m| m.network_type.is_some());
    if !by_type {
        plugin(old, new, &mut refusals);
    }
    ranges(old, new, by_type, &mut refusals);
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

fn migration(old: &Settings, new: &Settings, refusals: &mut Vec<ChangeRefusal>) {
    if new.hosted && new.migration.as_ref().is_some_and(|m| m.mode == MigrationMode::Live) {
        refusals.push(ChangeRefusal::HostedLive);
    }
    if let (Some(was), Some(is)) = (&old.migration, &new.migration)
        && let (Some(running), Some(asked)) = (&was.network_type, &is.network_type)
    {
        if running != asked {
            refusals.push(ChangeRefusal::MigrationType { asked: asked.clone(), running: running.clone() });
        }
        if was.mode != is.mode {
            let (asked, running) = (is.mode.name(), was.mode.name());
            refusals.push(ChangeRefusal::MigrationMode { asked, running });
        }
    }
    if old.network_type != new.network_type {
        let asked = new.network_type.clone();
        match old.migration.as_ref().map(|m| m.network_type.clone().unwrap_or_default()) {
            None => refusals.push(ChangeRefusal::TypeWithoutMigration { asked }),
            Some(prepared) if prepared != asked => {
                refusals.push(ChangeRefusal::TypeNotPrepared { asked, prepared });
            }
            Some(_) => {}
        }
    }
}

fn plugin(old: &Settings, new: &Settings, refusals: &mut Vec<ChangeRefusal>) {
    let mut fixed = |field, old: String, new: String| {
        if old != new {
            refusals.push(ChangeRefusal::Number { field, old, new });
        }
    };
    let (ovn, sdn) = (
        "spec.defaultNetwork.ovnKubernetesConfig.genevePort",
        "spec.defaultNetwork.openshiftSDNConfig.vxlanPort",
    );
    fixed(ovn, old.geneve_port.to_string(), new.geneve_port.to_string());
    fixed(sdn, old.vxlan_port.to_string(), new.vxlan_port.to_string());
    fixed("spec.defaultNetwork.openshiftSDNConfig.mode", old.sdn_mode.clone(), new.sdn_mode.clone());
    // It may come and it may go, but nodes that take part cannot follow an edit.
    if old.hybrid.is_some() && new.hybrid.is_some() && old.hybrid != new.hybrid {
        let field = "spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig";
        refusals.push(ChangeRefusal::Fixed { field, when: "while it is in use; remove it first" });
    }
}

fn ranges(old: &Settings, new: &Settings, by_type: bool, refusals: &mut Vec<ChangeRefusal>) {
    if old.migration.is_some() {
        let when = "while a change is under way";
        if old.service != new.service {
            refusals.push(ChangeRefusal::Fixed { field: "spec.serviceNetwork", when });
        }
        if !by_type && old.cluster != new.cluster {
            refusals.push(ChangeRefusal::Fixed { field: "spec.clusterNetwork", when });
        }
        return;
    }
    let refuse =
        |why| ChangeRefusal::ClusterNetwork { old: shown(&old.cluster), new: shown(&new.cluster), why };
    if let Err(why) = cluster(old, new) {
        refusals.push(refuse(why));
    }
    if let Err(why) = families(&nets(&old.cluster), &nets(&new.cluster), new.dual_stack) {
        refusals.push(refuse(why));
    }
    let grown = families(&old.service, &new.service, new.dual_stack).is_ok()
        && old.service.first() == new.service.first()
        && old.service.len() != new.service.len();
    if old.service != new.service && !grown {
        let when = "except to add the second family behind the first, or to remove it";
        refusals.push(ChangeRefusal::Fixed { field: "spec.serviceNetwork", when });
    }
}

fn nets(ranges: &[ClusterRange]) -> Vec<IpNet> {
    ranges.iter().map(ClusterRange::net).collect()
}

fn shown(ranges: &[ClusterRange]) -> String {
    ranges.iter().map(ClusterRange::to_string).collect::<Vec<_>>().join(", ")
}

fn family(net: &IpNet) -> Family {
    Family::of_net(*net)
}

/// Whether the families of a list may become those of another: the first stays the first.
fn families(old: &[IpNet], new: &[IpNet], dual_stack: DualStack) -> Result<(), &'static str> {
    let (Some(old_first), Some(new_first)) = (old.first(), new.first()) else {
        return Ok(());
    };
    if family(old_first) != family(new_first) {
        return Err("the first entry's family must stay");
    }
    let both = |nets: &[IpNet]| nets.iter().any(|net| family(net) != family(&nets[0]));
    match dual_stack {
        DualStack::FromTheStart | DualStack::Never if both(new) && !both(old) => {
            Err("this platform does not take a second family later")
        }
        DualStack::Any | DualStack::FromTheStart | DualStack::Never => Ok(()),
    }
}

/// Whether the ranges of each family may become others: as many, each the same or wider, unless the family comes or
/// goes as a whole. What stays then stays as it is, in its order too: one change of ranges at a time.
fn cluster(old: &Settings, new: &Settings) -> Result<(), &'static str> {
    let kinds = [Family::V4, Family::V6];
    let of = |kind, settings: &Settings| -> Vec<ClusterRange> {
        settings.cluster.iter().filter(|range| family(&range.net()) == kind).copied().collect()
    };
    let regrouped = kinds.into_iter().any(|kind| of(kind, old).is_empty() != of(kind, new).is_empty());
    for kind in kinds {
        let (was, is) = (of(kind, old), of(kind, new));
        if was.is_empty() || is.is_empty() {
            continue;
        }
        if was.len() != is.len() {
            return Err("entries of one family cannot be added or removed");
        }
        let sorted = |mut ranges: Vec<ClusterRange>| {
            ranges.sort_by_key(|range| range.net().addr());
            ranges
        };
        let same = was == is;
        for (was, is) in sorted(was).iter().zip(&sorted(is)) {
            if was.net().addr() != is.net().addr() {
                return Err("an entry's address must stay");
            }
            if was.host_prefix() != is.host_prefix() {
                return Err("hostPrefix must stay");
            }
            if is.net().prefix_len() > was.net().prefix_len() {
                return Err("an entry cannot shrink");
            }
            if !new.may_widen && is != was {
                return Err("this plugin cannot follow a change");
            }
        }
        if regrouped && !same {
            return Err("the first family's entries and their order must stay when the second comes or goes");
        }
    }
    Ok(())
}
