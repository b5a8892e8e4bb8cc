//! A change of MTU, as an administrator asks for it.

#![allow(dead_code, reason = "the soak suite uses it too, and each its part")]

use std::process::{Command, Output};
use std::time::Duration;

use netferry_lab::escort::Escort;
use netferry_lab::meter::{self, Limits, Report};
use netferry_lab::paths::{self, Kind, Selection, Sites};
use netferry_lab::{Families, Lab, Name, Options, Restarts, Result};
use serde_json::Value;

use crate::bench::PATIENCE;
use crate::kubectl::{field, kubectl, try_field};

const NETWORK: &str = "networks.operator.openshift.io/cluster";
const REASON: &str = ".status.conditions[?(@.type==\"MTUChangeInProgress\")].reason";

/// What hosts and pods run at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) host: u32,
    pub(crate) pods: u32,
}

pub(crate) const SMALL: Sizes = Sizes { host: 1500, pods: 1400 };
pub(crate) const LARGE: Sizes = Sizes { host: 9000, pods: 8900 };

/// Nothing may be lost, and nothing may stand still for as long as people notice.
pub(crate) const LIMITS: Limits = Limits { lost: 0, gap: Some(Duration::from_secs(1)) };

/// A lab of small nodes on a network with room for large ones, whose nodes restart when they are told.
pub(crate) fn with_room(options: Options) -> Options {
    let (host, restarts) = (Some(SMALL.host), Restarts::WhenTold);
    Options { mtu: LARGE.host, host_mtu: host, restarts, ..options }
}

pub(crate) fn patch(lab: &Lab, patch: &str) {
    kubectl(lab, &["patch", NETWORK, "--type=merge", "--patch", patch]);
}

/// Asks for a change; unattended, phase two begins by itself.
pub(crate) fn begin(lab: &Lab, from: Sizes, to: Sizes, unattended: bool) {
    let unattended = if unattended { r#""true""# } else { "null" };
    patch(
        lab,
        &format!(
            r#"{{"metadata": {{"annotations": {{"netferry.dev/mtu-unattended": {unattended}}}}},
                "spec": {{"migration": {{"mtu": {{
                    "network": {{"from": {}, "to": {}}}, "machine": {{"to": {}}}}}}}}}}}"#,
            from.pods, to.pods, to.host
        ),
    );
}

/// Sets the size, and takes the request for a change away: the second edit, or the end of one that was cancelled.
pub(crate) fn finish(lab: &Lab, at: Sizes) {
    let mtu = at.pods;
    patch(
        lab,
        &format!(
            r#"{{"spec": {{"migration": null, "defaultNetwork": {{"ovnKubernetesConfig": {{"mtu": {mtu}}}}}}}}}"#
        ),
    );
}

/// Takes a change back in phase one, and the second edit with it.
pub(crate) fn cancel(lab: &Lab, from: Sizes) {
    patch(
        lab,
        &format!(
            r#"{{"spec": {{"defaultNetwork": {{"ovnKubernetesConfig": {{"mtu": {mtu}}}}}, "migration": {{"mtu": {{
                "network": {{"from": {mtu}, "to": {mtu}}}, "machine": {{"to": {}}}}}}}}}}}"#,
            from.host,
            mtu = from.pods,
        ),
    );
}

/// What `netferry` answers when it is asked about a lab.
pub(crate) fn netferry(lab: &Lab, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netferry"));
    command.arg("--kubeconfig").arg(lab.state().kubeconfig()).args(arguments);
    command.output().expect("netferry runs")
}

/// What it answers in JSON, however it ends.
fn answer(lab: &Lab, arguments: &[&str]) -> Value {
    let output = netferry(lab, &[arguments, &["-o", "json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        panic!("{}", String::from_utf8_lossy(&output.stderr));
    })
}

/// What a plan of the change to large sizes finds, once the wire was tried.
pub(crate) fn findings_of_trial(lab: &Lab) -> Vec<String> {
    let plan = answer(lab, &["mtu", "plan", "--to", "8900", "--host-to", "9000", "--probe-underlay"]);
    let findings = plan["findings"].as_array().expect("findings");
    findings.iter().filter_map(|finding| Some(finding["name"].as_str()?.to_owned())).collect()
}

/// What `netferry mtu verify` says once nodes have tried each other: of how many paths, and what is wrong.
pub(crate) fn verified(lab: &Lab, families: Families) -> (Value, Vec<String>) {
    let outside = families.outside();
    let outside: Vec<String> = outside.iter().map(|net| net.addr().to_string()).collect();
    let beyond = outside.iter().flat_map(|address| ["--outside", address]);
    let asked: Vec<&str> = ["mtu", "verify", "--wait", "60s"].into_iter().chain(beyond).collect();
    let verdict = answer(lab, &asked);
    let problems = verdict["problems"].as_array().expect("problems").iter().filter_map(Value::as_str);
    (verdict["paths"].clone(), problems.map(str::to_owned).collect())
}

/// Enough to see whether nodes that stay hear each other: full-size packets on the ways between them and out.
pub(crate) fn between_nodes() -> Selection {
    Selection {
        kinds: [Kind::PodPodAcross, Kind::HostHost, Kind::PodClusterIp, Kind::PodOutside].into(),
        udp: Some(meter::Sizes::Full),
        icmp: None,
        rate: Some(20),
        ..Selection::default()
    }
}

/// What the operator says of it.
pub(crate) fn said(lab: &Lab) -> String {
    field(lab, "default", NETWORK, ".status.conditions[*].message")
}

/// What it waits for, by the operator's word.
pub(crate) fn held(lab: &Lab) -> String {
    field(lab, "default", NETWORK, ".status.conditions[?(@.type==\"MTUChangeHeld\")].message")
}

/// Where the change is, by the operator's word.
pub(crate) fn phase(lab: &Lab) -> String {
    field(lab, "default", NETWORK, REASON)
}

/// Changes unattended from one size to another while paths are measured; `restart` sees to each node that asks for
/// a restart, and hears which phase it is. Each phase is a lap of the report.
pub(crate) fn measured(
    lab: &Lab,
    sites: Sites,
    selection: &Selection,
    (from, to): (Sizes, Sizes),
    mut restart: impl FnMut(&str, &mut Escort<'_>, &Name) -> Result<()>,
) -> Result<(Report, Sites)> {
    let mut escort = Escort::start(lab, sites, selection, PATIENCE)?;
    begin(lab, from, to, true);
    let mut begun = false;
    for (name, end) in [("phase one", "PhaseTwo"), ("phase two", "Idle")] {
        escort.lap(format!("{} to {}, {name}", from.pods, to.pods))?;
        let holds = || {
            // The API may be away for a moment; then nobody knows.
            let now = try_field(lab, "default", NETWORK, REASON).unwrap_or_default();
            begun |= !matches!(now.as_str(), "" | "Idle");
            Ok(begun && (now == end || now == "Idle"))
        };
        escort.until(&format!("the end of {name}"), holds, |escort, node| restart(name, escort, node))?;
    }
    escort.finish()
}

/// What is wrong with what was measured during a change to these sizes, and with what every path carries afterwards.
pub(crate) fn wrong(lab: &Lab, sites: &Sites, report: &Report, to: Sizes) -> Result<Vec<String>> {
    let mut wrong = report.verdict(LIMITS).problems;
    wrong.extend(paths::wrong_sizes(&paths::carried(lab, sites, PATIENCE)?, to.host, to.pods));
    Ok(wrong)
}
