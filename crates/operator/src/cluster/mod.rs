//! The watches of one leadership. Each kind is watched once, for all its followers.

mod projection;

use std::sync::Arc;

use futures::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork, SINGLETON};
use netferry_api::rollout::{MachineConfig, MachineConfigPool};
use netferry_core::error::chain;
use tokio::sync::mpsc;
use tracing::warn;

pub(crate) use projection::ProjectedStore;

/// A change of the API.
#[derive(Clone)]
pub(crate) enum Change {
    /// Of nodes.
    Node(Event<Arc<Node>>),
    /// Of MachineConfigs.
    Config(Event<Arc<MachineConfig>>),
    /// Of a MachineConfigPool.
    Pool,
    /// Of the operator's `Network`.
    OperatorNetwork(Event<Arc<OperatorNetwork>>),
    /// Of the cluster's `Network`.
    ConfigNetwork,
}

/// What one follower has not seen yet. Objects are shared between followers; each keeps what it needs of them, so that an
/// object and what was read from it always belong together.
pub(crate) type Changes = mpsc::UnboundedReceiver<Change>;

/// See the [module](self).
pub(crate) struct Cluster {
    streams: SelectAll<BoxStream<'static, Result<Change, watcher::Error>>>,
    followers: Vec<mpsc::UnboundedSender<Change>>,
}

impl Cluster {
    pub(crate) fn new(client: &Client) -> Cluster {
        let all = watcher::Config::default;
        let singleton = || all().fields(&format!("metadata.name={SINGLETON}"));
        let nodes = watcher(Api::<Node>::all(client.clone()), all()).default_backoff();
        let configs = watcher(Api::<MachineConfig>::all(client.clone()), all()).default_backoff();
        let pools = watcher(Api::<MachineConfigPool>::all(client.clone()), all()).default_backoff();
        let operator = watcher(Api::<OperatorNetwork>::all(client.clone()), singleton()).default_backoff();
        let cluster = watcher(Api::<ConfigNetwork>::all(client.clone()), singleton()).default_backoff();
        let streams = select_all([
            nodes.map(|event| event.map(|event| Change::Node(shared(event)))).boxed(),
            configs.map(|event| event.map(|event| Change::Config(shared(event)))).boxed(),
            pools.map(|event| event.map(|_| Change::Pool)).boxed(),
            operator.map(|event| event.map(|event| Change::OperatorNetwork(shared(event)))).boxed(),
            cluster.map(|event| event.map(|_| Change::ConfigNetwork)).boxed(),
        ]);
        Cluster { streams, followers: Vec::new() }
    }

    /// Adds a follower. To be called before [`Cluster::run`], so that each sees everything.
    pub(crate) fn follow(&mut self) -> Changes {
        let (follower, changes) = mpsc::unbounded_channel();
        self.followers.push(follower);
        changes
    }

    /// Watches for as long as it is polled.
    pub(crate) async fn run(mut self) {
        while let Some(change) = self.streams.next().await {
            match change {
                Ok(change) => {
                    for follower in &self.followers {
                        // A follower that has ended needs nothing.
                        let _ = follower.send(change.clone());
                    }
                }
                // The watch is tried again, later and later.
                Err(error) => warn!(error = %chain(&error), "a watch failed"),
            }
        }
    }
}

fn shared<K>(event: Event<K>) -> Event<Arc<K>> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(Arc::new(object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(Arc::new(object)),
        Event::Delete(object) => Event::Delete(Arc::new(object)),
    }
}
