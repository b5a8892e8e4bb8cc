//! Nodes as machines: files, networks, reboots, cables.

use std::time::Duration;

use netferry_lab::meter::{Direction, Endpoint, Flow, Meter, Traffic};
use netferry_lab::paths::in_lab::place;
use netferry_lab::{Families, Fault, Lab, LabError, NewNode, Options, Role};

use crate::bench::{bare, ran, ready, said, until, up};

/// Whether one end gets an answer from another's TCP port 2, where nobody listens: a refusal is an answer.
fn hears(lab: &Lab, from: &str, address: &str) -> bool {
    let script = format!("exec 3<>/dev/tcp/{address}/2");
    let output = ran(lab, from, &["timeout", "2", "bash", "-c", &script]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    errors.contains("Connection refused")
}

/// Fails unless one end hears the other before long: a single answer may be late on a busy machine.
fn heard(lab: &Lab, from: &str, address: &str) {
    until(&format!("{from} hears {address}"), || hears(lab, from, address));
}

/// What becomes of some hundred packets of node-1 on their way to node-2 and back.
fn measured(lab: &Lab) -> [Direction; 2] {
    let [from, to] = ["node-1", "node-2"].map(|node| place(lab, node).expect("a place"));
    let to = Endpoint { place: to, at: "172.30.1.2:4242".parse().expect("an address") };
    let meter = Meter::start(vec![Flow::between("pair", Traffic::UDP, from, to)]).expect("a meter");
    until("two hundred packets", || meter.snapshot().expect("a snapshot").flows[0].forward.sent >= 200);
    let flow = meter.finish(Duration::from_secs(3)).expect("a report").flows.remove(0);
    [flow.forward, flow.backward.expect("what is answered comes back")]
}

#[test]
fn nodes_the_outside_and_the_control_plane_reach_each_other_in_both_families() {
    let lab = up(&Options { families: Families::Dual, networks: 1, ..bare(2) });
    let ways = [
        ("node-1", "172.30.1.2"),
        ("node-1", "fd00:172:30::102"),
        ("node-1", "10.201.1.2"),
        ("node-1", "fd00:10:201::102"),
        ("node-2", "198.51.100.2"),
        ("node-2", "2001:db8:51::2"),
        ("outside", "172.30.1.1"),
        ("outside", "fd00:172:30::101"),
        ("control", "172.30.1.1"),
    ];
    for (from, to) in ways {
        heard(&lab, from, to);
    }
    // The machine's own network knows nothing of it.
    let links = std::fs::read_dir("/sys/class/net").expect("links").flatten();
    let ours: Vec<String> = links.map(|link| link.file_name().to_string_lossy().into_owned()).collect();
    assert!(!ours.iter().any(|name| name.starts_with("net0") || name.starts_with("n1-")), "{ours:?}");
}

#[test]
fn a_reboot_keeps_the_disk_and_empties_the_rest() {
    let lab = up(&bare(1));
    for how in ["reboot", "power cut"] {
        let files = "echo kept > /etc/kept; echo kept > /var/lib/kept; touch /run/lost /tmp/lost";
        said(&lab, "node-1", &["sh", "-c", files]);
        let before = said(&lab, "node-1", &["readlink", "/proc/self/ns/net"]);
        match how {
            "reboot" => lab.reboot("node-1"),
            _ => lab.power_cut("node-1"),
        }
        .expect(how);
        ready(&lab);
        assert_eq!(said(&lab, "node-1", &["cat", "/etc/kept", "/var/lib/kept"]), "kept\nkept\n", "{how}");
        said(&lab, "node-1", &["sh", "-c", "test ! -e /run/lost && test ! -e /tmp/lost"]);
        let after = said(&lab, "node-1", &["readlink", "/proc/self/ns/net"]);
        assert_ne!(before, after, "{how}: the network outlived it");
        assert!(said(&lab, "node-1", &["ip", "-br", "address", "show", "eth0"]).contains("172.30.1.1/16"));
    }
}

#[test]
fn a_switch_that_is_killed_is_started_again() {
    let lab = up(&bare(1));
    let pid = || said(&lab, "node-1", &["cat", "/run/openvswitch/ovs-vswitchd.pid"]);
    let before = pid();
    said(&lab, "node-1", &["kill", "-9", before.trim()]);
    until("another switch", || pid() != before);
}

#[test]
fn nodes_are_added_and_removed_with_their_objects() {
    let lab = up(&bare(1));
    let edge = NewNode {
        name: Some("edge".parse().unwrap()),
        role: Role::Worker,
        pool: Some("far".parse().unwrap()),
        labels: [("zone".to_owned(), "b".to_owned())].into(),
    };
    assert_eq!(lab.add_node(edge.clone()).expect("added").as_str(), "edge");
    ready(&lab);
    let kubeconfig = lab.state().kubeconfig();
    let names = |selector: &str| {
        let output = std::process::Command::new("kubectl")
            .args(["get", "nodes", "-o", "name", "-l", selector, "--kubeconfig"])
            .arg(&kubeconfig)
            .output()
            .expect("kubectl runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(names("zone=b,node-role.kubernetes.io/far"), "node/edge\n");
    assert_eq!(names("node-role.kubernetes.io/control-plane"), "node/node-1\n");
    assert!(matches!(lab.add_node(edge), Err(LabError::Refused(_))), "a second node of the same name");

    lab.remove_node("edge").expect("removed");
    assert_eq!(names("zone=b"), "");
    assert!(!lab.state().node(&"edge".parse().unwrap()).exists());
    assert!(matches!(lab.remove_node("edge"), Err(LabError::Refused(_))), "removed twice");
}

#[test]
fn cables_are_pulled_pairs_parted_and_packets_lost_until_healed() {
    let lab = up(&Options { networks: 1, ..bare(3) });
    let between = |a: &str, b: &str| Fault::Part { a: a.into(), b: b.into(), network: 0 };
    let cable = |end: &str, network: u8| Fault::Cut { end: end.into(), network };
    heard(&lab, "node-1", "172.30.1.2");

    lab.harm(between("node-1", "node-2")).expect("parted");
    assert!(!hears(&lab, "node-1", "172.30.1.2") && !hears(&lab, "node-2", "172.30.1.1"));
    heard(&lab, "node-1", "172.30.1.3");
    heard(&lab, "node-3", "172.30.1.2");
    lab.heal(Some(between("node-2", "node-1"))).expect("healed, whichever is named first");
    heard(&lab, "node-1", "172.30.1.2");

    lab.harm(cable("node-2", 0)).expect("pulled");
    until("the loss of the carrier", || {
        said(&lab, "node-2", &["cat", "/sys/class/net/eth0/carrier"]).trim() == "0"
    });
    lab.heal(Some(cable("node-2", 0))).expect("plugged in");
    heard(&lab, "node-1", "172.30.1.2");

    heard(&lab, "node-1", "10.201.1.2");
    lab.harm(cable("node-2", 1)).expect("pulled out of the second network");
    assert!(!hears(&lab, "node-1", "10.201.1.2"));
    heard(&lab, "node-1", "172.30.1.2");
    lab.heal(Some(cable("node-2", 1))).expect("plugged in");
    heard(&lab, "node-1", "10.201.1.2");

    lab.harm(between("node-3", "api")).expect("kept from the API");
    assert!(!hears(&lab, "node-3", "172.30.0.2"));
    heard(&lab, "node-1", "172.30.0.2");
    let all = Fault::Lose { end: "node-1".into(), peer: None, network: 0, of_a_million: 1_000_000 };
    lab.harm(all).expect("all is lost");
    assert!(!hears(&lab, "node-1", "172.30.1.2"));
    assert_eq!(lab.status().expect("status").faults.len(), 2);
    lab.heal(None).expect("everything");
    heard(&lab, "node-3", "172.30.0.2");
    heard(&lab, "node-1", "172.30.1.2");

    heard(&lab, "node-2", "198.51.100.2");
    for end in ["api", "outside"] {
        lab.harm(cable(end, 0)).expect("pulled");
    }
    for from in ["node-1", "node-3"] {
        assert!(!hears(&lab, from, "172.30.0.2") && !hears(&lab, from, "198.51.100.2"), "{from}");
    }
    heard(&lab, "node-1", "172.30.1.3");
    lab.heal(Some(cable("outside", 0))).expect("plugged in");
    heard(&lab, "node-2", "198.51.100.2");
    lab.heal(Some(cable("api", 0))).expect("plugged in");
    heard(&lab, "node-2", "172.30.0.2");

    for fault in [cable("node-9", 0), cable("node-1", 4), cable("api", 1)] {
        assert!(matches!(lab.harm(fault.clone()), Err(LabError::Refused(_))), "{fault}");
    }
    assert!(lab.status().expect("status").faults.is_empty());
}

#[test]
fn of_packets_lost_by_chance_some_arrive() {
    let lab = up(&bare(2));
    let half = |a: &str, b: &str| Fault::Lose {
        end: a.into(),
        peer: Some(b.into()),
        network: 0,
        of_a_million: 500_000,
    };
    heard(&lab, "node-1", "172.30.1.2");
    lab.harm(half("node-1", "node-2")).expect("half is lost");
    for way in measured(&lab) {
        let share = way.lost as f64 / way.sent as f64;
        assert!((0.2..0.8).contains(&share), "{way:?}");
    }
    lab.heal(Some(half("node-2", "node-1"))).expect("healed, whichever is named first");
    assert!(lab.status().expect("status").faults.is_empty());
}
