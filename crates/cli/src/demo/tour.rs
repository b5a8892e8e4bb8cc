//! The steps of the tour, in order.

use std::io::{BufRead, BufReader};

use anyhow::{Context, anyhow};

use super::guide::Expect::{Done, Refused};
use super::guide::{Guide, indented};
use super::server::Server;
use crate::exit::Failure;

/// The start of a live migration, as the administrator types it (there with `oc`).
const MIGRATE: &str = concat!(
    r#"{"metadata":{"annotations":{"network.openshift.io/network-type-migration":""}},"#,
    r#""spec":{"networkType":"OVNKubernetes"}}"#
);
const OFFLINE_WITH_MTU: &str = concat!(
    r#"{"spec":{"migration":{"networkType":"OVNKubernetes","mode":"Offline","#,
    r#""mtu":{"network":{"from":1450,"to":1400}}}}}"#
);
const EVERY_VERSION: [&str; 5] = [
    "get",
    "networks.config.openshift.io,networks.operator.openshift.io,nodes,pods,services",
    "--all-namespaces",
    "-o",
    "custom-columns=KIND:.kind,NAME:.metadata.name,UID:.metadata.uid,VERSION:.metadata.resourceVersion",
];

/// Walks the whole tour; returns how many milliseconds the killed server took to come back.
pub(super) fn walk(guide: &mut Guide, server: &mut Server) -> Result<u128, Failure> {
    resources(guide)?;
    migration(guide)?;
    refusals(guide)?;
    built_ins(guide)?;
    let back = crash(guide, server)?;
    guide.step(
        "Cleaning up: deleting a namespace takes its contents along.",
        &["delete", "namespace", "shop", "--timeout=30s"],
        Done("deleted"),
    )?;
    guide.run(&["get", "pods,services", "--namespace", "shop"], Done("No resources found"))?;
    Ok(back)
}

fn resources(guide: &mut Guide) -> Result<(), Failure> {
    guide.step(
        "1. The resources an administrator writes, installed like any CRDs.",
        &["apply", "-f", "crds"],
        Done("customresourcedefinition.apiextensions.k8s.io/networks.operator.openshift.io created"),
    )?;
    guide.run(
        &["wait", "--for=condition=Established", "crd/networks.config.openshift.io", "--timeout=10s"],
        Done("condition met"),
    )?;
    guide.run(&["api-resources", "--api-group=k8s.ovn.org"], Done("EgressIP"))?;
    guide.step(
        "2. A cluster whose pods run on the old network plugin.",
        &["apply", "-f", "network-config.yaml", "-f", "network-operator.yaml"],
        Done("network.operator.openshift.io/cluster created"),
    )?;
    guide.run(&["describe", "network.operator.openshift.io", "cluster"], Done("OpenShiftSDN"))?;
    Ok(())
}

fn migration(guide: &mut Guide) -> Result<(), Failure> {
    let watch = ["get", "network.config.openshift.io", "cluster", "--watch", "--output-watch-events"];
    guide
        .say("\n3. Asking for a live migration while somebody watches; the command is the documented one.")?;
    let mut watcher = guide.beside(
        &[watch.as_slice(), &["-o", "custom-columns=EVENT:.type,NETWORK:.object.spec.networkType"]].concat(),
    )?;
    let seen = watcher.stdout.take().ok_or_else(|| anyhow!("the watch has no output"));
    let mut seen = BufReader::new(seen?).lines().map_while(Result::ok);
    // The object as it was: the watch is established once this line is there.
    let mut lines: Vec<String> = seen.by_ref().take(2).collect();
    let patched = guide.run(
        &["patch", "Network.config.openshift.io", "cluster", "--type=merge", "--patch", MIGRATE],
        Done("patched"),
    );
    if patched.is_ok() {
        lines.extend(seen.next());
    }
    watcher.kill().context("stopping the watch")?;
    watcher.wait().context("waiting for the watch to end")?;
    patched?;
    guide.say("  and the watch saw:")?;
    guide.say(&indented(&lines.join("\n")))?;
    if !lines.last().is_some_and(|line| line.contains("MODIFIED") && line.contains("OVNKubernetes")) {
        return Err(anyhow!("the watch did not see the patch").into());
    }
    Ok(())
}

fn refusals(guide: &mut Guide) -> Result<(), Failure> {
    guide.step(
        "4. What would hurt is refused, and nothing changes: an offline migration cannot change the MTU too.",
        &["patch", "network.operator.openshift.io", "cluster", "--type=merge", "--patch", OFFLINE_WITH_MTU],
        Refused("is invalid"),
    )?;
    guide.step(
        "5. Two owners, one field: server-side apply says who owns it.",
        &["apply", "--server-side", "--field-manager=other", "-f", "network-config.yaml"],
        Refused("conflict"),
    )?;
    Ok(())
}

fn built_ins(guide: &mut Guide) -> Result<(), Failure> {
    guide.step(
        "6. The built-in kinds a network needs, with defaults and addresses filled in.",
        &["apply", "-f", "shop.yaml"],
        Done("service/cart created"),
    )?;
    guide.run(&["get", "nodes,pods,services", "--all-namespaces"], Done("NodePort"))?;
    Ok(())
}

fn crash(guide: &mut Guide, server: &mut Server) -> Result<u128, Failure> {
    let before = guide.step(
        "7. kill -9 the server, and start it again: nothing it acknowledged is lost.",
        &EVERY_VERSION,
        Done("cart"),
    )?;
    server.crash()?;
    guide.say(&format!("  killed; another answers at {} after {} ms", server.address(), server.millis()))?;
    let after = guide.run(&EVERY_VERSION, Done("cart"))?;
    if before != after {
        return Err(anyhow!("the objects did not come back as they were").into());
    }
    Ok(server.millis())
}
