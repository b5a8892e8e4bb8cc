//! What thousands of objects have in common, kept once.

#![allow(clippy::disallowed_types, reason = "looked up and pruned only: no decision depends on the order")]

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::label::Labels;
use crate::name::{NodeName, Text};
use crate::overlay::cluster::{EndpointSlice, NamedPort, PodObject};

/// Values, each kept once: thousands of pods carry the same labels, and are on the same nodes.
#[derive(Debug)]
pub(super) struct Once<T> {
    known: HashSet<T>,
    /// How many there were when those that nobody carries any more were last thrown out.
    kept: usize,
}

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once { known: HashSet::new(), kept: 0 }
    }
}

/// A value that clones share.
pub(super) trait Share: Clone + Eq + Hash {
    /// Whether there is no other clone of it.
    fn is_alone(&self) -> bool;
}

impl Share for Labels {
    fn is_alone(&self) -> bool {
        Labels::is_alone(self)
    }
}

impl Share for Text {
    fn is_alone(&self) -> bool {
        Text::is_alone(self)
    }
}

impl Share for NodeName {
    fn is_alone(&self) -> bool {
        NodeName::is_alone(self)
    }
}

impl Share for Arc<[NamedPort]> {
    fn is_alone(&self) -> bool {
        Arc::strong_count(self) == 1
    }
}

impl<T: Share> Once<T> {
    pub(super) fn share(&mut self, value: &mut T) {
        if let Some(known) = self.known.get(value) {
            *value = known.clone();
            return;
        }
        if self.known.len() > 2 * self.kept + 64 {
            self.known.retain(|known| !known.is_alone());
            self.kept = self.known.len();
        }
        self.known.insert(value.clone());
    }
}

/// What many objects have in common, each kept once.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub(super) labels: Once<Labels>,
    pub(super) namespaces: Once<Text>,
    pub(super) nodes: Once<NodeName>,
    pub(super) ports: Once<Arc<[NamedPort]>>,
}

impl Common {
    pub(super) fn in_pod(&mut self, pod: &mut PodObject) {
        self.labels.share(&mut pod.labels);
        self.namespaces.share(&mut pod.name.namespace);
        self.nodes.share(&mut pod.node);
        self.ports.share(&mut pod.ports);
    }

    pub(super) fn in_slice(&mut self, slice: &mut EndpointSlice) {
        slice.endpoints.iter_mut().filter_map(|to| to.node.as_mut()).for_each(|node| self.nodes.share(node));
        slice.endpoints.shrink_to_fit();
        slice.ports.shrink_to_fit();
    }
}
