//! ADD.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as k8s;
use netferry_api::annotation::{Annotation, Mac as ApiMac};
use netferry_api::overlay::annotations::{PodNetwork, PodNetworks, PodRoute};
use netferry_cni::{Attachment, CniError, CniResult, Code, Interface, IpConfig, PodRef, RouteEntry, Spent};
use netferry_core::name::ObjectName;
use netferry_core::net::{Addresses, Family, Subnets};
use netferry_core::overlay::cluster::Pod;
use netferry_core::overlay::pod_addresses;
use netferry_kernel::{IfName, Namespace};
use netferry_translate::pod::reported;
use nix::errno::Errno;

use super::objects::{PodMissing, is_of};
use super::port::{self, PortError};
use super::record::{self, Record};
use super::reserve::Reserved;
use super::wire::{self, End, HostEnd};
use super::{Place, Pods, ZoneUnavailable, chain, micros};

/// What an ADD asks for.
pub(super) struct Wanted {
    pub(super) attachment: Attachment,
    pub(super) network: String,
    pub(super) netns: String,
    pub(super) pod: PodRef,
}

/// The role of the one network a pod has.
const ROLE: &str = "primary";

impl Pods {
    pub(super) async fn add(&self, wanted: Wanted, spent: &mut Spent) -> Result<CniResult, CniError> {
        let place = self.place()?;
        let name = ObjectName::new(wanted.pod.namespace.clone(), wanted.pod.name.clone());
        let _container = self.0.locks.hold(super::del::key(wanted.attachment.container())).await;
        let _pod = self.0.locks.hold(format!("pod {name}")).await;
        let namespace = self.open(&wanted.netns)?;
        if let Some(result) = self.already(&place, &wanted, &name, &namespace).await? {
            return Ok(result);
        }
        let asked = Instant::now();
        let object = self.find(&wanted.pod, &name).await?;
        spent.api_us = micros(asked.elapsed());
        let (addresses, reserved) = self.addresses(&place, &object, &name, spent).await?;
        let pod = netferry_translate::pod::pod_with(&object, addresses)
            .map_err(|error| failed(&name, &chain(&error)))?
            .filter(|pod| pod.node == place.node.name)
            .ok_or_else(|| unattachable(&object, &name, &place))?;
        let end = End::new(&place, self.names(&wanted)?, &addresses, name.to_string());
        let host_end = self.make(&place, &wanted, &object, &pod, namespace, &end, spent).await;
        drop(reserved);
        let host_end =
            match host_end {
                Ok(made) => self.0.hooks.run(&pod).await.map(|()| made).map_err(|refused| {
                    CniError::new(Code::TryAgain, format!("pod {name}: {}", chain(&refused)))
                }),
                Err(error) => Err(error),
            };
        match host_end {
            Ok(host_end) => Ok(result(&end, &host_end, &wanted.netns)),
            Err(error) => {
                self.undo(&pod, &end).await;
                Err(error)
            }
        }
    }

    fn names(&self, wanted: &Wanted) -> Result<(IfName, IfName), CniError> {
        let ifname = IfName::new(wanted.attachment.ifname())
            .map_err(|error| CniError::new(Code::InvalidEnvironment, chain(&error)))?;
        Ok((wire::link_of(wanted.attachment.container()), ifname))
    }

    /// The container's namespace; never the host's own.
    pub(super) fn open(&self, netns: &str) -> Result<Namespace, CniError> {
        let namespace = Namespace::open(netns).map_err(|error| {
            let gone = matches!(error.errno(), Some(Errno::ENOENT | Errno::ESRCH));
            let code = if gone { Code::UnknownContainer } else { Code::InvalidEnvironment };
            CniError::new(code, format!("CNI_NETNS {netns} cannot be used")).with_details(chain(&error))
        })?;
        let same = |a: &Namespace, b: &Namespace| Ok::<_, netferry_kernel::Error>(a.id()? == b.id()?);
        match same(&namespace, self.0.kernel.namespace()) {
            Ok(false) => Ok(namespace),
            Ok(true) => {
                let text = format!("CNI_NETNS {netns} is the host's own namespace");
                Err(CniError::new(Code::InvalidEnvironment, text))
            }
            Err(error) => Err(CniError::new(Code::Io, chain(&error))),
        }
    }

    /// The answer to an ADD that was already done: the same. One that was done halfway is done again.
    async fn already(
        &self,
        place: &Arc<Place>,
        wanted: &Wanted,
        name: &ObjectName,
        namespace: &Namespace,
    ) -> Result<Option<CniResult>, CniError> {
        let records = record::of_container(&self.0.switch.snapshot(), wanted.attachment.container());
        if let Some(other) = records.iter().find(|record| record.ifname != wanted.attachment.ifname()) {
            let text = format!(
                "container {} is attached as {} already, and a pod has one port",
                other.container, other.ifname
            );
            return Err(CniError::new(Code::InvalidEnvironment, text));
        }
        let this = |record: &&Record| {
            record.pod == *name && wanted.pod.uid.as_ref().is_none_or(|uid| self.is_of(record, uid))
        };
        let Some(record) = records.iter().find(this).filter(|record| record.installed) else {
            return Ok(None);
        };
        let Some(end) = self.end_of(place, record) else { return Ok(None) };
        let inside = namespace.try_clone().map_err(|error| failed(name, &chain(&error)))?;
        let (kernel, looked) = (Arc::clone(&self.0.kernel), end.clone());
        let sound = blocking(move || {
            let wrong = wire::inspect(&kernel, inside, &looked)?;
            let link = kernel.links().named(&looked.link)?;
            Ok::<_, netferry_kernel::Error>(link.filter(|_| wrong.is_empty()))
        });
        Ok(match sound.await {
            Ok(Some(link)) => Some(result(&end, &HostEnd { mac: link.mac, mtu: link.mtu }, &wanted.netns)),
            Ok(None) | Err(_) => None,
        })
    }

    /// Whether an attachment is of the pod that the runtime knows by this UID; the API may have to say so.
    fn is_of(&self, record: &Record, uid: &str) -> bool {
        let shown = || self.0.objects.shown(&record.pod, uid);
        record.runtime_uid == uid || shown().is_some_and(|object| is_of(&object, &record.uid))
    }

    /// How the end of an attachment shall be.
    pub(super) fn end_of(&self, place: &Place, record: &Record) -> Option<End> {
        let addresses = Addresses::from_addresses(record.addresses.iter().map(IpNet::addr))?;
        let names = (IfName::new(record.link.clone()).ok()?, IfName::new(record.ifname.clone()).ok()?);
        Some(End::new(place, names, &addresses, record.pod.to_string()))
    }

    async fn find(&self, pod: &PodRef, name: &ObjectName) -> Result<Arc<k8s::Pod>, CniError> {
        let found = self.0.objects.find(name.clone(), pod.uid.clone(), self.0.settings.pod_limit).await;
        found.map_err(|error| {
            let code = match &error {
                PodMissing::Replaced { .. } => Code::UnknownContainer,
                PodMissing::NotFound(_) | PodMissing::Unreachable { .. } => Code::TryAgain,
            };
            CniError::new(code, chain(&error))
        })
    }

    /// Returns the addresses the pod claims if it may keep them, otherwise new ones.
    ///
    /// A tenant may write the claim. It is kept if the kubelet reports the pod with these addresses, or if no other pod
    /// of this node claims them: otherwise, after a reboot, the first pod to be attached could take another's address.
    async fn addresses(
        &self,
        place: &Place,
        object: &k8s::Pod,
        name: &ObjectName,
        spent: &mut Spent,
    ) -> Result<(Addresses, Option<Reserved>), CniError> {
        let subnets = place.node.assignment.subnets();
        let records = record::all(&self.0.switch.snapshot());
        let claimed = claimed(&subnets, object, &records, name)?;
        if let Some(claimed) = claimed {
            let reported = reported(object);
            if claimed.iter().all(|address| reported.contains(&address)) {
                return Ok((claimed, None));
            }
        }
        let asked = Instant::now();
        let within = self.0.settings.pod_limit;
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let others = tokio::time::timeout(within, self.0.objects.addresses(uid)).await.map_err(|_| {
            let text = format!(
                "the addresses of this node's pods are not known yet, for pod {name}; is the API reachable?"
            );
            CniError::new(Code::TryAgain, text)
        })?;
        spent.api_us += micros(asked.elapsed());
        if let Some(claimed) = claimed {
            match claimed.iter().find(|address| others.contains(address)) {
                None => return Ok((claimed, None)),
                Some(address) => tracing::warn!(
                    pod = %name, key = PodNetworks::KEY, %address,
                    "refused an address that another pod of this node has; the pod gets a new one"
                ),
            }
        }
        let in_use = records.iter().flat_map(|record| &record.addresses).map(IpNet::addr);
        let taken: BTreeSet<IpAddr> = others.into_iter().chain(in_use).collect();
        let reserved = self
            .0
            .reservations
            .choose(&subnets, &taken)
            .map_err(|full| CniError::new(Code::TryAgain, format!("pod {name}: {full}")))?;
        Ok((reserved.addresses, Some(reserved)))
    }

    /// Everything that can be done at once: the zone, the kernel and the switch, the annotation.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one attachment")]
    async fn make(
        &self,
        place: &Arc<Place>,
        wanted: &Wanted,
        object: &k8s::Pod,
        pod: &Pod,
        namespace: Namespace,
        end: &End,
        spent: &mut Spent,
    ) -> Result<HostEnd, CniError> {
        let name = &pod.name;
        let annotate = async {
            let networks = networks(place, end);
            if carries(object, &networks) {
                return Ok(Instant::now());
            }
            let done = self.0.objects.annotate(object, &networks).await;
            done.map(|()| Instant::now()).map_err(|error| {
                let code = if error.gone { Code::UnknownContainer } else { Code::TryAgain };
                CniError::new(code, chain(&error))
            })
        };
        let put = async {
            let limit = self.0.settings.zone_limit;
            let late = |_| {
                ZoneUnavailable(format!("it did not commit the port within {} s", limit.as_secs()).into())
            };
            let done = tokio::time::timeout(limit, self.0.ports.put(pod.clone())).await;
            done.map_err(late)
                .and_then(|done| done)
                .map_err(|error| CniError::new(Code::TryAgain, format!("pod {name}: {}", chain(&error))))
        };
        let on_switch = async {
            let (kernel, wired) = (Arc::clone(&self.0.kernel), end.clone());
            let made = blocking(move || wire::attach(&kernel, namespace, &wired)).await;
            let made = made.map_err(|error| failed(name, &chain(&error)))?;
            self.put_on_switch(place, wanted, pod, end).await.map_err(|error| not_on_switch(name, &error))?;
            Ok(made)
        };
        let installed = async {
            let ((), (host_end, inside)) = tokio::try_join!(put, on_switch)?;
            let ours = Instant::now();
            let limit = self.0.settings.installed_limit;
            let (run, southbound) = (&self.0.settings.ovn_run, self.0.southbound.as_ref());
            let diagnose = async |logical: &str| port::diagnose(run, southbound, logical).await;
            port::installed(&self.0.switch, end.link.as_str(), limit, diagnose)
                .await
                .map_err(|error| not_on_switch(name, &error))?;
            let (installed, held) = (Instant::now(), end.clone());
            let held = blocking(move || wire::take_hold(&inside, &held)).await;
            held.map_err(|error| failed(name, &chain(&error)))?;
            Ok((host_end, ours, installed))
        };
        let (annotated, (host_end, ours, installed)) = tokio::try_join!(annotate, installed)?;
        spent.ovn_us = micros(installed.duration_since(ours));
        spent.api_us += micros(annotated.saturating_duration_since(installed));
        Ok(host_end)
    }

    async fn put_on_switch(
        &self,
        place: &Place,
        wanted: &Wanted,
        pod: &Pod,
        end: &End,
    ) -> Result<(), PortError> {
        let sandbox = wanted.attachment.container();
        let row = place.zone().interface_of_pod(pod, end.link.as_str(), sandbox);
        let (network, netns) = (&wanted.network, &wanted.netns);
        let extra = record::ids(wanted.attachment.ifname(), network, netns, &pod.labels);
        let _leaving = self.0.leaving.hold(super::del::key_of(&end.link)).await;
        let in_the_way = port::add(&self.0.switch, &row, extra).await?;
        // Links of earlier containers of the same pod: nothing would speak of them any more.
        for link in in_the_way.into_iter().filter_map(|link| IfName::new(link).ok()) {
            let kernel = Arc::clone(&self.0.kernel);
            let name = link.clone();
            if let Err(error) = blocking(move || wire::detach(&kernel, &name)).await {
                tracing::warn!(%link, error = chain(&error), "taking the link of an earlier container away");
            }
        }
        Ok(())
    }

    /// Takes away what a failed ADD made. What cannot be taken away now is found by the DEL that follows.
    async fn undo(&self, pod: &Pod, end: &End) {
        if let Err(error) = self.off(end.link.clone(), &pod.name, &pod.uid).await {
            tracing::warn!(pod = %pod.name, error = %error, "undoing a failed attachment");
        }
    }
}

/// The addresses in a pod's annotation; `None` without an annotation.
///
/// # Errors
///
/// If a pod of this node cannot have them, or another is attached with one of them.
fn claimed(
    subnets: &Subnets,
    object: &k8s::Pod,
    records: &[Record],
    name: &ObjectName,
) -> Result<Option<Addresses>, CniError> {
    let none = Default::default();
    let networks = PodNetworks::read(object.metadata.annotations.as_ref().unwrap_or(&none))
        .map_err(|error| failed(name, &chain(&error)))?;
    let claimed = networks.as_ref().and_then(PodNetworks::default_network).map(PodNetwork::addresses);
    let Some(claimed) = claimed.filter(|claimed| !claimed.is_empty()) else { return Ok(None) };
    let key = PodNetworks::KEY;
    let kept = pod_addresses::keep(subnets, claimed.iter().map(IpNet::addr)).map_err(|why| {
        failed(name, &format!("the addresses in its annotation {key} cannot be kept: {why}"))
    })?;
    let mut others = records.iter().filter(|record| record.pod != *name);
    match others.find(|record| kept.iter().any(|address| record.has(address))) {
        None => Ok(Some(kept)),
        Some(other) => {
            let text = format!("the address in its annotation {key} is in use by pod {}", other.pod);
            Err(failed(name, &text))
        }
    }
}

/// Runs what talks to the kernel beside the runtime's own threads: entering namespaces takes threads anyway.
pub(crate) async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(what).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn failed(pod: &ObjectName, why: &str) -> CniError {
    CniError::new(Code::AttachFailed, format!("pod {pod} cannot be attached: {why}"))
}

fn not_on_switch(pod: &ObjectName, error: &PortError) -> CniError {
    let code = match error {
        PortError::NoBridge
        | PortError::BridgeReplaced
        | PortError::Database(_)
        | PortError::NotInstalled { .. } => Code::TryAgain,
        PortError::Refused { .. } | PortError::Gone { .. } => Code::AttachFailed,
    };
    CniError::new(code, format!("pod {pod}: {}", chain(error)))
}

/// Why a pod gets no port here.
fn unattachable(object: &k8s::Pod, name: &ObjectName, place: &Place) -> CniError {
    let spec = object.spec.as_ref();
    let why = match spec.and_then(|spec| spec.node_name.as_deref()) {
        _ if spec.is_some_and(|spec| spec.host_network == Some(true)) => {
            "it lives in its host's own network".to_owned()
        }
        None => "it is bound to no node".to_owned(),
        Some(node) if node != place.node.name.as_str() => {
            format!("it is bound to node {node}, this is {}", place.node.name)
        }
        Some(_) => "it has ended".to_owned(),
    };
    failed(name, &why)
}

/// What is written of a pod's network for everybody else.
pub(super) fn networks(place: &Place, end: &End) -> PodNetworks {
    let router = place.node.assignment.router();
    let families: BTreeSet<Family> = end.addresses.iter().map(|net| Family::of(net.addr())).collect();
    let gateways = families.iter().filter_map(|family| router.get(*family)).collect();
    let routes = families.iter().flat_map(|family| {
        let next_hop = router.get(*family);
        wire::named_routes(place, *family).into_iter().map(move |dest| PodRoute { dest, next_hop })
    });
    let network = PodNetwork::new(ApiMac(end.mac.0))
        .with_addresses(end.addresses.clone(), gateways)
        .with_routes(routes.collect())
        .with_role(ROLE);
    PodNetworks::of_default(network)
}

/// Whether a pod carries these addresses already: then nothing of its annotation is changed.
pub(super) fn carries(object: &k8s::Pod, networks: &PodNetworks) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    let there = annotations.and_then(|all| PodNetworks::read(all).ok().flatten());
    let of = |networks: &PodNetworks| networks.default_network().map(|n| (n.addresses().to_vec(), n.mac()));
    there.is_some_and(|there| of(&there) == of(networks))
}

fn result(end: &End, host_end: &HostEnd, netns: &str) -> CniResult {
    let text = |mac: netferry_kernel::Mac| mac.to_string();
    let interfaces = vec![
        Interface {
            name: end.link.to_string(),
            mac: host_end.mac.map(text).unwrap_or_default(),
            mtu: Some(host_end.mtu),
            ..Interface::default()
        },
        Interface {
            name: end.ifname.to_string(),
            mac: text(end.mac),
            mtu: Some(end.mtu),
            sandbox: netns.to_owned(),
            ..Interface::default()
        },
    ];
    let gateway = |net: &IpNet| {
        let default = end
            .routes
            .iter()
            .find(|(to, _)| to.prefix_len() == 0 && to.addr().is_ipv4() == net.addr().is_ipv4());
        default.and_then(|(_, via)| *via)
    };
    let ip = |net: &IpNet| IpConfig {
        interface: Some(1),
        address: *net,
        gateway: gateway(net),
        other: Default::default(),
    };
    let through = end.routes.iter().filter(|(_, via)| via.is_some());
    let route = |(to, via): &(IpNet, Option<IpAddr>)| RouteEntry {
        dst: *to,
        gw: *via,
        mtu: end.sends,
        other: Default::default(),
    };
    CniResult {
        interfaces,
        ips: end.addresses.iter().map(ip).collect(),
        routes: through.map(route).collect(),
        ..CniResult::default()
    }
}
