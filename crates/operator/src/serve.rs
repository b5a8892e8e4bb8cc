//! What the operator answers over HTTP: whether it lives, whether it reaches the API, what it measures.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use kube::Client;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::metrics::Metrics;

/// The content type of the text that [`Metrics::text`] writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long the API may take to answer somebody who asks whether it does.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long until an address that somebody else holds is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Answers on this address, for as long as this runs.
///
/// An address that is taken is waited for: an operator that cannot be asked still does its work, and a second one on
/// the same host gets its turn when the first is gone.
pub(crate) async fn serve(address: SocketAddr, client: Client, metrics: Metrics) {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                info!(%address, "answering over HTTP");
                if let Err(error) = axum::serve(listener, router(client.clone(), metrics.clone())).await {
                    warn!(%address, %error, "no longer answering over HTTP");
                }
            }
            Err(error) => warn!(%address, %error, "cannot answer over HTTP; trying again"),
        }
        sleep(AGAIN).await;
    }
}

/// What is answered.
pub fn router(client: Client, metrics: Metrics) -> Router {
    let ready = get(|State((client, _)): State<(Client, Metrics)>| async move {
        match timeout(PATIENCE, client.apiserver_version()).await {
            Ok(Ok(_)) => (StatusCode::OK, "ok\n".to_owned()),
            Ok(Err(error)) => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the API: {}\n", netferry_core::error::chain(&error)),
            ),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the API does not answer\n".to_owned()),
        }
    });
    let metrics_page = get(|State((_, metrics)): State<(Client, Metrics)>| async move {
        let kind = [(header::CONTENT_TYPE, OPENMETRICS)];
        match metrics.text() {
            Ok(text) => (kind, text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    });
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", ready)
        .route("/metrics", metrics_page)
        .with_state((client, metrics))
}

#[cfg(test)]
mod tests;
