//! What other parts must have done for a pod before ADD answers, and with that before its first packet.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use netferry_core::overlay::cluster::Pod;

/// Why a pod may not start yet.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;
type Hook = dyn Fn(&Pod) -> BoxFuture<'static, Result<(), HookError>> + Send + Sync;
/// A hook and its owner.
type Owned = (&'static str, Arc<Hook>);

/// The hooks of an agent. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct PodHooks(Arc<Mutex<Vec<Owned>>>);

/// A hook failed. The pod is not attached, and the runtime asks again.
#[derive(Debug, thiserror::Error)]
#[error("{owner} does not let the pod start")]
pub(super) struct Refused {
    owner: &'static str,
    #[source]
    source: HookError,
}

impl PodHooks {
    /// Adds a hook. It runs for every ADD, after the pod's port is in the datapath, and must end soon: the runtime waits.
    pub fn before_reply(
        &self,
        owner: &'static str,
        hook: impl Fn(&Pod) -> BoxFuture<'static, Result<(), HookError>> + Send + Sync + 'static,
    ) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((owner, Arc::new(hook)));
    }

    pub(super) async fn run(&self, pod: &Pod) -> Result<(), Refused> {
        let hooks = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (owner, hook) in hooks {
            hook(pod).await.map_err(|source| Refused { owner, source })?;
        }
        Ok(())
    }
}
