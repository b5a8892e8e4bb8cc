//! A node of a lab that is told other sizes.

use netferry_core::rollout::config::{File, MachineConfig, Spec};
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::merge::merge;
use netferry_lab::Lab;
use netferry_lab::paths::in_lab;

use crate::bench::{PATIENCE, options, said, until, up};
use crate::kubectl::{apply, field, kubectl, ready};

const NODE: &str = "node-2";
const POD: &str = "netferry-meter/one-node-2";

fn annotation(lab: &Lab, key: &str) -> String {
    field(
        lab,
        "default",
        &format!("node/{NODE}"),
        &format!(".metadata.annotations.{}", key.replace('.', "\\.")),
    )
}

fn annotate(lab: &Lab, key: &str, value: &str) {
    kubectl(lab, &["annotate", "--overwrite", "node", NODE, &format!("{key}={value}")]);
}

/// The name that a rendered configuration of these sizes has: nodes refuse any other.
fn name_of(epoch: u64, sizes: &str) -> String {
    let contents = sizes.as_bytes().to_vec();
    let file = File { path: "/etc/cno/mtu-migration/config".to_owned(), mode: 0o644, contents };
    let spec = Spec { files: vec![file], ..Spec::default() };
    let config = MachineConfig {
        name: "sizes".to_owned(),
        role: "worker".to_owned(),
        spec,
        epochs: Epochs::of("mtu", epoch),
    };
    merge("worker", &[config]).expect("it can be rendered").name
}

/// Takes a node to a configuration, drained by the operator, and waits until it is done.
fn roll(lab: &Lab, epoch: u64, sizes: &str) {
    const MCO: &str = "machineconfiguration.openshift.io";
    let config = name_of(epoch, sizes);
    let text: String = sizes.bytes().map(|byte| format!("%{byte:02x}")).collect();
    apply(
        lab,
        &format!(
            "{{apiVersion: {MCO}/v1, kind: MachineConfig, \
             metadata: {{name: {config}, annotations: {{netferry.dev/epochs: '{{\"mtu\":{epoch}}}'}}}}, \
             spec: {{config: {{ignition: {{version: 3.2.0}}, storage: {{files: [{{path: \
             /etc/cno/mtu-migration/config, mode: 420, contents: {{source: \"data:,{text}\"}}}}]}}}}}}}}"
        ),
    );
    annotate(lab, &format!("{MCO}/desiredConfig"), &config);
    until(&format!("{config} to be current"), || {
        annotation(lab, &format!("{MCO}/state")) == "Done"
            && annotation(lab, &format!("{MCO}/currentConfig")) == config
    });
    let epoch = format!("\"epoch\":{epoch}");
    until(&format!("{epoch} to be observed"), || {
        annotation(lab, "netferry.dev/mtu-observed").contains(&epoch)
    });
}

/// The MTU of a link, and of the way to an address, inside.
pub(crate) fn sizes(lab: &Lab, target: &str, link: &str, to: &str) -> (String, String) {
    let mtu = said(lab, target, &["cat", &format!("/sys/class/net/{link}/mtu")]);
    let route = said(lab, target, &["ip", "route", "show", to]);
    let held = route.split_whitespace().skip_while(|word| *word != "mtu").nth(1).unwrap_or("-");
    (mtu.trim().to_owned(), held.to_owned())
}

#[test]
fn a_node_that_is_told_other_sizes_restarts_into_them_one_phase_at_a_time() {
    let lab = up(&options(2));
    // Pods that belong to their node: a drain leaves them where they are.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(in_lab::sites(&lab, PATIENCE, |_| {})).expect("pods on both nodes");
    let there = ready(&lab, "netferry-meter", "one-node-1").remove(0);
    let reaches = || {
        until("the pod after the restart", || lab.way(POD).is_ok());
        let at = format!("{there}:8080");
        until(&format!("an answer from {at}"), || {
            let probe = lab.exec(POD, "netferry", &["lab-pod", "probe", "--udp", &at]);
            probe.is_ok_and(|output| output.status.success())
        });
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(sizes(&lab, POD, "eth0", "default"), pair("1400", "-"));

    let phase_one =
        "EPOCH=1\nTARGET_MTU=1480\nMTU=1500\nROUTABLE_MTU=1480\nCNI_MTU=1400\nCNI_ROUTABLE_MTU=1380\n";
    roll(&lab, 1, phase_one);
    reaches();
    assert_eq!(sizes(&lab, NODE, "br-ex", "default"), pair("1500", "1480"));
    assert_eq!(sizes(&lab, NODE, "br-ex", "172.30.0.0/16"), pair("1500", "1480"));
    assert_eq!(sizes(&lab, NODE, "ovn-k8s-mp0", "10.244.0.0/16"), pair("1400", "1380"));
    assert_eq!(sizes(&lab, NODE, "ovn-k8s-mp0", "10.96.0.0/16"), pair("1400", "1380"));
    assert_eq!(sizes(&lab, POD, "eth0", "default"), pair("1400", "1380"));
    let interfaces = said(&lab, NODE, &["cat", "/etc/network/interfaces"]);
    assert!(interfaces.contains("mtu 1480") && !interfaces.contains("mtu 1500"), "{interfaces}");

    // Any number of boots inside a phase, with or without a goodbye, give the same.
    lab.power_cut(NODE).expect("the power is cut");
    crate::bench::ready(&lab);
    reaches();
    assert_eq!(sizes(&lab, NODE, "br-ex", "default"), pair("1500", "1480"));
    assert_eq!(sizes(&lab, POD, "eth0", "default"), pair("1400", "1380"));

    roll(&lab, 2, "EPOCH=2\nMTU=1480\nCNI_MTU=1380\n");
    reaches();
    assert_eq!(sizes(&lab, NODE, "br-ex", "default"), pair("1480", "-"));
    assert_eq!(sizes(&lab, NODE, "ovn-k8s-mp0", "10.244.0.0/16"), pair("1380", "-"));
    assert_eq!(sizes(&lab, POD, "eth0", "default"), pair("1380", "-"));
}
