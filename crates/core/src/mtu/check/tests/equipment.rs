use super::*;
use crate::mtu::equipment::{Card, Equipment, Fixed};

fn card(name: &str, least: u32, most: u32) -> Card {
    Card { name: name.into(), least, most }
}

fn with(cards: Vec<Card>) -> Equipment {
    Equipment { cards, ..Equipment::default() }
}

fn said(record: &Record, equipped: &Equipped, asked: &Asked) -> Vec<String> {
    let cluster = Cluster { plugin: OVN, v6: false };
    let run = hosts(&[("a", 1500), ("b", 1500), ("c", 1500)]);
    let answer = super::super::read(&cluster, record, Fleet { hosts: &run, equipped }, asked);
    answer.map_or_else(|all| all.iter().map(Refusal::to_string).collect(), |_| Vec::new())
}

/// What `a` and `b` take, what is asked of hosts at 1500, what is said. `c` has not said what it takes.
#[test]
fn a_change_that_a_card_does_not_take_is_refused_with_the_node_the_card_and_the_numbers() {
    type Row = ([(u32, u32); 2], (u32, u32), &'static [&'static str]);
    #[rustfmt::skip]
    let rows: &[Row] = &[
        ([(68, 9216), (68, 9000)], (8900, 9000), &[]),
        ([(68, 9216), (68, 8999)], (8900, 9000),
            &["hosts would have to carry 9000, and card eth0 of node b takes at most 8999"]),
        ([(68, 1500), (68, 4000)], (8900, 9000),
            &["hosts would have to carry 9000, and card eth0 of node a takes at most 1500, card eth0 of node b takes at most 4000"]),
        ([(68, 9216), (1400, 9216)], (1300, 1400), &[]),
        ([(68, 9216), (1401, 9216)], (1300, 1400),
            &["hosts would have to run at 1400, and card eth0 of node b takes at least 1401"]),
        // It runs at more than it says to take: what it comes from it carries in phase one, too.
        ([(68, 9216), (68, 1499)], (1300, 1400),
            &["hosts would have to carry 1500, and card eth0 of node b takes at most 1499"]),
        ([(68, 1500), (1401, 9216)], (1300, 1400),
            &["hosts would have to run at 1400, and card eth0 of node b takes at least 1401"]),
        ([(68, 1000), (1401, 9216)], (1300, 1400),
            &["hosts would have to carry 1500, and card eth0 of node a takes at most 1000",
              "hosts would have to run at 1400, and card eth0 of node b takes at least 1401"]),
    ];
    for (takes, (to, machine), expected) in rows {
        let [a, b] = takes.map(|(least, most)| with(vec![card("eth0", least, most)]));
        let equipped = Equipped::from([(node("a"), a), (node("b"), b)]);
        let found = said(&Record::settled(mtu(1400)), &equipped, &change(1400, *to, *machine));
        assert_eq!(found, *expected, "{takes:?} {to} {machine}");
    }
}

#[test]
fn every_card_an_uplink_stands_on_is_asked() {
    let cards = with(vec![card("bond0", 68, 65535), card("eth1", 68, 4000)]);
    assert_eq!(
        said(&Record::settled(mtu(1400)), &Equipped::from([(node("a"), cards)]), &change(1400, 8900, 9000)),
        ["hosts would have to carry 9000, and card eth1 of node a takes at most 4000"]
    );
}

#[test]
fn a_card_that_came_later_stops_no_change_that_is_under_way_and_no_way_back() {
    let large = Equipped::from([(node("a"), with(vec![card("eth0", 68, 9216)]))]);
    let small = Equipped::from([(node("a"), with(vec![card("eth0", 68, 4000)]))]);
    let cluster = Cluster { plugin: OVN, v6: false };
    let run = hosts(&[("a", 1500)]);
    let after = |record: &Record, equipped: &Equipped, asked: &Asked| {
        let wanted = super::super::read(&cluster, record, Fleet { hosts: &run, equipped }, asked).unwrap();
        record.with(wanted.change)
    };
    let settled = Record::settled(mtu(1400));
    let (forth, cancel, reverse) =
        (change(1400, 8900, 9000), change(1400, 1400, 1500), change(8900, 1400, 1500));
    let spreading = after(&settled, &large, &forth);
    assert_eq!(after(&spreading, &small, &forth), spreading);
    for back in [&cancel, &reverse] {
        assert_eq!(after(&spreading, &small, back), after(&spreading, &large, back));
    }
    let settling = spreading.with(spreading.change.map(|change| Change { stage: Stage::Settling, ..change }));
    assert_eq!(after(&settling, &small, &reverse), after(&settling, &large, &reverse));
    // Asked for anew, or sent further, it is judged again.
    let cancelled = after(&spreading, &small, &cancel);
    assert_eq!(said(&cancelled, &small, &forth).len(), 1);
    assert_eq!(said(&spreading, &small, &change(1400, 7900, 8000)).len(), 1);
    assert_eq!(said(&spreading, &small, &change(1400, 3900, 4000)), [""; 0]);
}

/// What `a` says of any other size and of a larger one, what is asked of hosts at 1500, whether that is refused.
#[test]
fn a_host_whose_configuration_cannot_be_told_another_size_is_named_before_anything_begins() {
    let (none, any, larger) = (None, Some("any other"), Some("a larger one"));
    #[rustfmt::skip]
    let rows = [
        (none, none, (8900, 9000), None),
        (any, larger, (8900, 9000), any),
        (none, larger, (8900, 9000), larger),
        (none, larger, (1300, 1400), None),
        (any, larger, (1300, 1400), any),
        // Pods alone go elsewhere, and hosts stay.
        (any, larger, (1300, 1500), None),
    ];
    for (change_why, growth_why, (to, machine), expected) in rows {
        let fixed = Fixed { change: change_why.map(str::to_owned), growth: growth_why.map(str::to_owned) };
        let equipped = Equipped::from([(node("a"), Equipment { fixed, ..Equipment::default() })]);
        let found = said(&Record::settled(mtu(1400)), &equipped, &change(1400, to, machine));
        let shall = expected.map(|why| {
            format!(
                "hosts' own configuration would have to say another MTU, and that of node a cannot: {why}"
            )
        });
        assert_eq!(found, Vec::from_iter(shall), "{change_why:?} {growth_why:?} {to} {machine}");
    }
}
