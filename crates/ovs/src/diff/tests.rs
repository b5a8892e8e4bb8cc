use super::model::Model;
use super::*;
use crate::shape::Ref;
use crate::spec::Spec;
use crate::table::{Key, Table};
use crate::transaction::{Columns, Operation};
use crate::value::Datum;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Every kind of relation there is: children held strongly, with and without a place for a mark, members
/// held weakly, a shared root that cannot be marked, held strongly by roots and by children.
const SCHEMA: &str = r#"{ "name": "Toy", "version": "1.2.3", "tables": {
  "Switch": { "isRoot": true, "columns": {
    "name": {"type": "string"},
    "ports": {"type": {"key": {"type": "uuid", "refTable": "Port"}, "min": 0, "max": "unlimited"}},
    "labels": {"type": {"key": {"type": "uuid", "refTable": "Label"}, "min": 0, "max": "unlimited"}},
    "ends": {"type": {"key": {"type": "uuid", "refTable": "End"}, "min": 1, "max": "unlimited"}},
    "config": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
    "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}},
  "Port": { "indexes": [["name"]], "columns": {
    "name": {"type": "string"},
    "addresses": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
    "tag": {"type": {"key": "integer", "min": 0, "max": 1}},
    "up": {"type": {"key": "boolean", "min": 0, "max": 1}},
    "notes": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
    "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}},
  "Group": { "isRoot": true, "indexes": [["name"]], "columns": {
    "name": {"type": "string"},
    "ports": {"type": {"key": {"type": "uuid", "refTable": "Port", "refType": "weak"}, "min": 0, "max": "unlimited"}},
    "rules": {"type": {"key": {"type": "uuid", "refTable": "Rule"}, "min": 0, "max": "unlimited"}},
    "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}},
  "Rule": { "columns": {
    "match": {"type": "string"},
    "label": {"type": {"key": {"type": "uuid", "refTable": "Label"}, "min": 0, "max": 1}},
    "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}}},
  "End": { "indexes": [["name"]], "columns": { "name": {"type": "string"} }},
  "Label": { "isRoot": true, "indexes": [["name"]], "columns": { "name": {"type": "string"} }}
}}"#;

mod toy {
    #![allow(missing_docs, unreachable_pub, reason = "a table of a test")]
    use super::*;
    use crate::tables::{Refs, StringSet, Strings};

    crate::tables! { "Toy";
        Switch = "Switch" by Key::Columns(&["name"]) => {
            name: String, ports: Refs, labels: Refs, ends: Refs, config: Strings, external_ids: Strings,
        }
        Port = "Port" by Key::Columns(&["name"]) => {
            name: String, addresses: StringSet, tag: Option<i64>, up: Option<bool> [status],
            notes: Strings [merge], colour: String [optional], external_ids: Strings,
        }
        Group = "Group" by Key::Columns(&["name"]) => {
            name: String, ports: Refs, rules: Refs, external_ids: Strings,
        }
        Rule = "Rule" by Key::ExternalId => { matches = "match": String, label: Option<Ref>, external_ids: Strings, }
        Label = "Label" by Key::Columns(&["name"]) => { name: String, }
        End = "End" by Key::Columns(&["name"]) => { name: String, }
    }
}
use toy::{End, Group, Label, Port, Rule, Switch};

fn model() -> Model {
    let spec = Spec::new("Toy")
        .table::<Switch>()
        .table::<Port>()
        .table::<Group>()
        .table::<Rule>()
        .table::<Label>()
        .table::<End>();
    Model::new(SCHEMA, spec)
}

fn us() -> Owner {
    Owner::new("owner", "us", "id").with_whole_table("Label")
}

fn them() -> Owner {
    Owner::new("owner", "them", "id")
}

/// What one party wants, in plain values.
#[derive(Debug, Clone, Default, PartialEq)]
struct World {
    /// Name to setting, which also is the name of its end, and labels.
    switches: BTreeMap<String, (u8, BTreeSet<u8>)>,
    /// Name to switch, addresses and tag.
    ports: BTreeMap<String, (String, BTreeSet<u8>, Option<i64>)>,
    /// Name to ports and rules.
    groups: BTreeMap<String, (BTreeSet<String>, BTreeMap<String, u8>)>,
}

fn text(n: &u8) -> String {
    n.to_string()
}

impl World {
    fn desired(&self) -> Desired {
        let mut desired = Desired::new();
        let mut labels: BTreeSet<u8> = self.switches.values().flat_map(|s| s.1.iter().copied()).collect();
        labels.extend(self.groups.values().flat_map(|g| g.1.values().copied()));
        desired.extend(labels.iter().map(|n| Wanted::own(&Label { name: text(n) })));
        for (name, (setting, labels)) in &self.switches {
            let row = Switch {
                name: name.clone(),
                config: [("setting".to_owned(), text(setting)), (text(setting), "x".to_owned())].into(),
                labels: labels.iter().map(|n| Ref::key::<Label>(text(n))).collect(),
                ends: [Ref::key::<End>(format!("{name}-{setting}"))].into(),
                ..Switch::default()
            };
            desired.add(Wanted::own(&row));
            desired.add(Wanted::own(&End { name: format!("{name}-{setting}") }));
        }
        for (name, (switch, addresses, tag)) in &self.ports {
            let row = Port {
                name: name.clone(),
                addresses: addresses.iter().map(text).collect(),
                tag: *tag,
                notes: [("ours".to_owned(), name.clone())].into(),
                ..Port::default()
            };
            desired.add(Wanted::own(&row).under::<Switch>(switch.clone(), &Switch::ports()));
        }
        for (name, (ports, rules)) in &self.groups {
            let row = Group {
                name: name.clone(),
                ports: ports.iter().map(Ref::key::<Port>).collect(),
                rules: rules.keys().map(|id| Ref::key::<Rule>(format!("{name}:{id}"))).collect(),
                ..Group::default()
            };
            desired.add(Wanted::own(&row));
            for (id, matches) in rules {
                let label = Some(Ref::key::<Label>(text(matches)));
                let row = Rule { matches: text(matches), label, ..Rule::default() };
                desired.add(Wanted::own_as(format!("{name}:{id}"), &row));
            }
        }
        desired
    }

    /// Reads back, from the rows of one owner, the world they show. Written without looking at `diff`.
    fn shown(model: &Model, owner: &str) -> World {
        let have = model.snapshot();
        let mut world = World::default();
        let ours = |ids: &BTreeMap<String, String>| ids.get("owner").is_some_and(|o| o == owner);
        let ports = have.all::<Port>().unwrap();
        let name_of = |r: &Ref| ports.iter().find(|p| Some(p.uuid) == r.uuid()).map(|p| p.name.clone());
        let switches = have.all::<Switch>().unwrap();
        for switch in switches.iter().filter(|s| ours(&s.external_ids)) {
            let setting: u8 = switch.config["setting"].parse().unwrap();
            assert_eq!(switch.config.len(), 2, "settings left over: {:?}", switch.config);
            let labels = switch.labels.iter().map(|l| {
                have.get::<Label>(l.uuid().unwrap())
                    .unwrap()
                    .expect("a label that exists")
                    .name
                    .parse()
                    .unwrap()
            });
            let [end] = switch.ends.iter().collect::<Vec<_>>()[..] else { panic!("{:?}", switch.ends) };
            let end = have.get::<End>(end.uuid().unwrap()).unwrap().expect("an end that exists");
            assert_eq!(end.name, format!("{}-{setting}", switch.name));
            let again = world.switches.insert(switch.name.clone(), (setting, labels.collect()));
            assert_eq!(again, None, "two switches named {}", switch.name);
        }
        for port in ports.iter().filter(|p| ours(&p.external_ids)) {
            let holders: Vec<&str> = switches
                .iter()
                .filter(|s| s.ports.contains(&Ref::Uuid(port.uuid)))
                .map(|s| s.name.as_str())
                .collect();
            assert_eq!(holders.len(), 1, "port {} is in switches {holders:?}", port.name);
            let addresses = port.addresses.iter().map(|a| a.parse().unwrap()).collect();
            assert_eq!(port.notes.get("ours"), Some(&port.name));
            world.ports.insert(port.name.clone(), (holders[0].to_owned(), addresses, port.tag));
        }
        for group in have.all::<Group>().unwrap().iter().filter(|g| ours(&g.external_ids)) {
            let mut rules = BTreeMap::new();
            for reference in &group.rules {
                let rule = have.get::<Rule>(reference.uuid().unwrap()).unwrap().unwrap();
                let id = rule.external_ids["id"].split_once(':').unwrap().1.to_owned();
                rules.insert(id, rule.matches.parse().unwrap());
            }
            let members = group.ports.iter().filter_map(name_of).collect();
            world.groups.insert(group.name.clone(), (members, rules));
        }
        world
    }
}

fn settle(model: &mut Model, world: &World, owner: &Owner) -> Transaction {
    let transaction = diff(&world.desired(), &model.snapshot(), owner).unwrap();
    model.apply(&transaction).unwrap_or_else(|why| panic!("{why}: {transaction:#?}"));
    transaction
}

/// Worlds over few names, so that two of them overlap. `foreign` switches may be attached to.
fn world(prefix: &'static str, foreign: &'static [&'static str]) -> impl Strategy<Value = World> {
    let names = move |n: usize| {
        proptest::sample::subsequence((0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>(), 0..=n)
    };
    let switch = (0u8..3, proptest::collection::btree_set(0u8..4, 0..3));
    (names(4), names(6), names(3), proptest::collection::vec(switch, 4)).prop_flat_map(
        move |(switches, ports, groups, contents)| {
            let switches: BTreeMap<String, _> = switches.into_iter().zip(contents).collect();
            let mut homes: Vec<String> = switches.keys().cloned().collect();
            homes.extend(foreign.iter().map(|s| (*s).to_owned()));
            let ports = if homes.is_empty() { Vec::new() } else { ports };
            let home = proptest::sample::select(if homes.is_empty() { vec![String::new()] } else { homes });
            let port = (home, proptest::collection::btree_set(0u8..5, 0..4), proptest::option::of(1i64..4));
            let members = proptest::sample::subsequence(ports.clone(), 0..=ports.len());
            let members = members.prop_map(|m| m.into_iter().collect());
            let rules = proptest::collection::btree_map("[a-c]", 0u8..3, 0..3);
            (
                Just(switches),
                proptest::collection::vec(port, ports.len()),
                proptest::collection::vec((members, rules), groups.len()),
            )
                .prop_map(move |(switches, homes, contents)| World {
                    switches,
                    ports: ports.iter().cloned().zip(homes).collect(),
                    groups: groups.iter().cloned().zip(contents).collect(),
                })
        },
    )
}

/// The labels are all ours: another party's switches have none.
fn their_world() -> impl Strategy<Value = World> {
    world("t", &[]).prop_map(|mut world| {
        world.switches.values_mut().for_each(|s| s.1.clear());
        world.groups.values_mut().for_each(|g| g.1.clear());
        world.switches.insert("common".into(), (0, BTreeSet::new()));
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// From any world to any other, beside another party whose switch we have ports in.
    #[test]
    fn the_rows_become_what_is_wanted_and_nobody_elses_change(
        theirs in their_world(), first in world("u", &["common"]), second in world("u", &["common"]),
    ) {
        let mut model = model();
        settle(&mut model, &theirs, &them());
        settle(&mut model, &first, &us());
        prop_assert_eq!(World::shown(&model, "us"), first.clone());
        settle(&mut model, &second, &us());
        prop_assert_eq!(World::shown(&model, "us"), second.clone());
        prop_assert_eq!(World::shown(&model, "them"), theirs.clone());
        // Both have what they want: nobody has anything to do.
        prop_assert!(diff(&second.desired(), &model.snapshot(), &us()).unwrap().is_empty());
        prop_assert!(diff(&theirs.desired(), &model.snapshot(), &them()).unwrap().is_empty());
    }

    #[test]
    fn wanting_nothing_removes_every_row_of_ours_and_no_other(
        theirs in their_world(), ours in world("u", &["common"]),
    ) {
        let mut model = model();
        settle(&mut model, &theirs, &them());
        let before = model.rows.clone();
        settle(&mut model, &ours, &us());
        settle(&mut model, &World::default(), &us());
        let empties_dropped = |rows: &BTreeMap<(String, Uuid), Columns>| -> Vec<_> {
            let kept = |c: &Columns| c.iter().filter(|(_, d)| !d.is_empty()).map(|(k, d)| (k.clone(), d.clone())).collect::<Columns>();
            rows.iter().map(|(k, c)| (k.clone(), kept(c))).collect()
        };
        prop_assert_eq!(empties_dropped(&model.rows), empties_dropped(&before));
    }

    /// Naming every row there was and is comes to the same as naming none.
    #[test]
    fn a_part_that_is_everything_gives_the_whole_difference(
        theirs in their_world(), first in world("u", &["common"]), second in world("u", &["common"]),
    ) {
        let mut model = model();
        settle(&mut model, &theirs, &them());
        settle(&mut model, &first, &us());
        let gone: Vec<RowKey> = first.desired().gathered(&us()).unwrap().into_keys().collect();
        let have = model.snapshot();
        let part = diff_part(&second.desired(), &gone, &have, &us()).unwrap();
        prop_assert_eq!(part, diff(&second.desired(), &have, &us()).unwrap());
    }

    /// What cannot be done is said, and does not keep the rest from being done.
    #[test]
    fn rows_in_trouble_leave_the_others_to_be_put_right(
        first in world("u", &[]), second in world("u", &[]), strange in proptest::sample::subsequence((0..6).collect::<Vec<usize>>(), 0..3),
    ) {
        let mut model = model();
        settle(&mut model, &first, &us());
        let mut desired = second.desired();
        for n in &strange {
            // A port in a switch that is nowhere; some of these ports exist, elsewhere.
            let row = Port { name: format!("x{n}"), ..Port::default() };
            desired.add(Wanted::own(&row).under::<Switch>("nowhere", &Switch::ports()));
        }
        let (transaction, wrong) = diff_most(desired.clone(), &model.snapshot(), &us());
        prop_assert_eq!(wrong.is_empty(), strange.is_empty());
        model.apply(&transaction).unwrap();
        prop_assert_eq!(World::shown(&model, "us"), second);
    }

    /// Each row of ours that differs costs at most two operations, whatever else there is.
    #[test]
    fn operations_are_bounded_by_what_differs(
        first in world("u", &[]), second in world("u", &[]),
    ) {
        let mut model = model();
        settle(&mut model, &first, &us());
        let before = model.rows.clone();
        let transaction = settle(&mut model, &second, &us());
        let keys: BTreeSet<_> = before.keys().chain(model.rows.keys()).collect();
        let differing = keys.into_iter().filter(|k| before.get(k) != model.rows.get(k)).count();
        prop_assert!(transaction.operations().len() <= 2 * differing);
    }
}

fn many_ports(count: usize) -> World {
    let mut world = World::default();
    world.switches.insert("s".into(), (0, BTreeSet::new()));
    for n in 0..count {
        world.ports.insert(format!("p{n}"), ("s".into(), [1].into(), None));
    }
    world
}

#[test]
fn one_more_port_is_two_operations_in_a_small_and_in_a_large_database() {
    for count in [1, 10, 1000] {
        let mut model = model();
        settle(&mut model, &many_ports(count), &us());
        let mut more = many_ports(count);
        more.ports.insert("new".into(), ("s".into(), [7].into(), None));
        let transaction = settle(&mut model, &more, &us());
        let [insert, mutate] = transaction.operations() else { panic!("{transaction:?}") };
        assert!(matches!(insert, Operation::Insert { table, .. } if table == "Port"));
        let Operation::Mutate { table, mutations, .. } = mutate else { panic!("{mutate}") };
        assert_eq!((table.as_str(), mutations.len()), ("Switch", 1), "other ports are not even mentioned");
    }
}

#[test]
fn one_address_more_in_a_large_set_is_sent_alone() {
    let mut model = model();
    let mut world = many_ports(1);
    world.ports.get_mut("p0").unwrap().1 = (0..200).collect();
    settle(&mut model, &world, &us());
    world.ports.get_mut("p0").unwrap().1.insert(250);
    let transaction = settle(&mut model, &world, &us());
    let [Operation::Mutate { mutations, .. }] = transaction.operations() else { panic!("{transaction:?}") };
    assert_eq!(*mutations, [crate::transaction::Mutation::Insert("addresses".into(), Datum::set(["250"]))]);
}

#[test]
fn entries_that_others_write_into_a_merged_column_stay() {
    let mut model = model();
    settle(&mut model, &many_ports(1), &us());
    let port = model.rows.iter_mut().find(|(k, _)| k.0 == "Port").unwrap().1;
    port.insert("notes".into(), Datum::map([("ours", "wrong"), ("installed", "true")]));
    port.insert("up".into(), Datum::one(true));
    settle(&mut model, &many_ports(1), &us());
    let port = &model.snapshot().all::<Port>().unwrap()[0];
    assert_eq!(port.notes, [("installed".into(), "true".into()), ("ours".into(), "p0".into())].into());
    assert_eq!(port.up, Some(true), "a status column is not ours to write");
}

#[test]
fn a_shared_row_keeps_everything_but_what_we_say_about_it() {
    let mut model = model();
    let mut theirs = many_ports(2);
    theirs.switches.get_mut("s").unwrap().0 = 2;
    settle(&mut model, &theirs, &them());
    let port = Port { name: "mine".into(), ..Port::default() };
    let desired = Desired::new()
        .with(Wanted::share::<Switch>("s").put("config", "mine", "1").unset("config", "2"))
        .with(Wanted::own(&port).under::<Switch>("s", &Switch::ports()));
    model.apply(&diff(&desired, &model.snapshot(), &us()).unwrap()).unwrap();
    let switch = model.snapshot().named::<Switch>("s").unwrap().unwrap();
    let config: Vec<(&str, &str)> = switch.config.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(config, [("mine", "1"), ("setting", "2")]);
    assert_eq!(switch.ports.len(), 3);
    assert_eq!(switch.external_ids["owner"], "them");
    assert!(diff(&desired, &model.snapshot(), &us()).unwrap().is_empty());
}

#[test]
fn a_missing_row_is_made_where_it_is_to_be_ensured_and_an_error_where_shared() {
    let mut model = model();
    let shared = Desired::new().with(Wanted::share::<Switch>("s"));
    let missing = diff(&shared, &model.snapshot(), &us()).unwrap_err();
    assert_eq!(missing.to_string(), "Switch \"s\" is to be shared and does not exist");
    let ensured = Desired::new().with(Wanted::ensure::<Switch>("s").put("config", "a", "b"));
    model.apply(&diff(&ensured, &model.snapshot(), &us()).unwrap()).unwrap();
    let switch = model.snapshot().named::<Switch>("s").unwrap().unwrap();
    assert_eq!((switch.config.len(), switch.external_ids.len()), (1, 0));
    assert!(diff(&Desired::new(), &model.snapshot(), &us()).unwrap().is_empty(), "it is not ours to remove");
}

#[test]
fn a_row_of_the_same_name_without_our_mark_is_left_alone_unless_adopted() {
    let mut model = model();
    settle(&mut model, &many_ports(0), &them());
    let row = Switch { name: "s".into(), ends: [Ref::key::<End>("s-0")].into(), ..Switch::default() };
    let end = Wanted::own(&End { name: "s-0".into() });
    let own = Desired::new().with(Wanted::own(&row)).with(end.clone());
    let refused = diff(&own, &model.snapshot(), &us()).unwrap_err();
    assert_eq!(refused.to_string(), "Switch \"s\" exists and is not ours");
    let adopt = Desired::new().with(Wanted::own(&row).adopt()).with(end);
    model.apply(&diff(&adopt, &model.snapshot(), &us()).unwrap()).unwrap();
    let switches = model.snapshot().all::<Switch>().unwrap();
    assert_eq!((switches.len(), switches[0].external_ids["owner"].as_str()), (1, "us"));
}

#[test]
fn a_second_row_of_ours_with_the_same_key_is_removed() {
    let mut model = model();
    settle(&mut model, &many_ports(0), &us());
    let (key, row) =
        model.rows.iter().find(|(k, _)| k.0 == "Switch").map(|(k, r)| (k.clone(), r.clone())).unwrap();
    model.rows.insert((key.0, Uuid::from_u128(u128::MAX)), row);
    let transaction = settle(&mut model, &many_ports(0), &us());
    let switches = model.snapshot().all::<Switch>().unwrap().len();
    assert_eq!((transaction.operations().len(), switches), (1, 1));
}

#[test]
fn what_cannot_be_is_refused_with_the_row_and_the_reason() {
    let port = Port { name: "p".into(), ..Port::default() };
    let group = Group { name: "g".into(), ports: [Ref::key::<Port>("p9")].into(), ..Group::default() };
    let coloured = Port { colour: "red".into(), ..port.clone() };
    let rule = Rule::default();
    let table: Vec<(Desired, &str)> = vec![
        (
            Desired::new().with(Wanted::own(&port)),
            "Port \"p\" is wanted but no row refers to it, so it would not stay",
        ),
        (
            Desired::new().with(Wanted::own(&group)),
            "column ports of Group \"g\" refers to Port \"p9\", which neither exists nor is wanted",
        ),
        (
            Desired::new().with(Wanted::own(&coloured).under::<Switch>("s", &Switch::ports())),
            "column colour of Port \"p\" is to be set, and schema version 1.2.3 does not have it",
        ),
        (Desired::new().with(Wanted::own(&port)).with(Wanted::own(&port)), "Port \"p\" is wanted twice"),
        (
            Desired::new().with(Wanted::ensure::<Switch>("s").set_datum("smell", Datum::one("rose"))),
            "column smell of Switch \"s\" is to be set, and is not declared",
        ),
        (Desired::new().with(Wanted::own(&rule)), "a wanted row of Rule has no key"),
        (
            Desired::new().with(Wanted::dynamic(crate::tables::northbound::Acl::DECL, "a", Hold::Own)),
            "table ACL is not among those copied",
        ),
    ];
    for (desired, expected) in table {
        assert_eq!(diff(&desired, &model().snapshot(), &us()).unwrap_err().to_string(), expected);
    }
    let empty = Snapshot::empty(&Spec::new("Toy"));
    assert_eq!(diff(&Desired::new(), &empty, &us()), Err(DiffError::NotLoaded));
}

#[test]
fn a_part_touches_neither_the_rest_nor_foreign_rows_of_the_same_name() {
    let mut model = model();
    settle(&mut model, &many_ports(100), &us());
    let port = Port { name: "new".into(), ..Port::default() };
    let desired = Desired::new().with(Wanted::own(&port).under::<Switch>("s", &Switch::ports()));
    let gone = [RowKey::new("Port", "p7"), RowKey::new("Port", "never there"), RowKey::new("Port", "new")];
    let transaction = diff_part(&desired, &gone, &model.snapshot(), &us()).unwrap();
    assert_eq!(transaction.operations().len(), 2, "insert the port; exchange it for the other in the switch");
    model.apply(&transaction).unwrap();
    let have = model.snapshot();
    let names: BTreeSet<String> = have.all::<Port>().unwrap().into_iter().map(|p| p.row.name).collect();
    assert!(names.contains("new") && !names.contains("p7"));
    assert_eq!(names.len(), 100);
    assert!(diff_part(&Desired::new(), &[RowKey::new("Port", "p1")], &have, &them()).unwrap().is_empty());
}

/// Ports of one switch that are members of groups, which are written without them.
fn members(groups: &[&str], ports: &[(&str, &str)]) -> Desired {
    let groups = groups.iter().map(|name| Wanted::dynamic(Group::DECL, *name, Hold::Own));
    let ports = ports.iter().map(|(name, group)| {
        let row = Port { name: (*name).to_owned(), ..Port::default() };
        let port = Wanted::own(&row).under::<Switch>("s", &Switch::ports());
        port.under::<Group>(*group, &Group::ports())
    });
    groups.chain(ports).collect()
}

/// The members of a group, by name.
fn members_of(model: &Model, group: &str) -> BTreeSet<String> {
    let have = model.snapshot();
    let group = have.named::<Group>(group).unwrap().expect("a group");
    let name = |member: &Ref| have.get::<Port>(member.uuid().unwrap()).unwrap().unwrap().row.name;
    group.ports.iter().map(name).collect()
}

/// Two groups of ours with a member each.
fn two_groups() -> Model {
    let mut model = model();
    settle(&mut model, &many_ports(0), &them());
    let desired = members(&["g", "h"], &[("p", "g"), ("q", "h")]);
    model.apply(&diff(&desired, &model.snapshot(), &us()).unwrap()).unwrap();
    model
}

#[test]
fn a_row_named_with_some_of_its_members_keeps_the_others() {
    let mut model = two_groups();
    let desired = members(&["g", "h"], &[("new", "g")]);
    model.apply(&diff_part(&desired, &[], &model.snapshot(), &us()).unwrap()).unwrap();
    assert_eq!(members_of(&model, "g"), ["new".to_owned(), "p".to_owned()].into());
    assert_eq!(members_of(&model, "h"), ["q".to_owned()].into());
    // All of them are all of them.
    model.apply(&diff(&desired, &model.snapshot(), &us()).unwrap()).unwrap();
    assert_eq!(members_of(&model, "g"), ["new".to_owned()].into());
}

#[test]
fn a_member_in_doubt_goes_unless_it_is_wanted_there() {
    let mut model = two_groups();
    let uuid = |port: &str| model.snapshot().named::<Port>(port).unwrap().expect("a port").uuid;
    let (p, q) = (uuid("p"), uuid("q"));
    let group = model.snapshot().named::<Group>("g").unwrap().expect("a group").uuid;
    let mut by_hand = Transaction::new();
    let both = Datum::set([p, q].map(crate::value::Atom::Uuid));
    by_hand.update("Group", group, [("ports".to_owned(), both)].into());
    model.apply(&by_hand).unwrap();
    let mut desired = members(&["g"], &[("p", "g"), ("q", "h")]);
    let undoubted = diff_part(&desired, &[], &model.snapshot(), &us()).unwrap();
    assert!(undoubted.is_empty(), "members that are not named stay: {undoubted:?}");
    for port in [p, q] {
        desired.doubt(RowKey::new("Group", "g"), "ports", port);
    }
    model.apply(&diff_part(&desired, &[], &model.snapshot(), &us()).unwrap()).unwrap();
    assert_eq!(members_of(&model, "g"), ["p".to_owned()].into());
    assert_eq!(members_of(&model, "h"), ["q".to_owned()].into());
}

#[test]
fn what_a_daemon_has_yet_to_make_is_not_missed_and_seen_to_once_it_is_there() {
    let mut model = model();
    let desired = Desired::new().with(Wanted::if_there::<Switch>("s").put("config", "bound", "yes"));
    assert!(diff(&desired, &model.snapshot(), &us()).unwrap().is_empty());
    settle(&mut model, &many_ports(1), &them());
    model.apply(&diff(&desired, &model.snapshot(), &us()).unwrap()).unwrap();
    let switch = model.snapshot().named::<Switch>("s").unwrap().unwrap();
    assert_eq!((switch.config["bound"].as_str(), switch.external_ids["owner"].as_str()), ("yes", "them"));
}

#[test]
fn each_row_in_trouble_is_named_once_and_left_as_it_is() {
    let mut model = model();
    let mut theirs = many_ports(1);
    theirs.switches.insert("t".into(), (0, BTreeSet::new()));
    settle(&mut model, &theirs, &them());
    let mine = Group { name: "mine".into(), ..Group::default() };
    let lists = Group {
        name: "lists".into(),
        ports: [Ref::key::<Port>("p0"), Ref::key::<Port>("nobody")].into(),
        ..Group::default()
    };
    let coloured = Port { name: "p1".into(), colour: "red".into(), ..Port::default() };
    let rule = Rule { label: Some(Ref::key::<Label>("none")), ..Rule::default() };
    let desired = Desired::new()
        .with(Wanted::own(&Switch { name: "t".into(), ..Switch::default() }))
        .with(Wanted::own(&mine))
        .with(Wanted::own(&mine))
        .with(Wanted::own(&lists))
        .with(Wanted::own(&coloured).under::<Switch>("s", &Switch::ports()))
        .with(Wanted::own_as("r", &rule).under::<Group>("mine", &Group::rules()));
    let (transaction, wrong) = diff_most(desired.clone(), &model.snapshot(), &us());
    let mut texts: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    texts.sort();
    assert_eq!(
        texts,
        [
            "Group \"mine\" is wanted twice",
            "Switch \"t\" exists and is not ours",
            "column colour of Port \"p1\" is to be set, and schema version 1.2.3 does not have it",
            "column label of Rule \"r\" refers to Label \"none\", which neither exists nor is wanted",
            "column ports of Group \"lists\" refers to Port \"nobody\", which neither exists nor is wanted",
        ]
    );
    model.apply(&transaction).unwrap();
    let have = model.snapshot();
    assert_eq!(have.named::<Group>("lists").unwrap().unwrap().ports.len(), 1);
    assert!(have.named::<Group>("mine").unwrap().unwrap().rules.is_empty());
    assert_eq!(World::shown(&model, "them"), theirs);
}

#[test]
fn the_work_for_a_part_depends_on_what_is_asked_not_on_what_is_there() {
    let mut model = model();
    settle(&mut model, &many_ports(3000), &us());
    let (have, desired) = (model.snapshot(), many_ports(3000).desired());
    let port = Port { name: "new".into(), ..Port::default() };
    let one = Desired::new().with(Wanted::own(&port).under::<Switch>("s", &Switch::ports()));
    let time = |work: &dyn Fn()| {
        let start = std::time::Instant::now();
        work();
        start.elapsed()
    };
    let whole = time(&|| drop(diff(&desired, &have, &us()).unwrap()));
    let part = |_| time(&|| drop(diff_part(&one, &[RowKey::new("Port", "p7")], &have, &us()).unwrap()));
    // Both on a machine that may be busy, and a thousand times apart: the best of a few is far below.
    let part = (0..5).map(part).min().unwrap();
    assert!(part * 20 < whole, "a part took {part:?}, the whole {whole:?}");
}
