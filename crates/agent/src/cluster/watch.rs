//! One kind of object, followed.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource};
use netferry_core::name::ObjectName;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::zone::{Heard, Kind};

/// Objects per page of a list: a page is in memory as a whole.
const PAGE: u32 = 200;
/// Objects told at once.
const AT_ONCE: usize = 256;
/// Between attempts to see whether an API that lacks objects is the one we know.
const DOUBT: Duration = Duration::from_secs(2);

/// How one kind of object is read.
pub(super) trait Reader: Send + 'static {
    /// The object as it is in the API.
    type Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static;
    /// What the zone calls the kind.
    const KIND: Kind;
    /// What an object that is there means.
    fn there(&mut self, object: &Self::Object) -> Vec<Heard>;
    /// What it means that it is gone.
    fn gone(&mut self, name: ObjectName) -> Vec<Heard>;
}

/// Follows a kind until nobody listens.
pub(super) async fn follow<R: Reader>(
    client: kube::Client,
    me: String,
    mut reader: R,
    heard: mpsc::Sender<Heard>,
    first_list: tokio::sync::oneshot::Sender<()>,
) where
    <R::Object as Resource>::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
{
    let config = watcher::Config::default().page_size(PAGE);
    let events = watch(Api::<R::Object>::all(client.clone()), config).backoff(Patience::default());
    let mut events = std::pin::pin!(events.ready_chunks(AT_ONCE));
    let mut first_list = Some(first_list);
    let mut list = List::None;
    let mut trouble = false;
    let nodes = Api::<Node>::all(client);
    loop {
        let chunk = tokio::select! {
            chunk = events.next() => chunk,
            seen = confirmed(&list, &nodes, &me, R::KIND) => {
                list = List::None;
                if heard.send(Heard::Only(R::KIND, seen)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(chunk) = chunk else { return };
        let mut news = Vec::new();
        for event in chunk {
            match event {
                Ok(Event::Init) => list = List::Growing(HashSet::new()),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    list.add(&name_of(&object));
                    news.extend(reader.there(&object));
                }
                Ok(Event::Delete(object)) => news.extend(reader.gone(name_of(&object))),
                Ok(Event::InitDone) => {
                    if trouble {
                        tracing::info!(kind = ?R::KIND, "the API answers again");
                    }
                    trouble = false;
                    list = match (std::mem::take(&mut list), first_list.take()) {
                        // Nothing was known before: there is nothing to take away.
                        (_, Some(first)) => {
                            for one in std::mem::take(&mut news) {
                                if heard.send(one).await.is_err() {
                                    return;
                                }
                            }
                            let _ = first.send(());
                            List::None
                        }
                        (List::Growing(seen), None) => List::Doubted(seen),
                        (other, None) => other,
                    };
                }
                Err(error) => {
                    if !trouble {
                        let error = &error as &(dyn std::error::Error + Send + Sync);
                        tracing::warn!(kind = ?R::KIND, error = error as &dyn std::error::Error, "the API does not answer; nothing changes until it does");
                    }
                    trouble = true;
                }
            }
        }
        for one in news {
            if heard.send(one).await.is_err() {
                return;
            }
        }
    }
}

/// A new list, while it is not known yet whether to believe it.
#[derive(Default)]
enum List {
    #[default]
    None,
    /// It is still being told.
    Growing(HashSet<u64>),
    /// It was told, and what it lacks may be gone.
    Doubted(HashSet<u64>),
}

impl List {
    fn add(&mut self, name: &ObjectName) {
        match self {
            List::None => {}
            List::Growing(seen) | List::Doubted(seen) => drop(seen.insert(fingerprint(name))),
        }
    }
}

/// Waits until a new list can be believed. An API that has lost this node has lost its memory, or is another
/// cluster's: what it does not list is not gone for that.
async fn confirmed(list: &List, nodes: &Api<Node>, me: &str, kind: Kind) -> HashSet<u64> {
    let List::Doubted(seen) = list else { return std::future::pending().await };
    if kind == Kind::Node {
        if !seen.contains(&fingerprint(&ObjectName::new("", me))) {
            tracing::error!(node = me, "the API lists no such node; taking nothing away");
            return std::future::pending().await;
        }
        return seen.clone();
    }
    loop {
        match nodes.get_metadata_opt(me).await {
            Ok(Some(_)) => return seen.clone(),
            Ok(None) => tracing::error!(node = me, ?kind, "the API knows no such node; taking nothing away"),
            Err(_) => {}
        }
        tokio::time::sleep(DOUBT).await;
    }
}

/// Names by their hash: of tens of thousands that are seen and forgotten a collision would at worst keep one object
/// that is gone until it is seen to be.
pub(crate) fn fingerprint(name: &ObjectName) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn name_of<K: Resource>(object: &K) -> ObjectName {
    netferry_translate::object_name(object.meta())
}

/// Waiting between attempts: short at first, because servers restart; spread, because many agents wait.
pub(crate) struct Patience {
    next: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { next: Duration::from_millis(100) }
    }
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.next = (now * 2).min(Duration::from_secs(5));
        let share = uuid::Uuid::new_v4().as_u64_pair().0 % 512;
        Some(now * (512 + share as u32) / 1024)
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        *self = Patience::default();
    }
}
