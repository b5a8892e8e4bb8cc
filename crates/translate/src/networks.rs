//! The `Network` resources and the ranges of the cluster.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netferry_api::annotation::{Annotation, AnnotationError};
use netferry_api::overlay::annotations::{NetworkTopology, TopologyMode};
use netferry_api::overlay::{
    ClusterNetworkEntry, ConfigNetwork, ConfigNetworkStatus, OperatorNetworkSpec, OvnKubernetesConfig,
};
use netferry_core::net::Family;
use netferry_core::overlay::networks::{ClusterRange, Internal, Networks, Purpose, Refusal as Core};
use netferry_core::overlay::topology::Mode;
use netferry_core::size::Mtu;

/// The prefix length of a node's subnet where a range does not say: what OpenShift's documentation promises.
const HOST_PREFIX: (u8, u8) = (23, 64);

/// The transport that nobody does here.
pub(crate) const NO_OVERLAY: &str = "NoOverlay";

/// The pods' MTU where nobody says: what fits a tunnel over Ethernet; without tunnels, what fits Ethernet.
pub fn default_mtu(mode: Mode) -> u32 {
    match mode {
        Mode::MultiNode => 1400,
        Mode::SingleNode => 1500,
    }
}

/// Something a `Network` resource says that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {problem}", Fields(fields))]
pub struct Refusal {
    /// The fields it is about, each with its value.
    pub fields: Vec<(String, String)>,
    /// What is wrong.
    pub problem: String,
}

struct Fields<'a>(&'a [(String, String)]);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (field, value)) in self.0.iter().enumerate() {
            let and = if i == 0 { "" } else { ", " };
            write!(f, "{and}{field} {value}")?;
        }
        Ok(())
    }
}

impl Refusal {
    fn one(field: impl Into<String>, value: impl Into<String>, problem: impl Into<String>) -> Refusal {
        Refusal { fields: vec![(field.into(), value.into())], problem: problem.into() }
    }
}

/// The ranges that `Network.operator.openshift.io` asks for. Lists everything that is wrong, also with how packets are
/// to get from one to the other.
pub fn wanted(spec: &OperatorNetworkSpec) -> Result<Networks, Vec<Refusal>> {
    let ranges = read("spec", &spec.cluster_network, &spec.service_network, spec);
    // Pods that were given all a host carries would be cut off by headers that nobody expects.
    if ovn(spec).and_then(|config| config.transport.as_deref()) != Some(NO_OVERLAY) {
        return ranges;
    }
    let mut refusals = ranges.err().unwrap_or_default();
    let field = "spec.defaultNetwork.ovnKubernetesConfig.transport";
    let problem =
        "nodes wrap packets in Geneve all the same; make the Network anew with the transport Geneve";
    refusals.push(Refusal::one(field, NO_OVERLAY, problem));
    Err(refusals)
}

/// The ranges the cluster runs with: those published in the status of `Network.config.openshift.io`, with the internal
/// ones of the operator's `Network`.
pub fn deployed(status: &ConfigNetworkStatus, spec: &OperatorNetworkSpec) -> Result<Networks, Vec<Refusal>> {
    read("status", &status.cluster_network, &status.service_network, spec)
}

/// For how many nodes the annotations of a `Network` say it is; `None` if they say nothing.
pub fn mode(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<Mode>, Refusal> {
    let said = annotations.map_or(Ok(None), NetworkTopology::read);
    let refuse = |_: AnnotationError| {
        let field = format!("metadata.annotations[{}]", NetworkTopology::KEY);
        let value = annotations.and_then(|all| all.get(NetworkTopology::KEY)).cloned();
        let known = TopologyMode::ALL.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(" or ");
        Refusal::one(field, format!("{:?}", value.unwrap_or_default()), format!("must be {known}"))
    };
    Ok(said.map_err(refuse)?.map(|said| match said.get() {
        TopologyMode::MultiNode => Mode::MultiNode,
        TopologyMode::SingleNode => Mode::SingleNode,
    }))
}

/// For how many nodes the network is that is deployed, as the cluster's `Network` says; what cannot be read was not said.
pub fn deployed_mode(config: Option<&ConfigNetwork>) -> Mode {
    let said = config.and_then(|config| config.metadata.annotations.as_ref());
    mode(said).ok().flatten().unwrap_or_default()
}

/// The annotation that says it.
pub fn printed_mode(mode: Mode) -> (String, String) {
    NetworkTopology::from(match mode {
        Mode::MultiNode => TopologyMode::MultiNode,
        Mode::SingleNode => TopologyMode::SingleNode,
    })
    .entry()
}

/// The MTU of the pods that the operator's `Network` asks for.
pub fn wanted_mtu(spec: &OperatorNetworkSpec, mode: Mode) -> Result<Mtu, Refusal> {
    let asked = ovn(spec).and_then(|config| config.mtu).unwrap_or(default_mtu(mode));
    Mtu::new(asked).map_err(|wrong| {
        let field = "spec.defaultNetwork.ovnKubernetesConfig.mtu";
        Refusal::one(field, asked.to_string(), wrong.to_string())
    })
}

/// The MTU of the pods the cluster runs with.
pub fn deployed_mtu(status: &ConfigNetworkStatus, mode: Mode) -> Result<Mtu, Refusal> {
    let published = status.cluster_network_mtu.unwrap_or(default_mtu(mode));
    Mtu::new(published)
        .map_err(|wrong| Refusal::one("status.clusterNetworkMTU", published.to_string(), wrong.to_string()))
}

/// The ranges as they are written in a `Network` resource: cluster networks and service networks.
pub fn printed(networks: &Networks) -> (Vec<ClusterNetworkEntry>, Vec<String>) {
    let entry = |range: &ClusterRange| ClusterNetworkEntry {
        cidr: Some(range.net().to_string()),
        host_prefix: Some(u32::from(range.host_prefix())),
    };
    let cluster = networks.cluster().iter().map(entry).collect();
    (cluster, networks.service().iter().map(|net| net.to_string()).collect())
}

fn ovn(spec: &OperatorNetworkSpec) -> Option<&OvnKubernetesConfig> {
    spec.default_network.as_ref()?.ovn_kubernetes_config.as_ref()
}

/// Remembers where each range was written, so that a refusal of `core` can name the field.
#[derive(Default)]
struct Reading {
    written: Vec<(Purpose, IpNet, String)>,
    refusals: Vec<Refusal>,
}

fn read(
    part: &str,
    cluster: &[ClusterNetworkEntry],
    service: &[String],
    spec: &OperatorNetworkSpec,
) -> Result<Networks, Vec<Refusal>> {
    let mut reading = Reading::default();
    let mut ranges = Vec::new();
    for (i, entry) in cluster.iter().enumerate() {
        ranges.extend(reading.range(&format!("{part}.clusterNetwork[{i}]"), entry));
    }
    let mut services = Vec::new();
    for (i, text) in service.iter().enumerate() {
        services.extend(reading.net(Purpose::Service, &format!("{part}.serviceNetwork[{i}]"), text));
    }
    let internal = reading.internal(ovn(spec));
    // A range that could not be read is missing from what `core` would be asked, and its answer would mislead.
    if !reading.refusals.is_empty() {
        return Err(reading.refusals);
    }
    Networks::new(ranges, services, internal)
        .map_err(|refusals| refusals.iter().map(|refusal| reading.explain(part, refusal)).collect())
}

impl Reading {
    fn refuse(&mut self, field: &str, value: &str, problem: impl Into<String>) {
        self.refusals.push(Refusal::one(field, value, problem));
    }

    fn net(&mut self, purpose: Purpose, field: &str, text: &str) -> Option<IpNet> {
        match strictly(text) {
            None => {
                self.refuse(field, &format!("{text:?}"), "is not a network in CIDR notation");
                None
            }
            Some(net) => {
                self.written.push((purpose, net.trunc(), field.to_owned()));
                Some(net.trunc())
            }
        }
    }

    fn range(&mut self, field: &str, entry: &ClusterNetworkEntry) -> Option<ClusterRange> {
        let cidr_field = format!("{field}.cidr");
        let Some(text) = &entry.cidr else {
            self.refuse(&cidr_field, "is missing", "a cluster network needs a range");
            return None;
        };
        let net = self.net(Purpose::Cluster, &cidr_field, text)?;
        let usual = if net.addr().is_ipv4() { HOST_PREFIX.0 } else { HOST_PREFIX.1 };
        let asked = entry.host_prefix.unwrap_or(u32::from(usual));
        // Beyond 255 is beyond what any family allows; `core` refuses the largest number it can hold just as well.
        let host_prefix = u8::try_from(asked).unwrap_or(u8::MAX);
        match ClusterRange::new(net, host_prefix) {
            Ok(range) => Some(range),
            Err(refusal) => {
                let problem = if let Core::HostPrefix { least, most, .. } = refusal {
                    format!("must be between {least} and {most} for the range {net}")
                } else {
                    refusal.to_string()
                };
                self.refuse(&format!("{field}.hostPrefix"), &asked.to_string(), problem);
                None
            }
        }
    }

    fn internal(&mut self, config: Option<&OvnKubernetesConfig>) -> Internal {
        let mut internal = Internal::default();
        let Some(config) = config else { return internal };
        let (v4, v6) = (config.ipv4.as_ref(), config.ipv6.as_ref());
        let gateway = config.gateway_config.as_ref();
        let gateway4 = gateway.and_then(|gateway| gateway.ipv4.as_ref());
        let gateway6 = gateway.and_then(|gateway| gateway.ipv6.as_ref());
        // The newer name of a field outweighs the older one.
        let join4 = v4.and_then(|v4| v4.internal_join_subnet.as_ref());
        let join4 = join4.map(|text| ("ipv4.internalJoinSubnet", text));
        let join4 = join4.or(config.v4_internal_subnet.as_ref().map(|text| ("v4InternalSubnet", text)));
        let join6 = v6.and_then(|v6| v6.internal_join_subnet.as_ref());
        let join6 = join6.map(|text| ("ipv6.internalJoinSubnet", text));
        let join6 = join6.or(config.v6_internal_subnet.as_ref().map(|text| ("v6InternalSubnet", text)));
        let transit4 = v4.and_then(|v4| v4.internal_transit_switch_subnet.as_ref());
        let transit6 = v6.and_then(|v6| v6.internal_transit_switch_subnet.as_ref());
        let masquerade4 = gateway4.and_then(|gateway| gateway.internal_masquerade_subnet.as_ref());
        let masquerade6 = gateway6.and_then(|gateway| gateway.internal_masquerade_subnet.as_ref());
        self.v4(Purpose::Join, join4, &mut internal.join.0);
        self.v6(Purpose::Join, join6, &mut internal.join.1);
        let named = |name, text: Option<_>| text.map(|text| (name, text));
        let transit4 = named("ipv4.internalTransitSwitchSubnet", transit4);
        let transit6 = named("ipv6.internalTransitSwitchSubnet", transit6);
        self.v4(Purpose::Transit, transit4, &mut internal.transit.0);
        self.v6(Purpose::Transit, transit6, &mut internal.transit.1);
        let masquerade4 = named("gatewayConfig.ipv4.internalMasqueradeSubnet", masquerade4);
        let masquerade6 = named("gatewayConfig.ipv6.internalMasqueradeSubnet", masquerade6);
        self.v4(Purpose::Masquerade, masquerade4, &mut internal.masquerade.0);
        self.v6(Purpose::Masquerade, masquerade6, &mut internal.masquerade.1);
        internal
    }

    fn v4(&mut self, purpose: Purpose, said: Option<(&str, &String)>, into: &mut Ipv4Net) {
        let Some((name, text)) = said else { return };
        let field = format!("spec.defaultNetwork.ovnKubernetesConfig.{name}");
        match self.net(purpose, &field, text) {
            Some(IpNet::V4(net)) => *into = net,
            Some(IpNet::V6(_)) => self.refuse(&field, text, "is not IPv4"),
            None => {}
        }
    }

    fn v6(&mut self, purpose: Purpose, said: Option<(&str, &String)>, into: &mut Ipv6Net) {
        let Some((name, text)) = said else { return };
        let field = format!("spec.defaultNetwork.ovnKubernetesConfig.{name}");
        match self.net(purpose, &field, text) {
            Some(IpNet::V6(net)) => *into = net,
            Some(IpNet::V4(_)) => self.refuse(&field, text, "is not IPv6"),
            None => {}
        }
    }

    /// A refusal of `core`, with the fields it is about.
    fn explain(&self, part: &str, refusal: &Core) -> Refusal {
        let place = |(purpose, net): &(Purpose, IpNet)| self.place(*purpose, *net);
        let cluster = || self.all(Purpose::Cluster);
        let (fields, problem) = match refusal {
            Core::HostPrefix { net, .. } => (vec![place(&(Purpose::Cluster, *net))], refusal.to_string()),
            Core::NoClusterNetwork => {
                (vec![(format!("{part}.clusterNetwork"), "is empty".into())], "pods need a range".into())
            }
            Core::ServiceNetworks(nets) if nets.is_empty() => {
                (vec![(format!("{part}.serviceNetwork"), "is empty".into())], "Services need a range".into())
            }
            Core::ServiceNetworks(_) => {
                (self.all(Purpose::Service), "must be one network, or one IPv4 and one IPv6".into())
            }
            Core::Families { cluster: pods, service } => {
                let fields = cluster().into_iter().chain(self.all(Purpose::Service)).collect();
                let (pods, service) = (listed(pods), listed(service));
                (fields, format!("pods would speak {pods} and Services {service}; both must speak the same"))
            }
            Core::TooSmall { purpose, net, most } => {
                (vec![place(&(*purpose, *net))], format!("is too small: at most /{most} is allowed"))
            }
            Core::Overlap { a, b } => (vec![place(a), place(b)], "overlap".into()),
        };
        Refusal { fields, problem }
    }

    fn place(&self, purpose: Purpose, net: IpNet) -> (String, String) {
        let written = self.written.iter().find(|(p, n, _)| *p == purpose && *n == net);
        let field = written.map_or_else(|| format!("the default {purpose} network"), |w| w.2.clone());
        (field, net.to_string())
    }

    fn all(&self, purpose: Purpose) -> Vec<(String, String)> {
        let of = self.written.iter().filter(|written| written.0 == purpose);
        of.map(|(_, net, field)| (field.clone(), net.to_string())).collect()
    }
}

fn listed(families: &[Family]) -> String {
    families.iter().map(Family::to_string).collect::<Vec<_>>().join(" and ")
}

/// Stricter than the parser of [`IpNet`], which takes `010` for an octet: another reader may take it for eight.
fn strictly(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let plain = length.bytes().all(|b| b.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    IpNet::new(address.parse().ok()?, length.parse().ok().filter(|_| plain)?).ok()
}

#[cfg(test)]
mod tests;
