use netferry_kernel::route::{BY_KERNEL, Filter, Hop, Kind, Route, RouteMtu};
use netferry_kernel::rule::{Action, Rule};
use netferry_kernel::{Changes, Family, Kernel, Mark, Objects, Then};
use nix::errno::Errno;

use crate::world::{Pair, ip, json, mark, name, net, pair, run};

fn routed() -> Pair {
    let pair = pair();
    run(&pair.here, "ip addr add 10.9.0.1/24 dev here");
    run(&pair.here, "ip addr add 2001:db8::1/64 dev here nodad");
    pair
}

fn find(kernel: &Kernel, command: &str, dst: &str) -> serde_json::Value {
    let all = json(kernel, command);
    let found = all.as_array().unwrap().iter().find(|r| r["dst"] == dst).cloned();
    found.unwrap_or_else(|| panic!("{dst} in {all}"))
}

#[test]
fn routes_of_both_families_are_read_back_as_written() {
    let pair = routed();
    let kernel = &pair.here;
    let via = |gateway: &str| Hop::via(pair.index, ip(gateway));
    let mut locked = Route::new(net("10.96.0.0/16"), vec![via("10.9.0.2")]).table(1007).metric(50);
    locked.mtu = Some(RouteMtu { bytes: 1300, locked: true });
    let onlink = Hop { onlink: true, ..via("172.31.0.1") };
    let heavy = Hop { weight: 3, ..via("10.9.0.3") };
    let wants = [
        Route::new(net("10.244.0.0/16"), vec![via("10.9.0.2")]).mtu(1400).source(ip("10.9.0.1")),
        Route::new(net("10.245.0.0/16"), vec![Hop::on(pair.index)]),
        Route::new(net("10.246.0.0/16"), vec![onlink]),
        Route::new(net("10.247.0.0/16"), vec![via("10.9.0.2"), heavy]),
        Route::new(net("10.248.0.0/16"), vec![via("2001:db8::2")]),
        Route::dead_end(net("10.249.0.0/16"), Kind::Unreachable),
        locked,
        Route::new(net("0.0.0.0/0"), vec![via("10.9.0.2")]).table(1007),
        Route::new(net("fd00:1::/48"), vec![via("2001:db8::2")]).mtu(1380),
        Route::new(net("fd00:2::/48"), vec![via("2001:db8::2"), via("2001:db8::3")]),
        Route::new(net("fd00:3::/48"), vec![Hop::on(pair.index)]).metric(77),
        Route::dead_end(net("fd00:4::/48"), Kind::Blackhole),
        Route::new(net("::/0"), vec![via("2001:db8::2")]).table(1007),
    ];
    let changes = kernel.routes().converge(&wants, &mark()).unwrap();
    assert_eq!(changes.add.len(), wants.len());
    let again = kernel.routes().converge(&wants, &mark()).unwrap();
    assert!(again.is_empty(), "{again:#?}");

    let main = |dst| find(kernel, "ip -j -d route show", dst);
    assert_eq!(main("10.244.0.0/16")["metrics"][0]["mtu"], 1400);
    assert_eq!(main("10.244.0.0/16")["prefsrc"], "10.9.0.1");
    assert_eq!(main("10.244.0.0/16")["protocol"], "110");
    assert_eq!(main("10.245.0.0/16")["scope"], "link");
    assert_eq!(main("10.246.0.0/16")["flags"][0], "onlink");
    assert_eq!(main("10.247.0.0/16")["nexthops"][1]["weight"], 3);
    assert_eq!(main("10.248.0.0/16")["via"]["host"], "2001:db8::2");
    assert_eq!(main("10.249.0.0/16")["type"], "unreachable");
    let table = find(kernel, "ip -j -d route show table 1007", "10.96.0.0/16");
    assert_eq!(table["metric"], 50);
    assert!(run(kernel, "ip route show table 1007 10.96.0.0/16").contains("mtu lock 1300"));
    assert_eq!(find(kernel, "ip -j -d route show table 1007", "default")["gateway"], "10.9.0.2");
    let main6 = |dst| find(kernel, "ip -6 -j -d route show", dst);
    assert_eq!(main6("fd00:1::/48")["metrics"][0]["mtu"], 1380);
    assert_eq!(main6("fd00:1::/48")["metric"], 1024);
    assert_eq!(main6("fd00:2::/48")["nexthops"].as_array().unwrap().len(), 2);
    assert_eq!(main6("fd00:3::/48")["metric"], 77);
    assert_eq!(main6("fd00:4::/48")["type"], "blackhole");

    let only = Filter { table: Some(1007), ..Filter::default() };
    assert_eq!(kernel.routes().observe_only(only).unwrap().len(), 3);
    let nothing = Filter { table: Some(4242), ..Filter::default() };
    assert_eq!(kernel.routes().observe_only(nothing).unwrap(), []);
    let ours = Filter { protocol: Some(mark().protocol), ..Filter::default() };
    assert_eq!(kernel.routes().observe_only(ours).unwrap().len(), wants.len());

    let before: Vec<Route> =
        kernel.routes().observe().unwrap().into_iter().filter(|r| r.protocol != 110).collect();
    kernel.routes().converge(&[], &mark()).unwrap();
    assert_eq!(kernel.routes().observe().unwrap(), before, "everything of others is still there");
}

#[test]
fn the_mtu_of_a_route_changes_in_place_and_goes_when_it_is_no_longer_wanted() {
    let pair = routed();
    let kernel = &pair.here;
    let route = || Route::new(net("10.244.0.0/16"), vec![Hop::via(pair.index, ip("10.9.0.2"))]);
    let six = || Route::new(net("fd00::/48"), vec![Hop::via(pair.index, ip("2001:db8::2"))]);
    kernel.routes().converge(&[route().mtu(1400), six().mtu(1400)], &mark()).unwrap();
    let changes = kernel.routes().converge(&[route().mtu(1300), six().mtu(1300)], &mark()).unwrap();
    assert_eq!((changes.replace.len(), changes.len()), (2, 2));
    assert!(run(kernel, "ip route show 10.244.0.0/16").contains("mtu 1300"));
    assert!(run(kernel, "ip -6 route show fd00::/48").contains("mtu 1300"));
    kernel.routes().converge(&[route(), six()], &mark()).unwrap();
    assert!(!run(kernel, "ip route show 10.244.0.0/16").contains("mtu"));
    assert!(!run(kernel, "ip -6 route show fd00::/48").contains("mtu"));
}

#[test]
fn a_route_of_somebody_else_is_in_the_way_and_stays() {
    let pair = routed();
    let kernel = &pair.here;
    run(kernel, "ip route add 10.244.0.0/16 via 10.9.0.9");
    let want = [Route::new(net("10.244.0.0/16"), vec![Hop::via(pair.index, ip("10.9.0.2"))])];
    let changes = kernel.routes().converge(&want, &mark()).unwrap();
    assert_eq!((changes.conflicts.len(), changes.len()), (1, 0));
    assert!(run(kernel, "ip route show 10.244.0.0/16").contains("10.9.0.9"));
    let other = Mark { protocol: 99, ..mark() };
    let beside = [want[0].clone().metric(10)];
    kernel.routes().converge(&beside, &other).unwrap();
    kernel.routes().converge(&[], &mark()).unwrap();
    assert!(
        run(kernel, "ip route show 10.244.0.0/16 metric 10").contains("10.9.0.2"),
        "two owners, two marks"
    );
}

#[test]
fn impossible_routes_are_refused_with_their_name() {
    let pair = routed();
    let kernel = &pair.here;
    // The kernel's own come when it is done with an address, which may be now.
    let others = || {
        let mut routes = kernel.routes().observe().unwrap();
        routes.retain(|route| route.protocol != BY_KERNEL);
        routes
    };
    run(kernel, "ip route add 10.9.1.0/24 via 10.9.0.2");
    let before = others();
    assert_eq!(before.len(), 1);
    let unreachable = Route::new(net("10.1.0.0/16"), vec![Hop::via(pair.index, ip("192.0.2.1"))]);
    let error = kernel.routes().converge(&[unreachable], &mark()).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::ENETUNREACH));
    assert!(error.to_string().contains("route 10.1.0.0/16"), "{error}");
    let mixed = Route::new(net("10.2.0.0/16"), vec![Hop::on(pair.index)]).source(ip("2001:db8::1"));
    assert_eq!(kernel.routes().converge(&[mixed], &mark()).unwrap_err().then(), Then::Bug);
    let nowhere = Route::new(net("10.2.0.0/16"), vec![]);
    assert_eq!(kernel.routes().converge(&[nowhere], &mark()).unwrap_err().then(), Then::Bug);
    let gone = Changes {
        remove: vec![Route::new(net("10.3.0.0/16"), vec![Hop::on(pair.index)])],
        ..Changes::default()
    };
    let error = kernel.routes().apply(&gone).unwrap_err();
    assert_eq!((error.errno(), error.then()), (Some(Errno::ESRCH), Then::Replan));
    assert_eq!(others(), before);
}

#[test]
fn a_thousand_routes_go_in_one_call() {
    let pair = routed();
    let kernel = &pair.here;
    let wants: Vec<Route> = (0..1000u32)
        .map(|i| {
            Route::new(net(&format!("10.{}.{}.0/24", 100 + i / 250, i % 250)), vec![Hop::on(pair.index)])
        })
        .collect();
    kernel.routes().converge(&wants, &mark()).unwrap();
    assert!(kernel.routes().converge(&wants, &mark()).unwrap().is_empty());
    assert_eq!(run(kernel, "ip route show proto 110").lines().count(), 1000);
}

#[test]
fn policy_rules_are_read_back_as_written_and_those_of_others_stay() {
    let pair = pair();
    let kernel = &pair.here;
    run(kernel, "ip rule add pref 100 lookup 77");
    let wants = [
        Rule::lookup(Family::V4, 6000, 1007).marked(0x1745ec, 0xffff_ffff),
        Rule::lookup(Family::V4, 6001, 1007).from(net("10.244.1.5/32")),
        Rule { iif: Some(name("here")), ..Rule::lookup(Family::V4, 6002, 1008).to(net("10.96.0.0/16")) },
        Rule { action: Action::Unreachable, ..Rule::lookup(Family::V4, 6003, 1).marked(0x10, 0xf0) },
        Rule { oif: Some(name("here")), ip_protocol: Some(17), ..Rule::lookup(Family::V6, 6004, 5000) },
        Rule { suppress_prefix: Some(0), ..Rule::lookup(Family::V6, 6005, 254) },
        Rule { invert: true, ..Rule::lookup(Family::V6, 6006, 254).from(net("fd00::/8")) },
        Rule::lookup(Family::V4, 6007, 6081).to_port(17, 6081),
        Rule { destination_ports: Some((1, 65534)), ..Rule::lookup(Family::V6, 6007, 6081).to_port(6, 1) },
    ];
    kernel.rules().converge(&wants, &mark()).unwrap();
    let again = kernel.rules().converge(&wants, &mark()).unwrap();
    assert!(again.is_empty(), "{again:#?}");
    let four = json(kernel, "ip -j -d rule show");
    let at = |rules: &serde_json::Value, priority: u32| {
        rules.as_array().unwrap().iter().find(|r| r["priority"] == priority).unwrap().clone()
    };
    assert_eq!(at(&four, 6000)["fwmark"], "0x1745ec");
    assert_eq!(at(&four, 6000)["table"], "1007");
    assert_eq!(at(&four, 6000)["protocol"], "110");
    assert_eq!(at(&four, 6001)["src"], "10.244.1.5");
    assert_eq!(at(&four, 6002)["iif"], "here");
    assert_eq!(at(&four, 6002)["dstlen"], 16);
    assert_eq!(at(&four, 6003)["action"], "unreachable");
    assert_eq!(at(&four, 6003)["fwmask"], "0xf0");
    assert_eq!(at(&four, 6007)["ipproto"], "udp");
    assert_eq!(at(&four, 6007)["dport"], 6081);
    let six = json(kernel, "ip -6 -j -d rule show");
    assert_eq!(at(&six, 6004)["ipproto"], "udp");
    assert_eq!(at(&six, 6005)["suppress_prefixlen"], 0);
    assert!(run(kernel, "ip -6 rule show pref 6006").contains("not from fd00::/8"));

    let changes = kernel.rules().converge(&wants[..1], &mark()).unwrap();
    assert_eq!(changes.remove.len(), 8);
    kernel.rules().converge(&[], &mark()).unwrap();
    let left: Vec<u32> = kernel.rules().observe().unwrap().iter().map(|r| r.priority).collect();
    assert_eq!(left, [0, 100, 32766, 32767, 0, 32766]);
}

#[test]
fn rules_that_could_never_work_are_refused() {
    let pair = pair();
    let kernel = &pair.here;
    let before = kernel.rules().observe().unwrap();
    for bad in [
        Rule::lookup(Family::V4, 6000, 7).marked(0x1ff, 0xff),
        Rule::lookup(Family::V4, 6000, 7).from(net("fd00::/8")),
        Rule::lookup(Family::V4, 6000, 0),
        Rule { destination_ports: Some((7, 6)), ..Rule::lookup(Family::V4, 6000, 7) },
    ] {
        assert_eq!(kernel.rules().converge(&[bad], &mark()).unwrap_err().then(), Then::Bug);
    }
    let twice = Changes { add: vec![Rule::lookup(Family::V4, 6000, 7); 2], ..Changes::default() };
    assert_eq!(kernel.rules().apply(&twice).unwrap_err().errno(), Some(Errno::EEXIST));
    kernel.rules().apply(&Changes { remove: vec![twice.add[0].clone()], ..Changes::default() }).unwrap();
    assert_eq!(kernel.rules().observe().unwrap(), before);
}
