//! The sites of a running lab.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::NodeSubnets;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::Kernel;

use super::fixture::{self, Fixture, NAMESPACE};
use super::{Node, Outside, Pod, Service, Sites};
use crate::error::{During, LabError, Result};
use crate::meter::Place;
use crate::{Families, Lab, Stage, Status};

/// Raises the fixture on every node of a lab that is ready, and finds the sites.
///
/// `progress` is told what is being waited for.
pub async fn sites(lab: &Lab, patience: Duration, mut progress: impl FnMut(&[String])) -> Result<Sites> {
    let status = lab.status()?;
    let nodes = ready_nodes(&status)?;
    let client = client(&lab.state().kubeconfig()).await?;
    let raised = fixture::raise(&client, &nodes, patience, &mut progress).await;
    let fixture = raised.during("raising the pods that meters stand on")?;
    let mut sites = collect(lab, &status, &nodes, fixture)?;
    let objects: Api<NodeObject> = Api::all(client);
    for object in objects.list(&ListParams::default()).await.during("listing the nodes")? {
        if let Some(node) = sites.nodes.iter_mut().find(|node| node.name == object.name_any()) {
            node.pod_ranges = ranges(&object);
        }
    }
    Ok(sites)
}

/// Who moves the packets of labs on this machine.
pub fn datapath() -> Result<Datapath> {
    let there = Kernel::here().and_then(|kernel| kernel.has_ovs_datapath());
    let there = there.during("looking for the kernel's Open vSwitch datapath")?;
    Ok(if there { Datapath::Kernel } else { Datapath::Userspace })
}

/// The nodes pods can be put on; none at all is refused.
pub(crate) fn ready_nodes(status: &Status) -> Result<Vec<String>> {
    let ready = status.nodes.iter().filter(|node| node.stage == Stage::Ready);
    let nodes: Vec<String> = ready.map(|node| node.name.to_string()).collect();
    if nodes.is_empty() {
        return Err(LabError::Refused("no node of the lab is ready: netferry lab status tells why".into()));
    }
    Ok(nodes)
}

/// Removes the fixture again.
pub async fn lower(lab: &Lab) -> Result<()> {
    let client = client(&lab.state().kubeconfig()).await?;
    fixture::lower(&client).await.during("removing the pods that meters stood on")
}

/// A client with an administrator's rights.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let attempt = || format!("reading {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).during(attempt())?;
    let config =
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.during(attempt())?;
    Client::try_from(config).during(attempt())
}

/// The network of a node, a pod or another part of a lab, under its name.
pub fn place(lab: &Lab, target: &str) -> Result<Place> {
    Ok(Place::new(target, lab.way(target)?.namespace()?))
}

/// Lets nodes and pods forget what they were told of the ways they send on. A kernel remembers for ten minutes that a
/// way took less, whether or not it still does.
///
/// # Errors
/// If one of them is gone.
pub fn forget_ways(lab: &Lab, sites: &Sites) -> Result<()> {
    let pods = sites.pods.iter().map(|pod| &pod.place.name);
    for place in sites.nodes.iter().map(|node| &node.place.name).chain(pods) {
        for family in ["-4", "-6"] {
            let done = lab.exec(place, "ip", &[family, "route", "flush", "cache"])?;
            if !done.status.success() {
                let why = String::from_utf8_lossy(&done.stderr).trim().to_owned();
                return Err(LabError::failed(format!("forgetting what {place} was told of its ways"), why));
            }
        }
    }
    Ok(())
}

fn collect(lab: &Lab, status: &Status, nodes: &[String], fixture: Fixture) -> Result<Sites> {
    let mut sites = Sites::default();
    for node in status.nodes.iter().filter(|node| nodes.iter().any(|name| *name == node.name.to_string())) {
        sites.nodes.push(Node {
            name: node.name.to_string(),
            place: place(lab, node.name.as_str())?,
            addresses: node.addresses.iter().map(|net| net.addr()).collect(),
            pod_ranges: Vec::new(),
        });
    }
    for pod in fixture.pods {
        let name = format!("{NAMESPACE}/{}", pod.name);
        let place = place(lab, &name)?;
        sites.pods.push(Pod { place, name, node: pod.node, addresses: pod.addresses });
    }
    for service in fixture.services {
        sites.services.push(Service {
            name: format!("{NAMESPACE}/{}", service.name),
            cluster_ips: service.cluster_ips,
            node_port_udp: service.node_ports.get("UDP").copied(),
            node_port_tcp: service.node_ports.get("TCP").copied(),
            backend: format!("{NAMESPACE}/{}", service.backend),
        });
    }
    let addresses: Vec<IpAddr> = sites.nodes.iter().flat_map(|node| node.addresses.clone()).collect();
    let families = match (addresses.iter().any(IpAddr::is_ipv4), addresses.iter().any(IpAddr::is_ipv6)) {
        (true, true) => Families::Dual,
        (false, true) => Families::V6,
        (_, false) => Families::V4,
    };
    sites.outside = Some(Outside {
        place: place(lab, "outside")?,
        addresses: families.outside().iter().map(|net| net.addr()).collect(),
    });
    Ok(sites)
}

/// For drawings only: a node whose annotation cannot be read has none.
fn ranges(node: &NodeObject) -> Vec<String> {
    match NodeSubnets::read(node.annotations()) {
        Ok(Some(subnets)) => subnets.default_network().iter().map(ToString::to_string).collect(),
        Ok(None) | Err(_) => Vec::new(),
    }
}
