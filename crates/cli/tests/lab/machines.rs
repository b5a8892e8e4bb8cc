//! Nodes as machines: files, networks, reboots, cables.

use netferry_lab::{Families, Fault, LabError, NewNode, Options, Role};

use crate::bench::{bare, ran, ready, said, until, up};

/// Whether one end gets an answer from another's TCP port 2, where nobody listens: a refusal is an answer.
fn hears(lab: &netferry_lab::Lab, from: &str, address: &str) -> bool {
    let script = format!("exec 3<>/dev/tcp/{address}/2");
    let output = ran(lab, from, &["timeout", "2", "bash", "-c", &script]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    errors.contains("Connection refused")
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
        assert!(hears(&lab, from, to), "{from} does not hear {to}");
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
    let lab = up(&bare(3));
    let between = |a: &str, b: &str| Fault::Part { a: a.into(), b: b.into(), network: 0 };
    assert!(hears(&lab, "node-1", "172.30.1.2"));

    lab.harm(between("node-1", "node-2")).expect("parted");
    assert!(!hears(&lab, "node-1", "172.30.1.2") && !hears(&lab, "node-2", "172.30.1.1"));
    assert!(hears(&lab, "node-1", "172.30.1.3") && hears(&lab, "node-3", "172.30.1.2"));
    lab.heal(Some(between("node-2", "node-1"))).expect("healed, whichever is named first");
    assert!(hears(&lab, "node-1", "172.30.1.2"));

    let cable = Fault::Cut { end: "node-2".into(), network: 0 };
    lab.harm(cable.clone()).expect("pulled");
    until("the loss of the carrier", || {
        said(&lab, "node-2", &["cat", "/sys/class/net/eth0/carrier"]).trim() == "0"
    });
    lab.heal(Some(cable)).expect("plugged in");
    until("an answer", || hears(&lab, "node-1", "172.30.1.2"));

    lab.harm(between("node-3", "api")).expect("kept from the API");
    assert!(!hears(&lab, "node-3", "172.30.0.2") && hears(&lab, "node-1", "172.30.0.2"));
    let all = Fault::Lose { end: "node-1".into(), peer: None, network: 0, of_a_million: 1_000_000 };
    lab.harm(all).expect("all is lost");
    assert!(!hears(&lab, "node-1", "172.30.1.2"));
    assert_eq!(lab.status().expect("status").faults.len(), 2);
    lab.heal(None).expect("everything");
    assert!(hears(&lab, "node-3", "172.30.0.2") && hears(&lab, "node-1", "172.30.1.2"));

    let nobody = Fault::Cut { end: "node-9".into(), network: 0 };
    let nowhere = Fault::Cut { end: "node-1".into(), network: 4 };
    for fault in [nobody, nowhere] {
        assert!(matches!(lab.harm(fault.clone()), Err(LabError::Refused(_))), "{fault}");
    }
    assert!(lab.status().expect("status").faults.is_empty());
}
