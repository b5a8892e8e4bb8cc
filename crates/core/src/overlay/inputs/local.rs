//! The pods attached to this node.
//!
//! A pod's addresses come from its CNI request and, after a restart of the agent, from the switch's record of it. The API
//! supplies labels and named ports only: a tenant may edit its pods, and an address read from there would be one the
//! tenant chose. A pod that the API has and that is not attached has no port. One that is attached keeps its port although
//! the API lost it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::label::Labels;
use crate::name::{NodeName, ObjectName};
use crate::net::Addresses;
use crate::overlay::cluster::{Pod, PodObject};

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
    api: Option<PodObject>,
    /// What the API last said of a pod that it no longer has and that is here still. Policies go on meaning it: by its
    /// labels one may be all that keeps others from it.
    lost: Option<PodObject>,
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

    fn said(&self, uid: &str) -> Option<&PodObject> {
        self.api.iter().chain(&self.lost).find(|pod| pod.uid == uid)
    }
}

/// The pods of this node, from all who know of them.
#[derive(Debug)]
pub struct LocalPods {
    me: NodeName,
    here: BTreeMap<ObjectName, Known>,
}

impl LocalPods {
    pub(super) fn new(me: NodeName) -> LocalPods {
        LocalPods { me, here: BTreeMap::new() }
    }

    /// What the API says of a pod of this node.
    pub fn api_says(&mut self, name: &ObjectName, pod: Option<PodObject>) {
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
        self.change(&name, |known| known.put = Some(pod));
    }

    /// A pod that is attached no more, if it is this one.
    pub fn withdraw(&mut self, name: &ObjectName, uid: &str) {
        self.change(name, |known| {
            known.put = known.put.take().filter(|pod| pod.uid != uid);
            known.attached = known.attached.take().filter(|attached| attached.runtime_uid != uid);
        });
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

    /// The pod with the addresses it is attached with; `None` unless it is attached or being attached.
    pub fn pod(&self, name: &ObjectName) -> Option<Pod> {
        let known = self.here.get(name)?;
        if let Some(put) = &known.put {
            let said = known.said(&put.uid).cloned().map(|object| object.attached_with(put.addresses));
            return Some(said.unwrap_or_else(|| put.clone()));
        }
        let attached = known.attached.as_ref()?;
        let said = known.said(&attached.runtime_uid).cloned().unwrap_or_else(|| PodObject {
            name: name.clone(),
            uid: attached.uid.clone(),
            node: self.me.clone(),
            labels: attached.labels.clone(),
            ports: [].into(),
            reported: Vec::new(),
        });
        // The port is bound by what the switch says.
        Some(Pod { uid: attached.uid.clone(), ..said.attached_with(attached.addresses) })
    }
}
