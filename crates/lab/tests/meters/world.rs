//! Namespaces joined by veths, without names: they vanish with the test, however it ends.

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use netferry_kernel::Namespace;
use netferry_lab::meter::{Endpoint, Flow, FlowReport, Place, Report, Running, Traffic};

/// A namespace and the place of that name.
pub(crate) struct Host {
    pub(crate) place: Place,
}

impl Host {
    pub(crate) fn new(name: &str) -> Host {
        let host = Host { place: Place::new(name, Namespace::anonymous().unwrap()) };
        host.sh("ip link set lo up");
        host
    }

    /// Runs a shell command inside; it must succeed.
    pub(crate) fn sh(&self, command: &str) -> String {
        self.sh_with(command, "")
    }

    pub(crate) fn sh_with(&self, command: &str, input: &str) -> String {
        let run = || {
            let mut child = Command::new("sh")
                .args(["-ec", command])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let out = child.wait_with_output().unwrap();
            assert!(out.status.success(), "{command}: {}", out.status);
            String::from_utf8(out.stdout).unwrap()
        };
        self.place.namespace.run(run).unwrap()
    }

    pub(crate) fn nft(&self, rules: &str) {
        self.sh_with("nft -f -", rules);
    }

    pub(crate) fn endpoint(&self, at: &str) -> Endpoint {
        Endpoint { place: self.place.clone(), at: at.parse().unwrap() }
    }

    /// A handle others can reach this namespace by.
    pub(crate) fn holder(&self) -> Holder {
        let run = || Command::new("sleep").arg("infinity").spawn().unwrap();
        Holder(self.place.namespace.run(run).unwrap())
    }
}

/// A process inside a namespace, so that `ip link … netns PID` can name it.
pub(crate) struct Holder(std::process::Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Joins two hosts: `10.0.<subnet>.1` and `.2`, `fd00:<subnet>::1` and `::2`.
pub(crate) fn join(left: (&Host, &str), right: (&Host, &str), subnet: u8) {
    let there = right.0.holder();
    let pid = there.0.id();
    let (l, r) = (left.1, right.1);
    left.0.sh(&format!("ip link add {l} type veth peer name {r} netns {pid}"));
    for ((host, link), last) in [(left, 1), (right, 2)] {
        host.sh(&format!(
            "ip addr add 10.0.{subnet}.{last}/24 dev {link}; ip addr add fd00:{subnet}::{last}/64 dev {link} nodad;
             ip link set {link} up"
        ));
    }
    // A link that has just come up loses what it cannot resolve yet; that is no fault of the tests' making.
    for (any, to) in
        [("0.0.0.0:0", format!("10.0.{subnet}.2:9")), ("[::]:0", format!("[fd00:{subnet}::2]:9"))]
    {
        answers(&left.0.place, any, &to);
    }
}

/// Waits until the other side says that nobody listens there.
fn answers(place: &Place, any: &str, to: &str) {
    let socket = place.namespace.run(|| UdpSocket::bind(any).unwrap()).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    let refused = |result: std::io::Result<usize>| {
        result.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    while !refused(socket.send(b"?")) && !refused(socket.recv(&mut [0; 8])) {
        assert!(Instant::now() < end, "{to} never answered");
    }
}

/// Two hosts on one wire.
pub(crate) fn pair() -> (Host, Host) {
    let (a, b) = (Host::new("a"), Host::new("b"));
    join((&a, "eth0"), (&b, "eth0"), 1);
    (a, b)
}

/// A router between two hosts, which reach each other through it.
pub(crate) fn through_router() -> (Host, Host, Host) {
    let (a, router, b) = (Host::new("a"), Host::new("router"), Host::new("b"));
    join((&a, "eth0"), (&router, "left"), 1);
    join((&b, "eth0"), (&router, "right"), 2);
    router.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
    a.sh("ip route add default via 10.0.1.2; ip -6 route add default via fd00:1::2");
    b.sh("ip route add default via 10.0.2.2; ip -6 route add default via fd00:2::2");
    (a, router, b)
}

pub(crate) fn flow(name: &str, traffic: Traffic, from: &Host, to: &Host, at: &str) -> Flow {
    Flow::between(name, traffic, from.place.clone(), to.endpoint(at))
}

/// Waits until a report shows something; a bound and not a length.
pub(crate) fn until(meter: &Running, what: &str, shows: impl Fn(&Report) -> bool) -> Report {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let report = meter.snapshot().unwrap();
        if shows(&report) {
            return report;
        }
        assert!(Instant::now() < end, "never came to pass: {what}\n{report}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn sent_at_least(count: u64) -> impl Fn(&Report) -> bool {
    move |report| report.flows.iter().all(|flow| flow.forward.sent >= count)
}

pub(crate) fn only(report: &Report) -> &FlowReport {
    assert_eq!(report.flows.len(), 1);
    &report.flows[0]
}

/// For what is under way at the end, after the last that came.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// One rule that does something to what it selects, and counts it.
pub(crate) fn faults(host: &Host, hook: &str, select: &str, verdict: &str) {
    host.nft(&format!(
        "table inet faults {{\nchain c {{\ntype filter hook {hook} priority 0;\n{select} counter {verdict}\n}}\n}}\n"
    ));
}

/// How many packets the fault has met, as the kernel counted them.
pub(crate) fn counted(host: &Host) -> u64 {
    let rules: serde_json::Value = serde_json::from_str(&host.sh("nft -j list ruleset")).unwrap();
    let rules = rules["nftables"].as_array().unwrap();
    let expressions = rules.iter().filter_map(|object| object["rule"]["expr"].as_array()).flatten();
    expressions.filter_map(|expression| expression["counter"]["packets"].as_u64()).sum()
}
