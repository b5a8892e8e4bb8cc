//! A controller as one writes it for a cluster: a custom resource, a child it owns, a finalizer, a status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

/// How many requests are under way at once.
const AT_ONCE: usize = 24;
/// How long any one stage may take. On a busy machine the real server needs a minute for the longest.
const PATIENCE: Duration = Duration::from_secs(300);
const FINALIZER: &str = "ferries.example.com/moored";

fn ferries() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.com", "v1", "Ferry"), "ferries")
}

fn definition() -> CustomResourceDefinition {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ferries.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Ferry", "listKind": "FerryList", "plural": "ferries", "singular": "ferry"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"cargo": {"type": "string"}}},
                        "status": {"type": "object", "properties": {"delivered": {"type": "string"}}},
                    },
                }},
            }],
        },
    });
    serde_json::from_value(definition).expect("a definition")
}

/// What the reconciler has seen, and somebody to tell.
struct Log {
    client: Client,
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Seen {
    delivered: BTreeSet<String>,
    cleaned: BTreeSet<String>,
    /// How often each child was written.
    written: BTreeMap<String, usize>,
}

#[derive(Debug, thiserror::Error)]
enum Sunk {
    #[error("writing the child of a ferry")]
    Child(#[source] kube::Error),
    #[error("writing the status of a ferry")]
    Status(#[source] kube::Error),
}

impl Log {
    fn note(&self, what: impl FnOnce(&mut Seen)) {
        what(&mut self.seen.lock().expect("nobody panicked"));
        self.changed.send_replace(());
    }

    /// Waits for a fact about what was seen.
    async fn until(&self, what: &str, fact: impl Fn(&Seen) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                changed.mark_unchanged();
                if fact(&self.seen.lock().expect("nobody panicked")) {
                    return;
                }
                changed.changed().await.expect("the log outlives the wait");
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            let seen = self.seen.lock().expect("nobody panicked");
            panic!("{what}: {} delivered, {} cleaned up", seen.delivered.len(), seen.cleaned.len());
        }
    }

    async fn deliver(&self, ferry: &DynamicObject) -> Result<Action, Sunk> {
        let (namespace, name) = (ferry.namespace().unwrap_or_default(), ferry.name_any());
        let cargo = ferry.data["spec"]["cargo"].as_str().unwrap_or_default();
        let owner = ferry.controller_owner_ref(&ferries()).expect("a stored object has a uid");
        let child = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "data": {"cargo": cargo},
        });
        let children: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let apply = PatchParams::apply("crew").force();
        children.patch(&name, &apply, &Patch::Apply(&child)).await.map_err(Sunk::Child)?;
        self.note(|seen| *seen.written.entry(name.clone()).or_default() += 1);
        if ferry.data["status"]["delivered"] != cargo {
            let status = json!({"status": {"delivered": cargo}});
            let ferries = Api::<DynamicObject>::namespaced_with(self.client.clone(), &namespace, &ferries());
            match ferries.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await {
                // It went while we were at it: there is nothing left to report on.
                Err(kube::Error::Api(refused)) if refused.code == 404 => {}
                other => drop(other.map_err(Sunk::Status)?),
            }
        }
        self.note(|seen| {
            seen.delivered.insert(name);
        });
        Ok(Action::await_change())
    }
}

async fn reconcile(
    ferry: Arc<DynamicObject>,
    log: Arc<Log>,
) -> Result<Action, kube::runtime::finalizer::Error<Sunk>> {
    let namespace = ferry.namespace().unwrap_or_default();
    let api = Api::<DynamicObject>::namespaced_with(log.client.clone(), &namespace, &ferries());
    finalizer(&api, FINALIZER, ferry, |event| async {
        match event {
            Event::Apply(ferry) => log.deliver(&ferry).await,
            Event::Cleanup(ferry) => {
                log.note(|seen| {
                    seen.cleaned.insert(ferry.name_any());
                });
                Ok(Action::await_change())
            }
        }
    })
    .await
}

/// Runs the controller over `many` objects: all are reconciled, children are watched, deletion is seen.
pub(crate) async fn put_to_work(client: Client, many: usize) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.expect("the definition");
    let established = await_condition(definitions, "ferries.example.com", conditions::is_crd_established());
    timeout(PATIENCE, established).await.expect("established in time").expect("established");

    let api = Api::<DynamicObject>::default_namespaced_with(client.clone(), &ferries());
    let children: Api<ConfigMap> = Api::default_namespaced(client.clone());
    stream::iter(0..many)
        .map(|nth| {
            let mut ferry = DynamicObject::new(&format!("ferry-{nth}"), &ferries());
            ferry.data = json!({"spec": {"cargo": format!("cargo {nth}")}});
            let api = api.clone();
            async move { api.create(&PostParams::default(), &ferry).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .expect("the objects");

    let log =
        Arc::new(Log { client: client.clone(), seen: Mutex::default(), changed: watch::Sender::new(()) });
    let config = kube::runtime::controller::Config::default().concurrency(AT_ONCE as u16);
    let running = tokio::spawn(
        Controller::new_with(api.clone(), watcher::Config::default(), ferries())
            .owns(children.clone(), watcher::Config::default())
            .with_config(config)
            .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), log.clone())
            .for_each(|_| async {}),
    );
    log.until("every object is reconciled", |seen| seen.delivered.len() == many).await;
    every_object_is_as_the_controller_leaves_it(&api, &children, many).await;

    // A child somebody deletes comes back: the controller watches what it owns.
    let before = log.seen.lock().expect("nobody panicked").written["ferry-7"];
    let first = children.get("ferry-7").await.expect("the child").metadata.uid;
    children.delete("ferry-7", &DeleteParams::default()).await.expect("deleting a child");
    log.until("a deleted child is written again", |seen| seen.written["ferry-7"] > before).await;
    wait_for(&children, "ferry-7", "another child in its place", |child| {
        child.is_some_and(|child| child.metadata.uid != first)
    })
    .await;

    // An owner that goes takes its child along, after the controller has let it go.
    api.delete("ferry-0", &DeleteParams::default()).await.expect("deleting an owner");
    log.until("a deletion is seen", |seen| seen.cleaned.contains("ferry-0")).await;
    wait_for(&children, "ferry-0", "the end of the child", |child| child.is_none()).await;

    stream::iter(1..many)
        .map(|nth| {
            let api = api.clone();
            async move { api.delete(&format!("ferry-{nth}"), &DeleteParams::default()).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
        .expect("deleting them all");
    log.until("every deletion is seen", |seen| seen.cleaned.len() == many).await;
    for last in api.list(&ListParams::default()).await.expect("a list").items {
        let (name, uid) = (last.name_any(), last.uid().unwrap_or_default());
        let gone = await_condition(api.clone(), &name, conditions::is_deleted(&uid));
        timeout(PATIENCE, gone).await.expect("they go once they are let go").expect("they go");
    }
    assert_eq!(api.list(&ListParams::default()).await.expect("a list").items.len(), 0);
    running.abort();
}

async fn every_object_is_as_the_controller_leaves_it(
    api: &Api<DynamicObject>,
    children: &Api<ConfigMap>,
    many: usize,
) {
    let listed = api.list(&ListParams::default()).await.expect("the objects").items;
    assert_eq!(listed.len(), many);
    let children = children.list(&ListParams::default()).await.expect("the children").items;
    let cargo: BTreeMap<String, (Option<String>, Option<String>)> = children
        .into_iter()
        .map(|child| {
            let owner = child.owner_references().first().map(|owner| owner.uid.clone());
            (child.name_any(), (child.data.and_then(|mut data| data.remove("cargo")), owner))
        })
        .collect();
    for ferry in listed {
        let (wanted, name) = (ferry.data["spec"]["cargo"].as_str(), ferry.name_any());
        assert_eq!(ferry.data["status"]["delivered"].as_str(), wanted, "{name}");
        assert_eq!(ferry.finalizers(), [FINALIZER], "{name}");
        let (carried, owner) = cargo.get(&name).unwrap_or_else(|| panic!("{name} has no child"));
        assert_eq!((carried.as_deref(), owner), (wanted, &ferry.meta().uid), "{name}");
    }
}

async fn wait_for(
    children: &Api<ConfigMap>,
    name: &str,
    what: &'static str,
    fact: impl Fn(Option<&ConfigMap>) -> bool,
) {
    let wait = await_condition(children.clone(), name, fact);
    timeout(PATIENCE, wait).await.expect(what).expect(what);
}
