//! What decisions depend on, of all objects of a kind, from the events of a watch.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

/// What of each object a decision depends on, by the object's name. Kubelets write to their nodes all the time; only a
/// change of these is a reason to look.
#[derive(Debug)]
pub(crate) struct ProjectedStore<T> {
    known: BTreeMap<String, T>,
    /// Those of a list that is still coming in.
    arriving: BTreeMap<String, T>,
    complete: bool,
}

impl<T: Clone + PartialEq> ProjectedStore<T> {
    /// Nothing was said yet.
    pub(crate) fn new() -> ProjectedStore<T> {
        ProjectedStore { known: BTreeMap::new(), arriving: BTreeMap::new(), complete: false }
    }

    /// What is known.
    pub(crate) fn known(&self) -> &BTreeMap<String, T> {
        &self.known
    }

    /// Whether all were seen once: before that, what is missing may only not have been said yet.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes in what a watch says; whether that may change a decision.
    pub(crate) fn note<K: Resource>(&mut self, event: Event<Arc<K>>, of: impl Fn(&Arc<K>) -> T) -> bool {
        match event {
            Event::Init => {
                self.arriving.clear();
                false
            }
            Event::InitApply(object) => {
                self.arriving.insert(object.name_any(), of(&object));
                false
            }
            Event::InitDone => {
                let first = !mem::replace(&mut self.complete, true);
                let before = mem::replace(&mut self.known, mem::take(&mut self.arriving));
                first || before != self.known
            }
            Event::Apply(object) => {
                let now = of(&object);
                self.known.insert(object.name_any(), now.clone()) != Some(now)
            }
            Event::Delete(object) => self.known.remove(&object.name_any()).is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(name: &str, role: &str) -> Arc<Node> {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.labels = Some([("role".to_owned(), role.to_owned())].into());
        Arc::new(node)
    }

    fn role(node: &Arc<Node>) -> String {
        node.labels()["role"].clone()
    }

    #[test]
    fn only_what_a_decision_depends_on_is_worth_a_look() {
        let mut followed = ProjectedStore::new();
        let mut note = |event| followed.note(event, role);
        assert!(!note(Event::Init) && !note(Event::InitApply(node("a", "worker"))));
        assert!(note(Event::InitDone), "all were seen for the first time");
        assert!(!note(Event::Apply(node("a", "worker"))));
        assert!(note(Event::Apply(node("a", "infra"))) && note(Event::Apply(node("b", "worker"))));
        assert!(note(Event::Delete(node("b", "worker"))) && !note(Event::Delete(node("b", "worker"))));
        // The same list again, as after a watch that was cut off, and one that lacks somebody.
        assert!(!note(Event::Init) && !note(Event::InitApply(node("a", "infra"))) && !note(Event::InitDone));
        assert!(!note(Event::Init) && note(Event::InitDone));
        assert!(followed.is_complete() && followed.known().is_empty());
    }

    #[test]
    fn a_list_that_was_cut_off_is_not_mixed_with_the_next() {
        let mut followed = ProjectedStore::new();
        let mut note = |event| followed.note(event, role);
        note(Event::Init);
        note(Event::InitApply(node("gone", "worker")));
        note(Event::Init);
        note(Event::InitApply(node("a", "worker")));
        note(Event::InitDone);
        assert_eq!(*followed.known(), BTreeMap::from([("a".to_owned(), "worker".to_owned())]));
    }
}
