//! The two servers, as the suite sees them.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};

use crate::case::Auth;

/// An answer whose body comes in pieces: a watch's never ends by itself.
pub(crate) type Answer = Response<BoxStream<'static, Result<Bytes, String>>>;

/// Something that answers Kubernetes API requests.
pub(crate) trait Server: Send + Sync {
    /// Sends a request as `auth`. The request carries no credentials yet.
    fn send(&self, auth: Auth, request: Request<Bytes>) -> BoxFuture<'_, Result<Answer, String>>;

    /// Has the server forget everything before `revision`.
    fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), String>>;
}

/// A token nobody was given.
pub(crate) const WRONG_TOKEN: &str = "nobody-was-given-this-token";

/// The real thing, over TLS.
pub(crate) mod real {
    use super::*;
    use futures::{FutureExt, StreamExt};
    use http_body_util::BodyDataStream;
    use netferry_testkit::{Https, RealControlPlane};

    pub(crate) struct Real {
        plane: RealControlPlane,
        plain: Https,
        certified: Https,
    }

    impl Real {
        pub(crate) async fn start() -> Real {
            let assets = netferry_testkit::assets().unwrap_or_else(|missing| panic!("{missing}"));
            let plane = RealControlPlane::start(&assets).await.unwrap_or_else(|e| panic!("{e}: {e:?}"));
            let plain = plane.client().expect("certificates it made itself");
            let certified = Https::new(plane.address(), plane.ca(), Some(plane.client_identity()))
                .expect("certificates it made itself");
            Real { plane, plain, certified }
        }

        pub(crate) fn keep_logs(&mut self) -> std::path::PathBuf {
            self.plane.keep_logs()
        }
    }

    impl Server for Real {
        fn send(&self, auth: Auth, mut request: Request<Bytes>) -> BoxFuture<'_, Result<Answer, String>> {
            let token = match auth {
                Auth::Token => Some(self.plane.token()),
                Auth::Wrong => Some(WRONG_TOKEN),
                Auth::None | Auth::Certificate => None,
            };
            if let Some(token) = token {
                let value = format!("Bearer {token}").parse().expect("a token is a header value");
                request.headers_mut().insert(http::header::AUTHORIZATION, value);
            }
            let client = if auth == Auth::Certificate { &self.certified } else { &self.plain };
            async move {
                let answer = client.send(request).await.map_err(|e| format!("{e}: {e:?}"))?;
                Ok(answer.map(|body| {
                    BodyDataStream::new(body).map(|part| part.map_err(|e| e.to_string())).boxed()
                }))
            }
            .boxed()
        }

        fn compact(&self, revision: u64) -> BoxFuture<'_, Result<(), String>> {
            async move { self.plane.compact(revision).await.map_err(|e| e.to_string()) }.boxed()
        }
    }
}

/// The embedded server, called in process without a socket.
pub(crate) mod embedded {
    use std::sync::Arc;

    use super::*;
    use axum::body::Body;
    use futures::{FutureExt, StreamExt};
    use netferry_apiserver::auth::{Credentials, PeerCertificate};
    use netferry_apiserver::{ApiServer, Settings};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use tower::ServiceExt;

    const TOKEN: &str = "administrator-of-an-embedded-server";

    pub(crate) struct Embedded {
        server: ApiServer,
        router: axum::Router,
        certificate: PeerCertificate,
    }

    impl Embedded {
        pub(crate) fn open() -> Embedded {
            let server = ApiServer::open(Settings::default()).expect("a server in memory opens");
            let router = server.guarded(Credentials { admin_token: TOKEN.to_owned() });
            let (user, group) = netferry_testkit::real::ADMIN_BY_CERTIFICATE;
            let identity = netferry_testkit::Identity::of(user, group).expect("a certificate");
            let der =
                CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("a PEM certificate");
            Embedded { server, router, certificate: PeerCertificate(Arc::from(der.as_ref())) }
        }
    }

    impl Server for Embedded {
        fn send(&self, auth: Auth, mut request: Request<Bytes>) -> BoxFuture<'_, Result<Answer, String>> {
            let token = match auth {
                Auth::Token => Some(TOKEN),
                Auth::Wrong => Some(WRONG_TOKEN),
                Auth::None | Auth::Certificate => None,
            };
            if let Some(token) = token {
                let value = format!("Bearer {token}").parse().expect("a token is a header value");
                request.headers_mut().insert(http::header::AUTHORIZATION, value);
            }
            if auth == Auth::Certificate {
                request.extensions_mut().insert(self.certificate.clone());
            }
            let answered = self.router.clone().oneshot(request.map(Body::from));
            async move {
                let Ok(answer) = answered.await;
                Ok(answer
                    .map(|body| body.into_data_stream().map(|part| part.map_err(|e| e.to_string())).boxed()))
            }
            .boxed()
        }

        fn compact(&self, _revision: u64) -> BoxFuture<'_, Result<(), String>> {
            self.server.forget_history();
            async { Ok(()) }.boxed()
        }
    }
}
