//! Service account tokens: signed claims that hold while the account exists.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{CREDENTIAL, EXTRA, Identity};
use crate::clock::Ids;
use crate::object::meta;
use crate::server::ApiServer;
use crate::store::Key;

const ISSUER: &str = "https://kubernetes.default.svc";

/// The key tokens are signed with. It outlives the process where the server keeps data, so tokens do too.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A secret that is too short to sign with.
#[derive(Debug, thiserror::Error)]
#[error("a token secret needs at least 32 bytes, this one has {length}")]
pub struct TokenError {
    length: usize,
}

impl Secret {
    /// A secret from at least 32 random bytes.
    pub fn new(bytes: &[u8]) -> Result<Secret, TokenError> {
        if bytes.len() < 32 {
            return Err(TokenError { length: bytes.len() });
        }
        Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// A secret for a server that forgets it with the process.
    pub(crate) fn drawn(ids: &Ids) -> Secret {
        Secret(hmac::Key::new(hmac::HMAC_SHA256, &[ids.bytes(), ids.bytes()].concat()))
    }

    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(&json!({"alg": "HS256", "typ": "JWT"}));
        let body = part(&json!(claims));
        let signed = format!("{head}.{body}");
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn read(&self, token: &str) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.0, signed.as_bytes(), &signature).ok()?;
        let (_, body) = signed.split_once('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()
    }
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: Bound,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) namespace: String,
    pub(crate) serviceaccount: Account,
    /// The pod, secret or node the token goes with, under that name.
    #[serde(flatten)]
    pub(crate) to: BTreeMap<String, Account>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Claims {
    /// The claims of a token for a service account.
    pub(crate) fn of(
        account: &serde_json::Value,
        audiences: &[String],
        now: i64,
        seconds: i64,
        id: String,
    ) -> Claims {
        let (namespace, name) = (meta(account, "namespace"), meta(account, "name"));
        Claims {
            aud: audiences.to_vec(),
            exp: now + seconds,
            iat: now,
            iss: ISSUER.to_owned(),
            jti: id,
            nbf: now,
            sub: format!("system:serviceaccount:{namespace}:{name}"),
            bound: Bound {
                namespace: namespace.to_owned(),
                serviceaccount: Account { name: name.to_owned(), uid: meta(account, "uid").to_owned() },
                to: BTreeMap::new(),
            },
        }
    }

    /// The audience of tokens that are for this server.
    pub(crate) fn default_audience() -> String {
        ISSUER.to_owned()
    }
}

impl ApiServer {
    /// The service account a token was issued to, while the token holds and the account is there.
    pub(super) fn service_account_of(&self, token: &str) -> Option<Identity> {
        let claims = self.core.secret.read(token)?;
        let now = self.core.clock.now().as_second();
        if claims.iss != ISSUER
            || !claims.aud.iter().any(|a| a == ISSUER)
            || now < claims.nbf
            || now >= claims.exp
        {
            return None;
        }
        let Bound { namespace, serviceaccount, to } = claims.bound;
        let still_there = |table: &str, namespace: &str, claimed: &Account| {
            let found = self.core.lock().object(table, &Key::new(namespace, &claimed.name));
            found.is_some_and(|object| meta(&object, "uid") == claimed.uid)
        };
        if !still_there("serviceaccounts", &namespace, &serviceaccount) {
            return None;
        }
        // A token ends with what it was bound to.
        for (kind, claimed) in &to {
            let within = if kind == "node" { "" } else { namespace.as_str() };
            if !still_there(&format!("{kind}s"), within, claimed) {
                return None;
            }
        }
        let mut identity = Identity::member(
            &claims.sub,
            &["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}")],
        );
        identity.uid = serviceaccount.uid;
        identity.extra.insert(CREDENTIAL.to_owned(), format!("JTI={}", claims.jti));
        // A secret is not told on.
        for (kind, claimed) in to.into_iter().filter(|(kind, _)| kind != "secret") {
            identity.extra.insert(format!("{EXTRA}{kind}-name"), claimed.name);
            identity.extra.insert(format!("{EXTRA}{kind}-uid"), claimed.uid);
        }
        Some(identity)
    }
}
