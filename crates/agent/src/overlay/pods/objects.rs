//! Pods in the API, as far as attaching them needs it.
//!
//! Only the pods of this node are followed, however many the cluster has.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::PodNetworks;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::net::Addresses;
use netferry_translate::pod::{has_ended, reported, runtime_uid};
use tokio::sync::watch;

use crate::pause::Patience;

/// How long to trust the watch before asking the API itself.
const WATCH_FIRST: Duration = Duration::from_millis(500);
/// How long one question to the API may take.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// Why a pod is not known.
#[derive(Debug, thiserror::Error)]
pub enum PodMissing {
    /// The API does not have it, or not yet.
    #[error("the API does not have pod {0}")]
    NotFound(ObjectName),
    /// The API has another of that name.
    #[error("pod {pod} in the API has UID {found}, the container was started for {wanted}")]
    Replaced {
        /// Which pod.
        pod: ObjectName,
        /// The UID in the API.
        found: String,
        /// The UID the runtime was told.
        wanted: String,
    },
    /// The API does not answer.
    #[error("the API does not answer for pod {pod}")]
    Unreachable {
        /// Which pod.
        pod: ObjectName,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why a pod's annotation was not written.
#[derive(Debug, thiserror::Error)]
#[error("writing annotation {key} of pod {pod}", key = PodNetworks::KEY)]
pub struct NotAnnotated {
    /// Which pod.
    pub pod: ObjectName,
    /// Whether the pod itself is gone.
    pub gone: bool,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// The API's pods of this node.
pub trait PodObjects: Send + Sync + 'static {
    /// The pod of this name, and of this UID if the runtime says which. Waits for an API that is behind, for so long.
    fn find(
        &self,
        pod: ObjectName,
        uid: Option<String>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Arc<Pod>, PodMissing>>;

    /// The addresses that pods of this node carry, except those of ended pods and of the pod with this UID. Waits until all
    /// pods are known.
    fn addresses<'a>(&'a self, except: &'a str) -> BoxFuture<'a, BTreeSet<IpAddr>>;

    /// The pod of this name and UID, as the API last showed it and with what was written to it since.
    fn shown(&self, pod: &ObjectName, uid: &str) -> Option<Arc<Pod>>;

    /// Says that the API shows something new of the pods of this node, and at first that it shows what it does.
    fn news(&self) -> BoxStream<'static, ()>;

    /// Writes what a pod's network is; never onto another pod of the same name.
    fn annotate<'a>(
        &'a self,
        pod: &'a Pod,
        networks: &'a PodNetworks,
    ) -> BoxFuture<'a, Result<(), NotAnnotated>>;
}

/// The pods of one node, followed by a watch of their own.
pub struct ApiPods {
    client: kube::Client,
    known: watch::Sender<Option<Known>>,
    /// What was written and has not come back by the watch yet, by UID. Without it a second attempt would not know of
    /// the address the first one gave, and give another. Whatever stays here keeps its addresses from others for ever.
    written: Mutex<HashMap<String, PodNetworks>>,
}

/// The pods, each with the addresses it keeps from others: read once, when it changes, and not whenever one is chosen.
type Known = BTreeMap<ObjectName, (Arc<Pod>, Vec<IpAddr>)>;

/// All pods, while they are being listed.
#[derive(Default)]
struct Listing {
    pods: Known,
    /// What had been written when the list was asked for, of pods it has not named so far. Those it never names are gone.
    missing: HashSet<String>,
}

impl ApiPods {
    /// Follows the pods of a node; the future is to be run for as long as anybody asks.
    pub fn new(client: kube::Client, node: &NodeName) -> (Arc<ApiPods>, impl Future<Output = ()> + use<>) {
        let pods = Arc::new(ApiPods {
            client: client.clone(),
            known: watch::Sender::new(None),
            written: Mutex::default(),
        });
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let follower = Arc::clone(&pods);
        let follow = async move {
            let stream = watcher(Api::<Pod>::all(client), config).default_backoff();
            let mut stream = std::pin::pin!(stream);
            let mut listing = Listing::default();
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => follower.take(event, &mut listing),
                    // The watcher itself begins again, later and later.
                    Err(error) => tracing::debug!(%error, "following the pods of this node"),
                }
            }
        };
        (pods, follow)
    }

    fn take(&self, event: watcher::Event<Pod>, listing: &mut Listing) {
        let keyed = |pod: Pod| {
            let carried = carried(&pod);
            (netferry_translate::object_name(&pod.metadata), (Arc::new(pod), carried))
        };
        match event {
            watcher::Event::Init => {
                let missing = self.written().keys().cloned().collect();
                *listing = Listing { pods: Known::new(), missing };
            }
            watcher::Event::InitApply(pod) => {
                listing.missing.remove(pod.metadata.uid.as_deref().unwrap_or_default());
                self.came_back(&pod);
                listing.pods.extend([keyed(pod)]);
            }
            watcher::Event::InitDone => {
                let Listing { pods, missing } = std::mem::take(listing);
                self.written().retain(|uid, _| !missing.contains(uid));
                self.known.send_replace(Some(pods));
            }
            watcher::Event::Apply(pod) => {
                self.came_back(&pod);
                self.known.send_modify(|known| known.get_or_insert_default().extend([keyed(pod)]));
            }
            watcher::Event::Delete(pod) => {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                self.written().remove(&uid);
                self.known.send_modify(|known| {
                    known.get_or_insert_default().remove(&keyed(pod).0);
                });
            }
        }
    }

    /// What was written to a pod need not be remembered once the watch shows it; nor of a pod that has ended, whose
    /// addresses are others' to have.
    fn came_back(&self, pod: &Pod) {
        if has_ended(pod) || is_annotated(pod) {
            self.written().remove(pod.metadata.uid.as_deref().unwrap_or_default());
        }
    }

    fn written(&self) -> std::sync::MutexGuard<'_, HashMap<String, PodNetworks>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, name: &ObjectName, uid: Option<&str>) -> Option<Arc<Pod>> {
        let (pod, _) = self.known.borrow().as_ref()?.get(name).cloned()?;
        uid.is_none_or(|uid| is_of(&pod, uid)).then_some(pod)
    }

    /// With what we wrote ourselves, should the watch not show it yet.
    fn with_written(&self, pod: Arc<Pod>) -> Arc<Pod> {
        let written = self.written();
        let networks = written.get(pod.metadata.uid.as_deref().unwrap_or_default());
        let Some(networks) = networks.filter(|_| !is_annotated(&pod)) else { return pod };
        let mut pod = Arc::unwrap_or_clone(pod);
        pod.metadata.annotations.get_or_insert_default().extend([networks.entry()]);
        Arc::new(pod)
    }

    async fn ask(&self, name: &ObjectName) -> Result<Option<Pod>, PodMissing> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &name.namespace);
        let unreachable = |source| PodMissing::Unreachable { pod: name.clone(), source };
        match tokio::time::timeout(ASK_LIMIT, api.get_opt(&name.name)).await {
            Ok(Ok(pod)) => Ok(pod),
            Ok(Err(error)) => Err(unreachable(error.into())),
            Err(elapsed) => Err(unreachable(elapsed.into())),
        }
    }

    async fn find(&self, name: ObjectName, uid: Option<String>) -> Result<Arc<Pod>, PodMissing> {
        let mut known = self.known.subscribe();
        let shown = async {
            loop {
                known.borrow_and_update();
                if let Some(pod) = self.seen(&name, uid.as_deref()) {
                    return pod;
                }
                if known.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        if let Ok(pod) = tokio::time::timeout(WATCH_FIRST, shown).await {
            return Ok(pod);
        }
        let pod = self.ask(&name).await?.ok_or_else(|| PodMissing::NotFound(name.clone()))?;
        match uid {
            Some(wanted) if !is_of(&pod, &wanted) => {
                let found = pod.metadata.uid.unwrap_or_default();
                Err(PodMissing::Replaced { pod: name, found, wanted })
            }
            Some(_) | None => Ok(Arc::new(pod)),
        }
    }
}

/// Whether a pod has this UID: in the API, or with its runtime.
pub(super) fn is_of(pod: &Pod, uid: &str) -> bool {
    pod.metadata.uid.as_deref() == Some(uid) || runtime_uid(pod) == uid
}

impl PodObjects for ApiPods {
    fn find(
        &self,
        pod: ObjectName,
        uid: Option<String>,
        within: Duration,
    ) -> BoxFuture<'_, Result<Arc<Pod>, PodMissing>> {
        async move {
            let deadline = tokio::time::Instant::now() + within;
            loop {
                match self.find(pod.clone(), uid.clone()).await {
                    Ok(found) => return Ok(self.with_written(found)),
                    // The API itself says that there is another: it will not change its mind.
                    Err(error @ PodMissing::Replaced { .. }) => return Err(error),
                    Err(error) if tokio::time::Instant::now() >= deadline => return Err(error),
                    Err(_) => {}
                }
            }
        }
        .boxed()
    }

    fn addresses<'a>(&'a self, except: &'a str) -> BoxFuture<'a, BTreeSet<IpAddr>> {
        async move {
            let mut known = self.known.subscribe();
            let known = known.wait_for(Option::is_some).await.expect("the sender is this very value");
            let others = known.iter().flat_map(BTreeMap::values);
            let others = others.filter(|(pod, _)| pod.metadata.uid.as_deref() != Some(except));
            let mut found: BTreeSet<IpAddr> = others.flat_map(|(_, carried)| carried).copied().collect();
            let written = self.written();
            let others = written.iter().filter(|(uid, _)| *uid != except);
            found.extend(others.flat_map(|(_, networks)| addresses_in(networks)));
            found
        }
        .boxed()
    }

    fn shown(&self, pod: &ObjectName, uid: &str) -> Option<Arc<Pod>> {
        self.seen(pod, Some(uid)).map(|pod| self.with_written(pod))
    }

    fn news(&self) -> BoxStream<'static, ()> {
        let mut known = self.known.subscribe();
        known.mark_changed();
        let next = async |mut known: watch::Receiver<_>| known.changed().await.ok().map(|()| ((), known));
        futures::stream::unfold(known, next).boxed()
    }

    fn annotate<'a>(
        &'a self,
        pod: &'a Pod,
        networks: &'a PodNetworks,
    ) -> BoxFuture<'a, Result<(), NotAnnotated>> {
        async move {
            let name = netferry_translate::object_name(&pod.metadata);
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let (key, value) = networks.entry();
            // The UID makes the API refuse it for another pod of the same name.
            let patch = serde_json::json!({ "metadata": { "uid": uid, "annotations": { key: value } } });
            let api = Api::<Pod>::namespaced(self.client.clone(), &name.namespace);
            let failed = |gone, source| NotAnnotated { pod: name.clone(), gone, source };
            let params = PatchParams::default();
            let patch = Patch::Merge(&patch);
            let mut patience = Patience::default();
            let patched = async {
                loop {
                    match api.patch(&name.name, &params, &patch).await {
                        // Busy, and nothing refused: the runtime would only begin anew.
                        Err(kube::Error::Api(status)) if matches!(status.code, 429 | 503 | 504) => {}
                        answer => return answer,
                    }
                    tokio::time::sleep(patience.next().unwrap_or_default()).await;
                }
            };
            match tokio::time::timeout(ASK_LIMIT, patched).await {
                Ok(Ok(_)) => {
                    self.written().insert(uid, networks.clone());
                    Ok(())
                }
                Ok(Err(error)) => {
                    let gone = matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409));
                    Err(failed(gone, error.into()))
                }
                Err(elapsed) => Err(failed(false, elapsed.into())),
            }
        }
        .boxed()
    }
}

/// The addresses a pod keeps from others: those it claims and those its kubelet reports, until it has ended. A tenant
/// may write any number of them into an annotation. Only as many as a pod can have count, otherwise one pod would take
/// all addresses of the node.
fn carried(pod: &Pod) -> Vec<IpAddr> {
    if has_ended(pod) {
        return Vec::new();
    }
    let annotations = pod.metadata.annotations.as_ref();
    let networks = annotations.and_then(|all| PodNetworks::read(all).ok().flatten());
    let claimed = networks.as_ref().and_then(|networks| Addresses::from_addresses(addresses_in(networks)));
    claimed.iter().flat_map(Addresses::iter).chain(reported(pod)).collect()
}

fn is_annotated(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PodNetworks::KEY))
}

fn addresses_in(networks: &PodNetworks) -> Vec<IpAddr> {
    let network = networks.default_network();
    network.into_iter().flat_map(|network| network.addresses()).map(|net| net.addr()).collect()
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
