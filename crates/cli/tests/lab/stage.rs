//! A lab with packets on every kind of path, for things to be done to it meanwhile.

#![allow(dead_code, reason = "the soak suite uses it too, and each its part")]

use std::time::{Duration, Instant};

use netferry_lab::kills::Part;
use netferry_lab::meter::{Flow, Meter, Report, Running};
use netferry_lab::paths::{self, Selection, Sites, in_lab};
use netferry_lab::{Lab, Name, Options};

use crate::bench::{self, PATIENCE, said, until};
use crate::kubectl::{apply, kubectl, pod, ready};

/// As many packets of every flow are seen to pass before something is killed, and after it is back.
pub(crate) const SOME: u64 = 2;

/// A lab with meters on every kind of path.
pub(crate) struct Stage {
    pub(crate) lab: Lab,
    pub(crate) nodes: Vec<Name>,
    sites: Sites,
    flows: Vec<Flow>,
}

impl Stage {
    /// A lab of these, with so many packets a second on each flow, or as many as are measured usually.
    pub(crate) async fn new(options: &Options, rate: Option<u32>) -> Stage {
        let lab = bench::up(options);
        let nodes = lab.status().expect("a status").nodes.into_iter().map(|node| node.name).collect();
        let sites = in_lab::sites(&lab, PATIENCE, |_| {}).await.expect("pods to measure between");
        let flows = paths::flows(&sites, &Selection { rate, ..Selection::default() });
        let silent = paths::preflight(&flows, PATIENCE, |_| {}).expect("a meter");
        assert!(silent.is_empty(), "flows that are not answered before anything is killed: {silent:?}");
        Stage { lab, nodes, sites, flows }
    }

    /// What becomes of the flows while something is done, and for a moment before and after.
    pub(crate) fn measured(&self, work: impl FnOnce(&Running)) -> Report {
        let meter = Meter::start(self.flows.clone()).expect("a meter");
        self.pass(&meter);
        work(&meter);
        self.pass(&meter);
        meter.finish(Duration::from_secs(3)).expect("a report")
    }

    /// Waits until packets of every flow passed; if some flow's do not any more, its report will tell.
    pub(crate) fn pass(&self, meter: &Running) {
        let passed = |report: &Report| -> Vec<u64> {
            report.flows.iter().flat_map(|flow| flow.directions().map(|way| way.received)).collect()
        };
        let before = passed(&meter.snapshot().expect("a snapshot"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let now = passed(&meter.snapshot().expect("a snapshot"));
            if before.iter().zip(&now).all(|(before, now)| now - before >= SOME) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills a part at one place and waits until another is there; answers how long that took.
    pub(crate) fn kill(&self, part: Part, place: &str) -> Duration {
        let killed = part.kill(&self.lab, place).unwrap_or_else(|error| panic!("{}", error.chain()));
        killed.replaced(&self.lab, PATIENCE).unwrap_or_else(|error| panic!("{}", error.chain()))
    }

    /// What a node's switch says of times it did not get to run.
    pub(crate) fn waits(&self, node: &str) -> String {
        let script = "grep -h 'poll interval' /var/log/openvswitch/ovs-vswitchd.log | tail -n 20; date -u";
        format!("{node}:\n{}", said(&self.lab, node, &["sh", "-c", script]))
    }

    /// A new pod comes up on every node and is reached, and a policy that changes is followed.
    pub(crate) fn converges(&self) {
        bench::ready(&self.lab);
        let from = &self.sites.pods.first().expect("a pod of the meters").name;
        for node in &self.nodes {
            let name = format!("late-{node}");
            policy(&self.lab, &name, "[]");
            pod(&self.lab, "default", &name, node.as_str(), "");
            let addresses = ready(&self.lab, "default", &name);
            for address in &addresses {
                let heard = || answers(&self.lab, from, address);
                assert!(!heard(), "{name}: a policy denied it before it was there, and {address} answers");
                policy(&self.lab, &name, "[{}]");
                until(&format!("{from} is let in to {name} at {address}"), heard);
                policy(&self.lab, &name, "[]");
                until(&format!("{from} is kept out of {name} at {address}"), || !heard());
            }
            kubectl(&self.lab, &["delete", "networkpolicy", &name]);
            kubectl(&self.lab, &["delete", "pod", &name, "--wait=false", "--grace-period=0", "--force"]);
        }
    }
}

/// A policy for one pod: whom it lets in.
fn policy(lab: &Lab, name: &str, ingress: &str) {
    apply(
        lab,
        &format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}}}, \
             spec: {{podSelector: {{matchLabels: {{app: {name}}}}}, policyTypes: [Ingress], ingress: {ingress}}}}}"
        ),
    );
}

fn answers(lab: &Lab, from: &str, address: &str) -> bool {
    let at = if address.contains(':') { format!("[{address}]:8080") } else { format!("{address}:8080") };
    bench::ran(lab, from, &["netferry", "lab-pod", "probe", "--timeout", "500ms", &at]).status.success()
}
