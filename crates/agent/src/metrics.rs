//! The agent's health and metrics over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use netferry_core::error::chain;
use netferry_kernel::Kernel;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

/// How long until an address that another process holds is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// The content type of the text that [`encode`] writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the metrics at this address, in the host's network, for as long as it runs. An address that is taken is waited
/// for: an agent that cannot be scraped still keeps its node.
pub async fn serve(kernel: Arc<Kernel>, address: SocketAddr, registry: Registry) -> Infallible {
    let router = router(Arc::new(registry));
    loop {
        match listen(&kernel, address) {
            Ok(listener) => {
                tracing::info!(%address, "serving metrics");
                if let Err(error) = axum::serve(listener, router.clone()).await {
                    tracing::warn!(%address, error = chain(&error), "metrics are not served any more; trying again");
                }
            }
            Err(error) => {
                let error = chain(&*error);
                tracing::warn!(%address, error, "metrics cannot be served: set --listen to another; trying again");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn listen(
    kernel: &Kernel,
    address: SocketAddr,
) -> Result<TcpListener, Box<dyn std::error::Error + Send + Sync>> {
    let listener = kernel.namespace().run(|| std::net::TcpListener::bind(address))??;
    listener.set_nonblocking(true)?;
    Ok(TcpListener::from_std(listener)?)
}

/// Answers `/healthz` for as long as the agent's tasks run, and `/metrics` with the registry's metrics.
pub fn router(registry: Arc<Registry>) -> Router {
    let page = get(|State(registry): State<Arc<Registry>>| async move {
        let mut text = String::new();
        match encode(&mut text, &registry) {
            Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    });
    Router::new().route("/healthz", get(|| async { "ok\n" })).route("/metrics", page).with_state(registry)
}
