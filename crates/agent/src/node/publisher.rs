//! One task that keeps this node's annotations true, for every part of the agent that publishes some.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::select_all;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use netferry_core::error::chain;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::pause::Pause;

/// The field manager of what this agent writes to its Node.
pub(crate) const MANAGER: &str = "netferry-agent";
/// Between attempts to reach an API that does not answer.
const PAUSE: Pause = Pause::new(Duration::from_millis(200), Duration::from_secs(15));

/// The object an annotation may be published on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Any object with this node's name.
    Registered,
    /// Only the object that was admitted: peers send packets by it, and a node that does not run the cluster's sizes
    /// would not receive them ([`crate::mtu::admission`]).
    Admitted,
}

/// Annotations, as one owner wants them. `None` until the owner knows.
pub type Annotations = Option<BTreeMap<String, String>>;

#[derive(Debug)]
struct Source {
    owner: &'static str,
    when: When,
    wanted: watch::Receiver<Annotations>,
}

/// Collects the owners' annotations; [`Publisher::run`] writes them.
#[derive(Debug, Default)]
pub struct Publisher {
    sources: Vec<Source>,
    keys: BTreeMap<&'static str, &'static str>,
}

impl Publisher {
    /// Adds an owner of these keys.
    ///
    /// # Panics
    ///
    /// If a key has an owner already: two writers of one key would overwrite each other for ever.
    pub fn add(
        &mut self,
        owner: &'static str,
        keys: &[&'static str],
        when: When,
        wanted: watch::Receiver<Annotations>,
    ) {
        for key in keys {
            let before = self.keys.insert(key, owner);
            assert_eq!(before, None, "annotation {key} is published by {owner} already");
        }
        self.sources.push(Source { owner, when, wanted });
    }

    /// [`Publisher::add`] for a value that is printed as annotations by `print`, in a task of its own.
    pub fn add_printed<T: Send + Sync + 'static>(
        &mut self,
        tasks: &mut JoinSet<()>,
        (owner, keys, when): (&'static str, &[&'static str], When),
        mut value: watch::Receiver<Option<T>>,
        print: impl Fn(&T) -> BTreeMap<String, String> + Send + 'static,
    ) {
        let (tell, wanted) = watch::channel(None);
        tasks.spawn(async move {
            loop {
                let printed = value.borrow_and_update().as_ref().map(&print);
                tell.send_replace(printed);
                if value.changed().await.is_err() {
                    return;
                }
            }
        });
        self.add(owner, keys, when, wanted);
    }

    /// Keeps the annotations true: writes those that differ when an owner changes them, and again when a manual edit
    /// changed them. An API that does not answer is asked again; the newest values win.
    pub async fn run(
        mut self,
        nodes: Api<Node>,
        name: String,
        mut own: watch::Receiver<Option<Node>>,
        mut admitted: watch::Receiver<Option<String>>,
    ) {
        let mut pause = PAUSE;
        let mut node = own.borrow_and_update().clone();
        loop {
            let uid = admitted.borrow_and_update().clone().unwrap_or_default();
            let mut failed = false;
            for Source { owner, when, wanted } in &mut self.sources {
                let wanted = wanted.borrow_and_update().clone();
                let (Some(wanted), Some(node)) = (wanted, &mut node) else { continue };
                if *when == When::Admitted && node.metadata.uid.as_deref() != Some(uid.as_str()) {
                    continue;
                }
                // All owners are tried in a pass, so that a refusal delays the others by one pause at most.
                if let Err(error) = write(&nodes, node, &missing(&wanted, node)).await {
                    tracing::warn!(
                        node = name,
                        owner,
                        error = chain(&error),
                        "annotations were not published"
                    );
                    failed = true;
                }
            }
            if failed {
                pause.wait().await;
                node = own.borrow_and_update().clone();
                continue;
            }
            pause.reset();
            let sources = self.sources.iter_mut().map(|source| source.wanted.changed().boxed());
            let changes = sources.chain([own.changed().boxed(), admitted.changed().boxed()]);
            let (changed, index, _) = select_all(changes).await;
            if index == self.sources.len() {
                node = own.borrow_and_update().clone();
            }
            if changed.is_err() {
                if index >= self.sources.len() {
                    return;
                }
                // An owner that ended changes nothing any more; what it published stays.
                self.sources.swap_remove(index);
            }
        }
    }
}

/// Those of `wanted` that the node lacks or has otherwise.
pub fn missing(wanted: &BTreeMap<String, String>, node: &Node) -> BTreeMap<String, String> {
    let none = BTreeMap::new();
    let have = node.metadata.annotations.as_ref().unwrap_or(&none);
    let differs = |(key, value): &(&String, &String)| have.get(*key) != Some(*value);
    wanted.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Writes what is missing, and takes over what the object has after that: the watch may show it later.
async fn write(
    nodes: &Api<Node>,
    node: &mut Node,
    missing: &BTreeMap<String, String>,
) -> Result<(), kube::Error> {
    if missing.is_empty() {
        return Ok(());
    }
    let name = node.name_any();
    let keys: Vec<&str> = missing.keys().map(String::as_str).collect();
    tracing::info!(node = name, keys = keys.join(" "), "publishing annotations");
    // The UID has the API refuse it for another object that registered by this name meanwhile.
    let patch = json!({"metadata": {"uid": node.metadata.uid, "annotations": missing}});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    node.metadata = nodes.patch_metadata(&name, &params, &Patch::Merge(patch)).await?.metadata;
    Ok(())
}
