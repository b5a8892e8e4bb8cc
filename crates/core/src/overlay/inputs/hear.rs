//! What is heard of the cluster, and which parts of the zone it marks.

use crate::name::{NodeName, ObjectName};
use crate::overlay::cluster::{EndpointSlice, Node, Pod, PodObject};
use crate::overlay::zone::SwitchFacts;

use super::claim::Claim;
use super::{Kind, LocalPods, Model, News, Part, distant};
use crate::overlay::zone::SwitchProcess;

impl Model {
    /// Takes in what the switch's process is like.
    pub fn hear_process(&mut self, process: SwitchProcess) {
        let SwitchProcess { has_flows, follows_routes } = process;
        let facts = SwitchFacts { has_flows, follows_routes, ..self.switch.clone() };
        if facts != self.switch {
            self.switch = facts;
            self.dirty.insert(Part::Node);
        }
    }

    /// Takes in one thing.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Node(node) => self.hear_node(node),
            // Whoever asks about this node's own end is told by its agent ending.
            News::NodeGone(name) if name == self.me => {}
            News::NodeGone(name) => {
                if let Some(node) = self.cluster.nodes.remove(&name) {
                    self.release(&node);
                    self.check_pods_again(&name);
                    self.dirty.insert(Part::Peer(name));
                    self.mark_sets_of_hosts();
                }
            }
            News::Namespace(name, labels) => {
                let before = self.cluster.namespaces.insert(name.clone(), labels.clone());
                if before.as_ref() != Some(&labels) {
                    self.mark_namespace(&name);
                }
            }
            News::NamespaceGone(name) => {
                if self.cluster.namespaces.remove(&name).is_some() {
                    self.mark_namespace(&name);
                }
            }
            News::Pod(pod) => self.hear_pod(pod),
            News::PodGone(name) => {
                self.distant.forget(&name);
                self.local.api_says(&name, None);
                self.set_pod(&name, self.local.pod(&name));
            }
            News::Service(mut service) => {
                self.common.namespaces.share(&mut service.name.namespace);
                service.ports.shrink_to_fit();
                let name = service.name.clone();
                let before = self.cluster.services.insert(name.clone(), service);
                if before.as_ref() != self.cluster.services.get(&name) {
                    self.dirty.insert(Part::Service(name));
                }
            }
            News::ServiceGone(name) => {
                if self.cluster.services.remove(&name).is_some() {
                    self.dirty.insert(Part::Service(name));
                }
            }
            News::Slice(name, service, slice) => self.hear_slice(name, Some((service, slice))),
            News::SliceGone(name) => self.hear_slice(name, None),
            News::Policy(policy) => {
                let name = policy.name.clone();
                let before = self.cluster.policies.insert(name.clone(), policy);
                if before.as_ref() != self.cluster.policies.get(&name) {
                    self.mark_policy(name);
                }
            }
            News::PolicyGone(name) => {
                if self.cluster.policies.remove(&name).is_some() {
                    self.mark_policy(name);
                }
            }
        }
    }

    /// Of a kind there are only those `there` says; nodes and namespaces are in no namespace.
    pub fn retain(&mut self, kind: Kind, there: impl Fn(&ObjectName) -> bool) {
        fn gone<'n>(
            names: impl Iterator<Item = &'n ObjectName>,
            there: impl Fn(&ObjectName) -> bool,
            news: fn(ObjectName) -> News,
        ) -> Vec<News> {
            names.filter(|name| !there(name)).cloned().map(news).collect()
        }
        let cluster = &self.cluster;
        let news = match kind {
            Kind::Node => {
                let gone = cluster.nodes.keys().filter(|name| !there(&ObjectName::new("", name.as_str())));
                gone.cloned().map(News::NodeGone).collect()
            }
            Kind::Namespace => {
                let gone =
                    cluster.namespaces.keys().filter(|name| !there(&ObjectName::new("", name.as_str())));
                gone.cloned().map(News::NamespaceGone).collect()
            }
            Kind::Pod => {
                let known = cluster.pods.keys().chain(self.local.from_api()).chain(self.distant.names());
                gone(known, there, News::PodGone)
            }
            Kind::Service => gone(cluster.services.keys(), there, News::ServiceGone),
            Kind::Slice => gone(self.services_of_slices.keys(), there, News::SliceGone),
            Kind::Policy => gone(cluster.policies.keys(), there, News::PolicyGone),
        };
        news.into_iter().for_each(|one| self.hear(one));
    }

    fn hear_node(&mut self, mut node: Node) {
        if let Some(runs) = self.node().filter(|me| me.name == node.name).map(|me| me.assignment) {
            // Whether to follow is decided when all that speaks against it was heard too.
            self.told = Some(node.assignment).filter(|told| *told != runs);
            node.assignment = runs;
        }
        self.take_in(node);
    }

    pub(super) fn take_in(&mut self, node: Node) {
        let name = node.name.clone();
        let before = self.cluster.nodes.insert(name.clone(), node.clone());
        if before.as_ref() == Some(&node) {
            return;
        }
        if let Some(before) = &before {
            self.release(before);
        }
        if before.is_none_or(|before| before.assignment != node.assignment) {
            self.check_pods_again(&name);
        }
        for claim in Claim::of(&node) {
            let others = self.claims.entry(claim).or_default();
            self.dirty.extend(others.iter().cloned().map(Part::Peer));
            others.insert(name.clone());
        }
        if name == self.me {
            self.mark_everything();
        } else {
            self.dirty.insert(Part::Peer(name));
        }
        self.mark_sets_of_hosts();
    }

    fn release(&mut self, node: &Node) {
        for claim in Claim::of(node) {
            let Some(others) = self.claims.get_mut(&claim) else { continue };
            others.remove(&node.name);
            self.dirty.extend(others.iter().cloned().map(Part::Peer));
            if others.is_empty() {
                self.claims.remove(&claim);
            }
        }
    }

    fn hear_slice(&mut self, mut name: ObjectName, mut said: Option<(ObjectName, EndpointSlice)>) {
        self.common.namespaces.share(&mut name.namespace);
        if let Some((service, slice)) = &mut said {
            if let Some((known, _)) = self.cluster.services.get_key_value(service) {
                *service = known.clone();
            }
            self.common.in_slice(slice);
        }
        let service = said.as_ref().map(|(service, _)| service.clone());
        let before = match &service {
            Some(service) => self.services_of_slices.insert(name.clone(), service.clone()),
            None => self.services_of_slices.remove(&name),
        };
        if let Some(before) = before.filter(|before| service.as_ref() != Some(before))
            && let Some(slices) = self.slices.get_mut(&before)
        {
            slices.retain(|(known, _)| *known != name);
            if slices.is_empty() {
                self.slices.remove(&before);
            }
            self.dirty.insert(Part::Service(before));
        }
        if let Some((service, slice)) = said {
            let slices = self.slices.entry(service.clone()).or_default();
            match slices.binary_search_by(|(known, _)| known.cmp(&name)) {
                Ok(at) if slices[at].1 == slice => return,
                Ok(at) => slices[at].1 = slice,
                Err(at) => {
                    // Most Services have one for ever.
                    slices.reserve_exact(1);
                    slices.insert(at, (name, slice));
                }
            }
            self.dirty.insert(Part::Service(service));
        }
    }

    /// Takes in something that was said of a pod of this node by others than the API.
    pub fn hear_local(&mut self, name: &ObjectName, how: impl FnOnce(&mut LocalPods)) {
        how(&mut self.local);
        if self.cluster.pods.get(name).is_none_or(|pod| pod.node == self.me) {
            self.set_pod(name, self.local.pod(name));
        }
    }

    fn hear_pod(&mut self, mut pod: PodObject) {
        self.common.in_pod(&mut pod);
        let name = pod.name.clone();
        self.distant.forget(&name);
        if pod.node == self.me {
            self.local.api_says(&name, Some(pod));
            self.set_pod(&name, self.local.pod(&name));
        } else {
            // A pod of that name here can only be ending.
            self.local.api_says(&name, None);
            self.place_distant(pod);
        }
    }

    /// Takes in a pod of another node with the addresses it may have there.
    fn place_distant(&mut self, pod: PodObject) {
        let name = pod.name.clone();
        let node = self.cluster.nodes.get(&pod.node);
        let placed = self.distant.place(pod, node.map(|node| node.assignment.subnets()));
        self.set_pod(&name, placed.or_else(|| self.local.pod(&name)));
    }

    /// Checks the pods of another node again after its subnets changed.
    fn check_pods_again(&mut self, node: &NodeName) {
        if *node == self.me {
            return;
        }
        let known = self.cluster.pods.values().filter(|pod| pod.node == *node);
        let known: Vec<PodObject> = known.cloned().map(distant::object).collect();
        for pod in self.distant.take(node).into_iter().chain(known) {
            self.place_distant(pod);
        }
    }

    fn set_pod(&mut self, name: &ObjectName, now: Option<Pod>) {
        let before = match &now {
            Some(pod) => self.cluster.pods.insert(name.clone(), pod.clone()),
            None => self.cluster.pods.remove(name),
        };
        if before != now {
            self.mark_pod(name, before.as_ref(), now.as_ref());
        }
    }
}
