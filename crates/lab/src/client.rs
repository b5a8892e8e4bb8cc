//! How the lab's own programs talk to its API server.

use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::error::{During, Result};

/// A fabric that swallows packets answers nothing: better to ask again than to wait for what never comes.
const CONNECTS_WITHIN: Duration = Duration::from_secs(15);

/// A client for what asks again by itself.
///
/// Every request is made once, as the operator's are: a client that repeats by itself what was answered with 429 would
/// sit out, unseen, the very answers that say what keeps it waiting.
pub(crate) async fn client(file: Kubeconfig, attempt: &str) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.during(attempt)?;
    config.connect_timeout = Some(CONNECTS_WITHIN);
    config.default_retry = false;
    Client::try_from(config).during(attempt)
}
