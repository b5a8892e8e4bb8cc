//! Which pods are bound to this node, and one worker for each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, watcher::DefaultBackoff};

use super::Context;
use super::pod::Worker;
use crate::node::Report;

/// A connection that died without a word is noticed after this long.
const WATCH_SECONDS: u32 = 45;

/// The pods of this node, by uid.
pub(super) struct Pods {
    context: Arc<Context>,
    workers: Mutex<BTreeMap<String, Worker>>,
}

impl Pods {
    pub(super) fn new(context: Arc<Context>) -> Pods {
        Pods { context, workers: Mutex::default() }
    }

    /// The process that leads into a pod.
    pub(super) fn process_of(&self, pod: &str) -> Result<Vec<i32>, String> {
        let workers = self.workers();
        let named: Vec<&Worker> = workers.values().filter(|worker| worker.is_called(pod)).collect();
        let mut running = named.iter().filter_map(|worker| worker.process());
        match (running.next(), running.next()) {
            (Some(pid), None) => Ok(vec![pid]),
            (Some(_), Some(_)) => Err(format!("there is more than one pod {pod}")),
            (None, _) => Err(format!("no container of pod {pod} runs here")),
        }
    }

    /// Ends all pods, keeping what the API knows of them.
    pub(super) async fn shut_down(&self, grace: Duration) {
        let workers = std::mem::take(&mut *self.workers());
        futures::future::join_all(workers.into_values().map(|worker| worker.shut_down(grace))).await;
    }

    fn put(&self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        // A runtime of another class is somebody else's: nodes here have none.
        if pod.spec.as_ref().is_some_and(|spec| spec.runtime_class_name.is_some()) {
            return;
        }
        let mut workers = self.workers();
        workers.retain(|_, worker| !worker.is_done());
        match workers.get(&uid) {
            Some(worker) => worker.tell(pod),
            // One that is over already, of a time before this boot, has nothing to run; it may have to be removed.
            None => {
                workers.insert(uid, Worker::start(self.context.clone(), pod));
            }
        }
        self.context.reporter.say(&Report::Pods(workers.len()));
    }

    fn gone(&self, uid: &str) {
        if let Some(worker) = self.workers().get(uid) {
            worker.tell_gone();
        }
    }

    fn only(&self, there: &BTreeSet<String>) {
        for (uid, worker) in self.workers().iter() {
            if !there.contains(uid) {
                worker.tell_gone();
            }
        }
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the pods bound to this node, for ever. While the API is away they stay as they are.
pub(super) async fn follow(pods: Arc<Pods>) {
    let api: Api<Pod> = Api::all(pods.context.client.clone());
    let config = watcher::Config::default()
        .fields(&format!("spec.nodeName={}", pods.context.spec.name))
        .timeout(WATCH_SECONDS);
    let events = watcher(api, config).backoff(DefaultBackoff::default());
    futures::pin_mut!(events);
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.extend(pod.metadata.uid.clone());
                pods.put(pod);
            }
            Ok(Event::InitDone) => pods.only(&listed),
            Ok(Event::Apply(pod)) => pods.put(pod),
            Ok(Event::Delete(pod)) => pods.gone(pod.metadata.uid.as_deref().unwrap_or_default()),
            Err(error) => tracing::debug!(%error, "following pods"),
        }
    }
}
