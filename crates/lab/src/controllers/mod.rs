//! What kube-controller-manager and kube-scheduler would do, for the embedded API server, which has neither.
//!
//! Replicas ([`replicas`], [`rollout`]), one pod per node ([`daemons`]), the endpoints of Services ([`slices`]), binding
//! ([`scheduler`]) and the life of nodes ([`nodes`]): the part of it that pods of a lab meet. Not here, and nobody
//! pretends it were: Jobs, StatefulSets, preemption, resource requests, volumes.
//!
//! One [`cache`] of the cluster, kept by watches; every change marks what it concerns, and only that is looked at
//! again. A look is a function from the cache to [writes](write), so that it can be tried without a server. What a
//! write answers goes into the cache at once: a second look does not create what the first has created already.
//!
//! When the API is gone, watches and failed writes are tried again; nothing is remembered that a new start would miss.

mod cache;
mod daemons;
mod fit;
mod nodes;
mod replicas;
mod rollout;
mod scheduler;
mod slices;
mod template;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::StreamExt;
use kube::Client;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use cache::Cache;
pub use nodes::Patience;
use write::{Done, Writer};

/// How long after a failed write its cause is looked at again.
const RETRY: Duration = Duration::from_millis(500);
/// How often what only time brings is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Something that is looked at as a whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Item {
    /// A Deployment, by namespace and name.
    Deployment(String, String),
    /// A ReplicaSet.
    ReplicaSet(String, String),
    /// A DaemonSet.
    DaemonSet(String, String),
    /// The endpoints of a Service.
    Service(String, String),
    /// A node's conditions and taints, and what follows for its pods.
    Node(String),
    /// Pods that wait for a node.
    Binding,
}

/// Runs the controllers until the future is dropped.
pub async fn run(client: Client, patience: Patience) {
    let (done, mut finished) = mpsc::unbounded_channel();
    let writer = Writer::new(client.clone(), done);
    let mut events = cache::watches(&client);
    let mut brain = Brain::new(writer, patience);
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let retry = brain.retries.values().min().copied();
        let retry = async {
            match retry {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(event) = events.next() => {
                brain.see(event);
                // What came together is looked at together.
                while let Some(Some(event)) = events.next().now_or_never() {
                    brain.see(event);
                }
            }
            Some(done) = finished.recv() => {
                brain.finish(done);
                while let Ok(done) = finished.try_recv() {
                    brain.finish(done);
                }
            }
            _ = tick.tick() => brain.tick(),
            () = retry => {}
        }
        brain.work();
    }
}

struct Brain {
    cache: Cache,
    writer: Writer,
    dirty: BTreeSet<Item>,
    /// Items whose writes are on their way; looked at again when they are done.
    busy: BTreeSet<Item>,
    retries: BTreeMap<Item, Instant>,
    nodes: nodes::Watchman,
}

impl Brain {
    fn new(writer: Writer, patience: Patience) -> Brain {
        Brain {
            cache: Cache::default(),
            writer,
            dirty: BTreeSet::new(),
            busy: BTreeSet::new(),
            retries: BTreeMap::new(),
            nodes: nodes::Watchman::new(patience),
        }
    }

    fn see(&mut self, event: cache::Seen) {
        if matches!(event, cache::Seen::Deaf) {
            self.nodes.was_deaf(Instant::now());
        }
        self.cache.see(event, &mut self.dirty);
    }

    fn finish(&mut self, done: Done) {
        for answer in done.answers {
            self.cache.fold(answer, &mut self.dirty);
        }
        if done.item == Item::Binding {
            self.cache.settle(&mut self.dirty);
        }
        self.busy.remove(&done.item);
        if done.failed {
            self.retries.insert(done.item, Instant::now() + RETRY);
        } else {
            self.dirty.insert(done.item);
        }
    }

    fn tick(&mut self) {
        self.nodes.tick(&self.cache, Instant::now(), &mut self.dirty);
    }

    /// Looks at everything that was marked and is not busy.
    fn work(&mut self) {
        // Before all lists are in, what is missing may only not have been heard of yet.
        if !self.cache.complete() {
            return;
        }
        let now = Instant::now();
        self.retries.retain(|item, at| {
            let due = *at <= now;
            if due {
                self.dirty.insert(item.clone());
            }
            !due
        });
        let ready: Vec<Item> = self.dirty.difference(&self.busy).cloned().collect();
        for item in ready {
            self.dirty.remove(&item);
            let writes = match &item {
                Item::Deployment(namespace, name) => rollout::look(&self.cache, namespace, name),
                Item::ReplicaSet(namespace, name) => replicas::look(&self.cache, namespace, name),
                Item::DaemonSet(namespace, name) => daemons::look(&self.cache, namespace, name),
                Item::Service(namespace, name) => slices::look(&self.cache, namespace, name),
                Item::Node(name) => self.nodes.look(&self.cache, name, now),
                Item::Binding => scheduler::look(&mut self.cache),
            };
            if !writes.is_empty() {
                self.busy.insert(item.clone());
                self.writer.send(item, writes);
            }
        }
    }
}

#[cfg(test)]
mod testing;
