//! What every diff promises, over generated worlds of every kind of object.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use proptest::prelude::*;

use super::{Changes, Object, diff};
use crate::address::{Address, Lifetime};
use crate::family::Family;
use crate::mark::Mark;
use crate::name::Mac;
use crate::neighbour::{Neighbour, Neighbourhood};
use crate::route::{Hop, Route};
use crate::rule::Rule;

/// What the kernel would do: removals need the object, additions need the place.
fn applied<T: Object>(have: &[T], changes: &Changes<T>) -> Vec<T> {
    let mut world = have.to_vec();
    let mut take = |object: &T| {
        let at = world.iter().position(|o| o == object).expect("what is removed is there");
        world.remove(at);
    };
    changes.remove.iter().for_each(&mut take);
    changes.replace.iter().for_each(|(old, _)| take(old));
    let new = changes.replace.iter().map(|(_, new)| new).chain(&changes.add);
    for object in new {
        assert!(world.iter().all(|o| o.key() != object.key()), "the place of {object:?} is taken");
        world.push(object.clone());
    }
    world
}

fn holds<T: Object>(want: &[T], have: &[T]) -> Result<(), TestCaseError> {
    let mark = Mark::default();
    // Two with one key can be there only if the kernel allows it; ours never make such.
    let mut keys = std::collections::BTreeSet::new();
    let have: Vec<T> = have.iter().filter(|o| keys.insert(o.key())).cloned().collect();
    let changes = diff(want, &have, &mark);
    for removed in &changes.remove {
        prop_assert!(removed.is_ours(&mark), "{removed:?} is not ours to remove");
    }
    for (old, _) in &changes.replace {
        prop_assert!(old.is_ours(&mark) || old.yields(), "{old:?} is not ours to replace");
    }
    let world = applied(&have, &changes);
    let mut last: std::collections::BTreeMap<T::Key, T> = std::collections::BTreeMap::new();
    for object in want {
        let stamped = object.stamped(&mark);
        last.insert(stamped.key(), stamped);
    }
    for (key, object) in &last {
        let there = world.iter().any(|o| o.key() == *key && object.satisfied_by(o));
        let conflict = changes.conflicts.iter().any(|c| c.want.key() == *key);
        prop_assert!(there != conflict, "{object:?} is either there or in conflict");
    }
    for object in &world {
        let wanted = last.get(&object.key()).is_some_and(|w| w.satisfied_by(object));
        prop_assert!(wanted || !object.is_ours(&mark), "{object:?} is ours and nobody wants it");
    }
    for object in have.iter().filter(|o| !o.is_ours(&mark) && !o.yields()) {
        prop_assert!(world.contains(object), "{object:?} of somebody else is gone");
    }
    prop_assert!(diff(want, &world, &mark).is_empty(), "a second time there is nothing to do");
    Ok(())
}

fn protocol() -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), Just(2), Just(Mark::default().protocol)]
}

fn ip() -> impl Strategy<Value = IpAddr> {
    (0u8..4, any::<bool>()).prop_map(|(i, v4)| {
        if v4 { IpAddr::V4(Ipv4Addr::new(10, 0, 0, i)) } else { format!("fd00::{i}").parse().unwrap() }
    })
}

fn net() -> impl Strategy<Value = IpNet> {
    (ip(), 0u8..3).prop_map(|(ip, i)| IpNet::new(ip, Family::of(ip).bits() - 8 * i).unwrap())
}

fn lifetime() -> impl Strategy<Value = Lifetime> {
    prop_oneof![Just(Lifetime::Forever), Just(Lifetime::Seconds(0)), Just(Lifetime::Seconds(60))]
}

fn address() -> impl Strategy<Value = Address> {
    let label = prop_oneof![Just(None), Just(Some("eth0".to_owned())), Just(Some("eth0:nf".to_owned()))];
    (1u32..3, net(), protocol(), label, lifetime(), any::<bool>(), any::<bool>()).prop_map(
        |(link, net, protocol, label, preferred, no_dad, no_prefix_route)| Address {
            protocol,
            label: label.filter(|_| net.addr().is_ipv4()),
            preferred,
            no_dad,
            no_prefix_route,
            ..Address::new(link, net)
        },
    )
}

fn neighbour() -> impl Strategy<Value = Neighbour> {
    let state = prop_oneof![
        Just(Neighbourhood::Permanent),
        Just(Neighbourhood::Learned(4)),
        Just(Neighbourhood::NoArp)
    ];
    (1u32..3, ip(), 0u8..3, state, protocol()).prop_map(|(link, ip, last, state, protocol)| Neighbour {
        state,
        protocol,
        ..Neighbour::permanent(link, ip, Mac([2, 0, 0, 0, 0, last]))
    })
}

fn route() -> impl Strategy<Value = Route> {
    let hops = prop::collection::vec((1u32..4).prop_map(Hop::on), 1..3);
    let mtu = prop_oneof![Just(None), Just(Some(1400)), Just(Some(9000))];
    (net(), hops, 254u32..256, 0u32..2, mtu, protocol()).prop_map(
        |(to, hops, table, metric, mtu, protocol)| {
            let route = Route::new(to, hops).table(table).metric(metric);
            Route { protocol, ..mtu.map_or(route.clone(), |bytes| route.mtu(bytes)) }
        },
    )
}

fn rule() -> impl Strategy<Value = Rule> {
    (6000u32..6003, 1u32..3, any::<bool>(), net(), protocol()).prop_map(
        |(priority, table, marked, net, protocol)| {
            let rule = Rule::lookup(Family::of(net.addr()), priority, table);
            let rule = if marked { rule.marked(1, 1) } else { rule.from(net) };
            Rule { protocol, ..rule }
        },
    )
}

macro_rules! every_diff_keeps_its_promises {
    ($($name:ident: $object:ident,)*) => {
        proptest! {
            $(#[test]
            fn $name(want in prop::collection::vec($object(), 0..6), have in prop::collection::vec($object(), 0..8)) {
                holds(&want, &have)?;
            })*
        }
    };
}

every_diff_keeps_its_promises! {
    addresses_become_what_is_wanted_and_those_of_others_stay: address,
    neighbours_become_what_is_wanted_and_those_of_others_stay: neighbour,
    routes_become_what_is_wanted_and_those_of_others_stay: route,
    rules_become_what_is_wanted_and_those_of_others_stay: rule,
}

#[test]
fn of_two_routes_of_ours_with_one_key_the_better_stays_and_the_other_goes() {
    let mark = Mark::default();
    let to = "10.0.0.0/8".parse().unwrap();
    let on = |link| Route::new(to, vec![Hop::on(link)]).stamped(&mark);
    let changes = diff(&[on(2)], &[on(1), on(2)], &mark);
    assert_eq!(changes, Changes { remove: vec![on(1)], ..Changes::default() });
}
