//! The daemon: looks at what is true, decides, does one thing, and looks again.
//!
//! It remembers nothing: what it is told is read from the API before every decision, what the node holds from its disk,
//! what it runs from this boot's record. One that died, and a host that lost power, go on from wherever they were.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::MachineConfig as Written;
use netferry_api::rollout::annotations::{CurrentConfig, DesiredDrain, PostConfigAction, Reason};
use netferry_core::error::chain;
use netferry_core::rollout::daemon::{self as core, Facts, Named, Said, Step, backoff};
use netferry_core::rollout::effect::{Effect, effect};
use netferry_core::rollout::layout::{Drift, KERNEL_ARGUMENTS};
use netferry_core::rollout::merge::{Rendered, is_named_by_contents};
use netferry_core::rollout::pool::NodeState;
use netferry_translate::machine::{NotAMachine, machine, printed_request, printed_state};
use netferry_translate::machine_config;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::boot_loader::{self, BootLoaderError};
use super::restart::RestartError;
use super::store::{self, StoreError};
use super::{CheckError, Disk, DiskError, ManagedFile};
use crate::kept;

/// A file by which somebody says to go on although managed files are not as they should be.
const FORCE: &str = "/run/machine-config-daemon-force";
/// In our run directory, once the boot loader was told again what the kernel was not started with.
const TOLD_AGAIN: &str = "boot-loader-told.json";
/// How often managed files are compared with what they should be although nothing was heard.
const EVERY: Duration = Duration::from_secs(5);
/// How long a host may take from being asked to restart until it ends us.
const RESTART_PATIENCE: Duration = Duration::from_secs(600);

/// How the host is asked to restart.
pub type Restart = Box<dyn Fn() -> BoxFuture<'static, Result<(), RestartError>> + Send + Sync>;

/// How the host's boot loader is told of other arguments for the kernel.
pub type RenewBootLoader = Box<dyn Fn() -> BoxFuture<'static, Result<(), BootLoaderError>> + Send + Sync>;

/// What the daemon works with.
pub struct Parts {
    /// Nodes.
    pub nodes: Api<Node>,
    /// Configurations.
    pub configs: Api<Written>,
    /// Its node.
    pub name: String,
    /// The host's files.
    pub disk: Arc<Disk>,
    /// Our run directory.
    pub run: PathBuf,
    /// This node's object, which wakes the daemon.
    pub own: watch::Receiver<Option<Node>>,
    /// The files whose meaning capabilities know.
    pub files: Vec<ManagedFile>,
    /// How the host is asked to restart.
    pub restart: Restart,
    /// How its boot loader is told of other arguments for the kernel.
    pub renew_boot_loader: RenewBootLoader,
    /// Where the kernel says what it was started with.
    pub started_with: PathBuf,
}

/// What keeps a node from getting further. It is said on the node.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("asking the API about {what}")]
    Api {
        what: String,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Node(#[from] NotAMachine),
    #[error("MachineConfig {0} does not exist")]
    NoConfig(String),
    #[error("{0}")]
    Unreconcilable(String),
    #[error("checking {path} for the next boot")]
    Check {
        path: &'static str,
        #[source]
        source: CheckError,
    },
    #[error("applying {path}")]
    Apply {
        path: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("writing down what this boot runs at")]
    Running(#[source] std::io::Error),
    #[error("what was written is not what is there: {0}")]
    Unsound(String),
    #[error(transparent)]
    Restart(#[from] RestartError),
    #[error(transparent)]
    BootLoader(#[from] BootLoaderError),
    #[error("reading what the kernel was started with")]
    StartedWith(#[source] std::io::Error),
    #[error(
        "the kernel was started without {0}: the boot loader was told again, restart the host. If that does not help, look \
         why it does not read {KERNEL_ARGUMENTS}, or take them out of the MachineConfig"
    )]
    NotInForce(String),
    #[error("the host was asked to restart {} minutes ago and is still up", RESTART_PATIENCE.as_secs() / 60)]
    StillUp,
    #[error("a part of the daemon failed")]
    Part(#[source] tokio::task::JoinError),
}

/// Whether there is something to do at once.
enum Next {
    Again,
    Wait,
}

/// Takes the node to the configuration it is assigned, for as long as it is run.
pub async fn run(mut parts: Parts) {
    let mut attempt = 0;
    loop {
        match parts.pass().await {
            Ok(Next::Again) => attempt = 0,
            Ok(Next::Wait) => {
                attempt = 0;
                let _ = tokio::time::timeout(EVERY, parts.own.changed()).await;
            }
            Err(trouble) => {
                parts.complain(&trouble).await;
                // Another assignment is tried at once. The daemon's own complaint is no reason to try again.
                let assigned = desired(&parts.own);
                let otherwise = parts.own.wait_for(|node| node.as_ref().and_then(desired_of) != assigned);
                let otherwise = tokio::time::timeout(backoff(attempt), otherwise).await.is_ok();
                attempt = if otherwise { 0 } else { attempt + 1 };
            }
        }
    }
}

fn desired(seen: &watch::Receiver<Option<Node>>) -> Option<String> {
    seen.borrow().as_ref().and_then(desired_of)
}

fn desired_of(node: &Node) -> Option<String> {
    let key = netferry_api::rollout::annotations::DesiredConfig::KEY;
    node.metadata.annotations.as_ref()?.get(key).cloned()
}

impl Parts {
    /// Looks, decides, and does one thing.
    async fn pass(&self) -> Result<Next, Trouble> {
        let node = self.nodes.get_opt(&self.name).await.map_err(|source| self.api(&self.name, source))?;
        // Not registered yet, or removed: nobody tells it anything.
        let Some(node) = node else { return Ok(Next::Wait) };
        let machine = machine(&node)?;
        store::recover(&self.disk)?.complete()?;
        let current = store::current(&self.disk)?;
        let desired = match &machine.node.desired {
            None => None,
            Some(name) => Some(self.fetch(name, current.as_ref()).await?),
        };
        if let Some(new) = desired.as_ref().filter(|new| Some(*new) != current.as_ref()) {
            self.may_boot(new)?;
        }
        let drift = match &current {
            Some(current) => store::strayed(&self.disk, current)?,
            None => Vec::new(),
        };
        let booted = store::booted(&self.disk, &self.run)?;
        let managed: Vec<&str> = self.files.iter().map(|file| file.path).collect();
        let of = |path: &str, was: Option<&[u8]>, is: Option<&[u8]>| {
            let known = self.files.iter().find(|file| file.path == path);
            match known {
                _ if was == is => Effect::Nothing,
                Some(file) => (file.effect)(is),
                None => Effect::Restart,
            }
        };
        let due = |config: &Rendered| effect(&booted, config, &managed, of);
        let named = |config: &Rendered| Named { name: config.name.clone(), epochs: config.epochs.clone() };
        let said = Said {
            current: machine.node.current.clone(),
            state: machine.node.state,
            reason: machine.node.reason.clone(),
        };
        let step = core::decide(&Facts {
            desired: desired.as_ref().map(named).as_ref(),
            disk: current.as_ref().map(named).as_ref(),
            due: current.as_ref().map(due).unwrap_or_default(),
            needed: desired.as_ref().map(due).unwrap_or_default(),
            drift: &drift,
            forced: self.disk.present(FORCE)?,
            said: &said,
            asked: machine.asked.as_ref(),
            fulfilled: machine.fulfilled.as_ref(),
            cordoned: machine.cordoned_by_us,
            alone: machine.alone,
        });
        // With nothing else to be done about it.
        let in_force = |current: &&Rendered| due(current) < Effect::Restart;
        if current.as_ref().filter(in_force).is_some() && desired == current {
            self.has_arguments(&booted).await?;
        }
        match step {
            Step::Rest | Step::AwaitDrain => return Ok(Next::Wait),
            Step::Say(said) => self.say(&said).await?,
            Step::Ask(request) => {
                tracing::info!(?request, "asking the drain controller");
                self.write([DesiredDrain(printed_request(&request)).entry()].into()).await?;
            }
            Step::Take => {
                let new = desired.expect("only what is told is taken");
                self.take(new, &booted).await?;
            }
            Step::Apply => {
                let current = current.expect("only a configuration on the disk is applied");
                self.apply(&current)?;
            }
            Step::Restart => {
                // Now, and not when it was taken: a daemon may have died in between.
                if current.is_some_and(|current| boot_loader::is_concerned(&booted, &current)) {
                    (self.renew_boot_loader)().await?;
                }
                self.restart().await?;
            }
        }
        Ok(Next::Again)
    }

    /// The configuration of a name, and whether it can be carried out.
    async fn fetch(&self, name: &str, current: Option<&Rendered>) -> Result<Rendered, Trouble> {
        // Its name says what is in it, and the node has it already.
        if let Some(current) = current.filter(|current| current.name == name) {
            return Ok(current.clone());
        }
        let found = self.configs.get_opt(name).await;
        let found = found.map_err(|source| self.api(&format!("MachineConfig {name}"), source))?;
        let written = found.ok_or_else(|| Trouble::NoConfig(name.to_owned()))?;
        let wrong = |error: &(dyn std::error::Error + 'static)| Trouble::Unreconcilable(chain(error));
        let rendered = machine_config::rendered(&written).map_err(|error| wrong(&error))?;
        // The operator checked what it rendered; the object may have been edited since.
        match is_named_by_contents(&rendered) {
            Ok(true) => Ok(rendered),
            Ok(false) => Err(Trouble::Unreconcilable(format!(
                "MachineConfig {name}: its contents are not those it is named after, so it was edited after the operator \
                 rendered it; delete it, and the operator renders it again"
            ))),
            Err(refusals) => {
                let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                Err(Trouble::Unreconcilable(said.join("; ")))
            }
        }
    }

    /// Returns why a boot with this configuration would not get as far as the kubelet. Found here, the node stays as it is,
    /// reports why, and follows the next assignment. Found by the boot itself, the node would be out of reach.
    fn may_boot(&self, new: &Rendered) -> Result<(), Trouble> {
        if let Err(error) = store::check(&self.disk, new) {
            return Err(match matches!(error, StoreError::Astray { .. }) {
                true => Trouble::Unreconcilable(format!("{}: {}", new.name, chain(&error))),
                false => Trouble::Store(error),
            });
        }
        for ManagedFile { path, check, .. } in &self.files {
            let Some(file) = new.spec.files.iter().find(|file| file.path == *path) else { continue };
            check(&file.contents).map_err(|error| match error {
                CheckError::Refused(why) => {
                    Trouble::Unreconcilable(format!("{} would not boot: {}", new.name, chain(&*why)))
                }
                CheckError::Unknown(_) => Trouble::Check { path, source: error },
            })?;
        }
        Ok(())
    }

    /// Lets the capabilities apply their files of the configuration on the disk to the running node.
    fn apply(&self, current: &Rendered) -> Result<(), Trouble> {
        for ManagedFile { path, apply, .. } in &self.files {
            if let Some(file) = current.spec.files.iter().find(|file| file.path == *path) {
                apply(&file.contents).map_err(|source| Trouble::Apply { path, source })?;
            }
        }
        Ok(())
    }

    async fn take(&self, new: Rendered, booted: &Rendered) -> Result<(), Trouble> {
        tracing::info!(config = new.name, epochs = %new.epochs, "taking a configuration");
        let (disk, booted) = (Arc::clone(&self.disk), booted.name.clone());
        // A disk may take its time, and others share this thread.
        let done = tokio::task::spawn_blocking(move || {
            store::take(&disk, &new)?;
            let wrong = store::strayed(&disk, &new)?;
            let needed = BTreeSet::from([new.name.as_str(), booted.as_str()]);
            store::forget_others(&disk, &needed)?;
            Ok::<_, StoreError>(wrong)
        });
        let wrong = done.await.map_err(Trouble::Part)??;
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Trouble::Unsound(listed(&wrong))),
        }
    }

    /// Whether the kernel was started with what the configuration in force says.
    async fn has_arguments(&self, booted: &Rendered) -> Result<(), Trouble> {
        if booted.spec.kernel_arguments.is_empty() {
            return Ok(());
        }
        let started_with = std::fs::read_to_string(&self.started_with).map_err(Trouble::StartedWith)?;
        let missing = boot_loader::missing(booted, &started_with);
        if missing.is_empty() {
            return Ok(());
        }
        // The power may have failed between taking it and telling the boot loader. Once a boot: it takes its time.
        if !self.run.join(TOLD_AGAIN).exists() {
            (self.renew_boot_loader)().await?;
            kept::write(&self.run, TOLD_AGAIN, &booted.name).map_err(Trouble::Running)?;
        }
        Err(Trouble::NotInForce(missing.join(" ")))
    }

    async fn restart(&self) -> Result<(), Trouble> {
        tracing::info!("asking the host to restart");
        let action = PostConfigAction::from(PostConfigAction::REBOOTING.to_owned());
        self.write([action.entry()].into()).await?;
        (self.restart)().await?;
        tokio::time::sleep(RESTART_PATIENCE).await;
        Err(Trouble::StillUp)
    }

    async fn say(&self, said: &Said) -> Result<(), Trouble> {
        tracing::info!(state = ?said.state, current = ?said.current, reason = said.reason, "saying so");
        let mut annotations = BTreeMap::from([Reason::new(&said.reason).entry()]);
        annotations.extend(said.state.map(|state| printed_state(state).entry()));
        let current = said.current.as_deref().and_then(|current| CurrentConfig::parse(current).ok());
        annotations.extend(current.map(|current| current.entry()));
        if said.state == Some(NodeState::Done) {
            annotations.extend([PostConfigAction::from(String::new()).entry()]);
        }
        self.write(annotations).await
    }

    /// Says what is wrong, if anybody can be told.
    async fn complain(&self, trouble: &Trouble) {
        let text = chain(trouble);
        tracing::error!(why = text, "the node does not get further");
        let state = match trouble {
            Trouble::Unreconcilable(_) => NodeState::Unreconcilable,
            Trouble::Api { .. } => return,
            Trouble::Node(_)
            | Trouble::NoConfig(_)
            | Trouble::Store(_)
            | Trouble::Disk(_)
            | Trouble::Running(_)
            | Trouble::Unsound(_)
            | Trouble::Restart(_)
            | Trouble::BootLoader(_)
            | Trouble::StartedWith(_)
            | Trouble::NotInForce(_)
            | Trouble::StillUp
            | Trouble::Check { .. }
            | Trouble::Apply { .. }
            | Trouble::Part(_) => NodeState::Degraded,
        };
        let said = Said { current: None, state: Some(state), reason: text };
        if let Err(error) = self.say(&said).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "nobody could be told");
        }
    }

    async fn write(&self, annotations: BTreeMap<String, String>) -> Result<(), Trouble> {
        let patch: Value = json!({ "metadata": { "annotations": annotations } });
        let params =
            PatchParams { field_manager: Some("netferry-machine".to_owned()), ..PatchParams::default() };
        let written = self.nodes.patch_metadata(&self.name, &params, &Patch::Merge(patch)).await;
        written.map(drop).map_err(|source| self.api(&self.name, source))
    }

    fn api(&self, what: &str, source: kube::Error) -> Trouble {
        Trouble::Api { what: what.to_owned(), source }
    }
}

fn listed(drift: &[Drift]) -> String {
    drift.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
