//! Coming to one machine and leaving it: its own network notices nothing, and nothing of ours stays.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use netferry_lab::meter::{Endpoint, Flow, Limits, Meter, Traffic};
use netferry_lab::paths::in_lab::place;
use netferry_lab::{Families, Lab, Options};

use crate::bench::{bare, ran, said, until, up};
use crate::kubectl::{field, kubectl, pod, ready};

const NODE: &str = "node-1";
const CONFIG: &str = "/etc/cni/net.d/10-netferry.conflist";

/// Says once to everybody on a link that here is a router, for half an hour.
const ADVERTISE: &str = r#"perl -MSocket -e '
    socket(S, AF_INET6, SOCK_RAW, 58) or die $!;
    setsockopt(S, 41, 18, pack("i", 255)) or die $!; setsockopt(S, 41, 17, pack("i", $ARGV[0])) or die $!;
    my $all = pack_sockaddr_in6(0, Socket::inet_pton(AF_INET6, "ff02::1"), $ARGV[0]);
    send(S, pack("CCnCCnNN", 134, 0, 0, 64, 0, 1800, 0, 0), 0, $all) or die $!;
    ' "$(ip -o link show dev eth0 | cut -d: -f1)""#;

/// The default route the host learned from a router, without the time it has left.
fn learned(lab: &Lab) -> String {
    said(lab, NODE, &["sh", "-c", "ip -6 route show default proto ra | sed 's/ expires [0-9]*sec//'"])
}

/// `netferry solo`, where nobody else keeps it running.
struct Solo(Child);

impl Solo {
    fn start(lab: &Lab) -> Solo {
        let mut command = Command::new("netferry");
        command.args(["--kubeconfig", "/etc/netferry/kubeconfig", "solo", "--node", NODE]);
        command.args(["--cluster-network", "10.244.0.0/16,fd00:10:244::/48"]);
        command.args(["--service-network", "10.96.0.0/16,fd00:10:96::/112"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Solo(lab.spawn(NODE, command).expect("it starts"))
    }
}

impl Drop for Solo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything of the host that somebody could have touched, line by line.
fn host(lab: &Lab) -> Vec<String> {
    let ask = "ip -d -o link; ip -o addr; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule; \
               ip neigh show nud permanent; tc qdisc; nft list ruleset; \
               ovs-vsctl list-br; ovs-vsctl get open . external_ids other_config; \
               find /etc /opt /run/netferry /run/ovn /var/lib/netferry /var/lib/ovn /var/lib/cni ! -type d 2>/dev/null; \
               grep -rs . /proc/sys/net/ipv4 /proc/sys/net/ipv6; true";
    // The kernel rolls one, and does not let anybody read the other.
    let random = ["base_reachable_time", "stable_secret"];
    let text = said(lab, NODE, &["sh", "-c", ask]);
    let lines = text.lines().filter(|line| !random.iter().any(|word| line.contains(word)));
    // What a router said is good for a time, which runs.
    let timeless = |line: &str| line.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = lines.map(|line| timeless(line.trim_end())).collect();
    lines.sort();
    lines
}

fn is_time(word: &str) -> bool {
    word.strip_suffix("sec").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Packets of the host's own, to the world and back.
fn own_packets(lab: &Lab) -> Vec<Flow> {
    let flow = |(address, traffic): (std::net::IpAddr, Traffic)| {
        let to =
            Endpoint { place: place(lab, "outside").expect("a place"), at: SocketAddr::new(address, 4242) };
        let from = place(lab, NODE).expect("a place");
        Flow::between(format!("host > {address}"), traffic, from, to).at_rate(50)
    };
    let world: Vec<_> = Families::Dual.outside().iter().map(|net| net.addr()).collect();
    let kinds = [Traffic::UDP, Traffic::TCP, Traffic::ICMP];
    world.iter().flat_map(|address| kinds.clone().map(|traffic| (*address, traffic))).map(flow).collect()
}

fn uninstall(lab: &Lab, more: &[&str]) -> (Option<i32>, String) {
    let command: Vec<&str> = ["netferry", "solo", "uninstall"].iter().chain(more).copied().collect();
    let done = ran(lab, NODE, &command);
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_machine_is_what_it_was_once_its_network_is_uninstalled_and_its_own_packets_never_noticed() {
    let lab = up(&Options { single_node: true, families: Families::Dual, ..bare(1) });
    // What a cluster of somebody else's has: nothing of ours.
    kubectl(&lab, &["delete", "network.operator.openshift.io", "cluster"]);
    // Its uplink has a router that advertises itself, and listens to it.
    said(&lab, NODE, &["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_ra"]);
    until("the host learned a default route", || {
        said(&lab, "router", &["sh", "-c", ADVERTISE]);
        learned(&lab).contains("default via fe80:")
    });
    let (before, router) = (host(&lab), learned(&lab));
    let meter = Meter::start(own_packets(&lab)).expect("a meter");

    let plugin = ["--cni-plugin", "/opt/cni/bin/netferry-cni", "--cni-bin-dir", "/var/lib/cni/bin"];
    let install = ["netferry", "solo", "install", "--kubeconfig", "/etc/netferry/kubeconfig"];
    for _ in 0..2 {
        said(&lab, NODE, &[&install[..], &plugin].concat());
    }
    said(&lab, NODE, &["test", "-x", "/var/lib/cni/bin/netferry-cni"]);
    let solo = Solo::start(&lab);
    until("pods can be started", || ran(&lab, NODE, &["test", "-e", CONFIG]).status.success());
    pod(&lab, "default", "web", NODE, "");
    let addresses = ready(&lab, "default", "web");
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    let at = format!("{}:8080", addresses[0]);
    until("the pod answers", || ran(&lab, NODE, &["netferry", "lab-pod", "probe", &at]).status.success());
    // A host that forwards forgets what routers said, unless it is told not to before.
    let forwards = "cat /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/ipv6/conf/eth0/accept_ra";
    assert_eq!(said(&lab, NODE, &["sh", "-c", forwards]), "1\n2\n");
    assert_eq!(learned(&lab), router);
    let asked = field(&lab, "", "network.operator.openshift.io/cluster", ".metadata.annotations");
    assert!(asked.contains("single-node"), "{asked}");

    // Again, as after an update.
    drop(solo);
    let solo = Solo::start(&lab);
    until("the agent answers", || {
        let (code, said) = uninstall(&lab, &[]);
        assert_eq!(code, Some(3), "{said}");
        said.contains("default/web")
    });
    kubectl(&lab, &["delete", "pod", "web", "--grace-period=0", "--force"]);
    until("the pod's port to be gone", || {
        said(&lab, NODE, &["ovs-vsctl", "list-ports", "br-int"]).trim() == "ovn-k8s-mp0"
    });
    until("a running agent keeps its network", || uninstall(&lab, &[]).1.contains("stop it first"));
    drop(solo);
    let (code, told) = uninstall(&lab, &[]);
    assert_eq!(code, Some(0), "{told}");

    let after = host(&lab);
    let new: Vec<&String> = after.iter().filter(|line| !before.contains(line)).collect();
    let gone: Vec<&String> = before.iter().filter(|line| !after.contains(line)).collect();
    assert!(new.is_empty() && gone.is_empty(), "left: {new:#?}\ngone: {gone:#?}\n{told}");
    let report = meter.finish(Duration::from_secs(3)).expect("a report");
    assert_eq!(report.verdict(Limits::NONE_LOST).problems, [] as [&str; 0]);
    // Nothing is left to take away.
    let (code, told) = uninstall(&lab, &[]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("not installed here"), "{told}");
}

/// Somebody else's OVN: a unit, a database, and what the switch is told of it.
const SOMEBODY: &str = "mkdir -p /run/systemd/system /var/lib/ovn && touch /run/systemd/system/ovn-central.service \
    && echo theirs > /var/lib/ovn/ovnnb_db.db \
    && ovs-vsctl --may-exist add-br br-int -- set open . external_ids:system-id=theirs external_ids:ovn-remote=theirs";

/// What there is of it.
fn somebody(lab: &Lab) -> String {
    let look = "cat /var/lib/ovn/ovnnb_db.db; ovs-vsctl list-br; ovs-vsctl get open . external_ids; \
                readlink /etc/systemd/system/ovn-central.service";
    said(lab, NODE, &["sh", "-c", &format!("{look}; true")])
}

/// A service manager that does as it is told, but for something it does not start. Of everything of ours it says that it
/// is not active, as of what ended and waits for its next start.
fn service_manager(lab: &Lab, does_not_start: &str) {
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> /run/systemd/told\n[ \"$*\" != \"start {does_not_start}\" ] || exit 1\n\
         [ \"$*\" != \"is-active --quiet netferry-solo.service\" ] || exit 3\n"
    );
    let write = "cat > /run/systemd/systemctl && chmod +x /run/systemd/systemctl";
    said(lab, NODE, &["sh", "-c", &format!("printf '%s' '{script}' | ({write})")]);
}

#[test]
fn what_an_uninstallation_put_back_is_not_touched_by_the_next() {
    let lab = up(&Options { single_node: true, ..bare(1) });
    let managed = |arguments: &str| {
        let done =
            ran(&lab, NODE, &["sh", "-c", &format!("PATH=/run/systemd:$PATH netferry solo {arguments}")]);
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    said(&lab, NODE, &["sh", "-c", SOMEBODY]);
    let before = somebody(&lab);
    assert!(before.contains("theirs\nbr-int\n"), "{before}");
    service_manager(&lab, "nothing");
    let (code, told) = managed("uninstall");
    assert_eq!((code, somebody(&lab)), (Some(3), before.clone()), "{told}");

    // Installed, and taken away again before anything of it ran.
    let install = "install --kubeconfig /etc/netferry/kubeconfig --cni-plugin /opt/cni/bin/netferry-cni \
                   --cni-bin-dir /var/lib/cni/bin --timeout 0s";
    assert_eq!(managed(install).0, Some(0));
    let (code, told) = managed("uninstall");
    assert_eq!((code, somebody(&lab)), (Some(0), before.clone()), "{told}");

    // Installed and used; what it had taken the place of does not start again.
    assert_eq!(managed(install).0, Some(0));
    said(&lab, NODE, &["ovs-vsctl", "del-br", "br-int"]);
    let solo = Solo::start(&lab);
    until("pods can be started", || ran(&lab, NODE, &["test", "-e", CONFIG]).status.success());
    drop(solo);
    service_manager(&lab, "ovn-central.service");
    let (code, told) = managed("uninstall");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("systemctl start ovn-central.service"), "{told}");
    let told = said(&lab, NODE, &["cat", "/run/systemd/told"]);
    assert!(told.lines().any(|line| line == "stop netferry-solo.service"), "{told}");
    // It is somebody else's from here on, and somebody mends it.
    said(&lab, NODE, &["ovs-vsctl", "add-br", "br-int"]);
    assert_eq!(somebody(&lab), before);
    service_manager(&lab, "nothing");
    let (code, told) = managed("uninstall");
    assert_eq!((code, somebody(&lab)), (Some(0), before.clone()), "{told}");
    assert_eq!(managed("uninstall").0, Some(3));
}
