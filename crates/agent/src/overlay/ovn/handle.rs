//! What others may ask of the zone.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use netferry_core::name::ObjectName;
use netferry_core::overlay::cluster::Pod;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::overlay::pods::{PodPorts, ZoneUnavailable};

/// The zone could not do it now; asking again later is right.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unavailable {
    /// The node has no place in the overlay yet.
    #[error("this node has no subnet yet; is the operator running?")]
    NoPlace,
    /// The cluster is not known yet.
    #[error("the agent has not heard everything of the cluster yet; is the API reachable?")]
    NotYet,
    /// The northbound database did not take it.
    #[error("the northbound database did not take it: {0}")]
    Database(String),
    /// Another object of the cluster claims the same.
    #[error("it is left out of the zone: {0}")]
    LeftOut(String),
    /// The agent is ending.
    #[error("the agent is ending")]
    Ending,
}

/// Where requests come out: at one [`Keeper`](super::Keeper) after the other.
#[derive(Clone, Debug)]
pub struct Requests(pub(super) Arc<Mutex<mpsc::Receiver<Request>>>);

#[derive(Debug)]
pub(super) enum Request {
    Put(Box<Pod>, oneshot::Sender<Result<(), Unavailable>>),
    Remove(ObjectName, String, oneshot::Sender<Result<(), Unavailable>>),
}

/// A handle on the zone; cheap to clone.
#[derive(Clone, Debug)]
pub struct ZoneHandle {
    requests: mpsc::Sender<Request>,
}

impl ZoneHandle {
    /// A handle, and where its requests come out.
    pub fn new() -> (ZoneHandle, Requests) {
        let (requests, receiver) = mpsc::channel(256);
        (ZoneHandle { requests }, Requests(Arc::new(Mutex::new(receiver))))
    }

    /// Commits a pod's port and everything policies say of it, in one transaction; returns when the northbound
    /// database has it.
    pub async fn put(&self, pod: Pod) -> Result<(), Unavailable> {
        self.ask(|answer| Request::Put(Box::new(pod), answer)).await
    }

    /// Withdraws a pod's port, if it is still this UID's.
    pub async fn remove(&self, pod: ObjectName, uid: String) -> Result<(), Unavailable> {
        self.ask(|answer| Request::Remove(pod, uid, answer)).await
    }

    async fn ask(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<(), Unavailable>>) -> Request,
    ) -> Result<(), Unavailable> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| Unavailable::Ending)?;
        answered.await.unwrap_or(Err(Unavailable::Ending))
    }
}

impl PodPorts for ZoneHandle {
    fn put(&self, pod: Pod) -> BoxFuture<'_, Result<(), ZoneUnavailable>> {
        ZoneHandle::put(self, pod).map_err(|why| ZoneUnavailable(why.into())).boxed()
    }

    fn remove(&self, pod: ObjectName, uid: String) -> BoxFuture<'_, Result<(), ZoneUnavailable>> {
        ZoneHandle::remove(self, pod, uid).map_err(|why| ZoneUnavailable(why.into())).boxed()
    }
}
