//! A node for a test: a directory for its files, a switch in a network namespace of its own, an API.

#![allow(dead_code, reason = "a benchmark uses it too, and each its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use netferry_agent::{Config, Paths};
use netferry_apiserver::pki::Pki;
use netferry_apiserver::{ApiServer, Settings};
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::{Kernel, Namespace};
use netferry_testkit::wait::until;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A command that runs until the test lets go of it, dies or is killed.
struct Leashed {
    shell: Child,
    leash: Option<ChildStdin>,
}

impl Leashed {
    fn start(script: &str, arguments: &[&str]) -> Leashed {
        let mut shell = Command::new("unshare")
            .args(["--net", "sh", "-c", script, "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare starts");
        Leashed { leash: shell.stdin.take(), shell }
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.shell.wait();
    }
}

/// An API behind a listener, as agents reach it.
struct Listening {
    stop: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<()>,
}

/// A node.
pub(crate) struct World {
    dir: tempfile::TempDir,
    switch: Leashed,
    server: ApiServer,
    pki: Pki,
    address: SocketAddr,
    listening: Option<Listening>,
    /// Talks to the API directly, also while agents cannot reach it.
    pub(crate) client: Client,
}

/// Where nobody else listens, and nobody's connections come from: while the API is away, any of them could be given its
/// port at `127.0.0.1`, also that of an agent that looks for it there.
fn address_of_its_own() -> Ipv4Addr {
    static MADE: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 128 | high, low, MADE.fetch_add(1, Ordering::Relaxed))
}

impl World {
    /// A node with a running switch, and an API that knows its networks.
    pub(crate) async fn start() -> World {
        World::start_with("10.244.0.0/16", None).await
    }

    /// The same with pods of this range, and an API that remembers in this file.
    pub(crate) async fn start_with(range: &str, data: Option<PathBuf>) -> World {
        let dir = tempfile::Builder::new().prefix("nf").tempdir().expect("a directory");
        let paths = Paths::below(dir.path());
        std::fs::create_dir_all(&paths.ovs_run).expect("a directory");
        let switch = start_switch(&paths.ovs_run);
        let known = data.as_ref().is_some_and(|file| file.exists());
        let server = ApiServer::open(Settings { data, ..Settings::default() }).expect("a server");
        let client = Client::new(server.router(), "default");
        let host = address_of_its_own();
        let pki = Pki::fresh(&[host.into()]).expect("certificates");
        let address = SocketAddr::from((host, 0));
        let mut world = World { dir, switch, server, pki, address, listening: None, client };
        world.listen().await;
        if !known {
            world.make_networks(range).await;
        }
        until("the switch", async || {
            world.vsctl(&["get", "open", ".", "datapath_types"]).filter(|types| types.contains("netdev"))
        })
        .await;
        world
    }

    /// Has the API listen where agents look for it.
    pub(crate) async fn listen(&mut self) {
        self.listen_as(self.server.clone()).await;
    }

    /// The port agents look at. A program that another test is just starting holds what was open here until it is started.
    async fn bind(&self) -> TcpListener {
        until("the port", async || match TcpListener::bind(self.address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            bound => Some(bound.expect("it can be listened at")),
        })
        .await
    }

    /// Has another API listen in its place.
    pub(crate) async fn listen_as(&mut self, server: ApiServer) {
        assert!(self.listening.is_none(), "one at a time");
        let listener = self.bind().await;
        self.address = listener.local_addr().expect("its address");
        let (stop, stopped) = oneshot::channel();
        let pki = self.pki.clone();
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server.serve(listener, &pki, stopped).await.expect("serves");
        });
        self.listening = Some(Listening { stop, serving });
    }

    /// Has nobody listen, and cuts who is connected.
    pub(crate) async fn hang_up(&mut self) {
        let Listening { stop, serving } = self.listening.take().expect("it listens");
        drop(stop);
        serving.await.expect("it ends");
    }

    /// Has somebody listen who answers nobody; counts who tries.
    pub(crate) async fn turn_away(&self) -> Arc<AtomicU32> {
        let listener = self.bind().await;
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&attempts);
        tokio::spawn(async move {
            while let Ok(connection) = listener.accept().await {
                drop(connection);
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        attempts
    }

    /// A client as an agent has one.
    pub(crate) async fn remote_client(&self) -> Client {
        let text = self.pki.kubeconfig(&format!("https://{}", self.address));
        let kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
    }

    /// The same credentials as a file.
    pub(crate) fn kubeconfig_file(&self) -> PathBuf {
        let file = self.dir.path().join("kubeconfig");
        std::fs::write(&file, self.pki.kubeconfig(&format!("https://{}", self.address))).expect("a file");
        file
    }

    /// Where the node's files are.
    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A process in the node's network.
    pub(crate) fn switch_process(&self) -> u32 {
        self.switch.shell.id()
    }

    /// How large the northbound database's file is.
    pub(crate) fn bytes(&self) -> u64 {
        std::fs::metadata(self.paths().ovn_data.join("ovnnb_db.db")).map_or(0, |file| file.len())
    }

    /// The namespace of the node's network: what an agent does to a host it does here.
    pub(crate) fn kernel(&self) -> Arc<Kernel> {
        let namespace = Namespace::of_process(self.switch.shell.id()).expect("the switch runs");
        Arc::new(Kernel::inside(namespace).expect("root"))
    }

    pub(crate) fn config(&self, node: &str) -> Config {
        let mut config = Config::new(node.parse().expect("a node's name"));
        config.paths = self.paths();
        config.datapath = Some(Datapath::Userspace);
        config
    }

    pub(crate) fn paths(&self) -> Paths {
        Paths::below(self.dir.path())
    }

    async fn make_networks(&self, range: &str) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for (_, yaml) in netferry_api::crds() {
            let definition = serde_saphyr::from_str(&yaml).expect("our own YAML");
            definitions.create(&PostParams::default(), &definition).await.expect("a definition");
        }
        let ranges = json!({
            "clusterNetwork": [{"cidr": range, "hostPrefix": 24}],
            "serviceNetwork": ["10.96.0.0/16"],
        });
        self.put(
            "operator.openshift.io/v1",
            "Network",
            "networks",
            json!({
                "metadata": {"name": "cluster"}, "spec": ranges,
            }),
        )
        .await;
        self.put(
            "config.openshift.io/v1",
            "Network",
            "networks",
            json!({
                "metadata": {"name": "cluster"}, "spec": {},
            }),
        )
        .await;
        let mut status = ranges;
        status["clusterNetworkMTU"] = json!(1400);
        self.patch_status(
            "config.openshift.io/v1",
            "Network",
            "networks",
            "cluster",
            json!({"status": status}),
        )
        .await;
    }

    /// Creates an object, or replaces what there is.
    pub(crate) async fn put(&self, version: &str, kind: &str, plural: &str, mut object: Value) {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let api = self.api(version, kind, plural, object["metadata"]["namespace"].as_str());
        let params = kube::api::PatchParams::apply("test").force();
        api.patch(&name, &params, &kube::api::Patch::Apply(object)).await.expect("an object");
    }

    pub(crate) async fn patch_status(
        &self,
        version: &str,
        kind: &str,
        plural: &str,
        name: &str,
        patch: Value,
    ) {
        let api = self.api(version, kind, plural, None);
        let params = kube::api::PatchParams::default();
        api.patch_status(name, &params, &kube::api::Patch::Merge(patch)).await.expect("a status");
    }

    pub(crate) fn api(
        &self,
        version: &str,
        kind: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// `ovs-vsctl` on the switch's database; nothing if it fails.
    pub(crate) fn vsctl(&self, arguments: &[&str]) -> Option<String> {
        run("ovs-vsctl", &self.paths().switch_socket(), &["--no-wait"], arguments)
    }

    /// Puts a port on the switch that is recorded as this pod's.
    pub(crate) fn attach(&self, namespace: &str, name: &str, uid: &str, address: &str) {
        let ids = [
            format!("external_ids:iface-id={namespace}_{name}"),
            format!("external_ids:iface-id-ver={uid}"),
            format!("external_ids:ip_addresses=\"{address}/24\""),
            "external_ids:sandbox=s".to_owned(),
        ];
        let bridge = ["--may-exist", "add-br", "pods", "--", "set", "bridge", "pods", "datapath_type=netdev"];
        let port =
            ["--", "--may-exist", "add-port", "pods", name, "--", "set", "interface", name, "type=dummy"];
        let ids = ids.iter().map(String::as_str);
        let all: Vec<&str> = bridge.into_iter().chain(port).chain(ids).collect();
        self.vsctl(&all).expect("the switch takes the port");
    }

    /// `ovs-ofctl` on a bridge.
    pub(crate) fn ofctl(&self, bridge: &str, command: &str, flow: &str) -> Option<String> {
        let socket = format!("unix:{}", self.paths().ovs_run.join(format!("{bridge}.mgmt")).display());
        output(Command::new("ovs-ofctl").args([command, &socket, flow]))
    }

    /// `ovs-appctl` on the switch.
    pub(crate) fn appctl(&self, arguments: &[&str]) -> Option<String> {
        let run = self.paths().ovs_run;
        let pid = std::fs::read_to_string(run.join("ovs-vswitchd.pid")).ok()?;
        let socket = run.join(format!("ovs-vswitchd.{}.ctl", pid.trim()));
        output(Command::new("ovs-appctl").arg("-t").arg(socket).args(arguments))
    }

    /// `ovn-nbctl`.
    pub(crate) fn nbctl(&self, arguments: &[&str]) -> Option<String> {
        run("ovn-nbctl", &self.paths().northbound_socket(), &[], arguments)
    }

    /// `ovn-sbctl`.
    pub(crate) fn sbctl(&self, arguments: &[&str]) -> Option<String> {
        run("ovn-sbctl", &self.paths().southbound_socket(), &[], arguments)
    }

    /// How many transactions of ours the zone's databases have seen.
    pub(crate) fn transactions(&self) -> usize {
        let count = |file: &str| {
            let file = self.paths().ovn_data.join(file);
            let log = Command::new("ovsdb-tool")
                .args(["-m", "show-log"])
                .arg(file)
                .output()
                .expect("ovsdb-tool runs");
            String::from_utf8_lossy(&log.stdout).matches("netferry agent").count()
        };
        count("ovnnb_db.db") + count("ovnsb_db.db")
    }

    /// The last transactions of the zone's databases.
    pub(crate) fn log(&self) -> String {
        let show = |file: &str| {
            let file = self.paths().ovn_data.join(file);
            let log = Command::new("ovsdb-tool")
                .args(["-mm", "show-log"])
                .arg(file)
                .output()
                .expect("ovsdb-tool runs");
            let text = String::from_utf8_lossy(&log.stdout).into_owned();
            let at = text.len().saturating_sub(20_000);
            text[at..].to_owned()
        };
        format!("{}\n======= southbound\n{}", show("ovnnb_db.db"), show("ovnsb_db.db"))
    }

    /// Everything the zone's databases hold of ours, as text: nothing that daemons write beside it.
    pub(crate) fn rows(&self) -> String {
        let nb = [
            "logical_switch",
            "logical_switch_port",
            "logical_router",
            "logical_router_port",
            "acl",
            "logical_router_static_route",
            "load_balancer",
            "load_balancer_group",
            "port_group",
            "address_set",
            "nat",
        ];
        let columns = |table: &str| match table {
            "logical_switch_port" => "name,type,addresses,port_security,options,external_ids",
            "logical_switch" => "name,other_config,external_ids",
            "logical_router" => "name,options,external_ids",
            "logical_router_port" => "name,mac,networks,external_ids",
            "acl" => "name,direction,priority,match,action,options,external_ids",
            "logical_router_static_route" => "ip_prefix,nexthop,policy,external_ids",
            "load_balancer" => "name,protocol,vips,options,external_ids",
            "load_balancer_group" => "name",
            "port_group" => "name,external_ids",
            "address_set" => "name,addresses,external_ids",
            _ => "type,external_ip,logical_ip,external_ids",
        };
        let mut text = String::new();
        for table in nb {
            let columns = format!("--columns={}", columns(table));
            let all =
                self.nbctl(&["--format=csv", "--no-headings", &columns, "list", table]).unwrap_or_default();
            let mut lines: Vec<&str> = all.lines().collect();
            lines.sort_unstable();
            text.push_str(&format!("{table}\n{}\n", lines.join("\n")));
        }
        text
    }

    /// What rows of the northbound database list others, and which, by their names.
    pub(crate) fn references(&self) -> BTreeSet<(String, String)> {
        let list = |columns: &str, table: &str| {
            let columns = format!("--columns={columns}");
            let all = self.nbctl(&["--format=csv", "--data=bare", "--no-headings", &columns, "list", table]);
            let all = all.unwrap_or_default();
            let pairs = all.lines().filter_map(|line| line.split_once(','));
            pairs.map(|(first, second)| (first.to_owned(), second.to_owned())).collect::<Vec<_>>()
        };
        let named = ["logical_switch_port", "logical_router_port", "load_balancer", "load_balancer_group"];
        let names: BTreeMap<_, _> = named.iter().flat_map(|table| list("_uuid,name", table)).collect();
        let columns = [
            ("logical_switch", "ports"),
            ("logical_switch", "load_balancer"),
            ("logical_switch", "load_balancer_group"),
            ("logical_router", "ports"),
            ("load_balancer_group", "load_balancer"),
            ("port_group", "ports"),
        ];
        let mut references = BTreeSet::new();
        for (table, column) in columns {
            for (name, listed) in list(&format!("name,{column}"), table) {
                let listed = listed.split_whitespace().filter_map(|uuid| names.get(uuid));
                references.extend(listed.map(|to| (format!("{table} {name} {column}"), to.clone())));
            }
        }
        references
    }

    /// The identity of a row of the northbound database.
    pub(crate) fn uuid(&self, table: &str, name: &str) -> Option<String> {
        let find = ["--bare", "--columns=_uuid", "find", table, &format!("name=\"{name}\"")];
        self.nbctl(&find).filter(|uuid| !uuid.is_empty())
    }

    /// The process of one of the zone's daemons.
    pub(crate) fn pid(&self, daemon: &str) -> Option<i32> {
        let pid = std::fs::read_to_string(self.paths().ovn_run.join(format!("{daemon}.pid"))).ok()?;
        pid.trim().parse().ok()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The zone's daemons outlive the agent; not the test.
        for daemon in ["ovn-controller", "ovn-northd", "ovnnb_db", "ovnsb_db"] {
            if let Some(pid) = self.pid(daemon) {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
        }
    }
}

fn run(program: &str, socket: &Path, before: &[&str], arguments: &[&str]) -> Option<String> {
    let database = format!("--db=unix:{}", socket.display());
    output(Command::new(program).args(["--timeout=5", &database]).args(before).args(arguments))
}

/// What a command prints; nothing if it fails.
fn output(command: &mut Command) -> Option<String> {
    let done = command.output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

fn start_switch(run: &Path) -> Leashed {
    let script = r#"
        run=$1; vswitchd=$(command -v ovs-vswitchd || ls /usr/lib/openvswitch-switch/ovs-vswitchd /usr/lib/openvswitch-common/ovs-vswitchd 2>/dev/null | head -1)
        export OVS_RUNDIR=$run
        ip link set lo up
        ovsdb-tool create $run/conf.db /usr/share/openvswitch/vswitch.ovsschema
        ovsdb-server $run/conf.db --remote=punix:$run/db.sock --unixctl=$run/ovsdb.ctl --no-chdir </dev/null & database=$!
        until ovs-vsctl --db=unix:$run/db.sock --no-wait init; do :; done
        ovs-vsctl --db=unix:$run/db.sock --no-wait set open . external_ids:system-id=chassis-1 other_config:n-handler-threads=1 other_config:n-revalidator-threads=1
        $vswitchd unix:$run/db.sock --pidfile=$run/ovs-vswitchd.pid --no-chdir --enable-dummy --log-file=$run/vswitchd.log </dev/null & switch=$!
        read _; kill -9 $switch $database; wait"#;
    Leashed::start(script, &[run.to_str().expect("a path")])
}
