//! A client that asks for a watch and then reads nothing more from its socket.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::StreamExt;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, WatchEvent, WatchParams};
use netferry_testkit::wait::until;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::support::{Served, config_map};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A socket whose reader can be told to stop, as a process does that was stopped.
struct Pausable {
    stream: TcpStream,
    paused: Arc<Paused>,
}

#[derive(Default)]
struct Paused {
    now: AtomicBool,
    reader: std::sync::Mutex<Option<Waker>>,
}

impl Paused {
    fn resume(&self) {
        self.now.store(false, Ordering::SeqCst);
        if let Some(reader) = self.reader.lock().expect("nobody panicked").take() {
            reader.wake();
        }
    }
}

impl AsyncRead for Pausable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.paused.now.load(Ordering::SeqCst) {
            *self.paused.reader.lock().expect("nobody panicked") = Some(cx.waker().clone());
            // Looked at again: it may have been resumed in between.
            if self.paused.now.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Pausable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A raw connection that watches ConfigMaps: the body of the answer, and the brake of the socket.
async fn watch(served: &Served, protocol: Protocol) -> (hyper::body::Incoming, Arc<Paused>, SocketAddr) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(served.pki.ca.as_bytes()).expect("the CA")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![match protocol {
        Protocol::Http1 => b"http/1.1".to_vec(),
        Protocol::Http2 => b"h2".to_vec(),
    }];
    let paused = Arc::new(Paused::default());
    let stream = TcpStream::connect(served.address).await.expect("a connection");
    let local = stream.local_addr().expect("its address");
    let stream = Pausable { stream, paused: paused.clone() };
    let name = ServerName::from(served.address.ip());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    let request = http::Request::get(format!(
        "https://{}/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=600",
        served.address
    ))
    .header("host", served.address.to_string())
    .header("authorization", format!("Bearer {}", served.pki.admin_token))
    .body(Empty::<bytes::Bytes>::new())
    .expect("a request");
    let answer = match protocol {
        Protocol::Http1 => {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
            tokio::spawn(connection);
            sender.send_request(request).await
        }
        Protocol::Http2 => {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .expect("HTTP/2");
            tokio::spawn(connection);
            sender.send_request(request).await
        }
    }
    .expect("an answer");
    assert_eq!(answer.status(), 200);
    (answer.into_body(), paused, local)
}

/// Whether the server has closed its end of the connection from `client`: its socket is gone, or has only the rest of
/// what was written left to send.
fn closed_by(server: SocketAddr, client: SocketAddr) -> bool {
    let hex = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => format!("{:08X}:{:04X}", u32::from_le_bytes(v4.ip().octets()), v4.port()),
        SocketAddr::V6(_) => panic!("these tests listen on an IPv4 address"),
    };
    let (local, remote) = (hex(server), hex(client));
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("/proc");
    let established = sockets.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(&local) && words.next() == Some(&remote) && words.next() == Some("01")
    });
    !established
}

pub(crate) async fn a_stalled_client_delays_nobody_and_is_ended(
    served: &Served,
    protocol: Protocol,
    within: Duration,
) {
    let api: Api<ConfigMap> = Api::default_namespaced(served.client().await);
    let apply = PatchParams::apply("writer").force();
    let write = |nth: usize| {
        // Large enough for a few hundred of them to fill every buffer between the two.
        let mut map = config_map("busy", &format!("{nth} {}", "x".repeat(64 * 1024)));
        map.metadata.labels = Some([("protocol".to_owned(), format!("{protocol:?}"))].into());
        let (api, apply) = (api.clone(), apply.clone());
        async move { api.patch("busy", &apply, &Patch::Apply(&map)).await.expect("a write") }
    };
    write(0).await;
    let (mut stalled, paused, client) = watch(served, protocol).await;
    stalled.frame().await.expect("a frame").expect("the first event");
    paused.now.store(true, Ordering::SeqCst);

    let mut healthy =
        api.watch(&WatchParams::default(), "0").await.expect("a watch of somebody who reads").boxed();
    let mut slowest = Duration::ZERO;
    for nth in 1..=600 {
        let sent = Instant::now();
        let written = write(nth).await;
        // Whoever reads hears of each change before the next is made.
        loop {
            let next = timeout(within, healthy.next()).await.expect("not held up");
            match next.expect("it goes on").expect("an event") {
                WatchEvent::Added(map) | WatchEvent::Modified(map)
                    if map.metadata.resource_version == written.metadata.resource_version =>
                {
                    break;
                }
                WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
                other @ (WatchEvent::Deleted(_) | WatchEvent::Error(_)) => panic!("{other:?}"),
            }
        }
        slowest = slowest.max(sent.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "somebody waited {slowest:?} for an event");

    // The server gives the connection up, long before the watch's own end.
    let given_up = until("the connection is closed", async || closed_by(served.address, client));
    timeout(within, given_up).await.expect("the connection of a client that stopped reading is ended");
    // What the client finds when it reads again is what the buffers between the two held: nothing was kept for it.
    paused.resume();
    let mut read = 0;
    let ended = async {
        while let Some(Ok(frame)) = stalled.frame().await {
            read += frame.data_ref().map_or(0, bytes::Bytes::len);
        }
    };
    timeout(within, ended).await.expect("its end reaches the client");
    assert!(read < 300 * 64 * 1024, "{read} bytes were waiting for a client that did not read");
}
