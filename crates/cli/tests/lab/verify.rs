//! Every kind of path is measured by pods that are put there for it.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use netferry_lab::paths::Kind;
use netferry_lab::{Families, Lab, Options};
use serde_json::Value;

use crate::bench::{options, said, until, up};
use crate::change::{netferry, verified};
use crate::kubectl::kubectl;

/// The namespaces of measurements that are there.
fn left(lab: &Lab) -> String {
    kubectl(lab, &["get", "namespaces", "-l", "netferry.dev/verify", "-o", "name"])
}

/// The kinds and families that were measured, and in between which sizes.
fn kinds(paths: &Value) -> (BTreeSet<String>, BTreeSet<u64>) {
    let paths = paths.as_array().expect("paths");
    let kinds =
        paths.iter().map(|path| format!("{} {}", path["kind"].as_str().unwrap_or_default(), path["family"]));
    let sizes = paths.iter().flat_map(|path| [&path["uses"], &path["passes"], &path["back"]["passes"]]);
    (kinds.collect(), sizes.filter_map(Value::as_u64).collect())
}

#[test]
fn every_kind_of_path_is_measured_and_one_that_loses_what_is_sent_is_named() {
    let lab = up(&Options { families: Families::Dual, ..options(2) });
    // Two have been killed, or so it seems: one of them may still run, somewhere else.
    for (name, end) in [("killed", "1"), ("elsewhere", "99999999999")] {
        kubectl(&lab, &["create", "namespace", name]);
        kubectl(&lab, &["label", "namespace", name, "netferry.dev/verify=true"]);
        kubectl(&lab, &["annotate", "namespace", name, &format!("netferry.dev/verify-ends={end}")]);
    }
    let (paths, problems) = verified(&lab, Families::Dual);
    assert_eq!(problems, [""; 0]);
    assert_eq!(left(&lab).trim(), "namespace/elsewhere", "one whose time is over is removed, another is not");
    kubectl(&lab, &["delete", "namespace", "elsewhere"]);
    let (measured, sizes) = kinds(&paths);
    let every: BTreeSet<String> = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Hairpin)
        .flat_map(|kind| [4, 6].map(|family| format!("{kind} {family}")))
        .collect();
    assert_eq!(measured, every);
    assert_eq!(sizes, [1400, 1500].into(), "pods' and hosts'");
    assert_eq!(left(&lab), "", "nothing is left of it");

    // What pods of one node send to hosts leaves by its management port. There nothing passes any more that is above
    // 1300, without a word.
    let narrow = "table inet narrow { chain into { type filter hook prerouting priority -400; \
                  iifname \"ovn-k8s-mp0\" udp dport 9645 meta length > 1300 drop; }; }";
    said(&lab, "node-2", &["nft", narrow]);
    let (_, problems) = verified(&lab, Families::Dual);
    let lost = |to: &str, family: &str| {
        format!(
            "pod-host from node-2 to {to}, {family}: packets of 1400 are sent, and all above 1300 are lost"
        )
    };
    let expected: BTreeSet<String> =
        ["node-1", "node-2"].iter().flat_map(|to| ["IPv4", "IPv6"].map(|family| lost(to, family))).collect();
    assert_eq!(problems.into_iter().collect::<BTreeSet<_>>(), expected);
    let output = netferry(&lab, &["mtu", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("all above 1300 are lost; and 3 more"), "{error}");

    // One that nobody answers ends as it should, with its reason; one that is interrupted leaves nothing either.
    said(&lab, "node-2", &["nft", "delete", "table", "inet", "narrow"]);
    let output = netferry(&lab, &["mtu", "verify", "--port", "9644", "--patience", "20s"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("host-answers-0 on node-1 ended at once") && error.contains("in use"), "{error}");
    assert_eq!(left(&lab), "", "nothing is left of it");
    let mut asked = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .arg("--kubeconfig")
        .arg(lab.state().kubeconfig())
        .args(["mtu", "verify", "--outside", "192.0.2.1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("netferry runs");
    until("pods that measure", || !left(&lab).is_empty());
    let asked_id = nix::unistd::Pid::from_raw(i32::try_from(asked.id()).expect("a process"));
    nix::sys::signal::kill(asked_id, nix::sys::signal::Signal::SIGINT).expect("it can be told");
    assert_eq!(asked.wait().expect("it ends").code(), Some(1));
    assert_eq!(left(&lab), "", "nothing is left of it");
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_asked() {
    let refused = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_netferry")).args(["mtu", "verify"]).args(arguments).output();
        output.expect("netferry runs").status.code()
    };
    for arguments in [
        &["--reported", "--outside", "192.0.2.1"][..],
        &["--reported", "--port", "9000"],
        &["--outside", "example.org"],
        &["--port", "65536"],
        &["--patience", "soon"],
    ] {
        assert_eq!(refused(arguments), Some(2), "{arguments:?}");
    }
}
