//! What the diff of tables promises, over generated tables: it is applied to a model that refuses what the kernel
//! refuses (a chain or set that something points to cannot go, nothing can point to what is not there).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::diff::{Reference, references};
use super::*;
use crate::mark::Mark;

const CHAINS: [&str; 3] = ["a", "b", "c"];
const SETS: [&str; 3] = ["s", "m", "v"];

fn value(i: u8) -> Value {
    Value::V4(Ipv4Addr::new(10, 0, 0, i))
}

fn rule() -> impl Strategy<Value = Rule> {
    let key = || vec![Source::Payload(Payload::source(crate::Family::V4))];
    prop_oneof![
        Just(Rule::new().accept()),
        Just(Rule::new().counter().drop()),
        Just(Rule::new().jump("c")),
        Just(Rule::new().in_set(key(), "s")),
        Just(Rule::new().set_mark(Source::map(key(), "m"))),
        Just(Rule::new().verdict_map(key(), "v")),
    ]
}

fn chain(hooked: bool) -> impl Strategy<Value = Chain> {
    (prop::collection::vec(rule(), 0..4), 0i32..2, any::<bool>()).prop_map(move |(rules, priority, drop)| {
        let policy = if drop { Policy::Drop } else { Policy::Accept };
        if hooked {
            Chain::at(HookKind::Filter, HookPoint::Input, priority, rules).policy(policy)
        } else {
            Chain::regular(rules)
        }
    })
}

fn table(family: TableFamily) -> impl Strategy<Value = Table> {
    let members = prop::collection::btree_map(0u8..5, 0u8..3, 0..5);
    // `c` is sometimes hooked: then it is another chain and must be made again.
    let last = prop_oneof![chain(false).boxed(), chain(true).boxed()];
    (chain(true), chain(false), last, members, any::<bool>(), any::<bool>()).prop_map(
        move |(a, b, mut c, members, intervals, dormant)| {
            // A chain may not jump to itself.
            c.rules.retain(|r| *r != Rule::new().jump("c"));
            let key = |i: u8| {
                if intervals { Key::range([value(i)], [value(i)]) } else { Key::exact([value(i)]) }
            };
            let shape = |set: Set| if intervals { set.with_intervals() } else { set };
            let each = |data: &dyn Fn(u8) -> Data| -> Vec<(Key, Data)> {
                members.iter().map(|(k, v)| (key(*k), data(*v))).collect()
            };
            let verdict = |v: u8| match v {
                0 => Verdict::Drop,
                1 => Verdict::Jump("b".into()),
                _ => Verdict::Goto("c".into()),
            };
            let mut table = Table::new(family, "netferry")
                .chain(CHAINS[0], a)
                .chain(CHAINS[1], b)
                .chain(CHAINS[2], c)
                .set(SETS[0], shape(Set::of([Datatype::V4])).with(each(&|_| Data::None)))
                .set(
                    SETS[1],
                    shape(Set::map([Datatype::V4], [Datatype::Mark]))
                        .with(each(&|v| Data::Values(vec![Value::Mark(v.into())]))),
                )
                .set(
                    SETS[2],
                    shape(Set::verdicts([Datatype::V4])).with(each(&|v| Data::Verdict(verdict(v)))),
                );
            table.flags.dormant = dormant;
            table
        },
    )
}

/// Numbers the rules as the kernel would.
fn seen(table: &Table, next: &mut u64) -> Table {
    let mut table = table.clone();
    for chain in table.chains.values_mut() {
        for rule in &mut chain.rules {
            *next += 1;
            rule.seen = Some(Seen { handle: *next, counts: vec![] });
        }
    }
    table
}

fn points_to(table: &Table, kind: &str, name: &str) -> bool {
    let mut found = false;
    for statement in table.chains.values().flat_map(|c| &c.rules).flat_map(|r| &r.statements) {
        references(statement, &mut |reference| {
            found |= match reference {
                Reference::Chain(chain) => kind == "chain" && chain == name,
                Reference::Set(set) => kind == "set" && set == name,
            }
        });
    }
    let verdicts = table.sets.values().flat_map(|s| s.elements.values());
    found
        || kind == "chain"
            && verdicts
                .into_iter()
                .any(|d| matches!(d, Data::Verdict(Verdict::Jump(c) | Verdict::Goto(c)) if c == name))
}

fn applied(have: &Ruleset, changes: &Changes, next: &mut u64) -> BTreeMap<TableId, Table> {
    let mut tables: BTreeMap<TableId, Table> = have.tables.iter().map(|t| (t.id(), t.clone())).collect();
    for step in &changes.steps {
        match step {
            Change::NewTable(id, flags) => {
                let table = Table { flags: *flags, ..Table::new(id.family, id.name.clone()) };
                assert!(tables.insert(id.clone(), table).is_none());
            }
            Change::DelTable(id) => assert!(tables.remove(id).is_some()),
            Change::DelRule { table, chain, handle } => {
                let rules = &mut tables.get_mut(table).unwrap().chains.get_mut(chain).unwrap().rules;
                let at = rules.iter().position(|r| r.seen.as_ref().unwrap().handle == *handle).unwrap();
                rules.remove(at);
            }
            Change::FirstRule { .. } => panic!("a table of ours is never changed so: {step:?}"),
            Change::DelElements { table, name, set } => {
                let elements = &mut tables.get_mut(table).unwrap().sets.get_mut(name).unwrap().elements;
                set.elements.keys().for_each(|k| assert!(elements.remove(k).is_some()));
            }
            Change::DelChain(id, name) => {
                let table = tables.get_mut(id).unwrap();
                table.chains.get_mut(name).unwrap().rules.clear();
                assert!(!points_to(table, "chain", name), "{name} is in use: {changes:#?}");
                table.chains.remove(name).unwrap();
            }
            Change::DelSet(id, name) => {
                let table = tables.get_mut(id).unwrap();
                assert!(!points_to(table, "set", name), "{name} is in use: {changes:#?}");
                table.sets.remove(name).unwrap();
            }
            Change::NewSet { table, name, set } => {
                assert!(tables.get_mut(table).unwrap().sets.insert(name.clone(), set.clone()).is_none());
            }
            Change::NewChain { table, name, hook } => {
                let chain = tables.get_mut(table).unwrap().chains.entry(name.clone()).or_default();
                chain.hook.clone_from(hook);
            }
            Change::AddElements { table, name, set } => {
                let table = tables.get_mut(table).unwrap();
                for data in set.elements.values() {
                    if let Data::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) = data {
                        assert!(table.chains.contains_key(chain), "{chain} is not there yet");
                    }
                }
                let elements = &mut table.sets.get_mut(name).unwrap().elements;
                for (k, d) in &set.elements {
                    assert!(elements.insert(k.clone(), d.clone()).is_none(), "{k} is there already");
                }
            }
            Change::NewRule { table, chain, rule } => {
                let table = tables.get_mut(table).unwrap();
                for statement in &rule.statements {
                    references(statement, &mut |reference| match reference {
                        Reference::Chain(chain) => assert!(table.chains.contains_key(chain)),
                        Reference::Set(set) => assert!(table.sets.contains_key(set)),
                    });
                }
                *next += 1;
                let seen = Some(Seen { handle: *next, counts: vec![] });
                table.chains.get_mut(chain).unwrap().rules.push(Rule { seen, ..rule.clone() });
            }
        }
    }
    tables
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn tables_become_what_is_wanted_by_steps_the_kernel_takes(
        have in prop::option::of(table(TableFamily::Inet)),
        want in prop::option::of(table(TableFamily::Inet)),
        six in prop::option::of(table(TableFamily::Ip6)),
    ) {
        let mark = Mark::default();
        let mut next = 0;
        let foreign = Table::new(TableFamily::Inet, "somebody");
        let mut tables: Vec<Table> = have.iter().map(|t| seen(t, &mut next)).collect();
        tables.push(foreign.clone());
        let have = Ruleset { generation: 7, tables };
        let wanted: Vec<Table> = want.into_iter().chain(six).collect();
        let changes = diff(&wanted, &have, &mark);
        prop_assert_eq!(changes.generation, 7);
        let world = applied(&have, &changes, &mut next);
        let mut expected: BTreeMap<TableId, Table> = wanted.iter().map(|t| (t.id(), t.clone())).collect();
        expected.insert(foreign.id(), foreign);
        prop_assert_eq!(&world, &expected);
        let after = Ruleset { generation: 8, tables: world.into_values().collect() };
        prop_assert!(diff(&wanted, &after, &mark).is_empty(), "a second time there is nothing to do");
    }
}
