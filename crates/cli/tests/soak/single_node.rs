//! One machine: every way in and out of it in every family, and an uplink that changes under its pods.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use netferry_kernel::link::{Make, VethPeer, Want, diff};
use netferry_kernel::{IfName, Kernel, Mark, Objects as _};
use netferry_lab::meter::{Limits, Meter, Report, Running};
use netferry_lab::paths::{self, Kind, Selection, in_lab};
use netferry_lab::{Families, Lab, Options};

use crate::Scenario;
use crate::bench::{PATIENCE, options, said, up};
use crate::notes::Notes;
use crate::one_machine::{Machine, policies_hold};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "single-node",
    shows: "One machine: every way in and out of it, TCP and UDP, with and without policies, in IPv4, IPv6 and both; then \
            its uplink becomes a second Ethernet, a tun device, none, and the first again, while packets flow.",
    run: |notes| run(notes).boxed_local(),
};

const NODE: &str = "node-1";
/// Paths that need no uplink.
const IN_THE_BOX: [Kind; 5] =
    [Kind::PodPodSameNode, Kind::HostPod, Kind::PodClusterIp, Kind::HostClusterIp, Kind::Hairpin];
/// Where the server outside listens.
const WORLD: u16 = 8080;
/// How soon what needs an uplink follows it.
const FOLLOWS: Duration = Duration::from_secs(1);
/// Carries packets between a tun device and datagrams: what a VPN is.
const VPN: &str = r#"
use Fcntl; use Socket;
my ($name, $here, $there, $port) = @ARGV;
sysopen(T, "/dev/net/tun", O_RDWR) or die "tun: $!";
ioctl(T, 0x400454ca, pack("a16 s x22", $name, 0x1001)) or die "$name: $!";
socket(S, PF_INET, SOCK_DGRAM, 0) or die; bind(S, sockaddr_in($port, inet_aton($here))) or die "bind: $!";
my $peer = sockaddr_in($port, inet_aton($there));
while (1) {
  my $b = ""; vec($b, fileno(T), 1) = 1; vec($b, fileno(S), 1) = 1; select($b, undef, undef, undef);
  if (vec($b, fileno(T), 1)) { sysread(T, my $p, 65535); send(S, $p, 0, $peer); }
  if (vec($b, fileno(S), 1)) { recv(S, my $p, 65535, 0); syswrite(T, $p); }
}
"#;

async fn run(notes: &mut Notes) -> anyhow::Result<()> {
    for families in [Families::V4, Families::V6, Families::Dual] {
        let machine = Machine::new(&Options { families, single_node: true, ..options(1) });
        policies_hold(&machine);
        notes.line(format!(
            "- {families:?}: everybody was reached and seen as promised, by TCP and UDP; policies held."
        ));
    }
    uplinks(notes).await
}

/// A program in the lab that ends with us.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn vpn(lab: &Lab, target: &str, name: &str, here: &str, there: &str) -> anyhow::Result<Guest> {
    let mut command = Command::new("perl");
    command.args(["-e", VPN, name, here, there, "51820"]).stdin(Stdio::null());
    Ok(Guest(lab.spawn(target, command)?))
}

/// A cable from the machine to the router.
fn second_ethernet(lab: &Lab) -> anyhow::Result<()> {
    let kernel = Kernel::inside(lab.way("router")?.namespace()?)?;
    let name = |text: &str| IfName::new(text.to_owned());
    let peer = VethPeer::named(name("eth9")?).inside(Arc::new(lab.way(NODE)?.namespace()?));
    let cable = Want::make(name("to-box")?, Make::Veth(peer)).up();
    kernel.links().apply(&diff(&[cable], &[], &Mark::default()))?;
    said(lab, "router", &["ip", "addr", "add", "172.31.0.1/24", "dev", "to-box"]);
    Ok(())
}

async fn uplinks(notes: &mut Notes) -> anyhow::Result<()> {
    let lab = up(&Options { families: Families::V4, single_node: true, ..options(1) });
    second_ethernet(&lab)?;
    let own = Families::V4.node(0, 1)[0];
    let sites = in_lab::sites(&lab, PATIENCE, |_| {}).await?;
    let inside = Selection { kinds: IN_THE_BOX.into(), rate: Some(20), ..Selection::default() };
    let mut flows = paths::flows(&sites, &inside);
    let out = Selection {
        kinds: BTreeSet::from([Kind::PodOutside]),
        tcp: false,
        icmp: None,
        rate: Some(100),
        ..Selection::default()
    };
    flows.extend(paths::flows(&sites, &out));
    let silent = paths::preflight(&flows, PATIENCE, |_| {})?;
    anyhow::ensure!(silent.is_empty(), "not answered before anything changed: {silent:?}");
    let mut world = Command::new("netferry");
    world
        .args(["lab-pod", "--port", &WORLD.to_string(), "--name", "world"])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let world = Guest(lab.spawn("outside", world)?);
    let pod = sites.pods.first().map(|pod| pod.name.clone()).unwrap_or_default();
    let there = There { meter: Meter::start(flows)?, _world: world, lab, pod };
    let lab = &there.lab;

    // Each is whole in one call: what is measured is what follows it.
    let on_second = "ip link set eth9 up; ip addr replace 172.31.0.2/24 dev eth9; \
                     ip route replace default via 172.31.0.1 dev eth9; ip link set eth0 down";
    let on_tun = "ip addr replace 10.99.0.2/30 dev tun9; ip link set tun9 up mtu 1400; \
                  ip route replace default dev tun9";
    let none = "ip route del default; ip link set tun9 down; ip link set eth9 down";
    let back = format!(
        "ip link set eth0 up; ip addr replace {own} dev eth0; ip route replace default via 172.30.0.1 dev eth0"
    );
    notes.line("");
    notes.line("| the uplink becomes | its address | out again after | lost inside so far |");
    notes.line("| --- | --- | --- | --- |");
    step(notes, &there, "a second Ethernet", Some("172.31.0.2"), on_second)?;
    let _vpn = [
        vpn(lab, "router", "tun9", "172.31.0.1", "172.31.0.2")?,
        vpn(lab, NODE, "tun9", "172.31.0.2", "172.31.0.1")?,
    ];
    let device = "until ip link show tun9; do sleep 0.05; done";
    said(lab, NODE, &["sh", "-c", device]);
    said(
        lab,
        "router",
        &["sh", "-c", &format!("{device}; ip addr add 10.99.0.1/30 dev tun9; ip link set tun9 up")],
    );
    step(notes, &there, "a tun device", Some("10.99.0.2"), on_tun)?;
    step(notes, &there, "nothing", None, none)?;
    step(notes, &there, "the first again", Some(&own.addr().to_string()), &back)?;
    let report = there.meter.finish(Duration::from_secs(3))?;
    let inside = Report {
        flows: report.flows.iter().filter(|flow| flow.kind != Kind::PodOutside.word()).cloned().collect(),
        ..report
    };
    for problem in inside.verdict(Limits::NONE_LOST).problems {
        notes.problem(problem);
    }
    Ok(())
}

/// A machine whose packets are measured. In this order it goes: a lab ends when all that was started in it has.
struct There {
    meter: Running,
    /// Who answers outside.
    _world: Guest,
    lab: Lab,
    /// One of its pods.
    pod: String,
}

/// Changes the uplink and waits for packets to leave by it, if any can.
fn step(
    notes: &mut Notes,
    there: &There,
    what: &str,
    address: Option<&str>,
    script: &str,
) -> anyhow::Result<()> {
    let meter = &there.meter;
    said(&there.lab, NODE, &["sh", "-c", script]);
    let began = Instant::now();
    let received = |report: &Report| -> u64 {
        let out = report.flows.iter().filter(|flow| flow.kind == Kind::PodOutside.word());
        out.flat_map(|flow| &flow.backward).map(|way| way.received).sum()
    };
    let lost_inside = |report: &Report| {
        Report::sum(report.flows.iter().filter(|flow| flow.kind != Kind::PodOutside.word())).lost
    };
    let Some(address) = address else {
        std::thread::sleep(Duration::from_secs(5));
        let lost = lost_inside(&meter.snapshot()?);
        notes.line(format!("| {what} | | | {lost} |"));
        return Ok(());
    };
    let before = received(&meter.snapshot()?);
    let after = loop {
        let now = meter.snapshot()?;
        if received(&now) > before {
            break began.elapsed();
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "{what}: nothing came back from outside");
        std::thread::sleep(Duration::from_millis(10));
    };
    if after > FOLLOWS {
        notes.problem(format!("{what}: packets leave by it after {} ms", after.as_millis()));
    }
    let (world, pod) = (Families::V4.outside()[0].addr(), &there.pod);
    let seen = said(&there.lab, pod, &["netferry", "lab-pod", "probe", &format!("{world}:{WORLD}")]);
    if !seen.contains(&format!("seen from {address}:")) {
        notes.problem(format!("{what}: {}", seen.trim()));
    }
    std::thread::sleep(Duration::from_secs(3));
    let lost = lost_inside(&meter.snapshot()?);
    notes.line(format!("| {what} | {address} | {} ms | {lost} |", after.as_millis()));
    Ok(())
}
