//! A cluster in process for the operator: the embedded API server with our definitions, operators with lines that can
//! be held, and a historian who sees every version of every node.

// Each test program uses its own part of this.
#![allow(dead_code)]

pub(crate) mod blows;
pub(crate) mod budget;
pub(crate) mod chance;
pub(crate) mod crowd;
pub(crate) mod fleet;
pub(crate) mod machine;
pub(crate) mod site;
pub(crate) mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use ipnet::IpNet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{LeadershipMark, NodeId, NodeSubnets};
use netferry_api::overlay::{ConfigNetwork, OperatorCondition, OperatorNetwork};
use netferry_apiserver::{ApiServer, Settings};
use netferry_operator::lead::Timing;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt;

/// How long anything may take, in virtual time.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) historian: Historian,
    /// How long operators' leases last, and how often they are renewed.
    pub(crate) timing: Timing,
}

impl Cluster {
    /// A cluster that knows our kinds and has neither nodes nor a network.
    pub(crate) async fn new() -> Cluster {
        let server = ApiServer::open(Settings::default()).expect("a server in memory opens");
        let client = Client::new(server.router(), "default");
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        for (_, text) in netferry_api::crds() {
            let definition = serde_saphyr::from_str(&text).expect("a definition");
            api.create(&PostParams::default(), &definition).await.expect("a definition");
        }
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
        let ours = serde_json::from_value(json!({"metadata": {"name": "netferry"}})).expect("a namespace");
        namespaces.create(&PostParams::default(), &ours).await.expect("a namespace");
        let historian = Historian::start(client.clone()).await;
        Cluster { server, client, historian, timing: Timing::default() }
    }

    /// As [`Cluster::new`], with a network of 256 nodes.
    pub(crate) async fn usual() -> Cluster {
        let cluster = Cluster::new().await;
        cluster.ask(network(&[("10.244.0.0/16", 24)], &["10.96.0.0/16"])).await;
        cluster
    }

    /// Asks for a network.
    pub(crate) async fn ask(&self, spec: Value) {
        self.ask_with(&[], spec).await;
    }

    /// Asks for a network, by annotations too.
    pub(crate) async fn ask_with(&self, annotations: &[(&str, &str)], spec: Value) {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let object = json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "Network",
            "metadata": {"name": "cluster", "annotations": annotations}, "spec": spec,
        });
        let api: Api<OperatorNetwork> = Api::all(self.client.clone());
        let apply = PatchParams::apply("somebody").force();
        api.patch("cluster", &apply, &Patch::Apply(&object)).await.expect("a network");
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// A node with an address.
    pub(crate) async fn join(&self, name: &str) {
        self.join_with(name, &[]).await;
    }

    /// A node with an address and annotations.
    pub(crate) async fn join_with(&self, name: &str, annotations: &[(&str, &str)]) {
        let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
        let node = json!({
            "metadata": {"name": name, "annotations": annotations},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.30.0.2"}]},
        });
        let node = serde_json::from_value(node).expect("a node");
        self.nodes().create(&PostParams::default(), &node).await.expect("a node");
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "172.30.0.2"}]}});
        let patch = PatchParams::default();
        self.nodes().patch_status(name, &patch, &Patch::Merge(&status)).await.expect("an address");
    }

    pub(crate) async fn remove(&self, name: &str) {
        self.nodes().delete(name, &DeleteParams::default()).await.expect("a deletion");
    }

    /// Somebody writes to a node by hand.
    pub(crate) async fn scribble(&self, node: &str, key: &str, value: Value) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.nodes().patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("a patch");
    }

    pub(crate) async fn annotations(&self, node: &str) -> BTreeMap<String, String> {
        self.nodes().get(node).await.expect("the node").annotations().clone()
    }

    /// Id and subnets of every node that has both.
    pub(crate) async fn places(&self) -> BTreeMap<String, (u32, String)> {
        let nodes = self.nodes().list(&ListParams::default()).await.expect("a list");
        let place = |node: &Node| {
            let id = NodeId::read(node.annotations()).ok().flatten()?;
            let nets = NodeSubnets::read(node.annotations()).ok().flatten()?;
            let nets: Vec<String> = nets.default_network().iter().map(IpNet::to_string).collect();
            Some((node.name_any(), (*id.get(), nets.join(","))))
        };
        nodes.items.iter().filter_map(place).collect()
    }

    pub(crate) async fn network(&self) -> OperatorNetwork {
        Api::all(self.client.clone()).get("cluster").await.expect("the network")
    }

    pub(crate) async fn condition(&self, kind: &str) -> Option<OperatorCondition> {
        let status = self.network().await.status.unwrap_or_default();
        status.conditions.into_iter().find(|condition| condition.type_ == kind)
    }

    /// Waits until a condition has this status, and returns reason and message.
    pub(crate) async fn until_condition(&self, kind: &str, status: &str) -> (String, String) {
        let what = format!("{kind} is {status}");
        let condition = self
            .until(&what, async || self.condition(kind).await.filter(|condition| condition.status == status))
            .await;
        (condition.reason.unwrap_or_default(), condition.message.unwrap_or_default())
    }

    pub(crate) async fn published(&self) -> Option<ConfigNetwork> {
        Api::all(self.client.clone()).get_opt("cluster").await.expect("an answer")
    }

    /// Waits until every node has its place, as many as are said.
    pub(crate) async fn until_placed(&self, nodes: usize) -> BTreeMap<String, (u32, String)> {
        self.until(&format!("{nodes} nodes have their places"), async || {
            Some(self.places().await).filter(|places| places.len() == nodes)
        })
        .await
    }

    /// What was told, by the names of the Events: about what, why, and the note.
    pub(crate) async fn told(&self) -> BTreeMap<String, (String, String, String)> {
        let api: Api<k8s_openapi::api::events::v1::Event> = Api::all(self.client.clone());
        let events = api.list(&ListParams::default()).await.expect("a list").items;
        let said = |event: k8s_openapi::api::events::v1::Event| {
            let name = event.name_any();
            let about = event.regarding.unwrap_or_default();
            let about = format!("{} {}", about.kind.unwrap_or_default(), about.name.unwrap_or_default());
            (name, (about, event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
        };
        events.into_iter().map(said).collect()
    }

    /// Reasons and notes of the Events about an object.
    pub(crate) async fn events(&self, kind: &str, name: &str) -> Vec<(String, String)> {
        let api: Api<k8s_openapi::api::events::v1::Event> = Api::all(self.client.clone());
        let events = api.list(&ListParams::default()).await.expect("a list").items;
        let about = |event: &&k8s_openapi::api::events::v1::Event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            regarding.kind.as_deref() == Some(kind) && regarding.name.as_deref() == Some(name)
        };
        let told = events.iter().filter(about);
        told.map(|event| (event.reason.clone().unwrap_or_default(), event.note.clone().unwrap_or_default()))
            .collect()
    }

    pub(crate) async fn lease(&self) -> Option<Lease> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), "netferry");
        api.get_opt("netferry-operator").await.expect("an answer")
    }

    /// Waits for something, looking again and again: time is virtual and costs nothing.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!("never happened: {what}; places: {:?}", self.places().await),
        }
    }

    /// An operator with a line of its own to the server.
    pub(crate) fn operator(&self, name: &str) -> Operator {
        let overlay = netferry_operator::overlay::Settings::default();
        Operator::start(&self.server, name, self.timing, overlay, None)
    }

    /// One that answers what it measures at this address.
    pub(crate) fn operator_at(&self, name: &str, listen: SocketAddr) -> Operator {
        let overlay = netferry_operator::overlay::Settings::default();
        Operator::start(&self.server, name, self.timing, overlay, Some(listen))
    }
}

/// A network with these ranges.
pub(crate) fn network(cluster: &[(&str, u8)], service: &[&str]) -> Value {
    let entries: Vec<Value> =
        cluster.iter().map(|(cidr, prefix)| json!({"cidr": cidr, "hostPrefix": prefix})).collect();
    json!({"clusterNetwork": entries, "serviceNetwork": service})
}

/// An operator in a task of its own.
pub(crate) struct Operator {
    pub(crate) line: Line,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Operator {
    pub(crate) fn start(
        server: &ApiServer,
        name: &str,
        timing: Timing,
        overlay: netferry_operator::overlay::Settings,
        listen: Option<SocketAddr>,
    ) -> Operator {
        let line = Line::default();
        let client = line.client(server);
        let settings = netferry_operator::Settings {
            namespace: "netferry".into(),
            identity: name.into(),
            timing,
            overlay,
            rollout: netferry_operator::rollout::Settings::default(),
            listen,
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                if stopped.await.is_err() {
                    std::future::pending().await
                }
            };
            netferry_operator::run(client, settings, stopped).await;
        });
        Operator { line, stop: Some(stop), task }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(mut self) {
        let _ = self.stop.take().expect("it is asked once").send(());
        (&mut self.task).await.expect("it ends in peace");
    }

    /// Ends it without a goodbye.
    pub(crate) fn kill(self) {}
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Held = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// A line to the server on which requests can be held: sent, and not arrived.
///
/// A request that is held arrives once it is let go, even if nobody waits for its answer any more.
#[derive(Clone)]
pub(crate) struct Line {
    held: watch::Sender<Held>,
    waiting: watch::Sender<usize>,
}

impl Default for Line {
    fn default() -> Line {
        let nothing: Held = Arc::new(|_: &str, _: &str| false);
        Line { held: watch::Sender::new(nothing), waiting: watch::Sender::new(0) }
    }
}

impl Line {
    /// Holds the requests this says true of, by method and path; the method of one that watches is `WATCH`.
    pub(crate) fn hold(&self, which: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
        self.held.send_replace(Arc::new(which));
    }

    pub(crate) fn let_go(&self) {
        self.hold(|_, _| false);
    }

    /// Waits until so many requests are held.
    pub(crate) async fn until_held(&self, requests: usize) {
        let mut waiting = self.waiting.subscribe();
        let enough = waiting.wait_for(|waiting| *waiting >= requests);
        timeout(PATIENCE, enough).await.expect("requests come").expect("the line is there");
    }

    /// Waits until none is.
    pub(crate) async fn until_none_is_held(&self) {
        let mut waiting = self.waiting.subscribe();
        let none = waiting.wait_for(|waiting| *waiting == 0);
        timeout(PATIENCE, none).await.expect("requests go").expect("the line is there");
    }

    pub(crate) fn client(&self, server: &ApiServer) -> Client {
        let (router, line) = (server.router(), self.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (router, line) = (router.clone(), line.clone());
            let sent = tokio::spawn(async move {
                let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
                let method = if watches { "WATCH".to_owned() } else { request.method().to_string() };
                let path = request.uri().path().to_owned();
                let mut held = line.held.subscribe();
                if (held.borrow_and_update())(&method, &path) {
                    line.waiting.send_modify(|waiting| *waiting += 1);
                    let go = held.wait_for(|held| !held(&method, &path)).await.map(|_| ());
                    go.expect("the line is there");
                    let answer = router.oneshot(request).await;
                    line.waiting.send_modify(|waiting| *waiting -= 1);
                    return answer;
                }
                router.oneshot(request).await
            });
            async move { sent.await.expect("the server does not panic") }
        });
        Client::new(service, "default")
    }
}

/// Sees every version of every node, and what was never to be.
#[derive(Clone)]
pub(crate) struct Historian {
    record: Arc<Mutex<Record>>,
}

/// Takes every version down. What a server has forgotten it cannot tell any more; then what there is now is looked at, so
/// that two who got the same meanwhile are found out all the same.
async fn follow(api: &Api<Node>, mut events: Versions, record: &Mutex<Record>) {
    let mut position = String::from("0");
    loop {
        let mut forgotten = false;
        while let Some(event) = events.next().await {
            let mut record = record.lock().expect("nobody panicked");
            match event {
                Ok(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                    position = node.resource_version().unwrap_or_default();
                    record.see(node);
                }
                Ok(WatchEvent::Deleted(node)) => {
                    position = node.resource_version().unwrap_or_default();
                    record.nodes.remove(&node.name_any());
                }
                Ok(WatchEvent::Bookmark(_)) => {}
                Ok(WatchEvent::Error(status)) => forgotten |= status.code == 410,
                // Cut off: the rest is asked for again.
                Err(_) => break,
            }
        }
        events = loop {
            if forgotten && let Ok(list) = api.list(&ListParams::default()).await {
                position = list.metadata.resource_version.unwrap_or_default();
                record.lock().expect("nobody panicked").see_all(list.items);
                forgotten = false;
            }
            match versions(api, &position).await {
                Ok(events) if !forgotten => break events,
                Err(kube::Error::Api(status)) => forgotten |= status.code == 410,
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
    }
}

type Versions = BoxStream<'static, kube::Result<WatchEvent<Node>>>;

/// Every version of every node since that one.
async fn versions(api: &Api<Node>, since: &str) -> kube::Result<Versions> {
    Ok(api.watch(&WatchParams::default().timeout(290), since).await?.boxed())
}

#[derive(Default)]
struct Record {
    nodes: BTreeMap<String, Node>,
    wrongs: Vec<String>,
    /// Who wrote a place, in order: node and leadership.
    written: Vec<(String, String)>,
    /// Leaderships, by node, that wrote to it and were followed by another.
    former: BTreeMap<String, BTreeSet<String>>,
}

impl Historian {
    async fn start(client: Client) -> Historian {
        let historian = Historian { record: Arc::default() };
        let api: Api<Node> = Api::all(client);
        let events = versions(&api, "0").await.expect("a watch");
        let record = historian.record.clone();
        tokio::spawn(async move { follow(&api, events, &record).await });
        historian
    }

    /// Panics if two nodes ever had an address or an id in common, or a former leader wrote after its successor.
    pub(crate) fn testify(&self) {
        let record = self.record.lock().expect("nobody panicked");
        assert!(record.wrongs.is_empty(), "{:#?}", record.wrongs);
    }

    /// The terms under which places were written, in order, once for each leadership.
    pub(crate) fn terms(&self) -> Vec<u32> {
        let record = self.record.lock().expect("nobody panicked");
        let mut marks: Vec<&String> = record.written.iter().map(|(_, mark)| mark).collect();
        marks.dedup();
        let term = |mark: &String| mark.split('-').next().and_then(|term| term.parse().ok());
        marks.into_iter().map(|mark| term(mark).expect("a mark begins with a term")).collect()
    }

    /// How often places were written.
    pub(crate) fn writes(&self) -> usize {
        self.record.lock().expect("nobody panicked").written.len()
    }
}

impl Record {
    /// Those there are, and no others.
    fn see_all(&mut self, nodes: Vec<Node>) {
        self.nodes.retain(|name, _| nodes.iter().any(|node| node.name_any() == *name));
        nodes.into_iter().for_each(|node| self.see(node));
    }

    fn see(&mut self, node: Node) {
        let name = node.name_any();
        let mark = |node: &Node| {
            LeadershipMark::read(node.annotations()).ok().flatten().map(|mark| mark.get().clone())
        };
        let before = self.nodes.get(&name).and_then(mark);
        if let (Some(before), Some(now)) = (before, mark(&node))
            && now != before
        {
            let former = self.former.entry(name.clone()).or_default();
            if former.contains(&now) {
                self.wrongs.push(format!("{name}: leadership {now} wrote after {before}, which followed it"));
            }
            former.insert(before);
        }
        let claims = |node: &Node| {
            let keys = [NodeSubnets::KEY, NodeId::KEY];
            keys.map(|key| node.annotations().get(key).cloned())
        };
        if self.nodes.get(&name).map(claims) == Some(claims(&node)) {
            // Whoever claimed the same meanwhile was found out then.
            self.nodes.insert(name, node);
            return;
        }
        self.written.extend(mark(&node).map(|mark| (name.clone(), mark)));
        for other in self.nodes.values().filter(|other| other.name_any() != name) {
            for net in subnets(&node) {
                for theirs in subnets(other) {
                    if net.contains(&theirs) || theirs.contains(&net) {
                        self.wrongs.push(format!("{name} {net} and {} {theirs}", other.name_any()));
                    }
                }
            }
            let id = |node: &Node| NodeId::read(node.annotations()).ok().flatten();
            if id(&node).is_some() && id(&node) == id(other) {
                self.wrongs.push(format!("{name} and {} have one id", other.name_any()));
            }
        }
        self.nodes.insert(name, node);
    }
}

fn subnets(node: &Node) -> Vec<IpNet> {
    let read = NodeSubnets::read(node.annotations()).ok().flatten();
    read.map(|read| read.default_network().to_vec()).unwrap_or_default()
}

/// Waits a stretch of virtual time: everything that is going to happen in it has happened.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Ends a future that must not end before.
pub(crate) async fn bounded<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it ends")
}
