//! The language of rules, and what sets hold.

use std::net::Ipv4Addr;

use netferry_kernel::announce::Announcement;
use netferry_kernel::nft::{
    Chain, Compare, Ct, Data, Datatype, Fib, FibResult, HookKind, HookPoint, Key, Limit, Meta, NatTo,
    Payload, Policy, Reject, Rule, Set, Settable, Source, Statement, Table, TableFamily, Unit, Value,
    Verdict, priority,
};
use netferry_kernel::{Family, Kernel, Mac, Objects};
use netferry_testkit::wait::until_blocking;

use crate::world::{ip, kernel, mark, name, net, nft, pair, run};

pub(crate) fn v4(a: u8, b: u8, c: u8, d: u8) -> Value {
    Value::V4(Ipv4Addr::new(a, b, c, d))
}

/// Everything node ports, egress addresses and guards need, in one table.
pub(crate) fn everything() -> Table {
    let (four, six) = (Family::V4, Family::V6);
    let mp0 = name("ovn-k8s-mp0");
    let proto_port = || vec![Source::Meta(Meta::L4Proto), Source::Payload(Payload::DESTINATION_PORT)];
    let saddr_oif = |family| vec![Source::Payload(Payload::source(family)), Source::Meta(Meta::OifName)];
    let port_types = || vec![Datatype::Protocol, Datatype::Port];
    let node_port = |p: u16| Key::exact([Value::Protocol(6), Value::Port(p)]);
    Table::new(TableFamily::Inet, "netferry")
        .set(
            "nodeports",
            Set::map(port_types(), [Datatype::V4, Datatype::Port]).with([
                (node_port(32181), Data::Values(vec![v4(10, 96, 228, 48), Value::Port(80)])),
                (node_port(32190), Data::Values(vec![v4(10, 96, 10, 10), Value::Port(90)])),
            ]),
        )
        .set("hostbacked", Set::of(port_types()).with([(node_port(32190), Data::None)]))
        .set(
            "egress4",
            Set::map([Datatype::V4, Datatype::Name], [Datatype::V4]).with([(
                Key::exact([v4(10, 244, 1, 5), Value::Name(name("ens4"))]),
                Data::value(ip("10.10.10.100")),
            )]),
        )
        .set("egress6", Set::map([Datatype::V6, Datatype::Name], [Datatype::V6]))
        .set(
            "marks",
            Set::map([Datatype::V4], [Datatype::Mark])
                .with([(Key::exact([v4(10, 244, 1, 5)]), Data::Values(vec![Value::Mark(0x1007)]))]),
        )
        .set(
            "pods",
            Set::of([Datatype::V4]).with_intervals().with([
                (Key::net(net("10.244.0.0/24")), Data::None),
                (Key::net(net("10.244.1.0/24")), Data::None),
                (Key::range([v4(255, 255, 255, 0)], [v4(255, 255, 255, 255)]), Data::None),
            ]),
        )
        .set(
            "firewall",
            Set::verdicts([Datatype::V4, Datatype::Port]).with_intervals().with([(
                Key::range([v4(10, 0, 0, 0), Value::Port(80)], [v4(10, 0, 0, 255), Value::Port(90)]),
                Data::Verdict(Verdict::Jump("allow".into())),
            )]),
        )
        .chain("allow", Chain::regular(vec![Rule::new().accept()]))
        .chain(
            "nodeport",
            Chain::regular(vec![
                Rule::new().in_set(proto_port(), "hostbacked").set_ct_mark(Source::mark(0x1745ed)),
                Rule::new()
                    .dnat(four, NatTo::MappedAddressPort { key: proto_port(), map: "nodeports".into() }),
            ]),
        )
        .chain(
            "prerouting",
            Chain::at(
                HookKind::Nat,
                HookPoint::Prerouting,
                priority::DSTNAT,
                vec![
                    Rule::new().to_this_host().protocol(6).jump("nodeport").comment("node ports"),
                    Rule::new()
                        .destination_port(6, 8080)
                        .dnat(six, NatTo::AddressPort(Source::address(ip("fd00::1")), Source::port(80))),
                    Rule::new().destination_port(17, 53).then(Statement::Redirect(Some(Source::port(5353)))),
                ],
            ),
        )
        .chain(
            "postrouting",
            Chain::at(
                HookKind::Nat,
                HookPoint::Postrouting,
                priority::SRCNAT,
                vec![
                    Rule::new().oifname(&mp0).from(net("10.244.0.2/32")).back(),
                    Rule::new()
                        .oifname(&mp0)
                        .from_this_host()
                        .snat(four, NatTo::Address(Source::address(ip("10.244.0.2")))),
                    Rule::new().oifname(&mp0).ct_mark(0x1745ed, u32::MAX).counter().masquerade(),
                    Rule::new()
                        .family(four)
                        .snat(four, NatTo::Address(Source::map(saddr_oif(four), "egress4"))),
                    Rule::new().family(six).snat(six, NatTo::Address(Source::map(saddr_oif(six), "egress6"))),
                    Rule::new().from(net("10.244.0.0/24")).not_to(net("10.96.0.0/16")).masquerade(),
                ],
            ),
        )
        .chain(
            "mangle",
            Chain::at(
                HookKind::Filter,
                HookPoint::Prerouting,
                priority::MANGLE,
                vec![
                    Rule::new().mark(0, u32::MAX).set_mark(Source::Ct(Ct::Mark)),
                    Rule::new().mark(0x3f0, 0xff0).set_ct_mark(Source::Meta(Meta::Mark)),
                    Rule::new()
                        .family(four)
                        .set_mark(Source::map([Source::Payload(Payload::source(four))], "marks")),
                ],
            ),
        )
        .chain(
            "raw",
            Chain::at(
                HookKind::Filter,
                HookPoint::Prerouting,
                priority::RAW,
                vec![Rule::new().destination_port(17, 6081).notrack()],
            ),
        )
        .chain(
            "forward",
            Chain::at(
                HookKind::Filter,
                HookPoint::Forward,
                priority::FILTER,
                vec![
                    Rule::new().ct_state(2 | 4).accept(),
                    Rule::new().iifname(&name("ens4")).oifname_is_not(&mp0).counter().drop(),
                    Rule::new().family(four).verdict_map(
                        [
                            Source::Payload(Payload::destination(four)),
                            Source::Payload(Payload::DESTINATION_PORT),
                        ],
                        "firewall",
                    ),
                    Rule::new()
                        .family(four)
                        .not_in_set([Source::Payload(Payload::source(four))], "pods")
                        .limit(Limit { rate: 10, unit: Unit::Minute, burst: 7, over: false })
                        .reject(Reject::Icmpx(1)),
                    Rule::new().protocol(6).reject(Reject::TcpReset),
                    Rule::new().then(Statement::Range {
                        source: Source::Meta(Meta::Mark),
                        from: 16u32.to_be_bytes().to_vec(),
                        to: 32u32.to_be_bytes().to_vec(),
                        negated: true,
                    }),
                    Rule::new()
                        .matches(
                            Source::Fib(Fib { source: true, mark: true, iif: true, result: FibResult::Oif }),
                            Compare::Equal,
                            [0; 4],
                        )
                        .then(Statement::Set { to: Settable::Trace, from: Source::Literal(vec![1]) })
                        .drop(),
                ],
            )
            .policy(Policy::Drop),
        )
}

fn load(kernel: &Kernel, table: &Table) {
    kernel.nft().converge(std::slice::from_ref(table), &mark()).unwrap();
}

fn only_table(kernel: &Kernel) -> Table {
    let mut ruleset = kernel.nft().observe_named("netferry").unwrap();
    assert_eq!(ruleset.tables.len(), 1);
    ruleset.tables.remove(0)
}

#[test]
fn every_statement_and_set_is_read_back_as_it_was_written() {
    let kernel = kernel();
    let want = everything();
    load(&kernel, &want);
    let have = only_table(&kernel);
    for (name, set) in &want.sets {
        assert_eq!(have.sets.get(name), Some(set), "set {name}");
    }
    for (name, chain) in &want.chains {
        let found = &have.chains[name];
        assert_eq!(found.hook, chain.hook, "chain {name}");
        for (i, rule) in chain.rules.iter().enumerate() {
            assert_eq!(found.rules[i].statements, rule.statements, "rule {i} of {name}");
            assert_eq!(found.rules[i].comment, rule.comment);
        }
    }
    assert_eq!(have, want);
    assert!(kernel.nft().converge(&[want], &mark()).unwrap().is_empty());
}

/// `nft` prints our table, and what it prints loads again and reads back as the same: it understood everything.
#[test]
fn nft_understands_our_table_word_for_word() {
    let kernel = kernel();
    let want = everything();
    load(&kernel, &want);
    let text = run(&kernel, "nft list table inet netferry");
    for line in [
        "type inet_proto . inet_service : ipv4_addr . inet_service",
        "elements = { tcp . 32181 : 10.96.228.48 . 80",
        "type ipv4_addr . ifname : ipv4_addr",
        "elements = { 10.244.1.5 . \"ens4\" : 10.10.10.100 }",
        "elements = { 10.244.1.5 : 0x00001007 }",
        "10.244.0.0/24, 10.244.1.0/24",
        "elements = { 10.0.0.0/24 . 80-90 : jump allow }",
        "type nat hook prerouting priority dstnat; policy accept;",
        "type filter hook forward priority filter; policy drop;",
        "meta l4proto . th dport @hostbacked ct mark set 0x001745ed",
        "dnat ip to meta l4proto . th dport map @nodeports",
        "fib daddr type local meta l4proto tcp jump nodeport comment \"node ports\"",
        "oifname \"ovn-k8s-mp0\" ip saddr 10.244.0.2 return",
        "oifname \"ovn-k8s-mp0\" fib saddr type local snat ip to 10.244.0.2",
        "oifname \"ovn-k8s-mp0\" ct mark 0x001745ed counter packets 0 bytes 0 masquerade",
        "snat ip to ip saddr . oifname map @egress4",
        "snat ip6 to ip6 saddr . oifname map @egress6",
        "ip saddr 10.244.0.0/24 ip daddr != 10.96.0.0/16 masquerade",
        "meta mark 0x00000000 meta mark set ct mark",
        "meta mark & 0x00000ff0 == 0x000003f0 ct mark set meta mark",
        "meta mark set ip saddr map @marks",
        "udp dport 6081 notrack",
        "ct state established,related accept",
        "iifname \"ens4\" oifname != \"ovn-k8s-mp0\" counter packets 0 bytes 0 drop",
        "ip daddr . th dport vmap @firewall",
        "ip saddr != @pods limit rate 10/minute burst 7 packets reject",
        "meta l4proto tcp reject with tcp reset",
        "tcp dport 8080 dnat ip6 to [fd00::1]:80",
        "udp dport 53 redirect to :5353",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn what_nft_writes_is_read_as_the_same_types() {
    let ours = kernel();
    let theirs = kernel();
    nft(
        &theirs,
        "table inet netferry {
            map nodeports { type inet_proto . inet_service : ipv4_addr . inet_service
                elements = { tcp . 32181 : 10.96.228.48 . 80 } }
            set pods { type ipv4_addr; flags interval; elements = { 10.244.0.0/16, 10.9.0.5-10.9.0.9 } }
            chain nodeport {
                dnat ip to meta l4proto . th dport map @nodeports
            }
            chain prerouting {
                type nat hook prerouting priority dstnat; policy accept;
                fib daddr type local jump nodeport
            }
            chain forward {
                type filter hook forward priority filter; policy drop;
                ct state established,related accept
                ip saddr @pods counter accept comment \"pods\"
                oifname \"eth0\" tcp dport 80 accept
            }
        }",
    );
    let four = Family::V4;
    let key = || vec![Source::Meta(Meta::L4Proto), Source::Payload(Payload::DESTINATION_PORT)];
    let table = Table::new(TableFamily::Inet, "netferry")
        .set(
            "nodeports",
            Set::map([Datatype::Protocol, Datatype::Port], [Datatype::V4, Datatype::Port]).with([(
                Key::exact([Value::Protocol(6), Value::Port(32181)]),
                Data::Values(vec![v4(10, 96, 228, 48), Value::Port(80)]),
            )]),
        )
        .set(
            "pods",
            Set::of([Datatype::V4]).with_intervals().with([
                (Key::net(net("10.244.0.0/16")), Data::None),
                (Key::range([v4(10, 9, 0, 5)], [v4(10, 9, 0, 9)]), Data::None),
            ]),
        )
        .chain(
            "nodeport",
            Chain::regular(vec![
                Rule::new().dnat(four, NatTo::MappedAddressPort { key: key(), map: "nodeports".into() }),
            ]),
        )
        .chain(
            "prerouting",
            Chain::at(
                HookKind::Nat,
                HookPoint::Prerouting,
                -100,
                vec![Rule::new().to_this_host().jump("nodeport")],
            ),
        )
        .chain(
            "forward",
            Chain::at(
                HookKind::Filter,
                HookPoint::Forward,
                0,
                vec![
                    Rule::new().ct_state(6).accept(),
                    Rule::new()
                        .family(four)
                        .in_set([Source::Payload(Payload::source(four))], "pods")
                        .counter()
                        .accept()
                        .comment("pods"),
                    Rule::new().oifname(&name("eth0")).destination_port(6, 80).accept(),
                ],
            )
            .policy(Policy::Drop),
        );
    load(&ours, &table);
    assert_eq!(only_table(&theirs), only_table(&ours));
    assert_eq!(only_table(&theirs), table);
}

#[test]
fn a_chain_guards_links_as_frames_arrive() {
    let pair = pair();
    let kernel = &pair.here;
    run(kernel, "ip link add other type veth peer name another");
    let guard = |devices| {
        Table::new(TableFamily::Netdev, "netferry").chain(
            "guard",
            Chain::at(HookKind::Filter, HookPoint::Ingress, -500, vec![Rule::new().counter()])
                .policy(Policy::Drop)
                .on(devices),
        )
    };
    for devices in [vec![name("here")], vec![name("other"), name("here")]] {
        let table = guard(devices.clone());
        load(kernel, &table);
        assert_eq!(only_table(kernel), table);
        let text = run(kernel, "nft list ruleset");
        assert!(text.contains("priority -500; policy drop;"), "{text}");
        assert!(devices.iter().all(|d| text.contains(d.as_str())), "{text}");
    }
    let announcement =
        Announcement { link: pair.index_there, ip: ip("10.9.0.2"), mac: Mac([2, 0, 0, 0, 0, 2]) };
    let counted = || only_table(kernel).chains["guard"].rules[0].seen.clone().unwrap().counts[0].packets;
    let before = counted();
    pair.there.announce(&[announcement]).unwrap();
    until_blocking("the guard meets every frame", || counted() > before);
}

#[test]
fn a_statement_this_crate_does_not_speak_is_never_taken_for_ours() {
    let kernel = kernel();
    nft(
        &kernel,
        "table inet netferry {
            chain input { type filter hook input priority 0; policy accept;
                log prefix \"x\"
            }
        }",
    );
    let have = only_table(&kernel);
    let rule = &have.chains["input"].rules[0];
    assert_eq!(rule.statements, [Statement::Unknown("log".into())]);
    let want = have.clone();
    let changes = netferry_kernel::nft::diff(&[want], &kernel.nft().observe().unwrap(), &mark());
    assert!(!changes.is_empty());
    assert!(kernel.nft().apply(&changes).is_err(), "and it cannot be written");
}
