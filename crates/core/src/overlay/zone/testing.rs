//! Small clusters for tests.

use ipnet::IpNet;

use super::Zone;
use crate::name::{NodeName, ObjectName};
use crate::net::{Addresses, Stack};
use crate::overlay::allocate::{Applicant, Claim, allocate};
use crate::overlay::cluster::{Cluster, Node, Pod};
use crate::overlay::networks::{ClusterRange, Internal, Networks};
use crate::overlay::rows::Rows;
use crate::overlay::topology::Topology;
use crate::size::Mtu;

/// A cluster with its ranges.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    pub(crate) networks: Networks,
    pub(crate) topology: Topology,
    pub(crate) cluster: Cluster,
}

/// Which families a cluster speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    V4,
    V6,
    Dual,
}

/// An IPv4 cluster of nodes `n0`, `n1`… with pods `ns/n0p0`, `ns/n0p1`….
pub(crate) fn lab(nodes: usize, pods: usize) -> Lab {
    lab_of(Speaks::V4, nodes, pods)
}

pub(crate) fn lab_of(speaks: Speaks, nodes: usize, pods: usize) -> Lab {
    let net = |text: &str| text.parse::<IpNet>().unwrap();
    let range = |text: &str, prefix| ClusterRange::new(net(text), prefix).unwrap();
    let (v4, v6) = (range("10.244.0.0/16", 24), range("fd01::/48", 64));
    let (cluster, service) = match speaks {
        Speaks::V4 => (vec![v4], vec![net("10.96.0.0/16")]),
        Speaks::V6 => (vec![v6], vec![net("fd02::/112")]),
        Speaks::Dual => (vec![v4, v6], vec![net("10.96.0.0/16"), net("fd02::/112")]),
    };
    let networks = Networks::new(cluster, service, Internal::default()).unwrap();
    let applicants: Vec<_> = (0..nodes).map(applicant).collect();
    let given = allocate(&networks, &applicants);
    let mut cluster = Cluster::default();
    cluster.namespaces.insert("ns".to_owned(), Default::default());
    for (i, (name, assignment)) in given.nodes.iter().enumerate() {
        let host = u8::try_from(i + 1).unwrap();
        let v6 = [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)].into();
        let address: Addresses = match speaks {
            Speaks::V4 => Stack::V4([172, 18, 0, host].into()),
            Speaks::V6 => Stack::V6(v6),
            Speaks::Dual => Stack::Both([172, 18, 0, host].into(), v6),
        };
        let node = Node {
            name: name.clone(),
            assignment: *assignment,
            chassis: format!("chassis-{name}"),
            encap: address.iter().next().unwrap(),
            host_addresses: address.iter().collect(),
        };
        for p in 0..pods {
            let n = u32::try_from(p + 3).unwrap();
            let addresses = assignment.subnets().nth(n).unwrap();
            let pod = pod("ns", &format!("{name}p{p}"), name, addresses);
            cluster.pods.insert(pod.name.clone(), pod);
        }
        cluster.nodes.insert(name.clone(), node);
    }
    Lab { networks, topology: Topology::multi_node(), cluster }
}

fn applicant(i: usize) -> Applicant {
    Applicant {
        name: format!("n{i}").parse().unwrap(),
        created: i64::try_from(i).unwrap(),
        id: Claim::Absent,
        subnets: Claim::Absent,
        running: None,
    }
}

pub(crate) fn pod(namespace: &str, name: &str, node: &NodeName, addresses: Addresses) -> Pod {
    Pod {
        name: ObjectName::new(namespace, name),
        uid: format!("uid-{name}"),
        node: node.clone(),
        labels: Default::default(),
        addresses,
        host_network: false,
        ports: [].into(),
    }
}

impl Lab {
    pub(crate) fn zone(&self, node: &str) -> Zone<'_> {
        let node = &self.cluster.nodes[&node.parse().unwrap()];
        Zone { networks: &self.networks, topology: &self.topology, node, mtu: Mtu::new(1400).unwrap() }
    }

    pub(crate) fn rows_of(&self, node: &str, cluster: &Cluster) -> Rows {
        self.zone(node).rows(cluster).unwrap()
    }
}
