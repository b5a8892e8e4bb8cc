//! Nodes that try each other over real links: two hosts and a wire between them that may be narrower than they think.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use netferry_agent::probe::{Pace, Parts, run as probe};
use netferry_core::name::NodeName;
use netferry_core::probe::message::Message;
use netferry_core::probe::round::Peers;
use netferry_core::probe::{All, Peer, Report, Roll, Runs, Way};
use netferry_core::size::{Envelope, Mtu};
use netferry_kernel::Kernel;
use netferry_testkit::wait::PATIENCE;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::world::{add_wire, ip, namespace, run};

const PORT: u16 = 9644;
const NAMES: [&str; 2] = ["a", "b"];

fn mtu(bytes: u32) -> Mtu {
    Mtu::new(bytes).unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// Two nodes behind a switch, each with an address per family; routes hold them at 1500, links carry 9000.
struct World {
    hosts: [Arc<Kernel>; 2],
    switch: Kernel,
    peers: watch::Sender<Peers>,
    reports: Vec<watch::Receiver<Option<Report>>>,
    _tasks: JoinSet<()>,
}

impl World {
    fn new() -> World {
        let (hosts, switch) = ([Arc::new(namespace()), Arc::new(namespace())], namespace());
        run(&switch, "ip link add lan type bridge && ip link set lan mtu 9000 up");
        for (at, host) in hosts.iter().enumerate() {
            let (port, last) = (format!("port{at}"), at + 1);
            add_wire(host, "eth0", &switch, &port);
            run(&switch, &format!("ip link set {port} mtu 9000 master lan"));
            run(
                host,
                &format!(
                    "ip link set eth0 mtu 9000 && \
                     ip address add 172.30.0.{last}/24 dev eth0 noprefixroute && \
                     ip address add fd00:30::{last}/64 dev eth0 nodad noprefixroute && \
                     ip route add 172.30.0.0/24 dev eth0 mtu 1500 && \
                     ip route add fd00:30::/64 dev eth0 mtu 1500"
                ),
            );
        }
        let peers = watch::Sender::new(NAMES.iter().enumerate().map(known).collect());
        World { hosts, switch, peers, reports: Vec::new(), _tasks: JoinSet::new() }
    }

    /// Starts both.
    fn start(&mut self) {
        for (at, name) in NAMES.into_iter().enumerate() {
            let (tell, report) = watch::channel(None);
            let parts = Parts {
                kernel: Arc::clone(&self.hosts[at]),
                name: node(name),
                port: PORT,
                peers: self.peers.subscribe(),
                runs: Box::new(|| Some(Runs { hosts: Envelope::settled(mtu(9000)), ..runs() })),
                pace: Pace { patience: Duration::from_millis(700), ..Pace::default() },
            };
            self._tasks.spawn(probe(parts, tell));
            self.reports.push(report);
        }
    }

    async fn until(&self, what: &str, at: usize, look: impl Fn(&Report) -> bool) -> Report {
        let mut report = self.reports[at].clone();
        let found = report.wait_for(|report| report.as_ref().is_some_and(&look));
        let found = tokio::time::timeout(PATIENCE, found).await.map(|found| found.unwrap().clone());
        found.ok().flatten().unwrap_or_else(|| panic!("{what}: last seen {:?}", self.reports[at].borrow()))
    }
}

fn known((at, name): (usize, &&str)) -> (NodeName, Peer) {
    let last = at + 1;
    let addresses = vec![
        (Way::named("hosts-ipv4").unwrap(), ip(&format!("172.30.0.{last}"))),
        (Way::named("hosts-ipv6").unwrap(), ip(&format!("fd00:30::{last}"))),
    ];
    (node(name), Peer { uid: format!("uid-{name}"), addresses, runs: Some(runs()), there: true })
}

/// What both are known to run. Their own uplinks have no pinned route.
fn runs() -> Runs {
    Runs {
        epoch: 4,
        hosts: Envelope::spanning(mtu(1500), mtu(9000)),
        pods: Envelope::spanning(mtu(1400), mtu(8900)),
    }
}

fn all() -> Roll {
    Roll::of([(&node("a"), "uid-a"), (&node("b"), "uid-b")])
}

fn roll(report: &Report) -> Option<Roll> {
    report.all.as_ref().map(|all| all.roll)
}

fn widths(report: &Report) -> BTreeMap<&'static str, u32> {
    report.narrow.iter().map(|narrow| (narrow.way.name(), narrow.passes.bytes())).collect()
}

#[tokio::test]
async fn nodes_find_that_what_they_carry_gets_through_although_routes_hold_it_back() {
    let mut world = World::new();
    world.start();
    for at in 0..2 {
        let report = world.until("everything was tried", at, |report| report.all.is_some()).await;
        let widths = ["hosts-ipv4", "hosts-ipv6"].map(|way| (Way::named(way).unwrap(), mtu(9000))).into();
        let tried = All { roll: all(), widths };
        assert_eq!(report, Report { epoch: 4, all: Some(tried), ..Report::default() });
    }
}

#[tokio::test]
async fn a_link_in_between_that_is_too_small_is_found_measured_and_let_go_when_it_has_grown() {
    let mut world = World::new();
    // What arrives at this port for the second node is too large for it, and is dropped without a word.
    run(&world.switch, "ip link set port1 mtu 4321");
    world.start();
    let report = world.until("the narrow ways are known", 0, |report| report.narrow.len() == 2).await;
    assert_eq!(widths(&report), [("hosts-ipv4", 4321), ("hosts-ipv6", 4321)].into());
    assert!(report.narrow.iter().all(|narrow| narrow.to == node("b") && narrow.tried == mtu(9000)));
    assert_eq!(roll(&report), Some(all()), "what fails was tried, too");
    run(&world.switch, "ip link set port1 mtu 9000");
    world.until("the ways are wide again", 0, |report| report.narrow.is_empty()).await;
}

#[tokio::test]
async fn a_node_that_comes_later_is_tried_when_it_says_that_it_is_there() {
    let mut world = World::new();
    world.peers.send_modify(|peers| peers.get_mut(&node("b")).unwrap().there = false);
    world.start();
    world.until("nothing is held against anybody", 0, |report| report.all.is_none()).await;
    world.peers.send_modify(|peers| peers.get_mut(&node("b")).unwrap().there = true);
    world.until("it was tried", 0, |report| roll(report) == Some(all())).await;
}

/// Asks `b` from an address, and whether anything comes back.
fn is_answered(host: &Kernel, from: IpAddr, question: &[u8]) -> bool {
    let socket = host.namespace().run(|| UdpSocket::bind((from, 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.send_to(question, (ip("172.30.0.2"), PORT)).unwrap();
    socket.recv_from(&mut [0; 64]).is_ok()
}

#[tokio::test]
async fn nobody_but_nodes_is_answered_and_nobody_gets_more_than_they_sent() {
    let mut world = World::new();
    run(&world.hosts[0], "ip address add 172.30.0.99/24 dev eth0");
    world.start();
    world.until("both listen", 0, |report| report.all.is_some()).await;
    let host = Arc::clone(&world.hosts[0]);
    let question = Message::Question(7).write(100);
    let answered = tokio::task::spawn_blocking(move || {
        [
            is_answered(&host, ip("172.30.0.1"), &question),
            is_answered(&host, ip("172.30.0.99"), &question),
            is_answered(&host, ip("172.30.0.1"), b"who is there?"),
        ]
    });
    assert_eq!(answered.await.unwrap(), [true, false, false]);
}
