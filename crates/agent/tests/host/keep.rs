//! A host that is made what its plan says, and stays it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use netferry_agent::overlay::host::{Inputs, State, guard, run as keep};
use netferry_core::overlay::allocate::{Applicant, Claim, allocate};
use netferry_core::overlay::cluster::Node;
use netferry_core::overlay::host::HostPlan;
use netferry_core::overlay::networks::{ClusterRange, Internal, Networks};
use netferry_core::overlay::service::{Entrance, Forward};
use netferry_core::overlay::topology::Topology;
use netferry_core::overlay::zone::Zone;
use netferry_core::port::{Port, Protocol};
use netferry_core::size::Mtu;
use netferry_kernel::{IfName, Kernel};
use tokio::sync::watch;

use crate::world::{Switch, Wire, add_wire, answers, in_time, ip, name, namespace, run, try_run, until};

/// The plan of a node of a dual-stack cluster with so many Services that have a NodePort.
fn plan(services: u16) -> HostPlan {
    let mut forward = Forward::default();
    for number in 0..services {
        let port = Port::new(i64::from(30000 + number)).unwrap();
        let [high, low] = number.to_be_bytes();
        for (family, to) in [
            (netferry_core::net::Family::V4, format!("10.96.{high}.{low}:80")),
            (netferry_core::net::Family::V6, format!("[fd02::{:x}]:80", number + 1)),
        ] {
            let entrance = Entrance { family, address: None, protocol: Protocol::Tcp, port };
            forward.any.insert(entrance, to.parse().unwrap());
        }
    }
    plan_of(forward)
}

/// The plan of a node of a dual-stack cluster that forwards this.
pub(crate) fn plan_of(forward: Forward) -> HostPlan {
    let net = |text: &str| text.parse::<ipnet::IpNet>().unwrap();
    let cluster = vec![
        ClusterRange::new(net("10.244.0.0/16"), 24).unwrap(),
        ClusterRange::new(net("fd01::/48"), 64).unwrap(),
    ];
    let service = vec![net("10.96.0.0/16"), net("fd02::/112")];
    let networks = Networks::new(cluster, service, Internal::default()).unwrap();
    let applicant = Applicant {
        name: "n0".parse().unwrap(),
        created: 0,
        id: Claim::Absent,
        subnets: Claim::Absent,
        running: None,
    };
    let given = allocate(&networks, &[applicant]);
    let (name, assignment) = given.nodes.iter().next().unwrap();
    let node = Node {
        name: name.clone(),
        assignment: *assignment,
        chassis: "chassis".to_owned(),
        encap: ip("172.30.0.2"),
        host_addresses: BTreeSet::from([ip("172.30.0.2")]),
    };
    let topology = Topology::multi_node();
    let mtu = Mtu::new(1400).unwrap();
    let zone = Zone { networks: &networks, topology: &topology, node: &node, mtu };
    zone.host(None, forward)
}

/// Everything the plan is about, as `ip`, `nft` and the files say.
fn seen(kernel: &Kernel) -> String {
    let text = run(
        kernel,
        "ip -o addr show dev ovn-k8s-mp0 scope global | cut -d: -f2-; \
         ip route show table all dev ovn-k8s-mp0 | grep -v -E 'table local|^fe80|^multicast'; \
         ip -6 route show table all dev ovn-k8s-mp0 | grep -v -E 'table local|^fe80|^multicast'; \
         ip neigh show dev ovn-k8s-mp0 nud permanent; \
         ip -o link show dev ovn-k8s-mp0 | grep -o -E 'mtu [0-9]+|,UP'; \
         cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding \
             /proc/sys/net/ipv4/conf/ovn-k8s-mp0/forwarding; \
         nft list table inet netferry",
    );
    // Chains are listed in the order they were made in.
    let (rest, filter) = text.split_at(text.find("table inet").unwrap());
    let mut lines: Vec<&str> = rest.lines().collect();
    let filter = filter.replace("table inet netferry {\n", "");
    let mut blocks: Vec<&str> = filter.split("\n\t}").map(|block| block.trim_matches(['\n', '}'])).collect();
    lines.sort_unstable();
    blocks.sort_unstable();
    lines.into_iter().chain(blocks).collect::<Vec<_>>().join("\n")
}

fn is_seen(kernel: &Kernel) -> Option<String> {
    let there = try_run(kernel, "ip link show dev ovn-k8s-mp0 && nft list table inet netferry").is_ok();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| there.then(|| seen(kernel)))).ok().flatten()
}

struct Kept {
    plan: watch::Sender<Option<HostPlan>>,
    guarded: watch::Sender<BTreeSet<IfName>>,
    state: watch::Receiver<State>,
    task: tokio::task::JoinHandle<()>,
    run: tempfile::TempDir,
}

impl Kept {
    fn start(kernel: &Arc<Kernel>, first: Option<HostPlan>) -> Kept {
        let (plan, plans) = watch::channel(first);
        let (guarded, links) = watch::channel(BTreeSet::new());
        let (sender, state) = watch::channel(State::default());
        // Too long for a test: what is repaired is repaired because it was heard of.
        let resync = Duration::from_secs(3600);
        let run = tempfile::tempdir().unwrap();
        let inputs = Inputs { plan: plans, guarded: links, uplink: None, resync, run: run.path().to_owned() };
        let task = tokio::spawn(keep(Arc::clone(kernel), inputs, sender));
        Kept { plan, guarded, state, task, run }
    }

    async fn reaches(&mut self, wanted: State) {
        in_time(&format!("{wanted:?}"), self.state.wait_for(|state| *state == wanted)).await.unwrap();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The switch's part, played by a pair.
fn make_link(kernel: &Kernel) {
    run(kernel, "ip link add ovn-k8s-mp0 type veth peer name overlay && ip link set overlay up");
}

#[tokio::test]
async fn the_kernel_has_what_the_plan_says_as_other_programs_read_it() {
    let host = Arc::new(namespace());
    make_link(&host);
    let mut kept = Kept::start(&host, Some(plan(2)));
    kept.reaches(State::AsPlanned).await;
    let all = seen(&host);
    for line in [
        "10.244.0.0/16 via 10.244.0.1 proto 110 src 10.244.0.2 onlink",
        "10.96.0.0/16 via 10.244.0.1 proto 110 src 10.244.0.2 onlink mtu 1400",
        "fd02::/112 via fd01::1 proto 110 src fd01::2 metric 1024 onlink mtu 1400 pref medium",
        "10.244.0.1 lladdr 0a:58:0a:f4:00:01 PERMANENT proto 110",
        "fd01::1 lladdr 0a:58:0a:f4:00:01 PERMANENT proto 110",
        "mtu 1400",
    ] {
        assert!(all.lines().any(|seen| seen.trim().replace("  ", " ") == line), "no {line:?} in\n{all}");
    }
    for part in ["inet 10.244.0.2/24", "inet6 fd01::2/64", "tcp . 30001 : 10.96.0.1 . 80"] {
        assert!(all.contains(part), "no {part:?} in\n{all}");
    }

    // What `nft` makes of the plan's own words is what we made of the plan.
    let by_nft = namespace();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), plan(2).filter.to_string()).unwrap();
    run(&by_nft, &format!("nft -f {}", file.path().display()));
    let ours = run(&host, "nft list table inet netferry");
    let theirs = run(&by_nft, "nft list table inet netferry");
    let chains = |text: &str| -> Vec<String> {
        let text = text.replace("@with_ports", "{ tcp, udp, sctp }");
        text[text.find("\tchain").unwrap()..].lines().map(str::to_owned).collect()
    };
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(chains(&ours)), sorted(chains(&theirs)));
}

#[tokio::test]
async fn whatever_of_the_host_is_changed_by_hand_is_put_back() {
    let host = Arc::new(namespace());
    make_link(&host);
    let mut kept = Kept::start(&host, Some(plan(3)));
    kept.reaches(State::AsPlanned).await;
    let before = seen(&host);
    for sabotage in [
        "ip addr del 10.244.0.2/24 dev ovn-k8s-mp0",
        "ip addr del fd01::2/64 dev ovn-k8s-mp0",
        "ip addr flush dev ovn-k8s-mp0",
        "ip route del 10.96.0.0/16",
        "ip route replace 10.96.0.0/16 via 10.244.0.1 dev ovn-k8s-mp0 proto 110 mtu 900",
        "ip -6 route del fd02::/112",
        "ip -6 route flush dev ovn-k8s-mp0",
        "ip neigh del 10.244.0.1 dev ovn-k8s-mp0",
        "ip neigh replace fd01::1 lladdr 02:00:00:00:00:99 dev ovn-k8s-mp0 nud permanent proto 110",
        "ip link set ovn-k8s-mp0 down",
        "ip link set ovn-k8s-mp0 mtu 1000",
        "echo 0 > /proc/sys/net/ipv4/ip_forward",
        "echo 0 > /proc/sys/net/ipv6/conf/all/forwarding",
        "nft delete table inet netferry",
        "nft flush chain inet netferry postrouting",
        "nft delete chain inet netferry forward",
        "nft insert rule inet netferry prerouting drop",
        "nft delete element inet netferry any_nodeports_v4 { tcp . 30001 }",
        "nft add element inet netferry any_nodeports_v4 { tcp . 30999 : 10.96.0.9 . 80 }",
        "nft flush ruleset",
        "ip route add 10.97.0.0/16 dev ovn-k8s-mp0 proto 110",
        "ip link del ovn-k8s-mp0; ip link add ovn-k8s-mp0 type veth peer name overlay; ip link set overlay up",
    ] {
        run(&host, sabotage);
        until(&format!("after {sabotage:?} everything"), async || is_seen(&host).as_ref() == Some(&before))
            .await;
    }
}

#[tokio::test]
async fn without_a_plan_nothing_is_touched_and_a_plan_that_is_lost_is_kept() {
    let host = Arc::new(namespace());
    make_link(&host);
    run(&host, "ip route add 10.97.0.0/16 dev lo proto 110; nft add table inet netferry");
    let before = run(&host, "ip addr; ip route; nft list ruleset; ip neigh");
    let mut kept = Kept::start(&host, None);
    // Whatever it does about this it has done once it has guarded what comes later.
    kept.guarded.send(BTreeSet::from([name("overlay")])).unwrap();
    until("the guard", async || try_run(&host, "nft list chain netdev netferry-guard link-overlay").is_ok())
        .await;
    guard::remove(&host, &name("overlay")).unwrap();
    kept.guarded.send(BTreeSet::new()).unwrap();
    run(&host, "nft delete table netdev netferry-guard");
    assert_eq!(run(&host, "ip addr; ip route; nft list ruleset; ip neigh"), before);

    kept.plan.send(Some(plan(1))).unwrap();
    kept.reaches(State::AsPlanned).await;
    let planned = seen(&host);
    assert!(!planned.contains("10.97.0.0/16"), "ours, and not planned");
    kept.plan.send(None).unwrap();
    run(&host, "ip route del 10.96.0.0/16");
    until("the route", async || is_seen(&host).as_ref() == Some(&planned)).await;
}

#[tokio::test]
async fn somebody_elses_objects_are_never_touched() {
    let host = Arc::new(namespace());
    make_link(&host);
    let foreign = "nft list table inet theirs; ip route show 10.98.0.0/16; ip -4 -o addr show dev overlay";
    run(
        &host,
        "ip link set ovn-k8s-mp0 up; nft add table inet theirs; nft add chain inet theirs c { type filter hook forward priority 0 \\; }; \
         ip addr add 192.0.2.1/24 dev overlay; ip route add 10.98.0.0/16 via 192.0.2.2",
    );
    let before = run(&host, foreign);
    let mut kept = Kept::start(&host, Some(plan(1)));
    kept.reaches(State::AsPlanned).await;
    kept.plan.send(Some(plan(5))).unwrap();
    until("five Services", async || seen(&host).contains("tcp . 30004")).await;
    assert_eq!(run(&host, foreign), before);
}

#[tokio::test]
async fn a_management_port_that_the_switch_makes_again_is_what_it_was() {
    let Wire { host, peer: _peer } = Wire::new();
    let mut switch = Switch::start(&host).await;
    let mut kept = Kept::start(&host, Some(plan(1)));
    kept.reaches(State::NoLink).await;
    switch.vsctl("add-br br-int -- set bridge br-int datapath_type=netdev");
    switch.vsctl(
        "add-port br-int ovn-k8s-mp0 -- set interface ovn-k8s-mp0 type=internal mtu_request=1400 \
         mac=\\\"0a:58:0a:f4:00:02\\\"",
    );
    kept.reaches(State::AsPlanned).await;
    let complete = |text: &str| text.contains("fd01::2/64") && text.contains("10.96.0.0/16 via 10.244.0.1");
    until("everything", async || is_seen(&host).is_some_and(|text| complete(&text))).await;
    let before = seen(&host);
    switch.kill_daemon();
    switch.start_daemon().await;
    until("everything again", async || is_seen(&host).as_ref() == Some(&before)).await;
    switch.control().await.unwrap().exit(&["--cleanup"]).await.unwrap();
    switch.kill_daemon();
    kept.reaches(State::NoLink).await;
    switch.start_daemon().await;
    until("everything once more", async || is_seen(&host).as_ref() == Some(&before)).await;
}

#[tokio::test]
async fn a_host_that_begins_to_forward_keeps_listening_to_routers() {
    let Wire { host, peer: _peer } = Wire::new();
    make_link(&host);
    run(
        &host,
        "echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_ra; echo 0 > /proc/sys/net/ipv6/conf/overlay/accept_ra",
    );
    let mut kept = Kept::start(&host, Some(plan(0)));
    kept.reaches(State::AsPlanned).await;
    let read = |link: &str| run(&host, &format!("cat /proc/sys/net/ipv6/conf/{link}/accept_ra"));
    assert_eq!((read("eth0").trim(), read("overlay").trim()), ("2", "0"));
    assert_eq!(run(&host, "cat /proc/sys/net/ipv6/conf/all/forwarding").trim(), "1");
}

#[tokio::test]
async fn a_host_that_speaks_no_ipv6_has_everything_of_ipv4_and_reaches_its_pods_by_both() {
    let host = Arc::new(namespace());
    run(&host, "for of in all default; do echo 1 > /proc/sys/net/ipv6/conf/$of/disable_ipv6; done");
    make_link(&host);
    let mut kept = Kept::start(&host, Some(plan(2)));
    kept.reaches(State::AsPlanned).await;
    let all = seen(&host);
    assert!(all.contains("inet 10.244.0.2/24") && all.contains("inet6 fd01::2/64"), "{all}");
    assert_eq!(run(&host, "cat /proc/sys/net/ipv6/conf/overlay/disable_ipv6").trim(), "1", "theirs");
    // Somebody switches it off everywhere once more.
    run(&host, "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6");
    until("everything once more", async || is_seen(&host).as_ref() == Some(&all)).await;
}

#[tokio::test]
async fn settings_are_what_they_were_once_we_are_gone_but_those_somebody_changed_after_us() {
    let Wire { host, peer: _peer } = Wire::new();
    make_link(&host);
    // A careful host: it takes no redirects, and forwards on one link alone.
    run(
        &host,
        "cd /proc/sys/net; echo 0 > ipv4/conf/all/accept_redirects; echo 1 > ipv4/conf/overlay/forwarding; \
         echo 1 > ipv6/conf/eth0/accept_ra; echo 1 > ipv6/conf/overlay/accept_ra",
    );
    // Of links that stay; some the kernel rolls anew, or does not let anybody read.
    let all = || {
        let show = "cd /proc/sys/net; grep -rs . ipv4/ip_forward ipv[46]/conf | grep -v ovn-k8s-mp0 | \
                    grep -v -e stable_secret -e base_reachable_time | sort";
        run(&host, show).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let before = all();
    let mut kept = Kept::start(&host, Some(plan(0)));
    kept.reaches(State::AsPlanned).await;
    assert!(all().contains(&"ipv4/ip_forward:1".to_owned()));
    // An agent that starts again in the same boot finds what the last one made, and takes it for nobody's wish.
    kept.task.abort();
    run(&host, "echo 0 > /proc/sys/net/ipv4/ip_forward");
    let objects = netferry_agent::overlay::host::objects::Objects::of(&plan(0)).unwrap();
    netferry_agent::overlay::host::settings::settle(&host, &objects.settings, kept.run.path()).unwrap();
    run(&host, "echo 0 > /proc/sys/net/ipv6/conf/overlay/accept_ra");
    for _ in 0..2 {
        netferry_agent::overlay::host::withdraw(&host, kept.run.path()).unwrap();
        let after = all();
        let changed: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
        assert_eq!(changed, ["ipv6/conf/overlay/accept_ra:0"], "theirs");
        assert_eq!(before.len(), after.len());
    }
}

#[tokio::test]
async fn guards_come_back_by_themselves() {
    let Wire { host, peer: _peer } = Wire::new();
    let kept = Kept::start(&host, None);
    kept.guarded.send(BTreeSet::from([name("eth0")])).unwrap();
    let guarded = async || try_run(&host, "nft list chain netdev netferry-guard link-eth0").is_ok();
    until("the guard", guarded).await;
    for sabotage in ["nft delete chain netdev netferry-guard link-eth0", "nft flush ruleset"] {
        run(&host, sabotage);
        until(sabotage, guarded).await;
    }
}

/// A pod's network behind the management port, a host that forwards for it, and somebody outside.
struct Forwarding {
    host: Arc<Kernel>,
    pod: Kernel,
    outside: Kernel,
}

impl Forwarding {
    fn new() -> Forwarding {
        let Wire { host, peer: outside } = Wire::new();
        let pod = namespace();
        add_wire(&host, "ovn-k8s-mp0", &pod, "pod");
        run(&host, "ip addr add 172.30.0.2/16 dev eth0");
        run(&outside, "ip addr add 172.30.255.254/16 dev wire");
        run(&pod, "ip addr add 10.244.0.5/24 dev pod && ip route add default via 10.244.0.2");
        Forwarding { host, pod, outside }
    }

    fn passes(&self) -> bool {
        answers(&self.pod, &self.outside, ip("172.30.255.254"), 3)
    }
}

/// As a container engine, a firewall and `iptables -P FORWARD DROP` leave it.
const DROPS: [&str; 2] = [
    "table ip filter { chain FORWARD { type filter hook forward priority filter; policy drop; \n\
     counter jump DOCKER-USER \n } \n chain DOCKER-USER { counter return \n } \n }",
    "table inet firewall { chain forwarding { type filter hook forward priority filter + 10; policy accept; \n\
     ct state established,related accept \n iifname \"lo\" accept \n reject with icmpx admin-prohibited \n } \n }",
];

fn load(kernel: &Kernel, script: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    run(kernel, &format!("nft -f {}", file.path().display()));
}

#[tokio::test]
async fn the_overlays_packets_pass_where_somebody_elses_filter_drops_what_is_forwarded() {
    for (drops, table, chain) in
        [(DROPS[0], "ip filter", "FORWARD"), (DROPS[1], "inet firewall", "forwarding")]
    {
        let world = Forwarding::new();
        let mut kept = Kept::start(&world.host, Some(plan(0)));
        kept.reaches(State::AsPlanned).await;
        assert!(world.passes(), "nobody drops anything yet");
        load(&world.host, drops);
        let list = format!("nft list chain {table} {chain}");
        let admitted = || run(&world.host, &list).matches("comment \"netferry\"").count();
        until("our rules in their chain", async || admitted() == 2).await;
        assert!(world.passes(), "{}", run(&world.host, "nft list ruleset"));

        // Removed, flushed, and the whole filter loaded anew: it comes back. What others put in front stays there.
        for handle in run(&world.host, &format!("nft -a list chain {table} {chain}"))
            .lines()
            .filter(|line| line.contains("\"netferry\""))
            .map(|line| line.rsplit_once("handle ").unwrap().1.to_owned())
            .collect::<Vec<_>>()
        {
            run(&world.host, &format!("nft delete rule {table} {chain} handle {handle}"));
        }
        until("our rules again", async || admitted() == 2).await;
        run(&world.host, &format!("nft insert rule {table} {chain} ip daddr 203.0.113.9 drop"));
        run(&world.host, &format!("nft delete table {table}"));
        load(&world.host, drops);
        until("our rules in a new filter", async || admitted() == 2).await;
        assert!(world.passes());

        // Their own decisions stay theirs.
        let theirs = run(&world.host, &list);
        let theirs =
            theirs.lines().filter(|line| !line.contains("\"netferry\"")).collect::<Vec<_>>().join("\n");
        netferry_agent::overlay::host::admit::converge(&world.host, &[]).unwrap();
        until("our rules once more", async || admitted() == 2).await;
        kept.task.abort();
        netferry_agent::overlay::host::withdraw(&world.host, kept.run.path()).unwrap();
        assert_eq!(run(&world.host, &list).trim_end(), theirs.trim_end());
        let left = run(&world.host, "nft list tables; ip route show proto 110; ip neigh show nud permanent");
        assert!(!left.contains("netferry") && !left.contains("10.244"), "{left}");
    }
}

#[tokio::test]
async fn a_filter_that_drops_no_more_has_nothing_of_ours_in_it() {
    let host = Arc::new(namespace());
    make_link(&host);
    load(&host, DROPS[0]);
    let mut kept = Kept::start(&host, Some(plan(0)));
    kept.reaches(State::AsPlanned).await;
    let ours = || run(&host, "nft list chain ip filter FORWARD").contains("\"netferry\"");
    assert!(ours());
    run(&host, "nft chain ip filter FORWARD '{ policy accept ; }'");
    until("our rules to be gone", async || !ours()).await;
}

/// A firewall that keeps its table to itself (`flags owner`), as firewalld on newer systems. Its table goes with it.
fn own_table(kernel: &Kernel) -> Kernel {
    use netferry_kernel::Objects as _;
    use netferry_kernel::nft::{
        Chain, Change, Changes, HookKind, HookPoint, Policy, TableFamily, TableFlags, TableId,
    };
    let owner = Kernel::inside(kernel.namespace().try_clone().unwrap()).unwrap();
    let table = TableId { family: TableFamily::Inet, name: "firewalld".to_owned() };
    let flags = TableFlags { owner: true, ..TableFlags::default() };
    let hook = Chain::at(HookKind::Filter, HookPoint::Forward, 10, vec![]).policy(Policy::Drop).hook;
    let chain = Change::NewChain { table: table.clone(), name: "filter_FORWARD".to_owned(), hook };
    let steps = vec![Change::NewTable(table, flags), chain];
    owner.nft().apply(&Changes { steps, ..Changes::default() }).unwrap();
    owner
}

#[tokio::test]
async fn a_firewall_that_keeps_its_table_to_itself_keeps_nothing_else_from_being_put_right() {
    let world = Forwarding::new();
    let firewall = own_table(&world.host);
    load(&world.host, DROPS[0]);
    let mut kept = Kept::start(&world.host, Some(plan(1)));
    kept.reaches(State::AsPlanned).await;
    let before = seen(&world.host);
    // Others that can be opened are, and what is taken away of the host comes back.
    let admitted = || run(&world.host, "nft list chain ip filter FORWARD").matches("\"netferry\"").count();
    assert_eq!(admitted(), 2);
    for sabotage in [
        "ip addr flush dev ovn-k8s-mp0",
        "ip route del 10.96.0.0/16",
        "ip neigh del 10.244.0.1 dev ovn-k8s-mp0",
        "nft delete table inet netferry",
    ] {
        run(&world.host, sabotage);
        let back = async || is_seen(&world.host).as_ref() == Some(&before);
        until(&format!("after {sabotage:?} everything"), back).await;
    }
    let objects = netferry_agent::overlay::host::objects::Objects::of(&plan(1)).unwrap();
    let done = netferry_agent::overlay::host::admit::converge(&world.host, &objects.admitted).unwrap();
    let closed: Vec<String> = done.closed.iter().map(ToString::to_string).collect();
    assert_eq!((done.steps, closed), (0, vec!["inet firewalld".to_owned()]), "named, for its owner to open");
    assert!(!world.passes(), "its decision stays");
    drop(firewall);
    assert!(world.passes());
    kept.task.abort();
    let _firewall = own_table(&world.host);
    netferry_agent::overlay::host::withdraw(&world.host, kept.run.path()).unwrap();
    assert_eq!(admitted(), 0);
}

#[tokio::test]
async fn what_cannot_be_written_down_is_told_and_everything_but_settings_is_put_right() {
    let host = Arc::new(namespace());
    make_link(&host);
    let mut kept = Kept::start(&host, None);
    let note = kept.run.path().join("settings.json");
    std::fs::create_dir(&note).unwrap();
    kept.plan.send(Some(plan(1))).unwrap();
    let named = |state: &State| matches!(state, State::Trouble(why) if why.contains("settings.json"));
    in_time("trouble with the note", kept.state.wait_for(named)).await.unwrap();
    let before = seen(&host);
    for part in ["inet 10.244.0.2/24", "10.96.0.0/16 via 10.244.0.1", "10.244.0.1 lladdr 0a:58:0a:f4:00:01"] {
        assert!(before.contains(part), "no {part:?} in\n{before}");
    }
    let forwards = || run(&host, "cat /proc/sys/net/ipv4/ip_forward").trim() == "1";
    assert!(!forwards(), "nobody could take it back");
    run(&host, "ip addr flush dev ovn-k8s-mp0");
    until("everything again", async || is_seen(&host).as_ref() == Some(&before)).await;
    std::fs::remove_dir(&note).unwrap();
    kept.reaches(State::AsPlanned).await;
    assert!(forwards());
}
