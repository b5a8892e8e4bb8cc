//! The cluster as the controllers see it, with what they look up by.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::Item;
use super::fit::selects;
use super::write::{Answer, Kind};

/// Namespace and name; nodes have an empty namespace.
pub(crate) type Key = (String, String);

/// Something a watch said.
pub(crate) enum Seen {
    Pod(Box<watcher::Event<Pod>>),
    Node(Box<watcher::Event<Node>>),
    Lease(watcher::Event<Lease>),
    ReplicaSet(Box<watcher::Event<ReplicaSet>>),
    Deployment(Box<watcher::Event<Deployment>>),
    DaemonSet(Box<watcher::Event<DaemonSet>>),
    Service(Box<watcher::Event<Service>>),
    EndpointSlice(watcher::Event<EndpointSlice>),
    /// Leases cannot be watched: nobody's sign of life is heard.
    Deaf,
}

/// Watches everything the controllers need.
pub(crate) fn watches(client: &Client) -> SelectAll<BoxStream<'static, Seen>> {
    let all = || client.clone();
    select_all([
        followed(Api::all(all()), |event| Seen::Pod(Box::new(event))),
        followed(Api::all(all()), |event| Seen::Node(Box::new(event))),
        followed_or(Api::namespaced(all(), "kube-node-lease"), Seen::Lease, || Some(Seen::Deaf)),
        followed(Api::all(all()), |event| Seen::ReplicaSet(Box::new(event))),
        followed(Api::all(all()), |event| Seen::Deployment(Box::new(event))),
        followed(Api::all(all()), |event| Seen::DaemonSet(Box::new(event))),
        followed(Api::all(all()), |event| Seen::Service(Box::new(event))),
        followed(Api::all(all()), Seen::EndpointSlice),
    ])
}

fn followed<K>(
    api: Api<K>,
    seen: impl Fn(watcher::Event<K>) -> Seen + Send + 'static,
) -> BoxStream<'static, Seen>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    followed_or(api, seen, || None)
}

/// The same, and what there is to see in a watch that failed.
fn followed_or<K>(
    api: Api<K>,
    seen: impl Fn(watcher::Event<K>) -> Seen + Send + 'static,
    failed: fn() -> Option<Seen>,
) -> BoxStream<'static, Seen>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    watcher(api, watcher::Config::default())
        .default_backoff()
        .filter_map(move |event| {
            let seen = match event {
                Ok(event) => Some(seen(event)),
                Err(error) => {
                    tracing::debug!(%error, "a watch of the controllers failed");
                    failed()
                }
            };
            async move { seen }
        })
        .boxed()
}

/// The objects of one kind.
pub(crate) struct Table<K> {
    objects: BTreeMap<Key, Arc<K>>,
    arriving: BTreeSet<Key>,
    complete: bool,
    /// Uids of what was deleted lately, oldest first: an answer about it may still be on its way.
    gone: VecDeque<String>,
}

/// How many deletions an answer may be late by.
const REMEMBERED: usize = 1024;

impl<K> Default for Table<K> {
    fn default() -> Table<K> {
        Table { objects: BTreeMap::new(), arriving: BTreeSet::new(), complete: false, gone: VecDeque::new() }
    }
}

/// What an object was and is.
pub(crate) struct Change<K> {
    pub(crate) before: Option<Arc<K>>,
    pub(crate) after: Option<Arc<K>>,
}

impl<K: Resource<DynamicType = ()>> Table<K> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    pub(crate) fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<K>> {
        let from = (namespace.to_owned(), String::new());
        self.objects.range(from..).take_while(move |((in_, _), _)| in_ == namespace).map(|(_, object)| object)
    }

    fn see(&mut self, event: watcher::Event<K>) -> Vec<Change<K>> {
        match event {
            watcher::Event::Init => {
                self.arriving.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.arriving.insert(key_of(&object));
                self.put(object).into_iter().collect()
            }
            watcher::Event::InitDone => {
                self.complete = true;
                let there = std::mem::take(&mut self.arriving);
                let gone: Vec<Key> =
                    self.objects.keys().filter(|key| !there.contains(*key)).cloned().collect();
                gone.into_iter().filter_map(|key| self.remove(&key)).collect()
            }
            watcher::Event::Apply(object) => self.put(object).into_iter().collect(),
            watcher::Event::Delete(object) => self.remove(&key_of(&object)).into_iter().collect(),
        }
    }

    /// Puts in what a write answered, unless the watch has told of its end already.
    fn put_answer(&mut self, object: K) -> Option<Change<K>> {
        let over = object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid));
        if over { None } else { self.put(object) }
    }

    /// Puts an object in, unless this version of it or a newer one is there: an answer may overtake the watch. Of the same
    /// version the one that is there may know more, that its pod was bound.
    fn put(&mut self, object: K) -> Option<Change<K>> {
        let version = version_of(object.meta());
        let known = self.objects.get(&key_of(&object)).map(|known| version_of(known.meta()));
        let is_old = known.is_some_and(|known| known > version || (known == version && version > 0));
        if is_old { None } else { Some(self.replace(object)) }
    }

    fn replace(&mut self, object: K) -> Change<K> {
        let key = key_of(&object);
        let before = self.objects.get(&key).cloned();
        let after = Arc::new(object);
        self.objects.insert(key, after.clone());
        Change { before, after: Some(after) }
    }

    fn remove(&mut self, key: &Key) -> Option<Change<K>> {
        let before = self.objects.remove(key)?;
        self.gone.extend(before.meta().uid.clone());
        if self.gone.len() > REMEMBERED {
            self.gone.pop_front();
        }
        Some(Change { before: Some(before), after: None })
    }
}

fn key_of<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Versions of one server are numbers that rise; the embedded one says so, and etcd's do.
fn version_of(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Who controls an object: the uid.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The cluster as the controllers see it.
#[derive(Default)]
pub(crate) struct Cache {
    pub(crate) pods: Table<Pod>,
    pub(crate) nodes: Table<Node>,
    pub(crate) leases: Table<Lease>,
    pub(crate) replica_sets: Table<ReplicaSet>,
    pub(crate) deployments: Table<Deployment>,
    pub(crate) daemon_sets: Table<DaemonSet>,
    pub(crate) services: Table<Service>,
    pub(crate) slices: Table<EndpointSlice>,
    pods_by_controller: BTreeMap<String, BTreeSet<Key>>,
    pods_by_node: BTreeMap<String, BTreeSet<Key>>,
    /// Pods that wait for a node.
    pub(crate) unbound: BTreeSet<Key>,
    /// Bindings that are on their way.
    assumed: Vec<(Key, String)>,
    slices_by_service: BTreeMap<Key, BTreeSet<Key>>,
    sets_by_controller: BTreeMap<String, BTreeSet<Key>>,
}

impl Cache {
    /// Whether everything has been listed once.
    pub(crate) fn complete(&self) -> bool {
        self.pods.complete
            && self.nodes.complete
            && self.leases.complete
            && self.replica_sets.complete
            && self.deployments.complete
            && self.daemon_sets.complete
            && self.services.complete
            && self.slices.complete
    }

    /// The pods an object controls.
    pub(crate) fn pods_of<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let keys = self.pods_by_controller.get(uid).into_iter().flatten();
        keys.filter_map(|(namespace, name)| self.pods.get(namespace, name))
    }

    /// The pods of a node.
    pub(crate) fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let keys = self.pods_by_node.get(node).into_iter().flatten();
        keys.filter_map(|(namespace, name)| self.pods.get(namespace, name))
    }

    /// Nodes that pods are bound to.
    pub(crate) fn nodes_of_pods(&self) -> impl Iterator<Item = &String> {
        self.pods_by_node.keys()
    }

    /// The ReplicaSets a Deployment controls.
    pub(crate) fn sets_of<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<ReplicaSet>> + use<'a> {
        let keys = self.sets_by_controller.get(uid).into_iter().flatten();
        keys.filter_map(|(namespace, name)| self.replica_sets.get(namespace, name))
    }

    /// The slices of a Service.
    pub(crate) fn slices_of<'a>(
        &'a self,
        namespace: &str,
        service: &str,
    ) -> impl Iterator<Item = &'a Arc<EndpointSlice>> + use<'a> {
        let key = (namespace.to_owned(), service.to_owned());
        let keys = self.slices_by_service.get(&key).into_iter().flatten();
        keys.filter_map(|(namespace, name)| self.slices.get(namespace, name))
    }

    /// Takes note of what a watch said, and marks what it concerns.
    pub(crate) fn see(&mut self, seen: Seen, dirty: &mut BTreeSet<Item>) {
        match seen {
            Seen::Pod(event) => self.pods.see(*event).into_iter().for_each(|c| self.pod(&c, dirty)),
            Seen::Node(event) => self.nodes.see(*event).into_iter().for_each(|c| self.node(&c, dirty)),
            Seen::Lease(event) => drop(self.leases.see(event)),
            Seen::ReplicaSet(event) => {
                self.replica_sets.see(*event).into_iter().for_each(|c| self.replica_set(&c, dirty));
            }
            Seen::Deployment(event) => {
                for change in self.deployments.see(*event) {
                    mark(&change, dirty, Item::Deployment);
                }
            }
            Seen::DaemonSet(event) => {
                for change in self.daemon_sets.see(*event) {
                    mark(&change, dirty, Item::DaemonSet);
                }
            }
            Seen::Service(event) => {
                for change in self.services.see(*event) {
                    mark(&change, dirty, Item::Service);
                }
            }
            Seen::EndpointSlice(event) => {
                self.slices.see(event).into_iter().for_each(|c| self.slice(&c, dirty));
            }
            // What was heard stays; who listens for silence has to know.
            Seen::Deaf => {}
        }
    }

    /// Takes note of what a write answered.
    pub(crate) fn fold(&mut self, answer: Answer, dirty: &mut BTreeSet<Item>) {
        match answer {
            Answer::Is(Kind::Pod, object) => {
                let change = typed(*object).and_then(|pod| self.pods.put_answer(pod));
                change.iter().for_each(|change| self.pod(change, dirty));
            }
            Answer::Is(Kind::Node, object) => {
                let change = typed(*object).and_then(|node| self.nodes.put_answer(node));
                change.iter().for_each(|change| self.node(change, dirty));
            }
            Answer::Is(Kind::ReplicaSet, object) => {
                let change = typed(*object).and_then(|set| self.replica_sets.put_answer(set));
                change.iter().for_each(|change| self.replica_set(change, dirty));
            }
            Answer::Is(Kind::Deployment, object) => {
                drop(typed(*object).and_then(|deployment| self.deployments.put_answer(deployment)));
            }
            Answer::Is(Kind::DaemonSet, object) => {
                drop(typed(*object).and_then(|set| self.daemon_sets.put_answer(set)));
            }
            Answer::Is(Kind::EndpointSlice, object) => {
                let change = typed(*object).and_then(|slice| self.slices.put_answer(slice));
                change.iter().for_each(|change| self.slice(change, dirty));
            }
            Answer::Gone(Kind::Pod, namespace, name, uid) => {
                let same =
                    self.pods.get(&namespace, &name).is_some_and(|pod| pod.uid().as_ref() == Some(&uid));
                let change = same.then(|| self.pods.remove(&(namespace, name))).flatten();
                change.iter().for_each(|change| self.pod(change, dirty));
            }
            Answer::Bound(namespace, name, uid, node) => {
                let pod = self.pods.get(&namespace, &name).filter(|pod| pod.uid().as_ref() == Some(&uid));
                let bound = pod.map(|pod| {
                    let mut pod = Pod::clone(pod);
                    pod.spec.get_or_insert_default().node_name = Some(node);
                    pod
                });
                let change = bound.map(|pod| self.pods.replace(pod));
                change.iter().for_each(|change| self.pod(change, dirty));
            }
            // The watch tells of the others.
            Answer::Gone(..) => {}
        }
    }

    fn pod(&mut self, change: &Change<Pod>, dirty: &mut BTreeSet<Item>) {
        for (pod, there) in [(&change.before, false), (&change.after, true)] {
            let Some(pod) = pod else { continue };
            let key = key_of(pod.as_ref());
            if let Some(owner) = controller_of(&pod.metadata) {
                index(&mut self.pods_by_controller, owner.uid.clone(), &key, there);
                let item = match owner.kind.as_str() {
                    "ReplicaSet" => Some(Item::ReplicaSet(key.0.clone(), owner.name.clone())),
                    "DaemonSet" => Some(Item::DaemonSet(key.0.clone(), owner.name.clone())),
                    _ => None,
                };
                dirty.extend(item);
            }
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|n| !n.is_empty());
            let over = is_over(pod);
            match node {
                Some(node) => {
                    index(&mut self.pods_by_node, node, &key, there);
                    self.unbound.remove(&key);
                }
                // On its way to a node already; what becomes of it is known when the binding is done.
                None if self.assumed.iter().any(|(assumed, _)| *assumed == key) => {}
                None if there && !over && pod.metadata.deletion_timestamp.is_none() => {
                    self.unbound.insert(key.clone());
                    dirty.insert(Item::Binding);
                }
                None => {
                    self.unbound.remove(&key);
                }
            }
            let labels = pod.labels();
            for service in self.services.of_namespace(&key.0) {
                let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                if selector.is_some_and(|selector| selects(selector, labels)) {
                    dirty.insert(Item::Service(key.0.clone(), service.name_any()));
                }
            }
        }
        // A pod that ended makes room.
        if change.after.as_ref().is_none_or(|pod| is_over(pod)) && !self.unbound.is_empty() {
            dirty.insert(Item::Binding);
        }
    }

    fn node(&mut self, change: &Change<Node>, dirty: &mut BTreeSet<Item>) {
        let looks = |node: &Arc<Node>| {
            let spec = node.spec.clone().unwrap_or_default();
            (node.labels().clone(), spec.taints, spec.unschedulable)
        };
        let node = change.after.as_ref().or(change.before.as_ref());
        dirty.extend(node.map(|node| Item::Node(node.name_any())));
        if change.before.as_ref().map(looks) != change.after.as_ref().map(looks) {
            dirty.insert(Item::Binding);
            dirty.extend(self.daemon_sets.iter().map(|set| {
                let (namespace, name) = key_of(set.as_ref());
                Item::DaemonSet(namespace, name)
            }));
        }
    }

    fn replica_set(&mut self, change: &Change<ReplicaSet>, dirty: &mut BTreeSet<Item>) {
        for (set, there) in [(&change.before, false), (&change.after, true)] {
            let Some(set) = set else { continue };
            let key = key_of(set.as_ref());
            if let Some(owner) = controller_of(&set.metadata) {
                index(&mut self.sets_by_controller, owner.uid.clone(), &key, there);
                dirty.insert(Item::Deployment(key.0.clone(), owner.name.clone()));
            }
        }
        mark(change, dirty, Item::ReplicaSet);
    }

    fn slice(&mut self, change: &Change<EndpointSlice>, dirty: &mut BTreeSet<Item>) {
        for (slice, there) in [(&change.before, false), (&change.after, true)] {
            let Some(slice) = slice else { continue };
            let Some(service) = slice.labels().get(super::slices::SERVICE) else { continue };
            let key = key_of(slice.as_ref());
            let service = (key.0.clone(), service.clone());
            index(&mut self.slices_by_service, service.clone(), &key, there);
            dirty.insert(Item::Service(service.0, service.1));
        }
    }

    /// Takes a binding for done before it is: the next look must not take the same place twice.
    pub(crate) fn assume(&mut self, key: &Key, node: &str) {
        index(&mut self.pods_by_node, node.to_owned(), key, true);
        self.unbound.remove(key);
        self.assumed.push((key.clone(), node.to_owned()));
    }

    /// Takes back bindings that were taken for done and were not.
    pub(crate) fn settle(&mut self, dirty: &mut BTreeSet<Item>) {
        for (key, node) in std::mem::take(&mut self.assumed) {
            let pod = self.pods.get(&key.0, &key.1);
            let is = pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()).filter(|node| !node.is_empty());
            if is.as_ref() == Some(&node) {
                continue;
            }
            index(&mut self.pods_by_node, node, &key, false);
            if pod.is_some_and(|pod| !is_over(pod) && pod.metadata.deletion_timestamp.is_none())
                && is.is_none()
            {
                self.unbound.insert(key);
                dirty.insert(Item::Binding);
            }
        }
    }
}

fn mark<K: Resource>(change: &Change<K>, dirty: &mut BTreeSet<Item>, item: impl Fn(String, String) -> Item) {
    let object = change.after.as_ref().or(change.before.as_ref());
    dirty.extend(object.map(|object| {
        let (namespace, name) = key_of(object.as_ref());
        item(namespace, name)
    }));
}

fn index<I: Ord + Clone>(by: &mut BTreeMap<I, BTreeSet<Key>>, id: I, key: &Key, there: bool) {
    if there {
        by.entry(id).or_default().insert(key.clone());
    } else if let Some(keys) = by.get_mut(&id) {
        keys.remove(key);
        if keys.is_empty() {
            by.remove(&id);
        }
    }
}

/// Whether a pod has run its course.
pub(crate) fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether a pod says it is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn typed<K: DeserializeOwned>(object: DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}
