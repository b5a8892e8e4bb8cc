//! A node in an API of its own, with a disk that is a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use netferry_agent::machine::boot_loader::BootLoaderError;
use netferry_agent::machine::daemon::{self, Parts};
use netferry_agent::machine::store;
use netferry_agent::machine::{CheckError, Disk, ManagedFile};
use netferry_agent::mtu::boot::{self, Running};
use netferry_agent::mtu::host::managed;
use netferry_agent::mtu::host::preview::{Foreseen, Foresight};
use netferry_agent::node::own;
use netferry_api::rollout::MachineConfig;
use netferry_apiserver::{ApiServer, Settings};
use netferry_core::mtu::boot::Booted;
use netferry_core::rollout::merge::merge;
use netferry_core::size::{Envelope, Mtu};
use netferry_kernel::Kernel;
use netferry_testkit::wait::until;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) const NODE: &str = "n1";
pub(crate) const MCO: &str = "machineconfiguration.openshift.io";

pub(crate) fn size(bytes: u32) -> Mtu {
    Mtu::new(bytes).unwrap()
}

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) nodes: Api<Node>,
    pub(crate) configs: Api<MachineConfig>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) restarts: Arc<AtomicU32>,
    /// How often the boot loader was told; it refuses while the host has no `/boot`.
    pub(crate) renewals: Arc<AtomicU32>,
    /// What the next boot would refuse, whatever it is told of sizes.
    pub(crate) refuses: Arc<Mutex<Option<String>>>,
    /// The names of rendered configurations, by what tests call them: those follow from their contents.
    names: Mutex<BTreeMap<String, String>>,
    daemon: Option<JoinHandle<()>>,
    _server: ApiServer,
}

impl World {
    pub(crate) async fn new() -> World {
        let server = ApiServer::open(Settings::default()).unwrap();
        let client = Client::new(server.router(), "default");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for (_, yaml) in netferry_api::crds() {
            let definition: CustomResourceDefinition = serde_saphyr::from_str(&yaml).unwrap();
            if definition.name_any().starts_with("machineconfig") {
                definitions.create(&PostParams::default(), &definition).await.unwrap();
            }
        }
        let dir = tempfile::tempdir().unwrap();
        for path in ["root/etc", "root/var/lib", "run"] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let world = World {
            nodes: Api::all(client.clone()),
            configs: Api::all(client.clone()),
            client,
            dir,
            restarts: Arc::default(),
            renewals: Arc::default(),
            refuses: Arc::default(),
            names: Mutex::default(),
            daemon: None,
            _server: server,
        };
        let node: Node = serde_json::from_value(json!({"metadata": {"name": NODE}})).unwrap();
        world.nodes.create(&PostParams::default(), &node).await.unwrap();
        world
    }

    pub(crate) fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    pub(crate) fn run(&self) -> std::path::PathBuf {
        self.dir.path().join("run")
    }

    /// Where the kernel says what it was started with.
    pub(crate) fn started_with(&self) -> std::path::PathBuf {
        self.dir.path().join("cmdline")
    }

    pub(crate) fn disk(&self) -> Disk {
        Disk::open(&self.root()).unwrap()
    }

    /// What one of the host's files says, from now on.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What host-init does at a boot, as far as it concerns the daemon.
    pub(crate) fn boot(&self, epoch: u64, pods: Option<u32>) {
        let _ = std::fs::remove_dir_all(self.run());
        let disk = self.disk();
        store::recover(&disk).unwrap();
        store::note_boot(&disk, &self.run()).unwrap();
        let host = Envelope::settled(size(1500));
        let network = pods.map(|mtu| Envelope::settled(size(mtu)));
        let booted = Booted { epoch, network, host, own: size(1500), original: size(1500) };
        boot::write(&self.run(), &booted).unwrap();
    }

    pub(crate) fn start(&mut self) {
        let (restarts, refuses) = (Arc::clone(&self.restarts), Arc::clone(&self.refuses));
        let (renewals, boot) = (Arc::clone(&self.renewals), self.root().join("boot"));
        let (tell, seen) = watch::channel(None);
        let preview = Foresight {
            kernel: Arc::new(Kernel::here().unwrap()),
            disk: Arc::new(self.disk()),
            run: self.run(),
            facts: watch::channel(None).1,
        };
        let file = managed::managed(Running::open(&self.run()), Arc::new(self.disk()), preview);
        let parsed = file.check;
        let check = move |contents: &[u8]| match refuses.lock().unwrap().clone() {
            Some(why) => Err(CheckError::Refused(Foreseen::NoLink(why).into())),
            None => parsed(contents),
        };
        let file = ManagedFile { check: Box::new(check), ..file };
        let parts = Parts {
            nodes: self.nodes.clone(),
            configs: self.configs.clone(),
            name: NODE.to_owned(),
            disk: Arc::new(self.disk()),
            run: self.run(),
            own: seen,
            files: vec![file],
            restart: Box::new(move || {
                restarts.fetch_add(1, Ordering::SeqCst);
                Box::pin(async { Ok(()) })
            }),
            renew_boot_loader: Box::new(move || {
                renewals.fetch_add(1, Ordering::SeqCst);
                let done = if boot.exists() { Ok(()) } else { Err(BootLoaderError::Unknown) };
                Box::pin(async { done })
            }),
            started_with: self.started_with(),
        };
        let follow = own::follow(self.nodes.clone(), NODE.to_owned(), tell);
        self.daemon = Some(tokio::spawn(async { tokio::join!(daemon::run(parts), follow).1 }));
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.abort();
            let _ = daemon.await;
        }
    }

    /// A rendered configuration of one file.
    pub(crate) async fn render(&self, name: &str, epoch: u64, path: &str, contents: &str) {
        let source = contents.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let files = json!([{"path": path, "mode": 420, "contents": {"source": format!("data:,{source}")}}]);
        let spec = json!({"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": files}}});
        self.render_spec(name, epoch, spec).await;
    }

    /// A rendered configuration, under the name its contents have. One that cannot be rendered has the name as it is.
    pub(crate) async fn render_spec(&self, name: &str, epoch: u64, spec: Value) {
        let object = |name: &str| -> MachineConfig {
            let object = json!({
                "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": {"name": name, "annotations": {"netferry.dev/epochs": json!({"mtu": epoch}).to_string()}},
                "spec": &spec,
            });
            serde_json::from_value(object).unwrap()
        };
        let written = netferry_translate::machine_config::machine_config(&object(name));
        let rendered = written.ok().and_then(|written| merge("worker", &[written]).ok());
        let real = rendered.map_or(name.to_owned(), |rendered| rendered.name);
        self.configs.create(&PostParams::default(), &object(&real)).await.unwrap();
        self.names.lock().unwrap().insert(name.to_owned(), real);
    }

    /// A text with the names that rendered configurations really have.
    pub(crate) fn real(&self, text: &str) -> String {
        let names = self.names.lock().unwrap();
        names.iter().fold(text.to_owned(), |text, (name, real)| text.replace(name, real))
    }

    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) {
        let value = value.map(|value| self.real(value));
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn tell(&self, config: &str) {
        self.annotate(&format!("{MCO}/desiredConfig"), Some(config)).await;
    }

    /// What the drain controller says when it has done what it was asked.
    pub(crate) async fn fulfil(&self, request: &str) {
        self.says("desiredDrain", request).await;
        self.annotate(&format!("{MCO}/lastAppliedDrain"), Some(request)).await;
    }

    pub(crate) async fn annotation(&self, key: &str) -> String {
        let node = self.nodes.get(NODE).await.unwrap();
        node.metadata.annotations.unwrap_or_default().remove(key).unwrap_or_default()
    }

    /// Waits until the node says this under a key of the machine configuration's.
    pub(crate) async fn says(&self, key: &str, value: &str) {
        let value = self.real(value);
        self.until(&format!("{MCO}/{key}"), |now| now == value, &value).await;
    }

    pub(crate) async fn until(&self, key: &str, is_so: impl Fn(&str) -> bool, what: &str) {
        until(&format!("{key} is {what}"), async || {
            let said = self.nodes.get(NODE).await.unwrap().metadata.annotations.unwrap_or_default();
            let now = said.get(key).map(String::as_str).unwrap_or_default();
            if is_so(now) { Ok(()) } else { Err(format!("{said:#?}")) }
        })
        .await;
    }

    pub(crate) async fn restarts_are(&self, shall: u32) {
        let restarts = until(&format!("{shall} restarts"), async || {
            let now = self.restarts.load(Ordering::SeqCst);
            if now >= shall { Ok(now) } else { Err(now.to_string()) }
        })
        .await;
        assert_eq!(restarts, shall);
    }

    pub(crate) fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(below(&self.root(), path)).ok()
    }
}

pub(crate) fn below(root: &Path, path: &str) -> std::path::PathBuf {
    root.join(path.trim_start_matches('/'))
}
