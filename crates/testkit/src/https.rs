//! A plain HTTPS client: one connection per request, nothing retried, nothing hidden.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pki::Identity;

/// A client of one HTTPS server on this machine.
#[derive(Clone)]
pub struct Https {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No connection.
    #[error("connecting to {address}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A connection, but no answer on it.
    #[error("sending {what}")]
    Exchange {
        /// Method and path.
        what: String,
        /// Why not.
        #[source]
        source: hyper::Error,
    },
}

/// The certificates given are not usable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not PEM.
    #[error("reading a PEM certificate or key")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// Not a certificate, or not the key that belongs to it.
    #[error("setting up TLS")]
    Setup(#[source] rustls::Error),
}

impl Https {
    /// A client of the server at `address`, trusted through the authority `ca` (PEM), with a client certificate or none.
    pub fn new(address: SocketAddr, ca: &str, identity: Option<&Identity>) -> Result<Https, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            roots.add(certificate.map_err(TlsError::Pem)?).map_err(TlsError::Setup)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(TlsError::Pem)?;
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(TlsError::Pem)?;
                builder.with_client_auth_cert(chain, key).map_err(TlsError::Setup)?
            }
        };
        Ok(Https { address, tls: Arc::new(config) })
    }

    /// Sends one request. `request`'s URI is a path with a query; its body is sent whole.
    pub async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Incoming>, SendError> {
        let connect = |source| SendError::Connect { address: self.address, source };
        let what = format!("{} {}", request.method(), request.uri());
        let exchange = |source| SendError::Exchange { what: what.clone(), source };

        let stream = TcpStream::connect(self.address).await.map_err(connect)?;
        stream.set_nodelay(true).map_err(connect)?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await.map_err(connect)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(exchange)?;
        // Ends with the answer's body: a connection carries one request.
        tokio::spawn(connection);
        let host = self.address.to_string().parse().expect("an address is a header value");
        request.headers_mut().insert(header::HOST, host);
        sender.send_request(request.map(Full::new)).await.map_err(exchange)
    }
}
