//! Pods on the lab's network, from their start to their end.

use netferry_lab::{ControlPlane, Families, Lab, Options};

use crate::bench::{options, ran, said, until, up};
use crate::footprint::Footprint;
use crate::kubectl::{field, kubectl, namespace, pod, ready};

/// Whether `from` gets an answer from a pod's address, by each protocol.
fn answered(lab: &Lab, from: &str, address: &str, name: &str) {
    let at = if address.contains(':') { format!("[{address}]:8080") } else { format!("{address}:8080") };
    for protocol in ["--timeout=5s", "--udp"] {
        let heard = said(lab, from, &["netferry", "lab-pod", "probe", protocol, &at]);
        assert!(heard.contains(&format!("{name} answered")), "{from} to {at}: {heard}");
    }
}

/// What an agent answers to a scraper on its node.
fn scraped(lab: &Lab, node: &str, path: &str) -> String {
    let ask =
        format!("exec 3<>/dev/tcp/127.0.0.1/9645; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    said(lab, node, &["bash", "-c", &ask])
}

/// Pods of two namespaces on two nodes, everybody with everybody.
fn exchange(lab: &Lab, nodes: [&str; 2]) {
    for name in ["red", "blue"] {
        namespace(lab, name);
        for (number, node) in nodes.iter().enumerate() {
            pod(lab, name, &format!("{name}-{number}"), node, "");
        }
    }
    let all = [("red", "red-0"), ("red", "red-1"), ("blue", "blue-0"), ("blue", "blue-1")];
    let addresses = all.map(|(namespace, name)| (name, ready(lab, namespace, name)));
    for (from_namespace, from) in all {
        for (name, theirs) in addresses.iter().filter(|(name, _)| *name != from) {
            for address in theirs {
                answered(lab, &format!("{from_namespace}/{from}"), address, name);
            }
        }
    }
}

#[test]
fn pods_of_two_namespaces_exchange_packets_also_after_reboots_and_down_leaves_nothing() {
    let lab = up(&options(3));
    exchange(&lab, ["node-1", "node-2"]);
    assert!(scraped(&lab, "node-1", "/healthz").contains("ok"));
    let metrics = scraped(&lab, "node-1", "/metrics");
    assert!(metrics.contains(r#"netferry_cni_requests_total{command="Add",result="Done"} 2"#), "{metrics}");
    crate::commands::metered(&lab);
    let address = ready(&lab, "red", "red-1");

    for how in ["reboot", "power cut"] {
        match how {
            "reboot" => lab.reboot("node-2"),
            _ => lab.power_cut("node-2"),
        }
        .expect(how);
        crate::bench::ready(&lab);
        let before = if how == "reboot" { "1" } else { "2" };
        until(&format!("the pod's restart after the {how}"), || {
            field(&lab, "red", "pod/red-1", ".status.containerStatuses[0].restartCount") == before
        });
        let after = ready(&lab, "red", "red-1");
        assert_eq!(after, address, "{how}: an address that is annotated stays");
        answered(&lab, "red/red-0", &after[0], "red-1");
        answered(&lab, "red/red-1", &ready(&lab, "blue", "blue-0")[0], "blue-0");
    }

    let made = Footprint::of(&lab);
    lab.down().expect("down");
    assert_eq!(made.left(), Vec::<String>::new());
}

#[test]
fn pods_exchange_packets_in_both_families_and_in_the_newer_one_alone() {
    for families in [Families::Dual, Families::V6] {
        let lab = up(&Options { families, ..options(2) });
        exchange(&lab, ["node-1", "node-2"]);
        let addresses = ready(&lab, "red", "red-0").len();
        assert_eq!(addresses, if families == Families::Dual { 2 } else { 1 });
    }
}

#[test]
fn pods_exchange_packets_with_the_real_control_plane() {
    let assets = netferry_testkit::assets().unwrap_or_else(|missing| panic!("{missing}"));
    let lab = up(&Options { control_plane: ControlPlane::Kube { assets }, ..options(2) });
    exchange(&lab, ["node-1", "node-2"]);

    let agents = ["node-1", "node-2"].map(|node| (node, "[n]etferry .*agent --node", "netferry-agent"));
    for (place, pattern, account) in agents.into_iter().chain([OPERATOR]) {
        let whole = format!("system:serviceaccount:netferry:{account}");
        assert_eq!(identity(&lab, place, pattern), whole, "with the rights that are deployed and no others");
    }

    let made = Footprint::of(&lab);
    lab.down().expect("down");
    assert_eq!(made.left(), Vec::<String>::new());
}

const OPERATOR: (&str, &str, &str) = ("control", "[n]etferry .* operator", "netferry-operator");

/// Whom the API server takes a running program for.
fn identity(lab: &Lab, place: &str, pattern: &str) -> String {
    let script = format!(
        r#"file=$(tr '\0' '\n' < /proc/$(pgrep -o -f "{pattern}")/cmdline | sed -n '/^--kubeconfig$/{{n;p}}') &&
           kubectl --kubeconfig "$file" auth whoami -o 'jsonpath={{.status.userInfo.username}}'"#
    );
    said(lab, place, &["sh", "-c", &script])
}

#[test]
fn a_pod_is_started_probed_restarted_and_ended_with_its_grace() {
    let lab = up(&options(1));
    let probe = "readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}";
    pod(&lab, "default", "web", "node-1", &format!("args: [--ready-after, 3s, --linger, 2s], {probe}"));
    until("its network", || !field(&lab, "default", "pod/web", ".status.podIP").is_empty());
    let ready_now = || field(&lab, "default", "pod/web", ".status.containerStatuses[0].ready");
    until("its container", || field(&lab, "default", "pod/web", ".status.phase") == "Running");
    ready(&lab, "default", "web");
    let pid = said(&lab, "web", &["cat", "/proc/1/comm"]);
    assert_eq!(pid.trim(), "netferry", "a container has processes of its own");

    let killed = ran(&lab, "node-1", &["sh", "-c", "kill -9 $(pgrep -f '[l]ab-pod --ready')"]);
    assert!(killed.status.success());
    until("its restart", || {
        field(&lab, "default", "pod/web", ".status.containerStatuses[0].restartCount") == "1"
    });
    ready(&lab, "default", "web");

    // It lingers after SIGTERM, not ready, and is there until it has ended.
    kubectl(&lab, &["delete", "pod", "web", "--wait=false"]);
    until("not ready while it lingers", || ready_now() != "true");
    until("its end", || field(&lab, "default", "pod/web", ".metadata.name").is_empty());
    let left =
        said(&lab, "node-1", &["sh", "-c", "ls /run/netns /var/lib/kubelet/sandboxes | grep -v :; true"]);
    assert_eq!(left.trim(), "");
    let ports = said(&lab, "node-1", &["ovs-vsctl", "list-ports", "br-int"]);
    assert!(ports.lines().all(|port| port.starts_with("ovn-")), "{ports}");
}

#[test]
fn pods_deleted_while_the_api_was_out_of_reach_end_when_it_is_back() {
    let lab = up(&options(2));
    pod(&lab, "default", "gone", "node-2", "");
    pod(&lab, "default", "stays", "node-2", "");
    ready(&lab, "default", "gone");
    ready(&lab, "default", "stays");
    let cut = netferry_lab::Fault::Part { a: "node-2".into(), b: "api".into(), network: 0 };
    lab.harm(cut.clone()).expect("cut off");
    kubectl(&lab, &["delete", "pod", "gone", "--force", "--grace-period=0"]);
    // It cannot know yet.
    said(&lab, "gone", &["true"]);
    lab.heal(Some(cut)).expect("healed");
    until("the end of the pod", || lab.way("gone").is_err());
    said(&lab, "stays", &["true"]);
}
