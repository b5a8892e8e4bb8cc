//! One kind of object, followed.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource};
use netferry_core::name::ObjectName;
use netferry_core::overlay::inputs::Kind;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::overlay::ovn::Heard;
use crate::pause::Patience;

/// Objects per page of a list: a page is in memory as a whole.
const PAGE: u32 = 200;
/// Objects told at once.
const AT_ONCE: usize = 256;

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
    /// Only those are there whose names have these fingerprints.
    fn only(&mut self, _seen: &HashSet<u64>) {}
}

/// Follows a kind until nobody listens. `first_list` hears of the first list that can be believed.
pub(super) async fn follow<R: Reader>(
    client: kube::Client,
    me: String,
    reader: R,
    heard: mpsc::Sender<Heard>,
    first_list: oneshot::Sender<()>,
) where
    <R::Object as Resource>::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
{
    let objects = Api::all(client.clone());
    let nodes = Api::all(client);
    let mut follower = Follower { nodes, me, reader, heard, first_list: Some(first_list), trouble: false };
    while follower.listen(objects.clone()).await.is_ok() {}
}

struct Follower<R> {
    nodes: Api<Node>,
    me: String,
    reader: R,
    heard: mpsc::Sender<Heard>,
    first_list: Option<oneshot::Sender<()>>,
    trouble: bool,
}

/// Nobody listens any more.
struct Unheard;

impl<R: Reader> Follower<R>
where
    <R::Object as Resource>::DynamicType: Default + Eq + Hash + Clone + Debug + Unpin,
{
    /// Passes on what the API says, until what it listed turns out not to be this cluster's.
    ///
    /// What a list has is told at once, since it takes nothing away. What it lacks is gone only if the list can be
    /// believed, be it the first or one after the API was away: an API that does not know this node has lost its memory,
    /// or is another cluster's.
    async fn listen(&mut self, objects: Api<R::Object>) -> Result<(), Unheard> {
        let config = watcher::Config::default().page_size(PAGE);
        let events = watch(objects, config).backoff(Patience::default());
        let mut events = std::pin::pin!(events.ready_chunks(AT_ONCE));
        let mut list = List::None;
        // Kept while events come: in a busy cluster they come faster than any answer.
        let mut known = None;
        loop {
            let chunk = tokio::select! {
                chunk = events.next() => chunk.ok_or(Unheard)?,
                known = answer(&mut known) => {
                    // A list of a time when the node was not known is not this cluster's, even if what came after is.
                    if known == Known::Since || !self.credible(&list) {
                        return Ok(());
                    }
                    self.believe(std::mem::take(&mut list)).await?;
                    continue;
                }
            };
            self.tell(chunk, &mut list).await?;
            known = match list {
                List::Doubted(_) => known.or_else(|| Some(self.ask().boxed())),
                List::None | List::Growing(_) => None,
            };
        }
    }

    /// Whether a list of nodes has this one.
    fn credible(&self, list: &List) -> bool {
        let List::Doubted(seen) = list else { return true };
        R::KIND != Kind::Node || seen.contains(&fingerprint(&ObjectName::new("", &self.me)))
    }

    fn ask(&self) -> impl Future<Output = Known> + Send + 'static {
        knows(self.nodes.clone(), self.me.clone(), R::KIND)
    }

    async fn tell(
        &mut self,
        chunk: Vec<watcher::Result<Event<R::Object>>>,
        list: &mut List,
    ) -> Result<(), Unheard> {
        let mut news = Vec::new();
        for event in chunk {
            match event {
                Ok(Event::Init) => *list = List::Growing(HashSet::new()),
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    list.add(&name_of(&object));
                    news.extend(self.reader.there(&object));
                }
                Ok(Event::Delete(object)) => news.extend(self.reader.gone(name_of(&object))),
                Ok(Event::InitDone) => {
                    if std::mem::take(&mut self.trouble) {
                        tracing::info!(kind = ?R::KIND, "the API answers again");
                    }
                    if let List::Growing(seen) = list {
                        *list = List::Doubted(std::mem::take(seen));
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.trouble, true) {
                        let error = &error as &(dyn std::error::Error + Send + Sync);
                        tracing::warn!(kind = ?R::KIND, error = error as &dyn std::error::Error, "the API does not answer; nothing changes until it does");
                    }
                }
            }
        }
        for one in news {
            self.heard.send(one).await.map_err(|_| Unheard)?;
        }
        Ok(())
    }

    async fn believe(&mut self, list: List) -> Result<(), Unheard> {
        let List::Doubted(seen) = list else { return Ok(()) };
        self.reader.only(&seen);
        self.heard.send(Heard::Only(R::KIND, seen)).await.map_err(|_| Unheard)?;
        if let Some(first) = self.first_list.take() {
            // Whoever waits for it may have gone with the session.
            let _ = first.send(());
        }
        Ok(())
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

/// Since when the API knows this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It did when it was asked.
    Always,
    /// It did not, and does now.
    Since,
}

/// Asks until the API knows this node.
async fn knows(nodes: Api<Node>, me: String, kind: Kind) -> Known {
    let mut known = Known::Always;
    let mut pauses = Patience::default();
    loop {
        match nodes.get_metadata_opt(&me).await {
            Ok(Some(_)) => return known,
            Ok(None) => {
                if known == Known::Always {
                    tracing::error!(node = me, ?kind, "the API knows no such node; taking nothing away");
                }
                known = Known::Since;
            }
            Err(_) => {}
        }
        tokio::time::sleep(pauses.pause()).await;
    }
}

/// The answer, if something was asked.
async fn answer(asked: &mut Option<BoxFuture<'static, Known>>) -> Known {
    match asked {
        Some(asking) => {
            let answer = asking.await;
            *asked = None;
            answer
        }
        None => std::future::pending().await,
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
