//! `host-init` on a host whose network service configured its uplink.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use netferry_agent::host_init::{BridgeSize, Done, InitError, Options, Record, keep, prepare, undo};
use netferry_agent::overlay::host::guard;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::Kernel;
use tokio::sync::watch;

use crate::world::{PATIENT, Switch, Wire, add_wire, answers, ip, name, run, until};

/// What `/etc/network/interfaces` says, carried out.
const CONFIGURED: &str = "
    ip addr add 172.30.0.2/16 brd + dev eth0
    ip addr add 172.30.0.3/16 brd + dev eth0 label eth0:3
    ip addr add 192.0.2.2/32 dev eth0 metric 50
    ip addr add fd00:172:30::2/64 dev eth0 nodad
    ip addr add 198.18.0.2/24 brd + dev eth0 valid_lft 4000 preferred_lft 3000
    ip route add default via 172.30.255.254 metric 100 mtu 1400
    ip route add 10.9.0.0/16 via 172.30.255.254 src 172.30.0.3
    ip route add 10.8.0.0/16 dev eth0 table 77
    ip -6 route add default via fd00:172:30::fffe metric 100
    ip -6 route add 2001:db8:9::/48 via fd00:172:30::fffe";

fn configure(kernel: &Kernel) {
    run(kernel, &format!("set -e; {CONFIGURED}"));
}

pub(crate) fn wired() -> Wire {
    let wire = Wire::new();
    // A real wire carries whole packets; a pair of links leaves checksums to whoever reads them.
    guard::offloads_off(&wire.peer, &name("wire")).unwrap();
    configure(&wire.host);
    run(
        &wire.peer,
        "ip addr add 172.30.255.254/16 dev wire; ip addr add fd00:172:30::fffe/64 dev wire nodad",
    );
    wire
}

pub(crate) fn options(switch: &Switch) -> Options {
    let root = switch.path("root");
    std::fs::create_dir_all(&root).unwrap();
    Options {
        database: switch.remote(),
        run: run_directory(switch),
        bridge: name("br-ex"),
        uplink: None,
        datapath: Some(Datapath::Userspace),
        always: false,
        keep_mac: false,
        patience: Duration::from_secs(30),
        root,
    }
}

pub(crate) fn run_directory(switch: &Switch) -> PathBuf {
    switch.path("netferry")
}

/// What `ip` says is on a link, without the link's name.
fn configuration(kernel: &Kernel, link: &str) -> Vec<String> {
    let lines = run(
        kernel,
        &format!(
            "ip -o addr show dev {link} scope global | sed -E 's/^[0-9]+: *[^ ]+ *//; s/\\\\.*//; s/ nodad//'; \
             (ip route show table all dev {link}; ip -6 route show table all dev {link}) \
                | grep -v -E 'table local|^fe80|^multicast' || true"
        ),
    );
    let mut lines: Vec<String> = lines.lines().map(|line| line.trim().replace(link, "LINK")).collect();
    // once for each family it is asked about
    lines.sort();
    lines.dedup();
    lines
}

fn talk(wire: &Wire) {
    for address in ["172.30.0.2", "172.30.0.3", "fd00:172:30::2"] {
        assert!(answers(&wire.peer, &wire.host, ip(address), PATIENT), "{address} does not answer");
    }
    for address in ["172.30.255.254", "fd00:172:30::fffe"] {
        assert!(answers(&wire.host, &wire.peer, ip(address), PATIENT), "{address} is not reached");
    }
}

fn assert_moved(wire: &Wire, before: &[String]) {
    assert_eq!(configuration(&wire.host, "br-ex"), before);
    assert_eq!(configuration(&wire.host, "eth0"), Vec::<String>::new());
    run(&wire.host, "nft list chain netdev netferry-guard link-eth0");
    talk(wire);
}

#[tokio::test]
async fn everything_on_the_uplink_moves_to_the_bridge_and_back_and_packets_follow() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    talk(&wire);
    let before = configuration(&wire.host, "eth0");
    assert_eq!(before.len(), 13, "{before:#?}");
    let offloads = || wire.host.offloads().of(&name("eth0")).unwrap().active;
    let on = offloads();
    assert!(on.contains("tx-tcp-segmentation"), "{on:?}");

    let record = prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
    assert_moved(&wire, &before);
    assert_eq!(Record::read(&run_directory(&switch)).unwrap(), Some(record.clone()));
    let bridge = record.bridge.unwrap();
    assert_eq!((bridge.uplink.as_str(), bridge.mtu, bridge.addresses.len()), ("eth0", 1500, 5));
    let links = |link: &str| wire.host.links().named(&name(link)).unwrap().unwrap();
    assert_eq!(links("br-ex").mac.unwrap().to_string(), bridge.mac);
    assert_ne!(links("br-ex").mac, links("eth0").mac);

    let rows = switch.vsctl("list Bridge -- list Port -- list Interface");
    let mut steps = 0;
    prepare(&wire.host, &options(&switch), |_| steps += 1).await.unwrap();
    assert!(steps > 5);
    assert_moved(&wire, &before);
    assert!(!offloads().contains("tx-tcp-segmentation"), "the switch reads frames as they are on a wire");
    let columns = |text: &str| -> Vec<String> {
        // counters and times move by themselves
        let moving = ["statistics", "status ", "link_resets"];
        text.lines().filter(|l| !moving.iter().any(|m| l.starts_with(m))).map(str::to_owned).collect()
    };
    assert_eq!(columns(&switch.vsctl("list Bridge -- list Port -- list Interface")), columns(&rows));

    undo(&wire.host, &options(&switch), |_| ()).await.unwrap();
    assert_eq!(configuration(&wire.host, "eth0"), before);
    assert_eq!(switch.vsctl("list-br"), "");
    assert_eq!(Record::read(&run_directory(&switch)).unwrap(), None);
    assert_eq!(offloads(), on);
    talk(&wire);
    undo(&wire.host, &options(&switch), |_| ()).await.unwrap();
    assert_eq!(configuration(&wire.host, "eth0"), before, "nothing to undo");
}

/// Ends the future at its `at`th step, as a kill would; false if it has fewer.
async fn cut_off<T>(at: usize, run: impl AsyncFnOnce(&mut dyn FnMut(&str)) -> Result<T, InitError>) -> bool {
    let mut steps = 0;
    let mut cut = |_: &str| {
        assert!(steps != at, "cut off here on purpose");
        steps += 1;
    };
    let ended = AssertUnwindSafe(run(&mut cut)).catch_unwind().await;
    ended.map(|done| done.map(drop).unwrap()).is_err()
}

#[tokio::test]
async fn a_run_that_was_cut_off_at_any_step_is_finished_by_the_next_one() {
    let mut at = 0;
    loop {
        let wire = wired();
        let switch = Switch::start(&wire.host).await;
        let before = configuration(&wire.host, "eth0");
        let options = options(&switch);
        let was_cut = cut_off(at, async |step| prepare(&wire.host, &options, step).await).await;
        if was_cut {
            prepare(&wire.host, &options, |_| ()).await.unwrap();
        }
        assert_moved(&wire, &before);

        if cut_off(at, async |step| undo(&wire.host, &options, step).await).await {
            undo(&wire.host, &options, |_| ()).await.unwrap();
        }
        assert_eq!(configuration(&wire.host, "eth0"), before);
        talk(&wire);
        if !was_cut {
            break;
        }
        at += 1;
    }
    assert!(at > 5, "there were only {at} steps");
}

#[tokio::test]
async fn a_boot_with_the_bridge_of_the_last_one_ends_where_that_one_ended() {
    let mut wire = wired();
    let mut switch = Switch::start(&wire.host).await;
    let before = configuration(&wire.host, "eth0");
    let first = prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();

    switch.power_off();
    std::fs::remove_dir_all(run_directory(&switch)).unwrap();
    wire = wired();
    switch.power_on(&wire.host).await;
    talk(&wire);
    let second = prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
    assert_eq!(first, second, "the bridge's hardware address too: other nodes know it");
    assert_moved(&wire, &before);
}

#[tokio::test]
async fn a_refusal_changes_nothing() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    add_wire(&wire.host, "eth1", &wire.peer, "wire1");
    run(&wire.host, "ip addr add 203.0.113.2/24 dev eth1");
    run(&wire.host, "ip route append default via 203.0.113.254 metric 100 dev eth1");
    let state = |kernel: &Kernel| (configuration(kernel, "eth0"), switch.vsctl("show"));
    let before = state(&wire.host);
    let refused = prepare(&wire.host, &options(&switch), |_| ()).await.unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(
        refused.to_string(),
        "eth0, eth1 all look like the way to the other nodes: choose one with --uplink"
    );
    for uplink in ["lo", "nowhere"] {
        let options = Options { uplink: Some(name(uplink)), ..options(&switch) };
        let refused = prepare(&wire.host, &options, |_| ()).await.unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains(uplink), "{refused}");
    }
    assert_eq!(state(&wire.host), before);

    switch.vsctl("add-br br-ex -- set bridge br-ex datapath_type=netdev");
    let before = state(&wire.host);
    let asked = Options { uplink: Some(name("eth0")), ..options(&switch) };
    for refused in
        [prepare(&wire.host, &asked, |_| ()).await.map(drop), undo(&wire.host, &asked, |_| ()).await]
    {
        assert!(matches!(refused, Err(InitError::Foreign { .. })), "{refused:?}");
    }
    assert_eq!(state(&wire.host), before);
}

#[tokio::test]
async fn a_switch_that_does_not_answer_is_named_in_time() {
    let wire = wired();
    let mut switch = Switch::start(&wire.host).await;
    let before = configuration(&wire.host, "eth0");
    switch.kill_daemon();
    let soon = Options { patience: Duration::from_millis(300), ..options(&switch) };
    let error = prepare(&wire.host, &soon, |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("openvswitch-switch"), "{error}");
    switch.power_off();
    let error = prepare(&wire.host, &soon, |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("the database of Open vSwitch"), "{error}");
    assert_eq!(configuration(&wire.host, "eth0"), before);
    talk(&wire);
}

#[tokio::test]
async fn what_the_network_service_puts_on_the_uplink_later_moves_too() {
    let wire = wired();
    let mut switch = Switch::start(&wire.host).await;
    let following = keeping(&wire, &switch).await;
    run(&wire.host, "ip addr add 172.30.0.9/16 brd + dev eth0");
    until("the new address on the bridge", async || {
        configuration(&wire.host, "br-ex").iter().any(|line| line.contains("172.30.0.9/16"))
            && configuration(&wire.host, "eth0").is_empty()
    })
    .await;
    assert!(answers(&wire.peer, &wire.host, ip("172.30.0.9"), PATIENT));

    // The switch takes its links with it and makes them again.
    let before = configuration(&wire.host, "br-ex");
    switch.control().await.unwrap().exit(&["--cleanup"]).await.unwrap();
    switch.kill_daemon();
    until("the bridge to be gone", async || wire.host.links().named(&name("br-ex")).unwrap().is_none()).await;
    switch.start_daemon().await;
    until("everything back on the bridge", async || {
        wire.host.links().named(&name("br-ex")).unwrap().is_some()
            && configuration(&wire.host, "br-ex") == before
    })
    .await;
    talk(&wire);
    following.abort();
}

#[tokio::test]
async fn a_stream_of_datagrams_hardly_notices_the_move() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    let open = |kernel: &Kernel, address| {
        let socket = kernel.namespace().run(|| std::net::UdpSocket::bind((ip(address), 0))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket
    };
    let (server, client) = (open(&wire.host, "172.30.0.2"), open(&wire.peer, "172.30.255.254"));
    let target = server.local_addr().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&done);
    let meter = std::thread::spawn(move || {
        let (mut lost, mut received) = (0, 0);
        while !over.load(Ordering::Relaxed) {
            let mut buffer = [0; 8];
            let _ = client.send_to(b"ping", target);
            let there = server.recv_from(&mut buffer).and_then(|(_, from)| server.send_to(b"pong", from));
            match there.and_then(|_| client.recv_from(&mut buffer)) {
                Ok(_) => received += 1,
                Err(_) => lost += 1,
            }
        }
        (lost, received)
    });
    prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
    talk(&wire);
    done.store(true, Ordering::Relaxed);
    let (lost, received) = meter.join().unwrap();
    assert!(received > 10, "{received} came through");
    // each that is lost stands for a second
    assert!(lost <= 5, "{lost} were lost");
}

/// Prepares the host, and keeps it as an agent does.
async fn keeping(wire: &Wire, switch: &Switch) -> tokio::task::JoinHandle<()> {
    prepare(&wire.host, &options(switch), |_| ()).await.unwrap();
    keeping_at(wire, switch, watch::channel(BridgeSize::default()).1).await
}

/// Keeps a host that was prepared, as an agent does that starts now.
pub(crate) async fn keeping_at(
    wire: &Wire,
    switch: &Switch,
    size: watch::Receiver<BridgeSize>,
) -> tokio::task::JoinHandle<()> {
    let bridge = Record::read(&run_directory(switch)).unwrap().unwrap().bridge.unwrap();
    let done = Done { run: run_directory(switch), datapath: Datapath::Userspace, bridge, size };
    tokio::spawn(keep(Arc::clone(&wire.host), switch.client().await, done))
}

#[tokio::test]
async fn a_bridge_or_port_that_somebody_removed_comes_back_with_everything_on_it() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    let before = configuration(&wire.host, "eth0");
    let keeping = keeping(&wire, &switch).await;
    until("the bridge to be known", async || configuration(&wire.host, "br-ex") == before).await;
    for sabotage in ["del-port br-ex eth0", "del-br br-ex", "--no-wait clear bridge br-ex other_config"] {
        let rows = || switch.vsctl("--no-wait show");
        let complete = rows();
        switch.vsctl(sabotage);
        let same = |a: &str, b: &str| {
            let sorted = |text: &str| -> Vec<String> {
                let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
                lines.sort();
                lines
            };
            sorted(a) == sorted(b)
        };
        until(&format!("after {sabotage}, the rows"), async || same(&rows(), &complete)).await;
        until(&format!("after {sabotage}, everything"), async || {
            wire.host.links().named(&name("br-ex")).unwrap().is_some()
                && configuration(&wire.host, "br-ex") == before
        })
        .await;
        talk(&wire);
    }
    // What is undone on purpose stays undone.
    undo(&wire.host, &options(&switch), |_| ()).await.unwrap();
    assert_eq!(configuration(&wire.host, "eth0"), before);
    assert_eq!(switch.vsctl("list-br"), "");
    talk(&wire);
    keeping.abort();
}

/// What the host's files say at a boot.
pub(crate) fn write(switch: &Switch, path: &str, text: &str) {
    let path = switch.path("root").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn read(switch: &Switch, path: &str) -> Option<String> {
    std::fs::read_to_string(switch.path("root").join(path)).ok()
}

/// The MTU of links, and that of the route to each of these destinations through the bridge.
fn sizes(kernel: &Kernel) -> Vec<String> {
    let link = |link: &str| kernel.links().named(&name(link)).unwrap().unwrap().mtu.to_string();
    let route = |to: &str| {
        let family = if to.contains(':') { "-6" } else { "-4" };
        let shown = run(kernel, &format!("ip {family} route show {to} dev br-ex"));
        let mtu = shown.split_whitespace().skip_while(|word| *word != "mtu").nth(1).unwrap_or("-");
        format!("{to} {mtu}")
    };
    let routes = ["default", "172.30.0.0/16", "10.9.0.0/16", "fd00:172:30::/64", "2001:db8:9::/48"];
    [link("eth0"), link("br-ex")].into_iter().chain(routes.map(route)).collect()
}

pub(crate) const FILE: &str = "etc/cno/mtu-migration/config";
pub(crate) const INTERFACES: &str = "etc/network/interfaces";
pub(crate) const SAVED: &str = "var/lib/netferry/mtu-original.json";

#[tokio::test]
async fn any_number_of_boots_in_a_change_run_the_same_sizes_and_the_change_leaves_the_target() {
    let up = ["9000", "9000", "default 1400", "172.30.0.0/16 1500", "10.9.0.0/16 1500"];
    let up: Vec<&str> = up.into_iter().chain(["fd00:172:30::/64 1500", "2001:db8:9::/48 1500"]).collect();
    let told = "EPOCH=1\nTARGET_MTU=9000\nMTU=9000\nROUTABLE_MTU=1500\nCNI_MTU=8900\nCNI_ROUTABLE_MTU=1400\n";
    let mut disk: Vec<(&str, String)> =
        vec![(FILE, told.to_owned()), (INTERFACES, "iface eth0 inet static\n    mtu 1500\n".to_owned())];
    for (boot, file) in
        [Some(told), Some(told), Some("EPOCH=2\nMTU=9000\nCNI_MTU=8900\n"), None].iter().enumerate()
    {
        // A new boot: the network service brings the link up as its configuration says.
        let wire = wired();
        let switch = Switch::start(&wire.host).await;
        for (path, text) in &disk {
            write(&switch, path, text);
        }
        match file {
            Some(text) => write(&switch, FILE, text),
            None => _ = std::fs::remove_file(switch.path("root").join(FILE)),
        }
        let configured = if boot == 0 { 1500 } else { 9000 };
        assert!(read(&switch, INTERFACES).unwrap().contains(&configured.to_string()), "boot {boot}");
        run(&wire.host, &format!("ip link set eth0 mtu {configured}"));
        prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
        let settled = ["9000", "9000", "default 1400", "172.30.0.0/16 -", "10.9.0.0/16 -"];
        let settled = settled.into_iter().chain(["fd00:172:30::/64 -", "2001:db8:9::/48 -"]).collect();
        let shall = if boot < 2 { up.clone() } else { settled };
        assert_eq!(sizes(&wire.host), shall, "boot {boot}");
        let booted = netferry_agent::mtu::boot::read(&run_directory(&switch)).unwrap().unwrap();
        assert_eq!(
            (booted.epoch, booted.original.bytes()),
            [(1, 1500), (1, 1500), (2, 1500), (0, 9000)][boot]
        );
        assert_eq!(
            read(&switch, SAVED).is_some(),
            boot < 3,
            "the size before the change is kept while it lasts"
        );
        // A file that came meanwhile is for the next boot, also when this one is prepared again.
        write(&switch, FILE, "EPOCH=9\nMTU=1400\n");
        prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
        assert_eq!(sizes(&wire.host), shall, "boot {boot}, again");
        assert_eq!(netferry_agent::mtu::boot::read(&run_directory(&switch)).unwrap(), Some(booted));
        disk = [INTERFACES, SAVED].iter().filter_map(|path| Some((*path, read(&switch, path)?))).collect();
    }
}

/// Boots a host that had `before` by its own configuration by one file after the other: what it runs at in the end, what its
/// configuration says then, and whether anything of a change is kept.
async fn boots(before: u32, files: &[&str]) -> (Vec<String>, String, bool) {
    let mut disk = vec![(INTERFACES, format!("iface eth0 inet static\n    mtu {before}\n"))];
    let mut last = None;
    for file in files {
        let wire = wired();
        let switch = Switch::start(&wire.host).await;
        for (path, text) in &disk {
            write(&switch, path, text);
        }
        write(&switch, FILE, file);
        let configured = |switch: &Switch| {
            let text = read(switch, INTERFACES).unwrap();
            text.split_whitespace().skip_while(|word| *word != "mtu").nth(1).unwrap_or("-").to_owned()
        };
        run(&wire.host, &format!("ip link set eth0 mtu {}", configured(&switch)));
        prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
        disk = [INTERFACES, SAVED].iter().filter_map(|path| Some((*path, read(&switch, path)?))).collect();
        last = Some((sizes(&wire.host), configured(&switch), read(&switch, SAVED).is_some()));
    }
    last.expect("it boots at least once")
}

#[tokio::test]
async fn a_host_that_missed_the_end_of_a_change_sends_nothing_that_is_too_large_for_the_others() {
    let at = |link: &str, routes: &str| -> Vec<String> {
        let routes = ["172.30.0.0/16", "10.9.0.0/16", "fd00:172:30::/64", "2001:db8:9::/48"]
            .map(|to| format!("{to} {routes}"));
        // One route has a smaller size of its own.
        [link.to_owned(), link.to_owned(), "default 1400".to_owned()].into_iter().chain(routes).collect()
    };
    let ended = "EPOCH=3\nOTHERS_MTU=1500\nCNI_MTU=1400\n";
    // It was not there at all.
    assert_eq!(boots(9000, &[ended, ended]).await, (at("9000", "1500"), "9000".to_owned(), false));
    // It was on its way to 9000 when the others turned back.
    let spreading =
        "EPOCH=1\nTARGET_MTU=9000\nMTU=9000\nROUTABLE_MTU=1500\nCNI_MTU=8900\nCNI_ROUTABLE_MTU=1400\n";
    assert_eq!(boots(1500, &[spreading, ended]).await, (at("1500", "-"), "1500".to_owned(), false));
    // They went on.
    let ended = "EPOCH=3\nOTHERS_MTU=9000\nCNI_MTU=8900\n";
    assert_eq!(boots(1500, &[spreading, ended]).await, (at("9000", "-"), "9000".to_owned(), false));
}

#[tokio::test]
async fn a_file_that_cannot_be_carried_out_is_refused_by_name_and_nothing_changes() {
    let wire = wired();
    let switch = Switch::start(&wire.host).await;
    let before = configuration(&wire.host, "eth0");
    let refused = async |interfaces: &str, file: &str| {
        write(&switch, FILE, file);
        write(&switch, INTERFACES, interfaces);
        let error = prepare(&wire.host, &options(&switch), |_| ()).await.unwrap_err();
        assert!(error.is_refusal(), "{error}");
        assert_eq!(configuration(&wire.host, "eth0"), before);
        assert_eq!((read(&switch, INTERFACES).as_deref(), read(&switch, SAVED)), (Some(interfaces), None));
        error.to_string()
    };
    let eth0 = "iface eth0 inet static\n";
    let said = refused(eth0, "TARGET_MTU=9k\n").await;
    assert_eq!(
        said,
        "TARGET_MTU in /etc/cno/mtu-migration/config: \"9k\" is not an MTU between 576 and 65536"
    );
    let said = refused("iface lo inet loopback\n", "TARGET_MTU=9000\n").await;
    assert!(said.contains("describes eth0"), "{said}");
    let said = refused(eth0, "TARGET_MTU=65536\n").await;
    assert_eq!(said, "link eth0 takes an MTU of at most 65535, and 65536 is asked");
    assert_eq!(switch.vsctl("list-br"), "");
}
