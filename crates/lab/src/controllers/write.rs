//! Writes as data, and those who carry them out.

use std::sync::Arc;

use futures::stream::{self, StreamExt};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use super::Item;

/// How many writes are under way at once, of all items together.
const AT_ONCE: usize = 32;

/// The kinds that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Pod,
    Node,
    ReplicaSet,
    Deployment,
    DaemonSet,
    EndpointSlice,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (group, kind, plural) = match self {
            Kind::Pod => ("", "Pod", "pods"),
            Kind::Node => ("", "Node", "nodes"),
            Kind::ReplicaSet => ("apps", "ReplicaSet", "replicasets"),
            Kind::Deployment => ("apps", "Deployment", "deployments"),
            Kind::DaemonSet => ("apps", "DaemonSet", "daemonsets"),
            Kind::EndpointSlice => ("discovery.k8s.io", "EndpointSlice", "endpointslices"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
    }
}

/// One write.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Write {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    /// Empty where the server gives the name.
    pub(crate) name: String,
    pub(crate) what: What,
}

/// What is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum What {
    Create(Value),
    /// A merge patch. With a resource version in it, it is refused if the object has changed.
    Merge(Value),
    /// A merge patch of the status.
    Status(Value),
    /// Deletes the object of this uid; without a time, as its own grace period says.
    Delete {
        uid: String,
        grace: Option<u32>,
    },
    /// Binds a pod of this uid to a node.
    Bind {
        uid: String,
        node: String,
    },
}

impl Write {
    pub(crate) fn new(kind: Kind, namespace: &str, name: &str, what: What) -> Write {
        Write { kind, namespace: namespace.to_owned(), name: name.to_owned(), what }
    }
}

/// What became of an object.
pub(crate) enum Answer {
    Is(Kind, Box<DynamicObject>),
    /// The object of this uid is gone.
    Gone(Kind, String, String, String),
    /// The pod of this namespace, name and uid is bound to that node.
    Bound(String, String, String, String),
}

/// What became of the writes of an item.
pub(crate) struct Done {
    pub(crate) item: Item,
    pub(crate) answers: Vec<Answer>,
    pub(crate) failed: bool,
}

/// Carries out writes in tasks of their own.
pub(crate) struct Writer {
    client: Client,
    done: mpsc::UnboundedSender<Done>,
    places: Arc<Semaphore>,
}

impl Writer {
    pub(crate) fn new(client: Client, done: mpsc::UnboundedSender<Done>) -> Writer {
        Writer { client, done, places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    pub(crate) fn send(&self, item: Item, writes: Vec<Write>) {
        let (client, done, places) = (self.client.clone(), self.done.clone(), self.places.clone());
        tokio::spawn(async move {
            let mut under_way = stream::iter(writes.into_iter().map(|write| {
                let (client, places) = (client.clone(), places.clone());
                async move {
                    let _place = places.acquire().await.expect("the semaphore is never closed");
                    carry_out(client, write).await
                }
            }))
            .buffer_unordered(AT_ONCE);
            let (mut answers, mut failed) = (Vec::new(), false);
            while let Some(answer) = under_way.next().await {
                match answer {
                    Ok(answer) => answers.extend(answer),
                    Err(()) => failed = true,
                }
            }
            // Whoever is gone does not need to know.
            let _ = done.send(Done { item, answers, failed });
        });
    }
}

async fn carry_out(client: Client, write: Write) -> Result<Option<Answer>, ()> {
    let Write { kind, namespace, name, what } = write;
    let resource = kind.resource();
    let api: Api<DynamicObject> = match kind {
        Kind::Node => Api::all_with(client, &resource),
        Kind::Pod | Kind::ReplicaSet | Kind::Deployment | Kind::DaemonSet | Kind::EndpointSlice => {
            Api::namespaced_with(client, &namespace, &resource)
        }
    };
    let params = PatchParams::default();
    let gone = |uid: String| Some(Answer::Gone(kind, namespace.clone(), name.clone(), uid));
    let is = |object: DynamicObject| Some(Answer::Is(kind, Box::new(object)));
    let answer = match &what {
        What::Create(object) => match serde_json::from_value::<DynamicObject>(object.clone()) {
            Ok(object) => api.create(&PostParams::default(), &object).await.map(is),
            Err(error) => Err(kube::Error::SerdeError(error)),
        },
        What::Merge(patch) => api.patch(&name, &params, &Patch::Merge(patch)).await.map(is),
        What::Status(patch) => api.patch_status(&name, &params, &Patch::Merge(patch)).await.map(is),
        What::Delete { uid, grace } => {
            let params = DeleteParams {
                grace_period_seconds: *grace,
                preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                ..DeleteParams::default()
            };
            let deleted = api.delete(&name, &params).await;
            deleted.map(|answer| answer.either(is, |_| gone(uid.clone())))
        }
        What::Bind { uid, node } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": name, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            let params = PostParams::default();
            let bound = api.create_subresource::<Value, Value>("binding", &name, &params, &binding).await;
            let answer = Answer::Bound(namespace.clone(), name.clone(), uid.clone(), node.clone());
            bound.map(|_| Some(answer))
        }
    };
    match answer {
        Ok(answer) => Ok(answer),
        // What is not there any more, or was changed, is looked at again when the watch has told of it.
        Err(kube::Error::Api(status)) if status.code == 404 => match what {
            What::Delete { uid, .. } => Ok(gone(uid)),
            What::Create(_) | What::Merge(_) | What::Status(_) | What::Bind { .. } => Err(()),
        },
        Err(error) => {
            tracing::debug!(%error, ?kind, namespace, name, "a write of the controllers failed");
            Err(())
        }
    }
}
