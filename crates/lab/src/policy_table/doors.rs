//! The way in from outside: a port of every node, behind which one of the table's pods answers.

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
    /// Whether the pod is on that node; else the node hands on what it gets.
    pub local: bool,
    /// By which protocol it is asked.
    pub protocol: Protocol,
    /// Where it is.
    pub at: SocketAddr,
}

impl Display for Door {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pod = if self.local { "a pod of its own" } else { "a pod of another" };
        write!(f, "{:?} {} of {}, to {pod}", self.protocol, self.at, self.node)
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
    /// Gives the pod x/a a port on every node, for both protocols and in every family.
    pub async fn doors(&self, lab: &Lab) -> Result<Doors> {
        let namespace = self.world.namespace(POD.namespace);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
        let ports: Vec<_> = ["TCP", "UDP"]
            .map(|protocol| json!({"name": protocol.to_lowercase(), "port": PORTS[0], "protocol": protocol}))
            .into();
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "door", "namespace": namespace},
            "spec": {
                "type": "NodePort",
                "ipFamilyPolicy": "PreferDualStack",
                "selector": {"pod": POD.name.to_string()},
                "ports": ports,
            },
        });
        let made = services
            .patch("door", &PatchParams::apply("policy-table").force(), &Patch::Apply(&service))
            .await
            .during(format!("making service {namespace}/door"))?;
        let ports = made.spec.and_then(|spec| spec.ports).unwrap_or_default();
        let mut all = Vec::new();
        for node in lab.status()?.nodes {
            for (protocol, name) in [(Protocol::Tcp, "TCP"), (Protocol::Udp, "UDP")] {
                let port = ports
                    .iter()
                    .filter(|port| port.protocol.as_deref() == Some(name))
                    .find_map(|port| u16::try_from(port.node_port?).ok())
                    .ok_or_else(|| {
                        LabError::Refused(format!("service {namespace}/door got no {name} port of the nodes"))
                    })?;
                all.extend(node.addresses.iter().map(|net| Door {
                    node: node.name.to_string(),
                    local: self.nodes.get(&POD).is_some_and(|of_pod| *of_pod == node.name.to_string()),
                    protocol,
                    at: SocketAddr::new(net.addr(), port),
                }));
            }
        }
        Ok(Doors { outside: in_lab::place(lab, "outside")?, all })
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

    /// Asks until all of them are open, or all are closed; tells those that are not when the patience ends.
    pub async fn until(&self, open: bool, patience: Duration) -> Result<Vec<Door>> {
        let end = Instant::now() + patience;
        loop {
            let wrong: Vec<Door> =
                self.ask()?.into_iter().filter(|(_, is)| *is != open).map(|(door, _)| door).collect();
            if wrong.is_empty() || Instant::now() >= end {
                return Ok(wrong);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
