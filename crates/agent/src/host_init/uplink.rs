//! Which link of a host leads to the other nodes.

use std::collections::BTreeSet;

use netferry_kernel::address::Address;
use netferry_kernel::link::Link;
use netferry_kernel::route::{Kind, MAIN, Route};
use netferry_kernel::{Family, IfName};

/// Why there is no link to build on. Each says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUplink {
    /// Nothing leads anywhere.
    #[error(
        "no link has a default route or an address of its own: configure the host's network first, \
         or name the link with --uplink"
    )]
    None,
    /// Several do, and choosing wrong would cut the host off.
    #[error("{} all look like the way to the other nodes: choose one with --uplink", list(among))]
    Several {
        /// Which.
        among: Vec<IfName>,
    },
    /// The one that was asked for is not there.
    #[error("there is no link {asked}")]
    Missing {
        /// Which.
        asked: IfName,
    },
    /// The one that was asked for or found cannot be a port of a bridge.
    #[error("link {link} cannot be a port of bridge {bridge}: {why}")]
    Unfit {
        /// Which.
        link: IfName,
        /// Of which bridge.
        bridge: IfName,
        /// Why not.
        why: &'static str,
    },
    /// The bridge has another one.
    #[error(
        "bridge {bridge} stands on link {has}, not on {asked}: run `netferry host-init --undo` first, \
         then choose again"
    )]
    Taken {
        /// The bridge.
        bridge: IfName,
        /// The link it has.
        has: IfName,
        /// The link that was asked for.
        asked: IfName,
    },
}

/// What is known about a host when its uplink is chosen.
#[derive(Clone, Debug)]
pub struct Sight<'a> {
    /// Its links.
    pub links: &'a [Link],
    /// Its addresses.
    pub addresses: &'a [Address],
    /// Its routes.
    pub routes: &'a [Route],
    /// Links that the switch itself made.
    pub of_the_switch: &'a BTreeSet<IfName>,
    /// The link that is a port of the bridge already, by an earlier run.
    pub in_use: Option<&'a IfName>,
}

/// Chooses the link that becomes the bridge's port.
///
/// The one that is a port already stays it; else the one that was asked for; else the one with the default route. A
/// default route with a worse metric is a spare and does not count. Without any default route the only link with an
/// address of its own is taken. Whatever is not certain is refused: the wrong link would cut the host off.
///
/// Pure.
pub fn choose(bridge: &IfName, asked: Option<&IfName>, sight: &Sight<'_>) -> Result<IfName, NoUplink> {
    let there = |name: &IfName| sight.links.iter().find(|link| link.name == *name);
    if let Some(has) = sight.in_use.filter(|name| there(name).is_some()) {
        return match asked {
            Some(asked) if asked != has => {
                Err(NoUplink::Taken { bridge: bridge.clone(), has: has.clone(), asked: asked.clone() })
            }
            Some(_) | None => Ok(has.clone()),
        };
    }
    let name = match asked {
        Some(asked) => asked.clone(),
        None => one_of(candidates(bridge, sight))?,
    };
    let link = there(&name).ok_or(NoUplink::Missing { asked: name })?;
    match unfit(bridge, link, sight) {
        Some(why) => Err(NoUplink::Unfit { link: link.name.clone(), bridge: bridge.clone(), why }),
        None => Ok(link.name.clone()),
    }
}

fn one_of(among: BTreeSet<IfName>) -> Result<IfName, NoUplink> {
    let mut among: Vec<IfName> = among.into_iter().collect();
    match (among.pop(), among.is_empty()) {
        (None, _) => Err(NoUplink::None),
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            among.push(last);
            Err(NoUplink::Several { among })
        }
    }
}

fn candidates(bridge: &IfName, sight: &Sight<'_>) -> BTreeSet<IfName> {
    let eligible =
        |link: &&Link| !link.loopback && link.name != *bridge && !sight.of_the_switch.contains(&link.name);
    let name_of = |index: u32| {
        sight.links.iter().filter(eligible).find(|link| link.index == index).map(|link| link.name.clone())
    };
    let mut found = BTreeSet::new();
    for family in [Family::V4, Family::V6] {
        let default = |route: &&Route| {
            route.to == family.everything() && route.table == MAIN && route.kind == Kind::Unicast
        };
        let ways = || {
            let routes = sight.routes.iter().filter(default);
            routes.flat_map(|route| {
                route.hops.iter().filter_map(|hop| Some((route.metric, name_of(hop.link?)?)))
            })
        };
        let best = ways().map(|(metric, _)| metric).min();
        found.extend(ways().filter(|(metric, _)| Some(*metric) == best).map(|(_, name)| name));
    }
    if found.is_empty() {
        // 0 is global: neither of the wire only nor of this host only
        let own = sight.addresses.iter().filter(|address| address.scope == 0);
        found.extend(own.filter_map(|address| name_of(address.link)));
    }
    found
}

fn unfit(bridge: &IfName, link: &Link, sight: &Sight<'_>) -> Option<&'static str> {
    if link.name == *bridge {
        Some("it is the bridge itself")
    } else if link.loopback {
        Some("it is the loopback")
    } else if sight.of_the_switch.contains(&link.name) {
        Some("it is a port that the switch made")
    } else if link.master.is_some() {
        Some("it is a port of another bridge or bond; name that one instead")
    } else if link.mac.is_none() {
        Some("it has no hardware address, so that frames cannot be told apart on it")
    } else {
        None
    }
}

fn list(names: &[IfName]) -> String {
    names.iter().map(IfName::as_str).collect::<Vec<_>>().join(", ")
}
