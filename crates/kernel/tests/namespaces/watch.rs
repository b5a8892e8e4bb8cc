use std::time::Duration;

use netferry_kernel::nft::{Notice, Table, TableFamily, What};
use netferry_kernel::route::{Hop, Route};
use netferry_kernel::{Event, Kernel, Objects, Topics, Watch};

use crate::world::{ip, kernel, mark, name, net, pair, run};

/// The first event that satisfies.
async fn until(watch: &mut Watch, what: &str, wanted: impl Fn(&Event) -> bool) -> Event {
    let found = async {
        loop {
            let event = watch.next().await.unwrap();
            if wanted(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.unwrap_or_else(|_| panic!("no event: {what}"))
}

#[tokio::test]
async fn the_first_item_asks_to_observe() {
    let mut watch = Watch::open(&kernel(), Topics::ALL).unwrap();
    assert_eq!(watch.next().await.unwrap(), Event::Resync);
}

#[tokio::test]
async fn every_kind_of_change_is_told_with_its_object() {
    let pair = pair();
    let kernel = &pair.here;
    let mut watch = Watch::open(kernel, Topics::ALL).unwrap();
    run(kernel, "ip link set here mtu 1400");
    until(&mut watch, "mtu", |e| matches!(e, Event::Link(l) if l.name == name("here") && l.mtu == 1400))
        .await;
    run(kernel, "ip addr add 10.9.0.1/24 dev here");
    until(&mut watch, "address", |e| matches!(e, Event::Address(a) if a.net == net("10.9.0.1/24"))).await;
    run(kernel, "ip route add 10.1.0.0/16 via 10.9.0.2 table 1007 mtu 1300");
    let event = until(&mut watch, "route", |e| matches!(e, Event::Route(r) if r.table == 1007)).await;
    let expected =
        Route::new(net("10.1.0.0/16"), vec![Hop::via(pair.index, ip("10.9.0.2"))]).table(1007).mtu(1300);
    assert_eq!(event, Event::Route(Route { protocol: 3, ..expected }));
    run(kernel, "ip route del 10.1.0.0/16 table 1007");
    until(&mut watch, "route gone", |e| matches!(e, Event::RouteGone(r) if r.table == 1007)).await;
    run(kernel, "ip rule add pref 6000 fwmark 0x10 lookup 1007");
    until(&mut watch, "rule", |e| matches!(e, Event::Rule(r) if r.priority == 6000 && r.mark.is_some()))
        .await;
    run(kernel, "ip rule del pref 6000");
    until(&mut watch, "rule gone", |e| matches!(e, Event::RuleGone(r) if r.priority == 6000)).await;
    run(kernel, "ip neigh add 10.9.0.7 lladdr 02:00:00:00:00:07 dev here");
    until(&mut watch, "neighbour", |e| matches!(e, Event::Neighbour(n) if n.ip == ip("10.9.0.7"))).await;
    run(kernel, "ip neigh del 10.9.0.7 dev here");
    until(&mut watch, "neighbour gone", |e| matches!(e, Event::NeighbourGone(n) if n.ip == ip("10.9.0.7")))
        .await;
    run(kernel, "ip addr del 10.9.0.1/24 dev here");
    until(&mut watch, "address gone", |e| matches!(e, Event::AddressGone(a) if a.net == net("10.9.0.1/24")))
        .await;
    run(kernel, "ip link del here");
    until(&mut watch, "link gone", |e| matches!(e, Event::LinkGone(l) if l.name == name("here"))).await;
}

#[tokio::test]
async fn a_table_removed_by_hand_is_told_with_its_name_and_its_remover() {
    let kernel = kernel();
    kernel.nft().converge(&[Table::new(TableFamily::Inet, "netferry")], &mark()).unwrap();
    let mut watch = Watch::open(&kernel, Topics::CONFIGURATION).unwrap();
    run(&kernel, "nft delete table inet netferry");
    let gone = |e: &Event| matches!(e, Event::Nft(Notice::Object { table, what: What::Table, gone: true, .. }) if table.name == "netferry");
    until(&mut watch, "table gone", gone).await;
    let committed = until(&mut watch, "commit", |e| matches!(e, Event::Nft(Notice::Committed { .. }))).await;
    let Event::Nft(Notice::Committed { generation, program, .. }) = committed else { panic!() };
    assert_eq!(generation, kernel.nft().generation().unwrap());
    assert_eq!(program.as_deref(), Some("nft"));
}

#[tokio::test]
async fn an_overrun_ends_in_a_resync_and_the_watch_goes_on() {
    let pair = pair();
    let kernel = &pair.here;
    let mut watch = Watch::with_buffer(kernel, Topics::ALL, Some(4096)).unwrap();
    assert_eq!(watch.next().await.unwrap(), Event::Resync);
    let many: Vec<Route> = (0..2000u32)
        .map(|i| {
            Route::new(net(&format!("10.{}.{}.0/24", 100 + i / 250, i % 250)), vec![Hop::on(pair.index)])
        })
        .collect();
    kernel.routes().converge(&many, &mark()).unwrap();
    let mut events = vec![];
    loop {
        let event =
            tokio::time::timeout(Duration::from_secs(60), watch.next()).await.expect("a resync").unwrap();
        let resync = event == Event::Resync;
        events.push(event);
        if resync {
            break;
        }
    }
    assert_eq!(events, [Event::Resync], "what is older than the resync is not handed out");
    assert_eq!(watch.ready().unwrap(), []);
    run(kernel, "ip link set here mtu 1399");
    until(&mut watch, "a change after the overrun", |e| matches!(e, Event::Link(l) if l.mtu == 1399)).await;
}

#[tokio::test]
async fn a_watch_hears_only_its_own_namespace() {
    let (here, elsewhere): (Kernel, Kernel) = (kernel(), kernel());
    let mut watch = Watch::open(&here, Topics::ALL).unwrap();
    assert_eq!(watch.next().await.unwrap(), Event::Resync);
    run(&elsewhere, "ip link add x type bridge");
    run(&here, "ip link add y type bridge");
    let event = until(&mut watch, "a link", |e| matches!(e, Event::Link(_))).await;
    assert!(matches!(event, Event::Link(l) if l.name == name("y")));
}

#[tokio::test]
async fn a_host_that_stops_forwarding_is_told() {
    let kernel = kernel();
    run(&kernel, "sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    for setting in ["net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0"] {
        let mut watch = Watch::open(&kernel, Topics::ALL).unwrap();
        run(&kernel, &format!("sysctl -q -w {setting}"));
        until(&mut watch, setting, |e| matches!(e, Event::Setting)).await;
    }
}
