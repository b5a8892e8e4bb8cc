//! The kubelet's stand-in: what a node does for Kubernetes, no more than a lab needs.
//!
//! It registers the Node and says how it is ([`machine`]), and runs the pods bound to it ([`pod`]): a network of its own
//! for each, attached by the real CNI executable, and the containers' commands in it. Images are not fetched; commands
//! are those of the machine, and without one a built-in program that answers is run.

mod cni;
mod containers;
mod follow;
mod machine;
mod pod;
mod probe;
mod sandbox;
mod status;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::config::Kubeconfig;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use self::follow::Pods;
use crate::children::Children;
use crate::client;
use crate::error::{During, Result};
use crate::node::{Reporter, Spec, insist};

/// A running stand-in.
pub(crate) struct Kubelet {
    pods: Arc<Pods>,
    tasks: Vec<JoinHandle<()>>,
}

/// What everything in here shares.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) spec: Spec,
    pub(crate) children: Children,
    pub(crate) reporter: Reporter,
    /// Which life of the machine this is. The kernel's own would be that of the machine below, and the same for all.
    pub(crate) boot: String,
    /// Whether pods can be attached.
    pub(crate) network: watch::Sender<bool>,
    /// Asks to look at the network now.
    pub(crate) look: Notify,
    /// Takes what could not be detached.
    pub(crate) rests: mpsc::UnboundedSender<sandbox::Sandbox>,
}

impl Kubelet {
    /// Starts one; it goes on by itself, whatever becomes of the API.
    pub(crate) async fn start(
        spec: &Spec,
        kubeconfig: &Path,
        children: &Children,
        reporter: &Reporter,
    ) -> Result<Kubelet> {
        let connected: Rc<std::cell::RefCell<Option<Client>>> = Rc::default();
        insist(reporter, "reading the kubeconfig", async || {
            connected.replace(Some(connect(kubeconfig).await?));
            Ok(())
        })
        .await;
        let client = connected.take().during_some("reading the kubeconfig")?;
        let (rests, swept) = mpsc::unbounded_channel();
        let context = Arc::new(Context {
            client,
            spec: spec.clone(),
            children: children.clone(),
            reporter: reporter.clone(),
            boot: machine::read("/proc/sys/kernel/random/uuid"),
            network: watch::channel(false).0,
            look: Notify::new(),
            rests,
        });
        let pods = Arc::new(Pods::new(context.clone()));
        let tasks = vec![
            tokio::spawn(machine::report(context.clone())),
            tokio::spawn(machine::renew_lease(context.clone())),
            tokio::spawn(sandbox::sweep(context, swept)),
            tokio::spawn(follow::follow(pods.clone())),
        ];
        Ok(Kubelet { pods, tasks })
    }

    /// The process that leads into a pod, as this node sees it.
    pub(crate) fn process_of(&self, pod: &str) -> std::result::Result<Vec<i32>, String> {
        self.pods.process_of(pod)
    }

    /// Ends all pods without a word to the API: a machine that goes down does not delete what was to run on it.
    pub(crate) async fn shut_down(self, grace: Duration) {
        for task in &self.tasks {
            task.abort();
        }
        self.pods.shut_down(grace).await;
    }
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let attempt = format!("reading {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).during(attempt.as_str())?;
    client::client(file, &attempt).await
}

trait DuringSome<T> {
    fn during_some(self, attempt: &str) -> Result<T>;
}

impl<T> DuringSome<T> for Option<T> {
    fn during_some(self, attempt: &str) -> Result<T> {
        self.ok_or("nothing came of it").during(attempt)
    }
}
