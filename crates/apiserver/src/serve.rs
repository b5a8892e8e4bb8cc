//! The listener: TLS, HTTP/1.1 and HTTP/2, and an end for connections that stopped reading.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::auth::PeerCertificate;
use crate::pki::Pki;
use crate::server::ApiServer;

/// How often the server looks for what only time brings about.
const TICK: Duration = Duration::from_millis(250);
/// How long a client may take to shake hands.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Why the listener could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The certificates do not fit together.
    #[error("setting up TLS from the server's certificates")]
    Tls(#[source] rustls::Error),
    /// A certificate or key is not PEM.
    #[error("reading the server's certificates")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// The client CA cannot be used.
    #[error("setting up the verification of client certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

impl ApiServer {
    /// Serves on `listener` until `stop` completes. Connections still open then are cut: clients watch again.
    pub async fn serve(
        &self,
        listener: TcpListener,
        pki: &Pki,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let acceptor = TlsAcceptor::from(Arc::new(tls(pki)?));
        let router = self.guarded(pki.credentials());
        let patience = self.core.settings.stalled_after;
        let mut connections = JoinSet::new();
        let mut stop = std::pin::pin!(stop);
        let mut time = tokio::time::interval(TICK);
        time.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let socket = tokio::select! {
                () = &mut stop => break,
                _ = time.tick() => {
                    crate::react::tick(&self.core);
                    continue;
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => socket,
                    Err(error) => {
                        // Out of file descriptors, most likely: the next one may be accepted once others have closed.
                        tracing::warn!(%error, "accepting a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            let _ = socket.set_nodelay(true);
            let (acceptor, router) = (acceptor.clone(), router.clone());
            connections.spawn(async move {
                let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(socket)).await
                else {
                    return;
                };
                let peer = stream
                    .get_ref()
                    .1
                    .peer_certificates()
                    .and_then(|chain| chain.first())
                    .map(|certificate| PeerCertificate(Arc::from(certificate.as_ref())));
                let service = router.map_request(move |mut request: http::Request<hyper::body::Incoming>| {
                    if let Some(peer) = &peer {
                        request.extensions_mut().insert(peer.clone());
                    }
                    request.map(axum::body::Body::new)
                });
                let io = TokioIo::new(Unstalled::new(stream, patience));
                let mut builder = auto::Builder::new(TokioExecutor::new());
                // HTTP/2 holds back what a client has no room for before it reaches the socket: whether the client
                // still reads shows in its answers to pings.
                builder
                    .http2()
                    .timer(TokioTimer::new())
                    .keep_alive_interval(patience / 2)
                    .keep_alive_timeout(patience / 2)
                    .max_concurrent_streams(4096);
                if let Err(error) = builder.serve_connection(io, TowerToHyperService::new(service)).await {
                    tracing::debug!(%error, "a connection ended early");
                }
            });
        }
        connections.shutdown().await;
        Ok(())
    }
}

fn tls(pki: &Pki) -> Result<rustls::ServerConfig, ServeError> {
    let certificates = |pem: &str| -> Result<Vec<CertificateDer<'static>>, ServeError> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(ServeError::Pem)
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&pki.ca)? {
        roots.add(certificate).map_err(ServeError::Tls)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // A client without a certificate may still have a token.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(ServeError::Verifier)?;
    let key = PrivateKeyDer::from_pem_slice(pki.server_key.as_bytes()).map_err(ServeError::Pem)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServeError::Tls)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&pki.server_cert)?, key)
        .map_err(ServeError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A stream that fails when the other side takes nothing for as long as patience lasts. A watch holds no buffer that
/// could grow, but its connection would stay for ever behind a client that stopped reading.
struct Unstalled<S> {
    stream: S,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Unstalled<S> {
    fn new(stream: S, patience: Duration) -> Unstalled<S> {
        Unstalled { stream, patience, stalled: None }
    }

    fn guard<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let patience = self.patience;
        let timer =
            self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.guard(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.guard(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
