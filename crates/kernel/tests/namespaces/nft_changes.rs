//! Transactions: atomic, guarded, minimal.

use std::net::Ipv4Addr;

use netferry_kernel::nft::{
    Chain, Change, Copy, Data, Datatype, HookKind, HookPoint, Key, LeadsTo, Meta, Policy, Rule, Set, Source,
    Table, TableFamily, Value, Verdict, diff,
};
use netferry_kernel::{Error, Kernel, Objects, Then};
use nix::errno::Errno;

use crate::nft::{everything, v4};
use crate::world::{json, kernel, mark, name, nft, run};

fn addresses(count: u32) -> Set {
    let pod = |i: u32| Value::V4(Ipv4Addr::from(0x0a00_0000 + i));
    let egress = |i: u32| Value::V4(Ipv4Addr::from(0xc0a8_0000 + i % 250));
    Set::map([Datatype::V4], [Datatype::V4])
        .with((0..count).map(|i| (Key::exact([pod(i)]), Data::Values(vec![egress(i)]))))
}

fn table() -> Table {
    Table::new(TableFamily::Inet, "netferry")
}

fn converge(kernel: &Kernel, want: &Table) -> Vec<Change> {
    kernel.nft().converge(std::slice::from_ref(want), &mark()).unwrap().steps
}

#[test]
fn ten_thousand_elements_load_in_one_transaction_and_one_changes_alone() {
    let kernel = kernel();
    let mut want = table().set("egress", addresses(10_000));
    let steps = converge(&kernel, &want);
    assert_eq!(steps.len(), 3, "a table, a map, its elements");
    assert_eq!(kernel.nft().generation().unwrap(), 2, "one transaction is one generation");
    let ruleset = kernel.nft().observe_named("netferry").unwrap();
    assert_eq!(ruleset.tables[0], want);

    let key = Key::exact([v4(10, 0, 0, 7)]);
    want.sets.get_mut("egress").unwrap().elements.insert(key, Data::Values(vec![v4(1, 2, 3, 4)]));
    let steps = converge(&kernel, &want);
    let sizes: Vec<usize> = steps
        .iter()
        .map(|step| {
            let (Change::DelElements { set, .. } | Change::AddElements { set, .. }) = step else {
                panic!("{step:?}")
            };
            set.elements.len()
        })
        .collect();
    assert_eq!(sizes, [1, 1], "the value changes by one removal and one addition");
    let listed = json(&kernel, "nft -j list map inet netferry egress");
    let map = listed["nftables"].as_array().unwrap().iter().find_map(|o| o.get("map")).unwrap();
    let elements = map["elem"].as_array().unwrap();
    assert_eq!(elements.len(), 10_000);
    assert!(elements.contains(&serde_json::json!(["10.0.0.7", "1.2.3.4"])));
}

#[test]
fn a_plan_for_a_ruleset_that_changed_meanwhile_is_refused_whole() {
    let kernel = kernel();
    let have = kernel.nft().observe().unwrap();
    let changes = diff(&[table()], &have, &mark());
    nft(&kernel, "add table ip somebody");
    let error = kernel.nft().apply(&changes).unwrap_err();
    assert!(matches!(error, Error::Stale { planned, .. } if planned == have.generation), "{error:?}");
    assert_eq!(error.then(), Then::Replan);
    assert!(!run(&kernel, "nft list tables").contains("netferry"));
    let changes = diff(&[table()], &kernel.nft().observe().unwrap(), &mark());
    kernel.nft().apply(&changes).unwrap();
    assert!(run(&kernel, "nft list tables").contains("table inet netferry"));
}

#[test]
fn converging_succeeds_while_somebody_else_keeps_changing_the_ruleset() {
    let kernel = kernel();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                run(&kernel, "nft add table ip busy");
                run(&kernel, "nft delete table ip busy");
            }
        });
        for count in 1..50 {
            converge(&kernel, &table().set("egress", addresses(count)));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(kernel.nft().observe_named("netferry").unwrap().tables[0].sets["egress"], addresses(49));
}

#[test]
fn a_transaction_with_one_bad_step_does_nothing_and_names_it() {
    let kernel = kernel();
    converge(&kernel, &everything());
    let before = kernel.nft().observe().unwrap();
    let bad = [
        (
            table().chain("c", Chain::regular(vec![Rule::new().jump("nowhere")])),
            Errno::ENOENT,
            "rule of inet netferry c",
        ),
        (
            table()
                .chain("c", Chain::regular(vec![Rule::new().in_set([Source::Meta(Meta::Mark)], "nosuch")])),
            Errno::ENOENT,
            "rule of inet netferry c",
        ),
        (
            table()
                .chain("in", Chain::at(HookKind::Filter, HookPoint::Input, 0, vec![Rule::new().jump("c")]))
                .chain("c", Chain::regular(vec![Rule::new().jump("c")])),
            Errno::EMLINK,
            "rule of inet netferry",
        ),
    ];
    for (want, errno, object) in bad {
        let error = kernel.nft().converge(&[want], &mark()).unwrap_err();
        assert_eq!(error.errno(), Some(errno), "{error:?}");
        assert!(error.to_string().contains(object), "{error}");
        assert_eq!(kernel.nft().observe().unwrap(), before);
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_sent() {
    let kernel = kernel();
    let misfit = Set::of([Datatype::V4]).with([(Key::exact([Value::Port(80)]), Data::None)]);
    let wrong_data = Set::map([Datatype::V4], [Datatype::V4])
        .with([(Key::exact([v4(1, 2, 3, 4)]), Data::Verdict(Verdict::Drop))]);
    for want in [
        table().set("s", misfit),
        table().set("s", wrong_data),
        table().set("", Set::of([Datatype::V4])),
        table().chain("c\0d", Chain::default()),
    ] {
        let error = kernel.nft().converge(&[want], &mark()).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    }
    assert_eq!(run(&kernel, "nft list ruleset").trim(), "");
}

#[test]
fn tables_of_others_are_never_touched() {
    let kernel = kernel();
    nft(
        &kernel,
        "add table inet other\nadd set inet other s { type ipv4_addr; elements = { 1.2.3.4 }; }\nadd table ip netferry2",
    );
    let foreign = || run(&kernel, "nft list table inet other");
    let before = foreign();
    converge(&kernel, &everything());
    let changes = kernel.nft().converge(&[Table::new(TableFamily::Ip, "other")], &mark()).unwrap();
    assert_eq!(changes.unmarked.len(), 1, "and a table that nothing would ever remove is not made");
    assert_eq!(foreign(), before);
    assert!(kernel.nft().observe_named("netferry").unwrap().tables.is_empty(), "ours is gone");
    run(&kernel, "nft list table ip netferry2");
}

#[test]
fn rules_before_the_first_difference_keep_their_counters() {
    let kernel = kernel();
    let chain = |rules| Chain::at(HookKind::Filter, HookPoint::Output, 0, rules);
    let lo = || Rule::new().oifname(&name("lo")).counter();
    run(&kernel, "ip link set lo up");
    converge(&kernel, &table().chain("out", chain(vec![lo(), Rule::new().drop()])));
    let socket = kernel.namespace().run(|| std::net::UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    let _ = socket.send_to(b"x", "127.0.0.1:9");
    let steps = converge(&kernel, &table().chain("out", chain(vec![lo(), Rule::new().accept()])));
    assert_eq!(steps.len(), 2, "one rule goes, one comes: {steps:?}");
    let have = kernel.nft().observe_named("netferry").unwrap();
    let seen = have.tables[0].chains["out"].rules[0].seen.as_ref().unwrap();
    assert_eq!(seen.counts[0].packets, 1);
}

#[test]
fn what_cannot_be_changed_is_made_again_with_all_that_points_to_it() {
    let kernel = kernel();
    let key = || vec![Source::Meta(Meta::Mark)];
    let shape = |set: Set, priority| {
        table()
            .set("marks", set)
            .set(
                "verdicts",
                Set::verdicts([Datatype::Mark])
                    .with([(Key::exact([Value::Mark(1)]), Data::Verdict(Verdict::Goto("target".into())))]),
            )
            .chain("target", Chain::regular(vec![Rule::new().drop()]))
            .chain(
                "in",
                Chain::at(
                    HookKind::Filter,
                    HookPoint::Input,
                    priority,
                    vec![
                        Rule::new().accept(),
                        Rule::new().in_set(key(), "marks").accept(),
                        Rule::new().verdict_map(key(), "verdicts"),
                    ],
                ),
            )
    };
    let one = shape(Set::of([Datatype::Mark]), 0);
    let interval = shape(Set::of([Datatype::Mark]).with_intervals(), 0);
    let moved = shape(Set::of([Datatype::Mark]).with_intervals(), 10);
    let mut drops = moved.clone();
    drops.chains.get_mut("in").unwrap().hook.as_mut().unwrap().policy = Policy::Drop;
    let mut hooked = drops.clone();
    hooked.chains.insert("target".into(), Chain::regular(vec![]));
    for want in [&one, &interval, &moved, &drops, &hooked, &one] {
        converge(&kernel, want);
        let have = kernel.nft().observe_named("netferry").unwrap();
        assert_eq!(&have.tables[0], want);
        assert!(converge(&kernel, want).is_empty());
    }
    let steps = {
        converge(&kernel, &moved);
        converge(&kernel, &drops)
    };
    assert_eq!(steps.len(), 1, "a policy changes in place: {steps:?}");
    assert_eq!(one.sets["marks"].leads_to, LeadsTo::Nothing);
}

#[test]
fn a_table_with_an_owner_goes_when_its_socket_closes() {
    let other = kernel();
    let owner = Kernel::inside(other.namespace().try_clone().unwrap()).unwrap();
    let mut want = table();
    want.flags.owner = true;
    converge(&owner, &want);
    let error = other.nft().converge(&[], &mark()).unwrap_err();
    assert_eq!(error.then(), Then::Permission);
    assert!(run(&other, "nft list tables").contains("netferry"));
    drop(owner);
    // A test beside this one may be starting a process, which holds every descriptor until it runs its program.
    let gone = (0..500).any(|_| !run(&other, "nft list tables").contains("netferry"));
    assert!(gone);
}

#[test]
fn a_copy_reads_the_tables_again_only_when_somebody_else_changed_the_ruleset() {
    let kernel = kernel();
    let nft = kernel.nft();
    let mut copy = Copy::new(mark());
    let want = |count| [table().set("egress", addresses(count))];
    copy.converge(&nft, &want(10)).unwrap();
    copy.converge(&nft, &want(20)).unwrap();
    let before = copy.readings();
    for count in [21, 22, 5, 5, 300] {
        copy.converge(&nft, &want(count)).unwrap();
    }
    assert_eq!(copy.readings(), before, "elements are followed without reading");
    run(&kernel, "nft delete element inet netferry egress { 10.0.0.7 }");
    let changes = copy.converge(&nft, &want(300)).unwrap();
    assert_eq!(copy.readings(), before + 1);
    assert_eq!(changes.steps.len(), 1, "and what was deleted by hand is back");
    assert_eq!(nft.observe_named("netferry").unwrap().tables, want(300));
}

#[test]
fn a_copy_that_is_told_of_others_transactions_reads_nothing_for_them() {
    let kernel = kernel();
    let nft = kernel.nft();
    let mut copy = Copy::new(mark());
    let want = |count| [table().set("egress", addresses(count))];
    copy.converge(&nft, &want(10)).unwrap();
    copy.converge(&nft, &want(20)).unwrap();
    let before = copy.readings();
    run(&kernel, "nft add table inet theirs");
    copy.unaffected(nft.generation().unwrap());
    copy.converge(&nft, &want(21)).unwrap();
    assert_eq!(copy.readings(), before);
    run(&kernel, "nft delete element inet netferry egress { 10.0.0.7 }");
    run(&kernel, "nft delete table inet theirs");
    // The one before the last was not told of, so the last says nothing.
    copy.unaffected(nft.generation().unwrap());
    copy.converge(&nft, &want(21)).unwrap();
    assert_eq!(copy.readings(), before + 1);
    assert_eq!(nft.observe_named("netferry").unwrap().tables, want(21));
}
