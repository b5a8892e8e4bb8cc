//! Which parts of the zone something that was heard may change.

use crate::name::ObjectName;
use crate::overlay::cluster::Pod;
use crate::overlay::policy::PeerSet;

use super::{HOST_NAMESPACE, Model, Part};

impl Model {
    pub(super) fn mark_pod(&mut self, name: &ObjectName, before: Option<&Pod>, now: Option<&Pod>) {
        let both = [before, now];
        let either = |is: &dyn Fn(&Pod) -> bool| both.iter().flatten().any(|pod| is(pod));
        if either(&|pod| pod.node == self.me && !pod.host_network) {
            self.dirty.insert(Part::Pod(name.clone()));
            for policy in self.cluster.policies_in(&name.namespace) {
                if either(&|pod| policy.selects(pod)) {
                    self.dirty.insert(Part::Policy(policy.name.clone()));
                    self.dirty.insert(Part::Namespace(name.namespace.to_string()));
                }
            }
        }
        if let Some(labels) = self.cluster.namespaces.get(&*name.namespace) {
            let addresses = |set: &PeerSet, pod: Option<&Pod>| {
                pod.filter(|pod| set.contains(pod, labels)).map(|pod| pod.addresses)
            };
            let moved = self.sets.keys().filter(|set| addresses(set, before) != addresses(set, now));
            self.dirty.extend(moved.cloned().map(Part::PeerSet));
        }
        let following = self.refers.iter().filter(|(_, refers)| refers.follows_all_pods);
        self.dirty.extend(following.map(|(policy, _)| Part::Policy(policy.clone())));
    }

    pub(super) fn mark_namespace(&mut self, name: &str) {
        let is_empty = self.cluster.pods_in(name).next().is_none();
        if is_empty && name != HOST_NAMESPACE {
            return;
        }
        self.dirty.extend(self.sets.keys().cloned().map(Part::PeerSet));
        let following = self.refers.iter().filter(|(_, refers)| refers.follows_all_pods);
        self.dirty.extend(following.map(|(policy, _)| Part::Policy(policy.clone())));
    }

    pub(super) fn mark_policy(&mut self, name: ObjectName) {
        self.dirty.insert(Part::Namespace(name.namespace.to_string()));
        self.dirty.insert(Part::Policy(name));
    }

    pub(super) fn mark_sets_of_hosts(&mut self) {
        if self.cluster.namespaces.contains_key(HOST_NAMESPACE) {
            self.dirty.extend(self.sets.keys().cloned().map(Part::PeerSet));
        }
    }

    pub(super) fn mark_everything(&mut self) {
        let cluster = &self.cluster;
        self.dirty.insert(Part::Node);
        self.dirty.extend(cluster.nodes.keys().filter(|name| **name != self.me).cloned().map(Part::Peer));
        let here = cluster.pods.values().filter(|pod| pod.node == self.me);
        self.dirty.extend(here.map(|pod| Part::Pod(pod.name.clone())));
        self.dirty.extend(cluster.services.keys().cloned().map(Part::Service));
        for policy in cluster.policies.keys() {
            self.dirty.insert(Part::Policy(policy.clone()));
            self.dirty.insert(Part::Namespace(policy.namespace.to_string()));
        }
        self.dirty.extend(self.sets.keys().cloned().map(Part::PeerSet));
    }
}
