//! Follows the API and feeds the zone, one task for each kind.
//!
//! Objects are translated as they arrive and dropped: the zone keeps a fraction of each. An API that cannot be reached
//! changes nothing, and neither does one that answers without this node: before anything is removed because a new list
//! lacks it, this node itself must be listed.

mod kind;

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::pending;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::ChassisId;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::overlay::cluster::Node;
use netferry_core::overlay::inputs::{Kind, News};
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::topology::Mode;
use netferry_core::probe::round::Peers;
use netferry_translate as translate;
use netferry_translate::node::NodeGap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

pub(crate) use kind::fingerprint;
use kind::{Reader, follow as follow_kind};

use crate::cluster::Basis;
use crate::overlay::ovn::Heard;

/// Follows everything the zone is computed from, until nobody listens.
pub async fn follow(
    client: kube::Client,
    me: Own,
    basis: Basis,
    heard: mpsc::Sender<Heard>,
    peers: watch::Sender<Peers>,
) {
    let mut kinds = Kinds::default();
    macro_rules! kind {
        ($reader:expr) => {
            kinds.add(|first| follow_kind(client.clone(), me.name.to_string(), $reader, heard.clone(), first))
        };
    }
    kind!(Nodes { basis, me: me.clone(), peers });
    kind!(Namespaces);
    kind!(Pods);
    kind!(Services);
    kind!(Slices);
    kind!(Policies);
    kinds.run(heard).await;
}

/// Kinds that are followed beside each other.
#[derive(Default)]
struct Kinds {
    tasks: JoinSet<()>,
    lists: Vec<oneshot::Receiver<()>>,
}

impl Kinds {
    fn add<F: Future<Output = ()> + Send + 'static>(&mut self, kind: impl FnOnce(oneshot::Sender<()>) -> F) {
        let (first, listed) = oneshot::channel();
        self.tasks.spawn(kind(first));
        self.lists.push(listed);
    }

    /// Tells when each was listed, and goes on until nobody listens.
    ///
    /// # Panics
    ///
    /// When one of them did: without it the zone would be computed from what was true then, for ever.
    async fn run(mut self, heard: mpsc::Sender<Heard>) {
        let lists = self.lists;
        let told = async {
            for listed in lists {
                // One that ended is told below.
                if listed.await.is_err() {
                    return pending::<Infallible>().await;
                }
            }
            let _ = heard.send(Heard::Complete).await;
            pending::<Infallible>().await
        };
        tokio::select! {
            never = told => match never {},
            // One ends when nobody listens, and then the others may as well.
            ended = self.tasks.join_next() => {
                if let Some(Err(failed)) = ended && let Ok(panic) = failed.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

fn one(news: News) -> Vec<Heard> {
    vec![Heard::News(vec![news])]
}

/// This node, by what it knows of itself better than the API does.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its name.
    pub name: NodeName,
    /// The identity of its switch. What the API says of that came from here, and may be older.
    pub chassis: String,
    /// For how many nodes the network is.
    pub mode: Mode,
}

impl Own {
    /// Reads a node, this one with its own identity. What another runs with its own agent knows better than whoever
    /// wrote into its annotations; of this one that is the zone's own knowledge.
    pub fn read(&self, networks: &Networks, node: &core::Node) -> Result<Node, NodeGap> {
        if node.metadata.name.as_deref() != Some(self.name.as_str()) {
            return translate::node::peer(networks, node);
        }
        let mut node = node.clone();
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(ChassisId::KEY.to_owned(), self.chassis.clone());
        match self.mode {
            Mode::MultiNode => translate::node::node(networks, &node),
            Mode::SingleNode => translate::node::alone(networks, &node),
        }
    }
}

struct Nodes {
    basis: Basis,
    me: Own,
    /// All nodes, as they probe each other.
    peers: watch::Sender<Peers>,
}

impl Nodes {
    /// The name of another node than this one, if its object is not the one that was known by it. That the last one went may
    /// not have been told.
    fn replaces(&self, node: &core::Node) -> Option<NodeName> {
        let name = NodeName::new(node.metadata.name.clone()?).ok().filter(|name| *name != self.me.name)?;
        let uid = node.metadata.uid.as_deref().unwrap_or_default();
        let known = self.peers.borrow().get(&name).map(|peer| peer.uid != uid);
        known.unwrap_or_default().then_some(name)
    }

    fn tell_peers(&self, node: &core::Node) {
        if let Some((name, peer)) = translate::probe::peer(&self.basis.networks, node) {
            self.peers.send_if_modified(|peers| {
                let differs = peers.get(&name) != Some(&peer);
                if differs {
                    peers.insert(name, peer);
                }
                differs
            });
        }
    }
}

impl Reader for Nodes {
    type Object = core::Node;
    const KIND: Kind = Kind::Node;

    fn there(&mut self, node: &core::Node) -> Vec<Heard> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let replaced = self.replaces(node);
        self.tell_peers(node);
        let mut heard = Vec::new();
        if let Ok(name) = NodeName::new(name) {
            match translate::node::tunnel_neighbour(node) {
                Ok(neighbour) => heard.push(Heard::Neighbour(name, neighbour)),
                Err(error) => {
                    tracing::warn!(node = %name, error = &error as &dyn std::error::Error, "a neighbour that cannot be read")
                }
            }
        }
        match self.me.read(&self.basis.networks, node) {
            Ok(node) => heard.push(Heard::News(vec![News::Node(node)])),
            Err(gap) if gap.is_waiting() => {
                tracing::debug!(node = name, %gap, "not in the overlay yet");
                // Another node of that name, which was not let in so far: nothing is to be sent to it as if it were the last.
                heard.extend(replaced.map(|name| Heard::News(vec![News::NodeGone(name)])));
            }
            // What was known of it before stays: a slip of somebody's hand must not cut a node off.
            Err(gap) => {
                tracing::error!(
                    node = name,
                    error = &gap as &dyn std::error::Error,
                    "cannot be read; left as it was"
                );
            }
        }
        heard
    }

    fn gone(&mut self, name: ObjectName) -> Vec<Heard> {
        let Ok(name) = NodeName::new(name.name) else { return Vec::new() };
        self.peers.send_if_modified(|peers| peers.remove(&name).is_some());
        vec![Heard::Neighbour(name.clone(), None), Heard::News(vec![News::NodeGone(name)])]
    }

    fn only(&mut self, seen: &HashSet<u64>) {
        self.peers.send_modify(|peers| {
            peers.retain(|name, _| seen.contains(&fingerprint(&ObjectName::new("", name.as_str()))));
        });
    }
}

struct Namespaces;

impl Reader for Namespaces {
    type Object = core::Namespace;
    const KIND: Kind = Kind::Namespace;

    fn there(&mut self, namespace: &core::Namespace) -> Vec<Heard> {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        one(News::Namespace(name, translate::labels::labels(namespace.metadata.labels.as_ref())))
    }

    fn gone(&mut self, name: ObjectName) -> Vec<Heard> {
        one(News::NamespaceGone(name.name.into()))
    }
}

struct Pods;

impl Reader for Pods {
    type Object = core::Pod;
    const KIND: Kind = Kind::Pod;

    fn there(&mut self, pod: &core::Pod) -> Vec<Heard> {
        match translate::pod::pod(pod) {
            Ok(Some(pod)) => one(News::Pod(pod)),
            Ok(None) => one(News::PodGone(translate::object_name(&pod.metadata))),
            Err(error) => {
                let pod = translate::object_name(&pod.metadata);
                tracing::error!(%pod, error = &error as &dyn std::error::Error, "cannot be read; left as it was");
                Vec::new()
            }
        }
    }

    fn gone(&mut self, name: ObjectName) -> Vec<Heard> {
        one(News::PodGone(name))
    }
}

struct Services;

impl Reader for Services {
    type Object = core::Service;
    const KIND: Kind = Kind::Service;

    fn there(&mut self, service: &core::Service) -> Vec<Heard> {
        let name = translate::object_name(&service.metadata);
        match translate::service::service(service) {
            Ok(Some(service)) => one(News::Service(service)),
            Ok(None) => one(News::ServiceGone(name)),
            Err(error) => {
                tracing::error!(service = %name, error = &error as &dyn std::error::Error, "cannot be read; left as it was");
                Vec::new()
            }
        }
    }

    fn gone(&mut self, name: ObjectName) -> Vec<Heard> {
        one(News::ServiceGone(name))
    }
}

struct Slices;

impl Reader for Slices {
    type Object = EndpointSlice;
    const KIND: Kind = Kind::Slice;

    fn there(&mut self, slice: &EndpointSlice) -> Vec<Heard> {
        let name = translate::object_name(&slice.metadata);
        match translate::service::slice(slice) {
            Ok(Some((service, slice))) => one(News::Slice(name, service, slice)),
            Ok(None) => one(News::SliceGone(name)),
            Err(error) => {
                tracing::error!(slice = %name, error = &error as &dyn std::error::Error, "cannot be read; left as it was");
                Vec::new()
            }
        }
    }

    fn gone(&mut self, name: ObjectName) -> Vec<Heard> {
        one(News::SliceGone(name))
    }
}

struct Policies;

impl Reader for Policies {
    type Object = NetworkPolicy;
    const KIND: Kind = Kind::Policy;

    fn there(&mut self, policy: &NetworkPolicy) -> Vec<Heard> {
        let name = translate::policy::policy_name(policy);
        match translate::policy::policy(policy) {
            Ok((policy, left_out)) => {
                for why in left_out {
                    tracing::error!(policy = %name, error = &why as &dyn std::error::Error, "allows nothing by what cannot be read");
                }
                one(News::Policy(policy))
            }
            Err(error) => {
                tracing::error!(policy = %name, error = &error as &dyn std::error::Error, "cannot be read; left as it was");
                Vec::new()
            }
        }
    }

    fn gone(&mut self, name: ObjectName) -> Vec<Heard> {
        one(News::PolicyGone(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kind_that_fails_before_or_after_its_first_list_ends_the_whole_by_that() {
        for listed in [false, true] {
            let (heard, mut hearing) = mpsc::channel(1);
            let mut kinds = Kinds::default();
            kinds.add(|first| async {
                let _ = first.send(());
                pending().await
            });
            let (fail, failing) = oneshot::channel::<()>();
            kinds.add(|first| async move {
                if listed {
                    let _ = first.send(());
                    let _ = failing.await;
                }
                panic!("a mistake of ours");
            });
            let run = tokio::spawn(kinds.run(heard));
            if listed {
                assert!(matches!(hearing.recv().await, Some(Heard::Complete)));
                assert!(!run.is_finished());
            }
            drop(fail);
            let ended = tokio::time::timeout(std::time::Duration::from_secs(10), run).await;
            assert!(ended.expect("it ends").is_err_and(|failed| failed.is_panic()), "listed: {listed}");
        }
    }

    #[tokio::test]
    async fn kinds_that_nobody_listens_to_end_in_order() {
        let mut kinds = Kinds::default();
        kinds.add(|_first| async { pending().await });
        kinds.add(|_first| async {});
        kinds.run(mpsc::channel(1).0).await;
    }
}
