//! The pods of this node, from all who know of them.
//!
//! The API knows a pod's labels and sometimes is behind; a CNI request knows its addresses before the API does; the
//! switch knows which pods are attached, whatever the API says. A pod's port stays for as long as it is attached: an
//! API that has lost it must not take its network away.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use netferry_core::label::Labels;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::net::Addresses;
use netferry_core::overlay::cluster::Pod;

/// How many withdrawn pods are remembered: more than end on a node while the API is a moment behind.
const REMEMBERED: usize = 512;

/// A pod's attachment, as the switch tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The pod's UID, as OVN is told.
    pub uid: String,
    /// The same, as the runtime knows it.
    pub runtime_uid: String,
    /// Its addresses.
    pub addresses: Addresses,
    /// The labels it had when it was attached.
    pub labels: Labels,
}

/// What is known of one pod of this node, by source.
#[derive(Clone, Debug, Default)]
struct Known {
    api: Option<Pod>,
    /// What the API last said of a pod that it no longer has and that is here still. Policies go on meaning it: by its
    /// labels one may be all that keeps others from it.
    lost: Option<Pod>,
    put: Option<Pod>,
    attached: Option<Attached>,
}

impl Known {
    fn is_nothing(&self) -> bool {
        self.api.is_none() && self.put.is_none() && self.attached.is_none()
    }

    fn is_here(&self, uid: &str) -> bool {
        self.put.as_ref().is_some_and(|pod| pod.uid == uid)
            || self.attached.as_ref().is_some_and(|attached| attached.runtime_uid == uid)
    }

    fn said(&self, uid: &str) -> Option<&Pod> {
        self.api.iter().chain(&self.lost).find(|pod| pod.uid == uid)
    }
}

/// The pods of this node, from all who know of them.
#[derive(Debug)]
pub struct LocalPods {
    me: NodeName,
    here: BTreeMap<ObjectName, Known>,
    /// UIDs that were withdrawn, the latest last: the API may go on telling of them for a while.
    withdrawn: VecDeque<String>,
}

impl LocalPods {
    pub(super) fn new(me: NodeName) -> LocalPods {
        LocalPods { me, here: BTreeMap::new(), withdrawn: VecDeque::new() }
    }

    /// What the API says of a pod of this node.
    pub fn api_says(&mut self, name: &ObjectName, pod: Option<Pod>) {
        self.change(name, |known| {
            if let Some(before) = std::mem::replace(&mut known.api, pod)
                && known.said(&before.uid).is_none()
            {
                known.lost = Some(before);
            }
        });
    }

    /// A pod that is being attached.
    pub fn put(&mut self, pod: Pod) {
        let name = pod.name.clone();
        self.withdrawn.retain(|uid| *uid != pod.uid);
        self.change(&name, |known| known.put = Some(pod));
    }

    /// A pod that is attached no more, if it is this one.
    pub fn withdraw(&mut self, name: &ObjectName, uid: &str) {
        self.change(name, |known| {
            known.put = known.put.take().filter(|pod| pod.uid != uid);
            known.attached = known.attached.take().filter(|attached| attached.runtime_uid != uid);
        });
        self.withdrawn.push_back(uid.to_owned());
        if self.withdrawn.len() > REMEMBERED {
            self.withdrawn.pop_front();
        }
    }

    /// What the switch says of a pod.
    pub fn switch_says(&mut self, name: &ObjectName, attached: Option<Attached>) {
        self.change(name, |known| known.attached = attached);
    }

    /// The pods the switch was last said to have.
    pub fn attached(&self) -> impl Iterator<Item = &ObjectName> {
        self.here.iter().filter(|(_, known)| known.attached.is_some()).map(|(name, _)| name)
    }

    /// The addresses of pods that are attached or being attached, whatever the API says.
    pub fn addresses_here(&self) -> impl Iterator<Item = IpAddr> {
        self.here.values().flat_map(|known| {
            let put = known.put.iter().map(|pod| pod.addresses);
            let attached = known.attached.iter().map(|attached| attached.addresses);
            put.chain(attached).flat_map(|addresses| addresses.iter().collect::<Vec<_>>())
        })
    }

    /// The pods the API told of.
    pub fn from_api(&self) -> impl Iterator<Item = &ObjectName> {
        self.here.iter().filter(|(_, known)| known.api.is_some()).map(|(name, _)| name)
    }

    fn change(&mut self, name: &ObjectName, how: impl FnOnce(&mut Known)) {
        let known = self.here.entry(name.clone()).or_default();
        how(known);
        known.lost = known.lost.take().filter(|lost| known.is_here(&lost.uid));
        if known.is_nothing() {
            self.here.remove(name);
        }
    }

    /// The pod as it is, all things considered.
    pub fn pod(&self, name: &ObjectName) -> Option<Pod> {
        let known = self.here.get(name)?;
        if let Some(put) = &known.put {
            let labels = known.said(&put.uid).unwrap_or(put).clone();
            return Some(Pod { addresses: put.addresses, ..labels });
        }
        if let Some(attached) = &known.attached {
            let said = known.said(&attached.runtime_uid).cloned().unwrap_or_else(|| Pod {
                name: name.clone(),
                uid: attached.uid.clone(),
                node: self.me.clone(),
                labels: attached.labels.clone(),
                addresses: attached.addresses,
                host_network: false,
                ports: [].into(),
            });
            // The port is bound by what the switch says.
            return Some(Pod { uid: attached.uid.clone(), ..said });
        }
        known.api.clone().filter(|pod| !self.withdrawn.contains(&pod.uid))
    }
}
