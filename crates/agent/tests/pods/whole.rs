//! The agent as a whole: its own zone, its own socket, its own announcement.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use netferry_agent::{Config, Paths};
use netferry_apiserver::ApiServer;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::Kernel;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::node::{self, Switch};
use crate::world::{NAMESPACE, NODE, Sandbox, addresses, first_packet_arrives, message};

struct Node {
    host: Arc<Kernel>,
    switch: Switch,
    client: kube::Client,
    agent: Option<Running>,
}

/// An agent on threads inside the node's namespace; gone when dropped, as if killed.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.expect("the agent did not panic");
        }
    }
}

impl Node {
    async fn new() -> Node {
        let host = Arc::new(node::namespace());
        let switch = Switch::start(&host).await;
        let server = ApiServer::open(netferry_apiserver::Settings::default()).unwrap();
        let client = kube::Client::new(server.router(), "default");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for (_, yaml) in netferry_api::crds() {
            let definition = serde_saphyr::from_str(&yaml).unwrap();
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let node = Node { host, switch, client, agent: None };
        let ranges = json!({
            "clusterNetwork": [{ "cidr": "10.244.0.0/16", "hostPrefix": 24 }, { "cidr": "fd00:10:244::/48", "hostPrefix": 64 }],
            "serviceNetwork": ["10.96.0.0/16", "fd00:10:96::/112"],
        });
        node.put(
            "operator.openshift.io/v1",
            "Network",
            json!({ "metadata": { "name": "cluster" }, "spec": ranges }),
        )
        .await;
        node.put(
            "config.openshift.io/v1",
            "Network",
            json!({ "metadata": { "name": "cluster" }, "spec": {} }),
        )
        .await;
        let mut status = json!({ "status": ranges });
        status["status"]["clusterNetworkMTU"] = json!(1400);
        let api = node.api("config.openshift.io/v1", "Network", None);
        api.patch_status("cluster", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        node.put("v1", "Namespace", json!({ "metadata": { "name": NAMESPACE } })).await;
        node.put("v1", "Node", json!({ "metadata": { "name": NODE } })).await;
        node
    }

    fn paths(&self) -> Paths {
        let at = |name: &str| self.switch.path(name);
        Paths {
            ovs_run: self.switch.dir.path().to_owned(),
            ovn_run: at("ovn"),
            ovn_data: at("ovn-data"),
            ovn_log: at("ovn-log"),
            ovn_schemas: PathBuf::from("/usr/share/ovn"),
            run: at("run"),
            data: at("data"),
            cni_config: at("net.d/10-netferry.conflist"),
            root: self.switch.dir.path().to_owned(),
        }
    }

    fn start_agent(&mut self) {
        let mut config = Config::new(NODE.parse().unwrap());
        config.paths = self.paths();
        config.datapath = Some(Datapath::Userspace);
        let (host, client) = (Arc::clone(&self.host), self.client.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            host.namespace().enter().unwrap();
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    ended = netferry_agent::run(config, client) => panic!("the agent ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        self.agent = Some(Running { stop: Some(stop), thread: Some(thread) });
    }

    fn api(&self, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    async fn put(&self, version: &str, kind: &str, mut object: Value) -> DynamicObject {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let api = self.api(version, kind, namespace.as_deref());
        api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap()
    }

    /// A pod of this node and a container of it.
    async fn pod(&self, name: &str) -> Sandbox {
        let pod = json!({ "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "app": name } },
            "spec": { "nodeName": NODE, "containers": [{ "name": "c", "image": "i" }] } });
        let uid = self.put("v1", "Pod", pod).await.metadata.uid.unwrap();
        let container = format!("{:0>32}", uid.replace('-', ""));
        Sandbox::new(&self.paths().cni_socket(), container, name, &uid)
    }

    fn nbctl(&self, arguments: &str) -> String {
        let socket = self.paths().northbound_socket();
        node::run(&self.host, &format!("ovn-nbctl --db=unix:{} --timeout=30 {arguments}", socket.display()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.agent = None;
        // The zone's daemons outlive the agent; not the test.
        for daemon in ["ovn-controller", "ovn-northd", "ovnnb_db", "ovnsb_db"] {
            let pid = std::fs::read_to_string(self.paths().ovn_run.join(format!("{daemon}.pid"))).ok();
            if let Some(pid) = pid.and_then(|pid| pid.trim().parse().ok()) {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_announces_itself_when_pods_can_be_attached_and_its_successor_knows_them() {
    let mut node = Node::new().await;
    let announcement = node.paths().cni_config;
    node.start_agent();
    let a = node.pod("a").await;
    let socket = node.paths().cni_socket();
    node::until("the socket", async || socket.exists()).await;
    let error = a.ask("STATUS").await.unwrap_err();
    assert_eq!(error["code"], 50, "{error}");
    let error = a.ask("ADD").await.unwrap_err();
    assert_eq!(error["code"], 11, "{error}");
    assert!(message(&error).contains("no subnet"), "{error}");
    assert!(!announcement.exists(), "a runtime would start pods that cannot be attached");

    let annotations = json!({
        "k8s.ovn.org/node-id": "2",
        "k8s.ovn.org/node-subnets": r#"{"default":["10.244.1.0/24","fd00:10:244:1::/64"]}"#,
        "k8s.ovn.org/node-chassis-id": "chassis-1",
        "k8s.ovn.org/node-primary-ifaddr": r#"{"ipv4":"127.0.0.1/8"}"#,
        "k8s.ovn.org/host-cidrs": r#"["127.0.0.1/8"]"#,
    });
    node.put("v1", "Node", json!({ "metadata": { "name": NODE, "annotations": annotations } })).await;
    node::until("the announcement", async || announcement.exists()).await;
    assert_eq!(a.ask("STATUS").await, Ok(Value::Null));

    let b = node.pod("b").await;
    let (of_a, of_b) = (a.add().await, b.add().await);
    for address in addresses(&of_b) {
        assert!(first_packet_arrives(&a, &b, address), "{address}");
    }
    // a policy holds from a pod's first packet on, with the others unharmed
    let denied = json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["a", "c"] }] });
    let spec = json!({ "podSelector": denied, "policyTypes": ["Ingress"] });
    let policy = json!({ "metadata": { "name": "deny", "namespace": NAMESPACE }, "spec": spec });
    node.put("networking.k8s.io/v1", "NetworkPolicy", policy).await;
    node::until("the policy", async || {
        node.nbctl("--bare --columns=match list acl").contains("outport == @a")
    })
    .await;
    let c = node.pod("c").await;
    let of_c = c.add().await;
    for address in addresses(&of_c) {
        let receiver = c.socket(address);
        receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let any = if address.is_ipv4() { "0.0.0.0" } else { "::" };
        b.socket(any.parse().unwrap()).send_to(b"first", receiver.local_addr().unwrap()).unwrap();
        assert!(receiver.recv_from(&mut [0; 16]).is_err(), "{address} is denied from the first packet on");
    }
    for address in addresses(&of_b) {
        assert!(first_packet_arrives(&c, &b, address), "{address}: only what comes in is denied");
    }

    // nothing depends on the agent being there
    node.agent = None;
    assert!(announcement.exists());
    for address in addresses(&of_b) {
        assert!(first_packet_arrives(&a, &b, address), "{address} without an agent");
    }
    node.start_agent();
    node::until("the next agent", async || std::os::unix::net::UnixStream::connect(&socket).is_ok()).await;
    node::until("the next agent knows its place", async || {
        !a.check(&of_a).await.is_err_and(|error| error["code"] == 11)
    })
    .await;
    assert_eq!(a.check(&of_a).await, Ok(Value::Null));
    assert_eq!(b.add().await, of_b, "the same answer from the next agent");
    a.del().await;
    node::until("the port is gone", async || !node.nbctl(&format!("lsp-list {NODE}")).contains("web_a"))
        .await;
    assert!(first_packet_arrives(&c, &b, addresses(&of_b)[0]));
}
