//! What the diff of links promises, over generated hosts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Bridge, Changes, Kind, Link, Make, Vxlan, Want, diff};
use crate::TunMode;
use crate::mark::Mark;
use crate::name::{IfName, Mac};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn name(i: usize) -> IfName {
    IfName::new(NAMES[i]).unwrap()
}

fn vxlan(id: u32) -> Vxlan {
    Vxlan { id, port: 4789, local: None, learning: false }
}

fn make() -> impl Strategy<Value = Option<Make>> {
    prop_oneof![
        Just(None),
        Just(Some(Make::Bridge(Bridge::default()))),
        (1u32..3).prop_map(|id| Some(Make::Vxlan(vxlan(id)))),
        Just(Some(Make::Tun(TunMode::Tap))),
    ]
}

fn want() -> impl Strategy<Value = Want> {
    let option = |s: std::ops::Range<u32>| prop::option::of(s);
    (0usize..4, make(), prop::option::of(any::<bool>()), option(1400..1402), option(0..2), 0usize..6)
        .prop_map(|(i, make, up, mtu, group, master)| Want {
            make,
            up,
            mtu,
            group,
            master: match master {
                0..4 if master != i => Some(Some(name(master))),
                4 => Some(None),
                _ => None,
            },
            ..Want::adjust(name(i))
        })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Bridge(Bridge::default())),
        (1u32..3).prop_map(|id| Kind::Vxlan(vxlan(id))),
        Just(Kind::Device)
    ]
}

fn link(index: usize) -> impl Strategy<Value = Link> {
    let alias = prop_oneof![Just(None), Just(Some("netferry".to_owned())), Just(Some("mine".to_owned()))];
    (kind(), any::<bool>(), 1400u32..1402, 0u32..2, alias).prop_map(move |(kind, up, mtu, group, alias)| {
        Link {
            index: u32::try_from(index).unwrap() + 1,
            name: name(index),
            kind,
            up,
            carrier: false,
            loopback: false,
            mtu,
            min_mtu: 0,
            max_mtu: 0,
            mac: Some(Mac([2, 0, 0, 0, 0, 0])),
            master: None,
            lower: None,
            lower_namespace: None,
            group,
            alias,
            alt_names: BTreeSet::new(),
        }
    })
}

fn host() -> impl Strategy<Value = Vec<Link>> {
    (link(0), link(1), link(2), link(3), prop::collection::vec(any::<bool>(), 4)).prop_map(
        |(a, b, c, d, there)| {
            [a, b, c, d].into_iter().zip(there).filter(|(_, there)| *there).map(|(link, _)| link).collect()
        },
    )
}

/// What the kernel would do.
fn applied(have: &[Link], changes: &Changes) -> Vec<Link> {
    let mut links: BTreeMap<IfName, Link> = have.iter().map(|l| (l.name.clone(), l.clone())).collect();
    for link in &changes.remove {
        assert!(links.remove(&link.name).is_some(), "what is removed is there");
    }
    for (i, want) in changes.create.iter().enumerate() {
        let kind = match want.make.as_ref().expect("what is created says how") {
            Make::Bridge(bridge) => Kind::Bridge(*bridge),
            Make::Vxlan(vxlan) => Kind::Vxlan(*vxlan),
            Make::Tun(mode) => Kind::Tun(*mode),
            Make::Veth(_) => Kind::Veth,
            Make::Macvlan { mode, .. } => Kind::Macvlan(*mode),
        };
        let born = Link {
            index: 100 + u32::try_from(i).unwrap(),
            name: want.name.clone(),
            kind,
            up: false,
            mtu: 1500,
            group: 0,
            alias: want.alias.clone(),
            ..blank()
        };
        assert!(links.insert(want.name.clone(), born).is_none(), "the name is free");
    }
    let index: BTreeMap<IfName, u32> = links.iter().map(|(n, l)| (n.clone(), l.index)).collect();
    for want in changes.create.iter().chain(&changes.set) {
        let link = links.get_mut(&want.name).expect("what is adjusted is there");
        link.up = want.up.unwrap_or(link.up);
        link.mtu = want.mtu.unwrap_or(link.mtu);
        link.group = want.group.unwrap_or(link.group);
        link.alias = want.alias.clone().or(link.alias.take());
        if let Some(master) = &want.master {
            link.master = master.as_ref().and_then(|m| index.get(m).copied());
        }
    }
    links.into_values().collect()
}

fn blank() -> Link {
    Link {
        index: 0,
        name: name(0),
        kind: Kind::Device,
        up: false,
        carrier: false,
        loopback: false,
        mtu: 0,
        min_mtu: 0,
        max_mtu: 0,
        mac: None,
        master: None,
        lower: None,
        lower_namespace: None,
        group: 0,
        alias: None,
        alt_names: BTreeSet::new(),
    }
}

proptest! {
    #[test]
    fn links_become_what_is_wanted_and_those_of_others_stay(
        want in prop::collection::vec(want(), 0..5),
        have in host(),
    ) {
        let mark = Mark::default();
        let ours = |link: &Link| mark.owns_alias(link.alias.as_deref());
        let changes = diff(&want, &have, &mark);
        prop_assert!(changes.remove.iter().all(ours), "only ours are removed");
        let world = applied(&have, &changes);
        for link in have.iter().filter(|l| !ours(l)) {
            prop_assert!(world.iter().any(|l| l.index == link.index), "{link:?} is of somebody else and gone");
        }
        let named: BTreeMap<&IfName, &Want> = want.iter().map(|w| (&w.name, w)).collect();
        for link in world.iter().filter(|l| ours(l)) {
            prop_assert!(named.contains_key(&link.name), "{link:?} is wanted by nobody");
        }
        // A port of a link that is not there cannot be; everything else settles at once.
        let possible = want.iter().all(|w| match &w.master {
            Some(Some(master)) => world.iter().any(|l| l.name == *master),
            Some(None) | None => true,
        });
        if possible {
            let again = diff(&want, &world, &mark);
            prop_assert!(again.is_empty(), "a second time there is nothing to do: {again:?}");
        }
    }
}
