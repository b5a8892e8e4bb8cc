//! The way in from outside: ports of every node, behind which one of the table's pods answers.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::cell::{PORTS, PodId};
use super::live::{DENIED_AFTER, Table};
use crate::Lab;
use crate::error::{During, LabError, Result};
use crate::meter::Place;
use crate::paths::in_lab;
use crate::programs::probe::{self, Probe, Protocol};

/// The pod behind all of them.
const POD: PodId = PodId { namespace: 'x', name: 'a' };
const LOOK: Duration = Duration::from_millis(200);

/// A port of a node, asked from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// The node.
    pub node: String,
    /// Whether the pod is on that node.
    pub local: bool,
    /// Whether the pod sees who asks, and only nodes with such a pod answer: `externalTrafficPolicy: Local`. Else a
    /// node without one hands on what it gets, and every node speaks for who asks.
    pub seen: bool,
    /// By which protocol it is asked.
    pub protocol: Protocol,
    /// Where it is.
    pub at: SocketAddr,
}

impl Display for Door {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pod = if self.local { "a pod of its own" } else { "a pod of another" };
        let seen = if self.seen { ", which sees who asks" } else { "" };
        write!(f, "{:?} {} of {}, to {pod}{seen}", self.protocol, self.at, self.node)
    }
}

/// All ports of all nodes.
#[derive(Debug)]
pub struct Doors {
    outside: Place,
    /// Each of them.
    pub all: Vec<Door>,
}

impl Table {
    /// Gives the pod x/a ports on every node, for both protocols and in every family, with either policy for what
    /// comes from outside.
    pub async fn doors(&self, lab: &Lab) -> Result<Doors> {
        let nodes = lab.status()?.nodes;
        let mut all = Vec::new();
        for seen in [false, true] {
            for (protocol, port) in self.door(seen).await? {
                let of_node = nodes.iter().flat_map(|node| node.addresses.iter().map(move |net| (node, net)));
                all.extend(of_node.map(|(node, net)| Door {
                    node: node.name.to_string(),
                    local: self.nodes.get(&POD).is_some_and(|of_pod| *of_pod == node.name.to_string()),
                    seen,
                    protocol,
                    at: SocketAddr::new(net.addr(), port),
                }));
            }
        }
        Ok(Doors { outside: in_lab::place(lab, "outside")?, all })
    }

    /// A Service with a port on every node for each protocol.
    async fn door(&self, seen: bool) -> Result<Vec<(Protocol, u16)>> {
        let (name, policy) = if seen { ("door-seen", "Local") } else { ("door", "Cluster") };
        let namespace = self.world.namespace(POD.namespace);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
        let protocols = [(Protocol::Tcp, "TCP"), (Protocol::Udp, "UDP")];
        let ports = protocols.map(
            |(_, protocol)| json!({"name": protocol.to_lowercase(), "port": PORTS[0], "protocol": protocol}),
        );
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "type": "NodePort",
                "externalTrafficPolicy": policy,
                "ipFamilyPolicy": "PreferDualStack",
                "selector": {"pod": POD.name.to_string()},
                "ports": ports,
            },
        });
        let made = services
            .patch(name, &PatchParams::apply("policy-table").force(), &Patch::Apply(&service))
            .await
            .during(format!("making service {namespace}/{name}"))?;
        let made = made.spec.and_then(|spec| spec.ports).unwrap_or_default();
        let of = |(protocol, word): (Protocol, &str)| {
            let port = made
                .iter()
                .filter(|port| port.protocol.as_deref() == Some(word))
                .find_map(|port| u16::try_from(port.node_port?).ok());
            port.map(|port| (protocol, port)).ok_or_else(|| {
                LabError::Refused(format!("service {namespace}/{name} got no {word} port of the nodes"))
            })
        };
        protocols.into_iter().map(of).collect()
    }
}

/// What is open from outside in a scenario: its title, and which doors.
pub type Expected = (&'static str, fn(&Door) -> bool);

/// Scenarios that are looked at from outside, one after another. Open first: what is shut because nobody made it yet
/// proves nothing.
pub const FROM_OUTSIDE: [Expected; 4] = [
    (FREE, Door::leads_anywhere),
    ("a policy that selects all pods and allows nothing isolates a whole namespace", |_| false),
    // Who is spoken for by a node has the node's address, which nobody let in.
    ("what comes from outside the cluster is let in by its address", |door| door.seen && door.local),
    (FREE, Door::leads_anywhere),
];
const FREE: &str = "without a policy everything reaches everything";

impl Door {
    /// Whether there is a pod behind it at all.
    fn leads_anywhere(&self) -> bool {
        self.local || !self.seen
    }
}

impl Doors {
    /// Asks all of them at once, and tells which the pod answered at.
    pub fn ask(&self) -> Result<Vec<(Door, bool)>> {
        let probe = |door: &Door| {
            let mut probe = Probe::new(door.protocol, door.at);
            probe.timeout_ms = u64::try_from(DENIED_AFTER.as_millis()).unwrap_or(u64::MAX);
            probe
        };
        let probes: Vec<Probe> = self.all.iter().map(probe).collect();
        let outcomes =
            self.outside.namespace.run(|| probe::all(&probes, probes.len())).during("asking from outside")?;
        let open =
            |outcome: probe::Outcome| outcome.answer.is_some_and(|answer| answer.name == POD.to_string());
        Ok(self.all.iter().cloned().zip(outcomes.into_iter().map(open)).collect())
    }

    /// Asks until those are open that shall be, and no others; tells which are not so when the patience ends.
    pub async fn until(&self, open: impl Fn(&Door) -> bool, patience: Duration) -> Result<Vec<Door>> {
        let end = Instant::now() + patience;
        loop {
            let wrong: Vec<Door> = self
                .ask()?
                .into_iter()
                .filter(|(door, is)| *is != open(door))
                .map(|(door, _)| door)
                .collect();
            if wrong.is_empty() || Instant::now() >= end {
                return Ok(wrong);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
