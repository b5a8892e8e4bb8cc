//! Reaching the cluster the options name.

use std::time::Duration;

use anyhow::{Context, anyhow};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use crate::args::Global;
use crate::exit::Failure;

/// A client for the cluster the options name, or the one kubectl would take.
async fn connect(global: &Global) -> Result<Client, Failure> {
    let file = match &global.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)
            .with_context(|| format!("reading the kubeconfig {}", path.display()))?,
        None => Kubeconfig::read().context("reading the kubeconfig ($KUBECONFIG, or ~/.kube/config)")?,
    };
    let options = KubeConfigOptions { context: global.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(file, &options).await.context("using the kubeconfig")?;
    let address = config.cluster_url.to_string();
    Ok(Client::try_from(once(config)).with_context(|| format!("preparing to talk to {address}"))?)
}

/// A client for a program that may run inside the cluster: the options, $KUBECONFIG, or the pod's own account.
pub(crate) async fn connect_here(global: &Global) -> Result<Client, Failure> {
    let named = global.kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some();
    if named || std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return connect(global).await;
    }
    let config = Config::incluster().context("using the account of the pod this runs in")?;
    Ok(Client::try_from(once(config)).context("preparing to talk to the cluster this runs in")?)
}

/// How long nothing may be heard from the other side before it is asked whether it is there; how often, and how long
/// what was sent may stay unanswered.
const QUIET: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_secs(2);
const ASK: u32 = 3;
const UNHEARD: Duration = Duration::from_secs(10);

/// A client that notices when it can no longer be heard. A host whose address changed has connections from the old one,
/// over which nothing comes any more and nothing says so: without this, watches would stay silent for minutes.
pub(crate) fn attentive(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        return Client::try_from(once(config));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(QUIET));
    tcp.set_keepalive_interval(Some(ASK_EVERY));
    tcp.set_keepalive_retries(Some(ASK));
    tcp.set_tcp_user_timeout(Some(UNHEARD));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector));
    Ok(Client::new(service, config.default_namespace))
}

/// Every request is made once. A client that repeats by itself what was answered with 429 would sit out, unseen, the
/// very answers that say which budget keeps a pod, and write after its sender lost the right to.
pub(crate) fn once(mut config: Config) -> Config {
    config.default_retry = false;
    config
}

/// Asks the cluster one thing, for as long as that may take.
pub(crate) fn ask<T>(
    global: &Global,
    patience: Duration,
    attempt: &str,
    conversation: impl AsyncFnOnce(Client) -> Result<T, kube::Error>,
) -> Result<T, Failure> {
    talk(global, async |client| {
        let asked = async { Ok(conversation(client).await.with_context(|| attempt.to_owned())?) };
        match tokio::time::timeout(patience, asked).await {
            Ok(answer) => answer,
            Err(_) => {
                let limit = anyhow!("no answer within {} s", patience.as_secs());
                Err(Failure::TimedOut(limit.context(attempt.to_owned())))
            }
        }
    })
}

/// Talks with the cluster, in a runtime of its own.
pub(crate) fn talk<T>(
    global: &Global,
    conversation: impl AsyncFnOnce(Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async { conversation(connect(global).await?).await })
}
