//! Who is calling: client certificates and bearer tokens. Whoever is let in may do everything.

mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::server::ApiServer;
use crate::status::ApiError;

pub(crate) use tokens::{Account, Claims};
pub use tokens::{Secret, TokenError};

/// What the keys of [`Identity::extra`] start with.
const EXTRA: &str = "authentication.kubernetes.io/";
/// The key of the credential's name.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// A caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// `system:serviceaccount:default:default`, or a certificate's common name.
    pub name: String,
    /// The service account's uid.
    pub uid: String,
    /// `system:masters`, …; a certificate's organisations.
    pub groups: Vec<String>,
    /// What else is known: which credential it was (`JTI=…` of a token, `X509SHA256=…` of a certificate), and what a
    /// token was bound to.
    pub extra: BTreeMap<String, String>,
}

impl Identity {
    /// Somebody in the same process.
    pub fn trusted() -> Identity {
        Identity::member("system:admin", &["system:masters"])
    }

    fn member(name: &str, groups: &[&str]) -> Identity {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        groups.push("system:authenticated".to_owned());
        Identity { name: name.to_owned(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// `userInfo`, as reviews show it.
    pub(crate) fn to_info(&self) -> Value {
        let mut info = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.extra.is_empty() {
            info["extra"] = self.extra.iter().map(|(key, value)| (key.clone(), json!([value]))).collect();
        }
        info
    }
}

/// The certificate a TLS client showed and whose chain was verified. The listener puts it into a request's extensions.
#[derive(Clone, Debug)]
pub struct PeerCertificate(pub Arc<[u8]>);

/// What callers are recognised by.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The administrator's token.
    pub admin_token: String,
}

impl ApiServer {
    /// The server as a tower service for callers that have to show who they are.
    pub fn guarded(&self, credentials: Credentials) -> axum::Router {
        let guard = Arc::new(Guard { server: self.clone(), credentials });
        self.router().layer(from_fn_with_state(guard, check))
    }
}

struct Guard {
    server: ApiServer,
    credentials: Credentials,
}

async fn check(State(guard): State<Arc<Guard>>, mut request: Request<Body>, next: Next) -> Response {
    match guard.identify(&request) {
        Some(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        None => crate::http::refusal(&ApiError::unauthorized()),
    }
}

impl Guard {
    fn identify(&self, request: &Request<Body>) -> Option<Identity> {
        if let Some(certificate) = request.extensions().get::<PeerCertificate>() {
            return named_by(&certificate.0);
        }
        let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let token = token.trim();
        if same(token, &self.credentials.admin_token) {
            return Some(Identity::member("admin", &["system:masters"]));
        }
        self.server.service_account_of(token)
    }
}

/// Compares without telling by its duration how much was right.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (x, y)| differ | (x ^ y)) == 0
}

/// The user a verified certificate names: its common name, in the groups its organisations name.
fn named_by(certificate: &[u8]) -> Option<Identity> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups: Vec<&str> = parsed.subject().iter_organization().filter_map(|o| o.as_str().ok()).collect();
    let mut identity = Identity::member(&name, &groups);
    let digest: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    identity.extra.insert(CREDENTIAL.to_owned(), format!("X509SHA256={digest}"));
    Some(identity)
}
