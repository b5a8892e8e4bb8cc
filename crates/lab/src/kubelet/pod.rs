//! The life of one pod on this node.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Context;
use super::containers::{Restart, Running, Seen, Start};
use super::sandbox::Sandbox;
use super::status::Known;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// What the API last said of a pod.
#[derive(Clone)]
enum Told {
    /// It is to be as this says.
    Pod(Arc<Pod>),
    /// It is not there any more.
    Gone(Arc<Pod>),
}

impl Told {
    fn pod(&self) -> &Arc<Pod> {
        match self {
            Told::Pod(pod) | Told::Gone(pod) => pod,
        }
    }

    /// How long it may take to end, if it is to end.
    fn grace(&self) -> Option<Duration> {
        match self {
            Told::Gone(_) => Some(Duration::ZERO),
            Told::Pod(pod) => {
                pod.metadata.deletion_timestamp.as_ref()?;
                let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
                Some(Duration::from_secs(seconds.unsigned_abs()))
            }
        }
    }
}

/// Whoever looks after one pod.
pub(super) struct Worker {
    told: watch::Sender<Told>,
    live: Arc<Live>,
    task: tokio::task::JoinHandle<()>,
    name: (String, String),
    context: Arc<Context>,
}

/// What of a pod is there now.
#[derive(Default)]
struct Live {
    sandbox: Mutex<Option<Sandbox>>,
    init: Mutex<Vec<Running>>,
    containers: Mutex<Vec<Running>>,
    trouble: Mutex<Option<String>>,
}

impl Worker {
    pub(super) fn start(context: Arc<Context>, pod: Pod) -> Worker {
        let meta = &pod.metadata;
        let name = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let (told, hears) = watch::channel(Told::Pod(Arc::new(pod)));
        let live = Arc::new(Live::default());
        let (changed, _) = watch::channel(0);
        let life = Life {
            context: context.clone(),
            told: hears,
            live: live.clone(),
            changed,
            namespace: name.0.clone(),
            name: name.1.clone(),
            started: Timestamp::now(),
        };
        Worker { told, live, task: tokio::spawn(life.run()), name, context }
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        match name.split_once('/') {
            Some((namespace, name)) => (namespace, name) == (&self.name.0, &self.name.1),
            None => name == self.name.1,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.task.is_finished()
    }

    pub(super) fn tell(&self, pod: Pod) {
        self.told.send_replace(Told::Pod(Arc::new(pod)));
    }

    pub(super) fn tell_gone(&self) {
        self.told.send_modify(|told| *told = Told::Gone(told.pod().clone()));
    }

    /// A process of the pod.
    pub(super) fn process(&self) -> Option<i32> {
        locked(&self.live.containers).iter().find_map(Running::pid)
    }

    /// Ends its processes and its network; the API is told nothing.
    pub(super) async fn shut_down(self, grace: Duration) {
        self.task.abort();
        for list in [&self.live.containers, &self.live.init] {
            let mut running = std::mem::take(&mut *locked(list));
            running.iter().for_each(|container| container.end(grace));
            for container in &mut running {
                container.gone().await;
            }
        }
        let sandbox = locked(&self.live.sandbox).take();
        if let Some(sandbox) = sandbox {
            // What cannot be detached now is detached after the next boot.
            let detached = tokio::time::timeout(grace, sandbox.remove(&self.context.children)).await;
            if !matches!(detached, Ok(Ok(()))) {
                tracing::warn!(pod = self.name.1, "not detached at shutdown");
            }
        }
    }
}

struct Life {
    context: Arc<Context>,
    told: watch::Receiver<Told>,
    live: Arc<Live>,
    /// Counts what changed of containers.
    changed: watch::Sender<u64>,
    namespace: String,
    name: String,
    started: Timestamp,
}

impl Life {
    async fn run(self) {
        let phase = self.pod().status.as_ref().and_then(|status| status.phase.clone());
        let over = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
        let said = watch::channel(None).0;
        if over {
            self.until_told_to_end().await;
        } else {
            tokio::select! {
                () = self.be() => {}
                () = self.keep_saying(&said) => {}
                () = self.until_told_to_end() => {}
            }
            tokio::select! {
                () = self.end_containers() => {}
                () = self.keep_saying(&said) => {}
            }
            self.detach().await;
        }
        self.say_goodbye(over).await;
    }

    fn pod(&self) -> Arc<Pod> {
        self.told.borrow().pod().clone()
    }

    async fn until_told_to_end(&self) {
        let mut told = self.told.clone();
        // The worker holds the other end for as long as this runs.
        let _ = told.wait_for(|told| told.grace().is_some()).await;
    }

    /// Network, then containers one after another, then nothing for ever.
    async fn be(&self) {
        let pod = self.pod();
        let Some(spec) = &pod.spec else { return std::future::pending().await };
        let on_host = spec.host_network == Some(true);
        let network = if on_host { None } else { Some(self.attach(&pod).await) };
        let addresses = self.addresses();
        let start = |container: &Container, restart| {
            Start {
                restarts: started_before(&pod, &container.name),
                pod: &pod,
                container,
                restart,
                network: network.clone(),
                addresses: &addresses,
                spec: &self.context.spec,
                children: &self.context.children,
                changed: self.changed.clone(),
            }
            .run()
        };
        let restart = Restart::of(&pod);
        let before = if restart == Restart::Never { Restart::Never } else { Restart::OnFailure };
        for container in spec.init_containers.iter().flatten() {
            locked(&self.live.init).push(start(container, before));
            if self.last_init_ended().await != 0 {
                return std::future::pending().await;
            }
        }
        let all: Vec<Running> = spec.containers.iter().map(|container| start(container, restart)).collect();
        *locked(&self.live.containers) = all;
        self.changed.send_modify(|count| *count += 1);
        std::future::pending().await
    }

    async fn last_init_ended(&self) -> i32 {
        let mut changes = self.changed.subscribe();
        loop {
            let seen = locked(&self.live.init).last().map(Running::seen);
            if let Some(Seen { state: super::containers::State::Terminated { code, .. }, .. }) = seen {
                return code;
            }
            let _ = changes.changed().await;
        }
    }

    /// Tries until there is a network.
    async fn attach(&self, pod: &Pod) -> Arc<netferry_kernel::Namespace> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let mut pause = FIRST_PAUSE;
        let mut ready = self.context.network.subscribe();
        loop {
            let _ = ready.wait_for(|ready| *ready).await;
            let made = Sandbox::make(&self.context, &self.namespace, &self.name, &uid).await;
            let opened = made.and_then(|sandbox| sandbox.network().map(|network| (sandbox, network)));
            match opened {
                Ok((sandbox, network)) => {
                    *locked(&self.live.sandbox) = Some(sandbox);
                    *locked(&self.live.trouble) = None;
                    self.changed.send_modify(|count| *count += 1);
                    return Arc::new(network);
                }
                Err(error) => {
                    tracing::warn!(
                        pod = format!("{}/{}", self.namespace, self.name),
                        error = error.chain(),
                        "no network"
                    );
                    *locked(&self.live.trouble) = Some(error.chain());
                    self.context.look.notify_one();
                    self.changed.send_modify(|count| *count += 1);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn end_containers(&self) {
        let mut told = self.told.clone();
        loop {
            let grace = told.borrow_and_update().grace().unwrap_or_default();
            for list in [&self.live.containers, &self.live.init] {
                locked(list).iter().for_each(|container| container.end(grace));
            }
            let all_gone = async {
                let mut changes = self.changed.subscribe();
                let running = || {
                    [&self.live.containers, &self.live.init]
                        .into_iter()
                        .any(|list| locked(list).iter().any(|container| !container.is_over()))
                };
                while running() {
                    let _ = changes.changed().await;
                }
            };
            tokio::select! {
                () = all_gone => return,
                // The grace may become shorter, or the pod be gone.
                changed = told.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn detach(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let sandbox = locked(&self.live.sandbox).clone();
            let Some(sandbox) = sandbox else { return };
            match sandbox.remove(&self.context.children).await {
                Ok(()) => {
                    *locked(&self.live.sandbox) = None;
                    return;
                }
                Err(error) => tracing::warn!(pod = self.name, error = error.chain(), "not detached"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Says how the pod is, whenever that changes, for ever.
    async fn keep_saying(&self, said: &watch::Sender<Option<Value>>) {
        let mut changes = self.changed.subscribe();
        let mut told = self.told.clone();
        let mut pause = FIRST_PAUSE;
        loop {
            changes.mark_unchanged();
            told.mark_unchanged();
            let status = self.status();
            let fresh = said.borrow().as_ref() != Some(&status) || contradicted(&self.pod(), &status);
            if fresh && matches!(*self.told.borrow(), Told::Pod(_)) {
                match self.say(&status).await {
                    Ok(()) => {
                        said.send_replace(Some(status));
                        pause = FIRST_PAUSE;
                    }
                    Err(error) => {
                        tracing::warn!(pod = self.name, error, "saying how it is");
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        continue;
                    }
                }
            }
            tokio::select! {
                _ = changes.changed() => {}
                changed = told.changed() => if changed.is_err() { return std::future::pending().await },
            }
        }
    }

    fn status(&self) -> Value {
        let pod = self.pod();
        let host: Vec<String> = self.context.spec.addresses().map(|address| address.to_string()).collect();
        let addresses = self.addresses();
        let spec = pod.spec.clone().unwrap_or_default();
        let seen = |list: &Mutex<Vec<Running>>, container: &Container| {
            locked(list).iter().find(|running| running.name == container.name).map(Running::seen)
        };
        let init = spec.init_containers.iter().flatten();
        Known {
            pod: &pod,
            host: &host,
            addresses: &addresses,
            started: self.started,
            init: init.map(|c| (c, seen(&self.live.init, c))).collect(),
            containers: spec.containers.iter().map(|c| (c, seen(&self.live.containers, c))).collect(),
            trouble: locked(&self.live.trouble).clone(),
        }
        .status()
    }

    fn addresses(&self) -> Vec<String> {
        let on_host = self.pod().spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        if on_host {
            return self.context.spec.addresses().map(|address| address.to_string()).collect();
        }
        locked(&self.live.sandbox).as_ref().map(Sandbox::addresses).unwrap_or_default()
    }

    async fn say(&self, status: &Value) -> Result<(), String> {
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let uid = self.pod().metadata.uid.clone();
        // With its uid: a pod of the same name that came after this one is not meant.
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        let talk =
            async { api.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(&patch)).await };
        match tokio::time::timeout(ANSWER_WITHIN, talk).await {
            Ok(Ok(_)) => Ok(()),
            // Gone, or another one: the watch says so in a moment.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409 | 422) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".into()),
        }
    }

    /// The last word: how it ended, and that the object can go.
    async fn say_goodbye(&self, over: bool) {
        let api: Api<Pod> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let uid = self.pod().metadata.uid.clone();
        let mut pause = FIRST_PAUSE;
        while matches!(*self.told.borrow(), Told::Pod(_)) {
            let talk = async {
                if !over {
                    self.say(&self.status()).await?;
                }
                let only_this = Preconditions { uid: uid.clone(), resource_version: None };
                let now = DeleteParams {
                    grace_period_seconds: Some(0),
                    preconditions: Some(only_this),
                    ..DeleteParams::default()
                };
                match api.delete(&self.name, &now).await {
                    Ok(_) => Ok(()),
                    Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            };
            match tokio::time::timeout(ANSWER_WITHIN, talk).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => tracing::warn!(pod = self.name, error, "saying goodbye"),
                Err(_) => tracing::warn!(pod = self.name, "no answer to its goodbye"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// How often a container was started before this boot, by what the API knows: a restart of the machine restarts it.
fn started_before(pod: &Pod, container: &str) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| {
        let (of_pod, of_init) = (&status.container_statuses, &status.init_container_statuses);
        of_pod.iter().flatten().chain(of_init.iter().flatten())
    });
    let known = statuses.into_iter().find(|status| status.name == container);
    known.map_or(0, |status| {
        let ran = status.state.as_ref().is_some_and(|state| state.waiting.is_none());
        status.restart_count + i32::from(ran)
    })
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the API says something else of the pod's readiness than its kubelet: a node that was silent for a while had
/// its pods declared unready, and only their kubelet can take that back.
fn contradicted(pod: &Pod, status: &Value) -> bool {
    let ours = status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Ready");
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let theirs = conditions.into_iter().find(|one| one.type_ == "Ready");
    matches!((ours, theirs), (Some(ours), Some(theirs)) if ours["status"] != theirs.status.as_str())
}
