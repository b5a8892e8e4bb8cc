//! A server killed with -9 in the middle of a storm of writes, again and again.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::Server;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use nix::sys::signal::Signal;
use tokio::sync::Semaphore;

const KILLS: u32 = 20;
const WRITERS: u32 = 4;

/// What the server has told its clients, which is what it may not forget.
#[derive(Default)]
struct Told {
    /// By name: the revision acknowledged last, or nothing for an object whose deletion was.
    objects: BTreeMap<String, Option<u64>>,
    /// Objects with a write whose answer never came: they may be as before or as after it.
    unanswered: BTreeMap<String, Write>,
    /// Every revision handed out for a write.
    revisions: BTreeSet<u64>,
}

#[derive(Clone, Copy)]
enum Write {
    Put,
    Delete,
}

impl Told {
    fn written(&mut self, name: &str, revision: u64) {
        assert!(self.revisions.insert(revision), "revision {revision} was handed out twice, now for {name}");
        self.objects.insert(name.to_owned(), Some(revision));
    }
}

fn revision_of(object: &ConfigMap) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).expect("a number")
}

async fn client(dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).expect("the server wrote it");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is usable")).expect("a client")
}

/// Creates, replaces and sometimes deletes until the server is gone.
async fn storm(api: Api<ConfigMap>, told: Arc<Mutex<Told>>, answered: Arc<Semaphore>, prefix: String) {
    let ask = |name: &str, write: Write| {
        told.lock().expect("no writer panicked").unanswered.insert(name.to_owned(), write);
    };
    let record = |name: &str, act: &mut dyn FnMut(&mut Told)| {
        let mut told = told.lock().expect("no writer panicked");
        told.unanswered.remove(name);
        act(&mut told);
        answered.add_permits(1);
    };
    for n in 0.. {
        let name = format!("{prefix}-{n}");
        ask(&name, Write::Put);
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.clone());
        let Ok(mut object) = api.create(&PostParams::default(), &object).await else { return };
        record(&name, &mut |told| told.written(&name, revision_of(&object)));

        ask(&name, Write::Put);
        object.data = Some(BTreeMap::from([("written".to_owned(), "twice".to_owned())]));
        let Ok(object) = api.replace(&name, &PostParams::default(), &object).await else { return };
        record(&name, &mut |told| told.written(&name, revision_of(&object)));

        if n % 3 == 2 {
            ask(&name, Write::Delete);
            if api.delete(&name, &DeleteParams::default()).await.is_err() {
                return;
            }
            record(&name, &mut |told| {
                told.objects.insert(name.clone(), None);
            });
        }
    }
}

/// Holds what the server has against what it told.
async fn verify(api: &Api<ConfigMap>, told: &Mutex<Told>, kill: u32) {
    let list = api.list(&ListParams::default()).await.expect("the server answers again");
    let stored: BTreeMap<String, u64> = list.items.iter().map(|o| (o.name_any(), revision_of(o))).collect();
    let told = told.lock().expect("no writer panicked");
    for (name, acknowledged) in &told.objects {
        let found = stored.get(name).copied();
        let as_it_may_be = match told.unanswered.get(name) {
            None => found == *acknowledged,
            Some(Write::Put) => found >= *acknowledged,
            Some(Write::Delete) => found.is_none() || found == *acknowledged,
        };
        assert!(as_it_may_be, "kill {kill}: {name} was acknowledged at {acknowledged:?} and is at {found:?}");
    }
    for (name, revision) in &stored {
        let known = !name.starts_with("storm-")
            || told.objects.contains_key(name)
            || told.unanswered.contains_key(name);
        assert!(known, "kill {kill}: nobody wrote {name} at {revision}");
    }
    let listed: u64 = list.metadata.resource_version.and_then(|v| v.parse().ok()).expect("a number");
    assert!(told.revisions.last().is_none_or(|last| *last <= listed), "kill {kill}: the revision went back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_no_revision_is_reused_when_a_server_is_killed_20_times() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let kept = ["--data", "data.log", "--tls-dir", "tls", "--kubeconfig-out", "kubeconfig"];
    let told = Arc::new(Mutex::new(Told::default()));
    let mut acknowledged = 0;
    for kill in 0..KILLS {
        let server = Server::start(dir.path(), "127.0.0.1:0", &kept);
        let api: Api<ConfigMap> = Api::namespaced(client(dir.path()).await, "default");
        verify(&api, &told, kill).await;

        let answered = Arc::new(Semaphore::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let prefix = format!("storm-{kill}-{writer}");
                tokio::spawn(storm(api.clone(), told.clone(), answered.clone(), prefix))
            })
            .collect();
        // A different number each time, so that the axe falls at different places.
        let writes = 20 + kill;
        answered.acquire_many(writes).await.expect("the semaphore is not closed").forget();
        server.end_with(Signal::SIGKILL);
        for writer in writers {
            writer.await.expect("a writer ends because the server did");
        }
        acknowledged += writes;
    }
    let _server = Server::start(dir.path(), "127.0.0.1:0", &kept);
    let api: Api<ConfigMap> = Api::namespaced(client(dir.path()).await, "default");
    verify(&api, &told, KILLS).await;
    let told = told.lock().expect("no writer panicked");
    assert!(told.revisions.len() >= usize::try_from(acknowledged).expect("small") / 2);
    assert!(told.objects.values().any(Option::is_none), "some objects were deleted");
}
