//! A pod's network: made, attached, detached, and recorded on the node's disk so that nothing is forgotten.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netferry_kernel::link::Want;
use netferry_kernel::{IfName, Kernel, Mark, Namespace, Objects};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Context;
use super::cni::{self, Attachment};
use crate::children::Children;
use crate::error::{During, Result};

const RECORDS: &str = "/var/lib/kubelet/sandboxes";
const NETWORKS: &str = "/run/netns";

/// A pod's network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    attachment: Attachment,
    /// As it was when it was attached: it must be detached by the same plugins.
    config: Value,
    result: Option<Value>,
}

impl Sandbox {
    /// Makes a network and attaches it. Whatever fails is undone, now or as soon as it can be.
    pub(super) async fn make(context: &Context, namespace: &str, name: &str, uid: &str) -> Result<Sandbox> {
        let children = &context.children;
        let config = cni::configuration()?;
        let container = new_id()?;
        let path = Path::new(NETWORKS).join(format!("cni-{}", &container[..16]));
        let network = Namespace::bound(&path).during(format!("making {}", path.display()))?;
        start_loopback(network).during(format!("starting the loopback of {namespace}/{name}"))?;
        let attachment = Attachment {
            container,
            netns: path.display().to_string(),
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
        };
        let mut sandbox = Sandbox { attachment, config, result: None };
        // Before anything is attached: a crash in between must not leave an attachment nobody knows of.
        sandbox.record()?;
        match cni::add(children, &sandbox.config, &sandbox.attachment).await {
            Ok(result) => {
                sandbox.result = Some(result);
                sandbox.record()?;
                Ok(sandbox)
            }
            Err(error) => {
                if sandbox.remove(children).await.is_err() {
                    let _ = context.rests.send(sandbox);
                }
                Err(error)
            }
        }
    }

    /// The pod's addresses.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.result.as_ref().map(cni::addresses).unwrap_or_default()
    }

    /// Its network.
    pub(super) fn network(&self) -> Result<Namespace> {
        let path = &self.attachment.netns;
        Namespace::open(path).during(format!("opening {path}"))
    }

    /// Detaches and removes it. Succeeds only if the plugins do; then nothing of it is left.
    pub(super) async fn remove(&self, children: &Children) -> Result<()> {
        let mut attachment = self.attachment.clone();
        if !Path::new(&attachment.netns).exists() {
            attachment.netns.clear();
        }
        cni::del(children, &self.config, &attachment, self.result.as_ref()).await?;
        let path = &self.attachment.netns;
        Namespace::unbind(path).during(format!("removing {path}"))?;
        std::fs::remove_file(self.file()).or_else(gone_is_fine).during("removing the record of a sandbox")
    }

    fn file(&self) -> PathBuf {
        Path::new(RECORDS).join(format!("{}.json", self.attachment.container))
    }

    fn record(&self) -> Result<()> {
        let attempt = "recording a sandbox";
        std::fs::create_dir_all(RECORDS).during(attempt)?;
        let draft = self.file().with_extension("draft");
        std::fs::write(&draft, serde_json::to_vec(self).during(attempt)?).during(attempt)?;
        std::fs::rename(&draft, self.file()).during(attempt)
    }
}

/// Detaches what somebody could not detach, and what was attached before this boot: those networks are gone, and what
/// plugins keep of them is not.
pub(super) async fn sweep(context: Arc<Context>, mut more: mpsc::UnboundedReceiver<Sandbox>) {
    let mut left: Vec<Sandbox> = std::fs::read_dir(RECORDS)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok())
        .filter(|sandbox: &Sandbox| !Path::new(&sandbox.attachment.netns).exists())
        .collect();
    let mut ready = context.network.subscribe();
    loop {
        if left.is_empty() {
            let Some(sandbox) = more.recv().await else { return };
            left.push(sandbox);
        }
        while let Ok(sandbox) = more.try_recv() {
            left.push(sandbox);
        }
        // Plugins that cannot attach can rarely detach.
        let _ = ready.wait_for(|ready| *ready).await;
        let mut again = vec![];
        for sandbox in left {
            if let Err(error) = sandbox.remove(&context.children).await {
                tracing::warn!(error = error.chain(), "detaching what is left of a pod");
                again.push(sandbox);
            }
        }
        left = again;
        if !left.is_empty() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }
}

fn gone_is_fine(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn start_loopback(network: Namespace) -> netferry_kernel::Result<()> {
    let kernel = Kernel::inside(network)?;
    kernel.links().converge(&[Want::adjust(IfName::new("lo")?).up()], &Mark::default()).map(drop)
}

/// Sixty-four hexadecimal digits, as runtimes give.
fn new_id() -> Result<String> {
    let half =
        || std::fs::read_to_string("/proc/sys/kernel/random/uuid").during("drawing an id for a sandbox");
    let both = half()? + &half()?;
    Ok(both.chars().filter(char::is_ascii_hexdigit).collect())
}
