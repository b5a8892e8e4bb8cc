//! Writers of every sort, and the axe.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::TypeMeta;
use kube::{Client, Config};
use netferry_testkit::wait::until;
use serde_json::{Value, json};

use crate::common;
use crate::ledger::{Asked, Ledger, Place, mark, revision};
use crate::lot::Lot;

const KILLS: u32 = 20;
const WRITERS: u64 = 4;
/// The namespace the storm is in.
const HERE: &str = "default";
/// How long a namespace may take to go after a restart: it lingers for a while after its content has gone.
const NAMESPACE_GONE_WITHIN: Duration = Duration::from_secs(30);

/// The kinds that are written, and where they are.
const KINDS: [(&str, &str, &str, bool); 4] = [
    ("", "v1", "ConfigMap", true),
    ("", "v1", "Pod", true),
    ("storm.example.com", "v1", "Gust", true),
    ("", "v1", "Namespace", false),
];

struct Harbour {
    client: Client,
}

impl Harbour {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version, kind, namespaced) =
            KINDS.into_iter().find(|(_, _, known, _)| *known == kind).expect("one of the kinds");
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespaced {
            Api::namespaced_with(self.client.clone(), HERE, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }
}

fn told(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("an object is JSON")
}

fn body(kind: &'static str, name: &str, mark: &str) -> Value {
    let mut object =
        json!({"kind": kind, "apiVersion": "v1", "metadata": {"name": name, "annotations": {"mark": mark}}});
    match kind {
        "ConfigMap" => object["data"] = json!({"mark": mark, "quoted": "line\n\"break\"\\ \u{e9}\u{1f300}"}),
        "Pod" => object["spec"] = json!({"containers": [{"name": "c", "image": "i"}]}),
        "Gust" => {
            object["apiVersion"] = json!("storm.example.com/v1");
            object["spec"] = json!({"speed": mark.len()});
        }
        _ => {}
    }
    object
}

/// One writer: what it may do next depends on what it was told of its own objects.
struct Writer {
    name: String,
    lot: Lot,
    count: u32,
    mine: BTreeMap<Place, Value>,
}

impl Writer {
    /// Writes until the server is gone.
    async fn storm(mut self, harbour: Arc<Harbour>, ledger: Arc<Mutex<Ledger>>) {
        while self.write(&harbour, &ledger).await.is_some() {}
    }

    fn mark(&mut self) -> String {
        self.count += 1;
        format!("{}-{}", self.name, self.count)
    }

    /// One write; nothing when it was not answered.
    async fn write(&mut self, harbour: &Harbour, ledger: &Mutex<Ledger>) -> Option<()> {
        let kind = ["ConfigMap", "ConfigMap", "Pod", "Gust"][self.lot.below(4) as usize];
        let of_this_kind: Vec<Place> = self.mine.keys().filter(|(of, _)| *of == kind).cloned().collect();
        if of_this_kind.len() < 3 || self.lot.below(4) == 0 {
            let name = self.mark();
            return self.put(harbour, ledger, (kind, name.clone()), name).await;
        }
        let place = of_this_kind[self.lot.below(of_this_kind.len() as u64) as usize].clone();
        if self.lot.below(4) == 0 {
            return self.remove(harbour, ledger, place).await;
        }
        let mark = self.mark();
        self.put(harbour, ledger, place, mark).await
    }

    /// Creates or changes an object in one of the ways there are.
    async fn put(
        &mut self,
        harbour: &Harbour,
        ledger: &Mutex<Ledger>,
        place: Place,
        mark: String,
    ) -> Option<()> {
        let (kind, name) = (place.0, place.1.as_str());
        let api = harbour.api(kind);
        let as_storm = PatchParams::apply("storm").force();
        told(ledger).ask(&place, Asked::Mark(mark.clone()));
        let answer = match self.mine.get(&place) {
            None if self.lot.below(3) == 0 => {
                api.patch(name, &as_storm, &Patch::Apply(body(kind, name, &mark))).await
            }
            None => {
                let object = serde_json::from_value(body(kind, name, &mark)).expect("an object");
                api.create(&PostParams::default(), &object).await
            }
            Some(current) => match self.lot.below(4) {
                0 => {
                    let mut object = current.clone();
                    object["metadata"]["annotations"]["mark"] = json!(mark);
                    let object = serde_json::from_value(object).expect("an object");
                    api.replace(name, &PostParams::default(), &object).await
                }
                1 => {
                    let patch = json!({"metadata": {"annotations": {"mark": mark}}});
                    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
                }
                2 if kind != "Gust" => {
                    let patch = json!({"metadata": {"annotations": {"mark": mark}}});
                    api.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await
                }
                _ => api.patch(name, &as_storm, &Patch::Apply(body(kind, name, &mark))).await,
            },
        };
        let object = answered(answer)?;
        let object = plain(&object);
        told(ledger).answer(&place, Some(&object)).expect("no contradiction");
        self.mine.insert(place, object);
        Some(())
    }

    async fn remove(&mut self, harbour: &Harbour, ledger: &Mutex<Ledger>, place: Place) -> Option<()> {
        told(ledger).ask(&place, Asked::Gone);
        let options = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        answered(harbour.api(place.0).delete(&place.1, &options).await)?;
        told(ledger).answer(&place, None).expect("no contradiction");
        self.mine.remove(&place);
        Some(())
    }
}

/// What the server said. A server that is gone says nothing; one that refuses has not understood the storm.
fn answered<T>(answer: kube::Result<T>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(kube::Error::Api(status)) => panic!("refused: {status:?}"),
        Err(_) => None,
    }
}

/// Shows the ledger everything a watch sees, until the server is gone.
async fn watch(harbour: Arc<Harbour>, ledger: Arc<Mutex<Ledger>>, kind: &'static str, from: String) {
    let Ok(stream) = harbour.api(kind).watch(&WatchParams::default(), &from).await else { return };
    let mut stream = std::pin::pin!(stream);
    while let Ok(Some(event)) = stream.try_next().await {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                told(&ledger).show(&plain(&object)).expect("no contradiction");
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => panic!("a watch from now on was refused: {status:?}"),
        }
    }
}

/// The server under the storm: always the same files, always the same address.
struct Ship {
    dir: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

impl Ship {
    fn launch(dir: &Path) -> Ship {
        // At an address of its own: while it is sunk, a connection of whoever looks for it at 127.0.0.1 could be given
        // its port.
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = std::net::Ipv4Addr::new(127, 128 | high, low, 1);
        let free = std::net::TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr());
        let mut ship = Ship { dir: dir.to_owned(), address: free.expect("a free port"), child: None };
        ship.refloat();
        ship
    }

    fn spawn(&self) -> Child {
        let kept = ["--data", "data.log", "--tls-dir", "tls", "--kubeconfig-out", "kubeconfig"];
        let mut command = common::command(&self.dir, &self.address.to_string(), &kept);
        command.stdout(Stdio::piped()).spawn().expect("the binary under test runs")
    }

    /// Starts and waits until it serves.
    fn refloat(&mut self) {
        let mut child = self.spawn();
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), format!("serving https://{}", self.address));
        self.child = Some(child);
    }

    /// Kills with -9.
    fn sink(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server is killed");
            child.wait().expect("the server ends");
        }
    }
}

impl Drop for Ship {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn client(dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).expect("the server wrote it");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is usable")).expect("a client")
}

/// The objects of a kind as listed, and the revision of the list.
async fn listed(harbour: &Harbour, kind: &str) -> (BTreeMap<String, Value>, u64) {
    let list = harbour.api(kind).list(&ListParams::default()).await.expect("the server answers again");
    let types = list.types.clone();
    let at = list.metadata.resource_version.and_then(|text| text.parse().ok()).expect("a revision");
    let objects = list.items.into_iter().map(|mut object| {
        object.types = object.types.or_else(|| item_types(kind, &types));
        let object = plain(&object);
        (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object)
    });
    (objects.collect(), at)
}

/// Items of a built-in list do not say what they are; answers and watches do.
fn item_types(kind: &str, list: &TypeMeta) -> Option<TypeMeta> {
    Some(TypeMeta { api_version: list.api_version.clone(), kind: kind.to_owned() })
}

/// Everything a restarted server is held to.
async fn audit(harbour: &Harbour, ledger: &Mutex<Ledger>) {
    let highest = told(ledger).highest();
    for kind in ["ConfigMap", "Pod", "Gust"] {
        let (mut stored, at) = listed(harbour, kind).await;
        stored.retain(|_, object| !mark(object).is_empty());
        assert!(at >= highest, "a list of {kind} at {at}, after {highest} was shown");
        told(ledger).audit(kind, &stored).expect("no contradiction");
    }
    // A position from before the kill is either served or said to have expired.
    let stream =
        harbour.api("ConfigMap").watch(&WatchParams::default().timeout(1), &highest.to_string()).await;
    let mut stream = std::pin::pin!(stream.expect("the server answers"));
    match stream.try_next().await.expect("a watch") {
        Some(WatchEvent::Error(status)) => assert_eq!(status.code, 410, "{status:?}"),
        Some(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
            assert!(revision(&plain(&object)) > highest);
        }
        Some(WatchEvent::Bookmark(_)) | None => {}
    }
}

/// Owners and namespaces whose end has consequences: they are drawn, if need be by the next server.
async fn leave_consequences(harbour: &Harbour, life: u32, ledger: &Mutex<Ledger>) -> Option<()> {
    let name = format!("doomed-{life}");
    let maps = harbour.api("ConfigMap");
    let map = |name: &str, owners: Value| -> DynamicObject {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": {"name": name, "ownerReferences": owners}});
        serde_json::from_value(object).expect("an object")
    };
    let owner = answered(maps.create(&PostParams::default(), &map(&name, json!([]))).await)?;
    let uid = owner.metadata.uid.expect("a uid");
    for n in 0..5 {
        let owned = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}]);
        answered(maps.create(&PostParams::default(), &map(&format!("{name}-{n}"), owned)).await)?;
    }
    let namespace = serde_json::from_value(body("Namespace", &name, "")).expect("an object");
    answered(harbour.api("Namespace").create(&PostParams::default(), &namespace).await)?;
    answered(harbour.api("Namespace").delete(&name, &DeleteParams::default()).await)?;
    answered(maps.delete(&name, &DeleteParams::default()).await)?;
    told(ledger).answers += 1;
    Some(())
}

async fn consequences_are_drawn(harbour: &Harbour) {
    let (maps, _) = listed(harbour, "ConfigMap").await;
    let uids: BTreeSet<&str> = maps.values().filter_map(|map| map["metadata"]["uid"].as_str()).collect();
    for map in maps.values() {
        if let Some(owner) = map["metadata"]["ownerReferences"][0]["uid"].as_str() {
            assert!(uids.contains(owner), "its owner is gone, but not {map}");
        }
    }
    let ended = until("namespaces that are to end do", async || {
        let (namespaces, _) = listed(harbour, "Namespace").await;
        let ending: Vec<&String> = namespaces
            .iter()
            .filter(|(_, namespace)| namespace["metadata"]["deletionTimestamp"].is_string())
            .map(|(name, _)| name)
            .collect();
        if ending.is_empty() { Ok(()) } else { Err(format!("{ending:?}")) }
    });
    tokio::time::timeout(NAMESPACE_GONE_WITHIN, ended).await.expect("namespaces end");
}

async fn define_gusts(client: &Client) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gusts.storm.example.com"},
        "spec": {
            "group": "storm.example.com", "scope": "Namespaced", "names": {"plural": "gusts", "kind": "Gust"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"speed": {"type": "integer"}}}},
            }}}],
        },
    });
    let definition: DynamicObject = serde_json::from_value(definition).expect("an object");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    api.create(&PostParams::default(), &definition).await.expect("a definition");
}

/// A token of the default service account, and a client that has nothing else.
async fn token_client(client: &Client, address: SocketAddr) -> Client {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), HERE);
    let request = TokenRequest {
        spec: TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() },
        ..TokenRequest::default()
    };
    let request = accounts.create_token_request("default", &PostParams::default(), &request).await;
    let token = request.expect("a token").status.expect("a status").token;
    let mut config = Config::new(format!("https://{address}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.into());
    Client::try_from(config).expect("a client")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_no_revision_is_reused_when_a_server_is_killed_20_times() {
    let mut lot = Lot::of_this_run();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut ship = Ship::launch(dir.path());
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    // Made once: the credentials of the first start have to be good for all of them.
    let harbour = Arc::new(Harbour { client: client(dir.path()).await });
    define_gusts(&harbour.client).await;
    let by_token = token_client(&harbour.client, ship.address).await;

    for life in 1..=KILLS {
        let from = listed(&harbour, "ConfigMap").await.1.to_string();
        let mut tasks: Vec<_> = ["ConfigMap", "Pod", "Gust"]
            .map(|kind| tokio::spawn(watch(harbour.clone(), ledger.clone(), kind, from.clone())))
            .into();
        for writer in 0..WRITERS {
            let name = format!("w{writer}-{life}");
            let writer = Writer { name, lot: lot.split(), count: 0, mine: BTreeMap::new() };
            tasks.push(tokio::spawn(writer.storm(harbour.clone(), ledger.clone())));
        }
        let (doomed, book) = (harbour.clone(), ledger.clone());
        tasks.push(tokio::spawn(async move {
            leave_consequences(&doomed, life, &book).await;
        }));
        // The axe falls after a few answers, and then at any instruction.
        let enough = told(&ledger).answers + 10 + lot.below(400);
        while told(&ledger).answers < enough {
            assert!(tasks.iter().any(|task| !task.is_finished()), "nobody writes any more");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(lot.below(5_000))).await;
        ship.sink();
        for task in tasks {
            task.await.unwrap_or_else(|panic| panic!("in life {life}: {panic}"));
        }
        // Sometimes it does not even come up: killed while it reads, or rewrites, its file.
        for _ in 0..lot.below(3) {
            let mut child = ship.spawn();
            tokio::time::sleep(Duration::from_micros(lot.below(60_000))).await;
            child.kill().expect("the server is killed");
            child.wait().expect("the server ends");
        }
        ship.refloat();
        audit(&harbour, &ledger).await;
    }
    consequences_are_drawn(&harbour).await;
    by_token.apiserver_version().await.expect("a token outlives its server");
    let ledger = told(&ledger);
    assert!(ledger.answers > u64::from(KILLS) * 10);
    assert!(ledger.acknowledged.values().any(Option::is_none), "some deletions were acknowledged");
    println!("{} answers, revision {}", ledger.answers, ledger.highest());
}
