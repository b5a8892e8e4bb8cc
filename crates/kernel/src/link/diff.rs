//! From links as they are to links as they shall be.

use std::collections::BTreeMap;

use super::{Bridge, Kind, Link, Make, Vxlan, Want};
use crate::mark::Mark;
use crate::name::IfName;
use crate::objects::Conflict;

/// What to do with links, in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Changes {
    /// To be taken away; all carry our mark.
    pub remove: Vec<Link>,
    /// To be made, with everything they shall be.
    pub create: Vec<Want>,
    /// To be adjusted: only the fields that differ are set.
    pub set: Vec<Want>,
    /// Adjustments of links that are not there, or are not what is to be made. Left alone.
    pub missing: Vec<IfName>,
    /// A link of somebody else has the name, or is of another kind.
    pub conflicts: Vec<Conflict<Recreate>>,
}

/// The two sides of a conflict about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recreate {
    /// What was to be made.
    Want(Box<Want>),
    /// What is there.
    Have(Box<Link>),
}

impl Changes {
    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many changes.
    pub fn len(&self) -> usize {
        self.remove.len() + self.create.len() + self.set.len()
    }
}

/// The difference between links wanted and links there.
///
/// # Guarantees
///
/// Only links whose alias carries our mark are removed, and those with a wanted name only to be made again because
/// they are of the wrong kind. A link that is not ours is adjusted when asked, never made again.
pub fn diff(want: &[Want], have: &[Link], mark: &Mark) -> Changes {
    let there: BTreeMap<&IfName, &Link> = have.iter().map(|l| (&l.name, l)).collect();
    let by_index: BTreeMap<u32, &Link> = have.iter().map(|l| (l.index, l)).collect();
    let wanted: BTreeMap<&IfName, Want> = want.iter().map(|w| (&w.name, stamped(w, mark))).collect();
    let ours = |link: &Link| mark.owns_alias(link.alias.as_deref());

    let mut changes = Changes::default();
    for (name, want) in &wanted {
        match (there.get(name), &want.make) {
            (None, Some(_)) => changes.create.push(want.clone()),
            (None, None) => changes.missing.push((*name).clone()),
            (Some(link), None) => changes.set.extend(adjustment(want, link, &by_index)),
            (Some(link), Some(make)) if ours(link) && is(make, &link.kind) => {
                changes.set.extend(adjustment(want, link, &by_index));
            }
            (Some(link), Some(_)) if ours(link) => {
                changes.remove.push((*link).clone());
                changes.create.push(want.clone());
            }
            (Some(link), Some(_)) => changes.conflicts.push(Conflict {
                want: Recreate::Want(Box::new(want.clone())),
                have: Recreate::Have(Box::new((*link).clone())),
            }),
        }
    }
    let kept = |link: &Link| {
        let named = |name: &IfName| wanted.contains_key(name);
        // The other end of a pair of ours carries no wish of its own and vanishes with it.
        let peer = link.lower.filter(|_| link.lower_namespace.is_none()).and_then(|i| by_index.get(&i));
        named(&link.name) || (link.kind == Kind::Veth && peer.is_some_and(|p| named(&p.name)))
    };
    changes.remove.extend(have.iter().filter(|l| ours(l) && !kept(l)).cloned());
    changes
}

/// A link of ours has our mark in its alias; on those of others the alias is theirs.
fn stamped(want: &Want, mark: &Mark) -> Want {
    Want { alias: want.make.is_some().then(|| mark.alias(want.alias.as_deref())), ..want.clone() }
}

/// Only what differs; none if nothing does.
fn adjustment(want: &Want, have: &Link, links: &BTreeMap<u32, &Link>) -> Option<Want> {
    let mut set = Want::adjust(want.name.clone());
    set.up = want.up.filter(|up| *up != have.up);
    set.mtu = want.mtu.filter(|mtu| *mtu != have.mtu);
    set.mac = want.mac.filter(|mac| Some(*mac) != have.mac);
    set.group = want.group.filter(|group| *group != have.group);
    let master = have.master.and_then(|i| links.get(&i)).map(|l| &l.name);
    set.master = want.master.clone().filter(|m| m.as_ref() != master);
    set.alt_names = want.alt_names.difference(&have.alt_names).cloned().collect();
    set.alias = want.alias.clone().filter(|alias| Some(alias) != have.alias.as_ref());
    (set != Want::adjust(want.name.clone())).then_some(set)
}

/// Is what is there what would be made? Properties that can be changed in place do not count.
fn is(make: &Make, kind: &Kind) -> bool {
    match (make, kind) {
        (Make::Veth(_), Kind::Veth) => true,
        (Make::Bridge(a), Kind::Bridge(b)) => {
            let Bridge { stp, multicast_snooping, forward_delay } = *a;
            stp == b.stp
                && multicast_snooping == b.multicast_snooping
                && (forward_delay == b.forward_delay || forward_delay == 0)
        }
        (Make::Vxlan(a), Kind::Vxlan(b)) => {
            let Vxlan { id, port, local, learning } = *a;
            id == b.id && port == b.port && local == b.local && learning == b.learning
        }
        (Make::Macvlan { mode, .. }, Kind::Macvlan(there)) => mode == there,
        (Make::Tun(a), Kind::Tun(b)) => a == b,
        (
            Make::Veth(_) | Make::Bridge(_) | Make::Vxlan(_) | Make::Macvlan { .. } | Make::Tun(_),
            Kind::Veth
            | Kind::Bridge(_)
            | Kind::Vxlan(_)
            | Kind::Macvlan(_)
            | Kind::Tun(_)
            | Kind::Other(_)
            | Kind::Device,
        ) => false,
    }
}
