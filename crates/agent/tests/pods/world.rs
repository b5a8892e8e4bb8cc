//! A node with Open vSwitch, an OVN zone, an API and the agent's side of CNI, all in namespaces and a directory that
//! vanish with the test.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace as ApiNamespace, Node as ApiNode, Pod as ApiPod};
use kube::api::{Api, PostParams};
use netferry_agent::overlay::pods::objects::ApiPods;
use netferry_agent::overlay::pods::server::Server;
use netferry_agent::overlay::pods::{
    Parts, Place, PodHooks, PodPorts, Pods, Readiness, Settings, ZoneUnavailable,
};
use netferry_apiserver::ApiServer;
use netferry_cni::protocol::Patience;
use netferry_core::name::{NodeName, ObjectName};
use netferry_core::net::Stack;
use netferry_core::overlay::allocate::{Assignment, NodeId};
use netferry_core::overlay::cluster::{Node, Pod};
use netferry_core::overlay::names;
use netferry_core::overlay::networks::{ClusterRange, Internal, Networks};
use netferry_core::overlay::topology::Topology;
use netferry_core::overlay::zone::{Datapath, Zone};
use netferry_core::size::Mtu;
use netferry_kernel::{IfName, Kernel, Namespace};
use netferry_ovs::tables::northbound::{self, LogicalSwitch, LogicalSwitchPort};
use netferry_ovs::tables::southbound::{self, PortBinding, SbGlobal};
use netferry_ovs::tables::vswitch::{self, Bridge, Interface, OpenVSwitch, Port};
use netferry_ovs::transaction::Mutation;
use netferry_ovs::{Atom, Client, Datum, Options, Ref, Remote, Spec, Table, Transaction};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::node::{self, Switch};

pub(crate) const NODE: &str = "n1";
pub(crate) const NAMESPACE: &str = "web";

/// A daemon behind a shell that kills it when our end of a pipe closes.
struct Daemon {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Daemon {
    fn start(kernel: &Kernel, run: &Path, arguments: &[String]) -> Daemon {
        let script = r#""$@" </dev/null >/dev/null 2>&1 & read _; kill -9 $!; wait"#;
        let start = || {
            Command::new("sh")
                .args(["-c", script, "sh"])
                .args(arguments)
                .env("OVS_RUNDIR", run)
                .env("OVN_RUNDIR", run)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        };
        let mut shell = kernel.namespace().run(start).unwrap().expect("sh starts");
        let leash = shell.stdin.take();
        Daemon { shell, leash }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.shell.wait();
    }
}

/// What a world is made with.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) v4: &'static str,
    pub(crate) v6: Option<&'static str>,
    pub(crate) sends: Option<u32>,
    pub(crate) installed_limit: Duration,
    pub(crate) pod_limit: Duration,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            v4: "10.244.1.0/24",
            v6: Some("fd00:10:244:1::/64"),
            sends: None,
            installed_limit: Duration::from_secs(30),
            pod_limit: Duration::from_secs(10),
        }
    }
}

pub(crate) struct World {
    pub(crate) host: Arc<Kernel>,
    pub(crate) switch: Switch,
    pub(crate) vswitch: Client,
    pub(crate) northbound: Client,
    southbound: Client,
    daemons: BTreeMap<&'static str, Daemon>,
    pub(crate) client: kube::Client,
    pub(crate) ports: Arc<ZonePorts>,
    pub(crate) place: watch::Sender<Option<Arc<Place>>>,
    pub(crate) readiness: watch::Sender<Readiness>,
    pub(crate) hooks: PodHooks,
    pub(crate) agent: Option<Agent>,
    plan: Plan,
    sandboxes: AtomicU32,
}

/// The part that may be killed and started again.
pub(crate) struct Agent {
    pub(crate) links: watch::Receiver<BTreeSet<IfName>>,
    _tasks: JoinSet<()>,
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Plan::default()).await
    }

    pub(crate) async fn with(plan: Plan) -> World {
        let host = Arc::new(node::namespace());
        let switch = Switch::start(&host).await;
        let run = switch.dir.path().to_owned();
        for (file, schema) in [("nb.db", "ovn-nb"), ("sb.db", "ovn-sb")] {
            let schema = format!("/usr/share/ovn/{schema}.ovsschema");
            let made =
                Command::new("ovsdb-tool").arg("create").arg(run.join(file)).arg(schema).output().unwrap();
            assert!(made.status.success(), "ovsdb-tool: {}", String::from_utf8_lossy(&made.stderr));
        }
        let southbound_socket = format!("unix:{}", run.join("sb.sock").display());
        for (key, value) in [
            ("system-id", NODE),
            ("hostname", NODE),
            ("ovn-remote", &southbound_socket),
            ("ovn-encap-type", "geneve"),
            ("ovn-encap-ip", "127.0.0.1"),
            ("ovn-bridge-datapath-type", "netdev"),
            ("ovn-monitor-all", "true"),
        ] {
            switch.vsctl(&format!("--no-wait set open . external-ids:{key}={value}"));
        }
        let mut daemons = BTreeMap::new();
        for daemon in ["nb", "sb", "ovn-northd"] {
            daemons.insert(daemon, start(&host, &run, daemon));
        }
        let connect = |spec, socket: &str| {
            Client::connect(spec, vec![Remote::Unix(run.join(socket))], Options::default())
        };
        let spec = Spec::new(northbound::DATABASE).table::<LogicalSwitch>().table::<LogicalSwitchPort>();
        let northbound = node::in_time("northbound", connect(spec, "nb.sock")).await.unwrap();
        let spec = Spec::new(southbound::DATABASE).table::<PortBinding>().table::<SbGlobal>();
        let southbound = node::in_time("southbound", connect(spec, "sb.sock")).await.unwrap();
        // `ovn-controller` of 23.03 takes this row for granted and crashes without it.
        let global = |now: &netferry_ovs::Snapshot| now.single::<SbGlobal>().unwrap();
        node::in_time("ovn-northd", southbound.until(global)).await;
        daemons.insert("ovn-controller", start(&host, &run, "ovn-controller"));
        let spec = Spec::new(vswitch::DATABASE)
            .table::<OpenVSwitch>()
            .table::<Bridge>()
            .table::<Port>()
            .table::<Interface>();
        let vswitch = node::in_time("switch", connect(spec, "db.sock")).await.unwrap();
        let bridge = |now: &netferry_ovs::Snapshot| now.named::<Bridge>("br-int").unwrap();
        node::in_time("br-int", vswitch.until(bridge)).await;

        let place = Arc::new(the_place(&plan));
        let ports = Arc::new(ZonePorts {
            client: northbound.clone(),
            place: Arc::clone(&place),
            refuse: AtomicBool::new(false),
            removed: Mutex::default(),
        });
        let server = ApiServer::open(netferry_apiserver::Settings::default()).unwrap();
        let client = kube::Client::new(server.router(), "default");
        let mut world = World {
            host,
            switch,
            vswitch,
            northbound,
            southbound,
            daemons,
            client,
            ports,
            place: watch::Sender::new(Some(place)),
            readiness: watch::Sender::new(Readiness::Ready),
            hooks: PodHooks::default(),
            agent: None,
            plan,
            sandboxes: AtomicU32::new(0),
        };
        world.make_zone();
        let meta = |name: &str| serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        let nodes = Api::<ApiNode>::all(world.client.clone());
        nodes.create(&PostParams::default(), &meta(NODE)).await.unwrap();
        let meta = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } })).unwrap();
        let namespaces = Api::<ApiNamespace>::all(world.client.clone());
        namespaces.create(&PostParams::default(), &meta).await.unwrap();
        world.start_agent();
        world
    }

    /// The zone's switch and router, as small as pods of one node need them.
    fn make_zone(&self) {
        let place = self.place.borrow().clone().unwrap();
        let router = place.node.assignment.router();
        let nets = place.node.assignment.subnets().around(&router);
        let nets: Vec<String> = nets.iter().map(IpNet::to_string).collect();
        let mac = router.mac();
        self.nbctl(&format!(
            "lr-add {r} -- lrp-add {r} rtos-{NODE} {mac} {} -- ls-add {NODE} -- lsp-add {NODE} stor-{NODE} \
             -- lsp-set-type stor-{NODE} router -- lsp-set-addresses stor-{NODE} router \
             -- lsp-set-options stor-{NODE} router-port=rtos-{NODE}",
            nets.join(" "),
            r = names::CLUSTER_ROUTER,
        ));
    }

    pub(crate) fn nbctl(&self, arguments: &str) -> String {
        let database = self.switch.path("nb.sock");
        node::run(&self.host, &format!("ovn-nbctl --db=unix:{} --timeout=30 {arguments}", database.display()))
    }

    pub(crate) fn kill(&mut self, daemon: &str) {
        drop(self.daemons.remove(daemon).expect("it runs"));
    }

    pub(crate) fn start(&mut self, daemon: &'static str) {
        self.daemons.insert(daemon, start(&self.host, self.switch.dir.path(), daemon));
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.switch.path("run/cni.sock")
    }

    /// A new agent; one that runs is killed first.
    pub(crate) fn start_agent(&mut self) {
        self.agent = None;
        let node: NodeName = NODE.parse().unwrap();
        let (objects, follow) = ApiPods::new(self.client.clone(), &node);
        let settings = Settings {
            ovn_run: self.switch.dir.path().to_owned(),
            ovs_run: Some(self.switch.dir.path().to_owned()),
            installed_limit: self.plan.installed_limit,
            pod_limit: self.plan.pod_limit,
            ..Settings::default()
        };
        let pods = Pods::new(Parts {
            settings,
            kernel: Arc::clone(&self.host),
            switch: self.vswitch.clone(),
            southbound: Some(self.southbound.clone()),
            ports: Arc::clone(&self.ports) as Arc<dyn PodPorts>,
            objects,
            place: self.place.subscribe(),
            readiness: self.readiness.subscribe(),
            hooks: self.hooks.clone(),
            metrics: netferry_agent::overlay::pods::Metrics::default(),
        });
        let server = Server::open(&self.socket()).unwrap();
        let (sender, links) = watch::channel(BTreeSet::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(follow);
        tasks.spawn(server.run(pods.clone()));
        let (keeper, writer) = (pods.clone(), pods);
        tasks.spawn(async move { keeper.keep(sender).await });
        tasks.spawn(async move { writer.keep_annotations().await });
        self.agent = Some(Agent { links, _tasks: tasks });
    }

    /// A pod bound to this node, in the API; answers its UID.
    pub(crate) async fn pod(&self, name: &str) -> String {
        self.pod_with(name, json!({})).await
    }

    pub(crate) async fn pod_with(&self, name: &str, annotations: Value) -> String {
        let pod: ApiPod = serde_json::from_value(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "nodeName": NODE, "containers": [{ "name": "c", "image": "i" }] },
        }))
        .unwrap();
        let made = self.api().create(&PostParams::default(), &pod).await.unwrap();
        made.metadata.uid.unwrap()
    }

    pub(crate) fn api(&self) -> Api<ApiPod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn annotation(&self, pod: &str) -> Value {
        let pod = self.api().get(pod).await.unwrap();
        let annotations = pod.metadata.annotations.unwrap_or_default();
        annotations
            .get("k8s.ovn.org/pod-networks")
            .map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    /// A container of a pod, as the runtime has it.
    pub(crate) fn sandbox(&self, pod: &str, uid: &str) -> Sandbox {
        let number = self.sandboxes.fetch_add(1, Ordering::Relaxed);
        let container = format!("{number:08x}").repeat(8);
        Sandbox::new(&self.socket(), container, pod, uid)
    }

    /// The interfaces on the switch that claim a pod's port.
    pub(crate) fn claims(&self, pod: &str) -> Vec<Interface> {
        let port = names::pod_port(&ObjectName::new(NAMESPACE, pod));
        let all = self.vswitch.snapshot().all::<Interface>().unwrap();
        let claims = |i: &Interface| i.external_ids.get("iface-id") == Some(&port);
        all.into_iter().map(|entry| entry.row).filter(claims).collect()
    }

    pub(crate) fn logical_port(&self, pod: &str) -> Option<LogicalSwitchPort> {
        let port = names::pod_port(&ObjectName::new(NAMESPACE, pod));
        self.northbound.snapshot().named::<LogicalSwitchPort>(&port).unwrap().map(|entry| entry.row)
    }

    /// Names of the links on the host that are some pod's.
    pub(crate) fn pod_links(&self) -> Vec<String> {
        use netferry_kernel::Objects;
        let mark = netferry_agent::ownership::pod_links();
        let links = self.host.links().observe().unwrap();
        let ours = links.into_iter().filter(|link| mark.owns_alias(link.alias.as_deref()));
        ours.map(|link| link.name.to_string()).collect()
    }
}

fn start(host: &Kernel, run: &Path, daemon: &str) -> Daemon {
    let path = |file: &str| run.join(file).display().to_string();
    let unix = |file: &str| format!("unix:{}", path(file));
    let mut arguments = match daemon {
        "nb" | "sb" => vec![
            "ovsdb-server".to_owned(),
            path(&format!("{daemon}.db")),
            format!("--remote=punix:{}", path(&format!("{daemon}.sock"))),
            format!("--unixctl={}", path(&format!("{daemon}.ctl"))),
        ],
        "ovn-northd" => vec![
            daemon.to_owned(),
            format!("--ovnnb-db={}", unix("nb.sock")),
            format!("--ovnsb-db={}", unix("sb.sock")),
        ],
        _ => vec![daemon.to_owned(), unix("db.sock")],
    };
    arguments.push(format!("--pidfile={}", path(&format!("{daemon}.pid"))));
    arguments.push("--no-chdir".to_owned());
    Daemon::start(host, run, &arguments)
}

fn the_place(plan: &Plan) -> Place {
    let v4: ipnet::Ipv4Net = plan.v4.parse().unwrap();
    let v6: Option<ipnet::Ipv6Net> = plan.v6.map(|net| net.parse().unwrap());
    let mut ranges = vec![ClusterRange::new("10.244.0.0/16".parse().unwrap(), v4.prefix_len()).unwrap()];
    let mut services: Vec<IpNet> = vec!["10.96.0.0/16".parse().unwrap()];
    if v6.is_some() {
        ranges.push(ClusterRange::new("fd00:10:244::/48".parse().unwrap(), 64).unwrap());
        services.push("fd00:10:96::/112".parse().unwrap());
    }
    let networks = Networks::new(ranges, services, Internal::default()).unwrap();
    let subnets = Stack::from_parts(Some(v4), v6).unwrap();
    let assignment = Assignment::new(&networks, NodeId::new(2).unwrap(), subnets).unwrap();
    let encap: IpAddr = "127.0.0.1".parse().unwrap();
    let node = Node {
        name: NODE.parse().unwrap(),
        assignment,
        chassis: NODE.to_owned(),
        encap,
        host_addresses: [encap].into(),
    };
    Place {
        networks,
        topology: Topology::multi_node(),
        node,
        mtu: Mtu::new(1400).unwrap(),
        sends: plan.sends.map(|bytes| Mtu::new(bytes).unwrap()),
        datapath: Datapath::Userspace,
    }
}

/// The zone, as far as pods' ports go: writes what `core` says of a pod into the northbound database.
pub(crate) struct ZonePorts {
    client: Client,
    place: Arc<Place>,
    pub(crate) refuse: AtomicBool,
    pub(crate) removed: Mutex<Vec<String>>,
}

impl ZonePorts {
    fn zone(&self) -> Zone<'_> {
        let Place { networks, topology, node, mtu, .. } = &*self.place;
        Zone { networks, topology, node, mtu: *mtu }
    }

    async fn write(&self, name: &str, row: Option<LogicalSwitchPort>) -> Result<(), ZoneUnavailable> {
        if self.refuse.load(Ordering::Relaxed) {
            return Err(ZoneUnavailable("the test says so".into()));
        }
        let now = self.client.snapshot();
        let switch = now.named::<LogicalSwitch>(NODE).unwrap().expect("the node's switch");
        let mut transaction = Transaction::new();
        if let Some(old) = now.named::<LogicalSwitchPort>(name).unwrap() {
            if row.as_ref().is_some_and(|row| old.options == row.options && old.addresses == row.addresses) {
                return Ok(());
            }
            let off = Mutation::Delete("ports".to_owned(), Datum::one(old.uuid));
            transaction.mutate(LogicalSwitch::DECL.name, switch.uuid, vec![off]);
        }
        if let Some(row) = row {
            let Ref::Named(port) = transaction.insert(&row) else { unreachable!() };
            let on = Mutation::Insert("ports".to_owned(), Datum::one(Atom::Named(port)));
            transaction.mutate(LogicalSwitch::DECL.name, switch.uuid, vec![on]);
        }
        if transaction.is_empty() {
            return Ok(());
        }
        self.client.transact(&transaction).await.map(drop).map_err(|error| ZoneUnavailable(error.into()))
    }
}

impl PodPorts for ZonePorts {
    fn put(&self, pod: Pod) -> BoxFuture<'_, Result<(), ZoneUnavailable>> {
        async move {
            let rows = self.zone().rows_of_pod(&pod);
            let row = rows.switch_ports.values().next().expect("a pod of this node has a port");
            let port = LogicalSwitchPort {
                name: row.name.clone(),
                addresses: row.addresses.iter().map(ToString::to_string).collect(),
                port_security: row.port_security.iter().map(ToString::to_string).collect(),
                options: row.options.clone(),
                external_ids: row.external_ids.clone(),
                ..LogicalSwitchPort::default()
            };
            self.write(&row.name, Some(port)).await
        }
        .boxed()
    }

    fn remove(&self, pod: ObjectName, uid: String) -> BoxFuture<'_, Result<(), ZoneUnavailable>> {
        async move {
            let name = names::pod_port(&pod);
            self.removed.lock().unwrap().push(name.clone());
            let there = self.client.snapshot().named::<LogicalSwitchPort>(&name).unwrap();
            if there.is_some_and(|port| port.options.get("iface-id-ver") == Some(&uid)) {
                self.write(&name, None).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

/// A container and what its runtime says of it.
pub(crate) struct Sandbox {
    pub(crate) kernel: Kernel,
    pub(crate) container: String,
    pub(crate) netns: String,
    pub(crate) config: Value,
    pub(crate) args: String,
}

impl Sandbox {
    pub(crate) fn new(socket: &Path, container: String, pod: &str, uid: &str) -> Sandbox {
        let kernel = Kernel::inside(Namespace::anonymous().unwrap()).unwrap();
        let fd = kernel.namespace().as_fd().as_raw_fd();
        Sandbox {
            netns: format!("/proc/{}/fd/{fd}", std::process::id()),
            kernel,
            container,
            config: json!({ "cniVersion": "1.1.0", "name": "netferry", "type": "netferry-cni", "socket": socket }),
            args: format!(
                "IgnoreUnknown=1;K8S_POD_NAMESPACE={NAMESPACE};K8S_POD_NAME={pod};K8S_POD_UID={uid}"
            ),
        }
    }

    /// Asks as the executable does; what it prints, or the error it prints.
    pub(crate) async fn ask(&self, command: &str) -> Result<Value, Value> {
        let env = BTreeMap::from([
            ("CNI_COMMAND", command.to_owned()),
            ("CNI_CONTAINERID", self.container.clone()),
            ("CNI_NETNS", self.netns.clone()),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_ARGS", self.args.clone()),
        ]);
        let input = self.config.to_string();
        let run =
            move || netferry_cni::run(|name| env.get(name).cloned(), input.as_bytes(), Patience::default());
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let printed = output.print.unwrap_or(Value::Null);
        if output.success { Ok(printed) } else { Err(printed) }
    }

    /// ADD that must succeed.
    pub(crate) async fn add(&self) -> Value {
        self.ask("ADD").await.unwrap_or_else(|error| panic!("ADD of {}: {error}", self.args))
    }

    pub(crate) async fn del(&self) {
        self.ask("DEL").await.unwrap_or_else(|error| panic!("DEL of {}: {error}", self.args));
    }

    pub(crate) async fn check(&self, previous: &Value) -> Result<Value, Value> {
        let mut asked = self.copy();
        asked.config["prevResult"] = previous.clone();
        asked.ask("CHECK").await
    }

    fn copy(&self) -> Sandbox {
        Sandbox {
            kernel: Kernel::inside(self.kernel.namespace().try_clone().unwrap()).unwrap(),
            container: self.container.clone(),
            netns: self.netns.clone(),
            config: self.config.clone(),
            args: self.args.clone(),
        }
    }

    pub(crate) fn socket(&self, address: IpAddr) -> UdpSocket {
        let socket = self.kernel.namespace().run(|| UdpSocket::bind((address, 0))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }
}

/// Does one datagram, sent once, arrive?
pub(crate) fn first_packet_arrives(from: &Sandbox, to: &Sandbox, address: IpAddr) -> bool {
    packet_arrives(from, to, address, Duration::from_secs(60))
}

/// Does a datagram arrive within this time?
pub(crate) fn packet_arrives(from: &Sandbox, to: &Sandbox, address: IpAddr, within: Duration) -> bool {
    let any: IpAddr = if address.is_ipv4() { "0.0.0.0".parse().unwrap() } else { "::".parse().unwrap() };
    let (sender, receiver) = (from.socket(any), to.socket(address));
    receiver.set_read_timeout(Some(within)).unwrap();
    sender.send_to(b"first", receiver.local_addr().unwrap()).unwrap();
    receiver.recv_from(&mut [0; 16]).is_ok()
}

/// The addresses in a result.
pub(crate) fn addresses(result: &Value) -> Vec<IpAddr> {
    let ips = result["ips"].as_array().unwrap().iter();
    ips.map(|ip| ip["address"].as_str().unwrap().parse::<IpNet>().unwrap().addr()).collect()
}

pub(crate) fn message(error: &Value) -> &str {
    error["msg"].as_str().unwrap()
}
