//! HTTP: from a request to a verb on a resource, and from its outcome to an answer.

mod accept;
pub(crate) mod present;
pub(crate) mod route;
mod verbs;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State as Shared;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT, WARNING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use crate::auth::Identity;
use crate::builtin::ProtobufError;
use crate::decode::BODY_LIMIT;
use crate::discovery;
use crate::query::Query;
use crate::server::{ApiServer, Core};
use crate::status::ApiError;

pub(crate) use accept::Encoding;
use route::Route;

impl ApiServer {
    /// The server as a tower service, for callers in the same process: they are trusted, like a member of
    /// `system:masters`.
    pub fn router(&self) -> axum::Router {
        axum::Router::new().fallback(serve).with_state(self.core.clone())
    }
}

/// A request, read.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) identity: Identity,
}

impl Call {
    pub(crate) fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn accept(&self) -> Option<&str> {
        self.header(ACCEPT)
    }

    pub(crate) fn content_type(&self) -> Option<&str> {
        self.header(CONTENT_TYPE)
    }

    pub(crate) fn agent(&self) -> &str {
        self.header(USER_AGENT).unwrap_or_default()
    }
}

/// What a verb comes to, before it is written out.
pub(crate) enum Outcome {
    /// A document.
    Whole { code: StatusCode, body: Bytes, warnings: Vec<String>, encoding: Encoding },
    /// Lines as they come.
    Stream(Body),
    /// Words for people and probes.
    Plain(StatusCode, String),
    /// A document of another media type.
    Typed(HeaderValue, Bytes),
}

impl Outcome {
    pub(crate) fn json(value: &Value) -> Outcome {
        Outcome::Whole {
            code: StatusCode::OK,
            body: present::to_bytes(value),
            warnings: Vec::new(),
            encoding: Encoding::Json,
        }
    }
}

async fn serve(Shared(core): Shared<Arc<Core>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let identity = parts.extensions.get::<Identity>().cloned().unwrap_or_else(Identity::trusted);
    let body = match Limited::new(body, BODY_LIMIT + 1).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let error = ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT}"));
            return refusal(&error);
        }
        Err(error) => return refusal(&ApiError::bad_request(format!("reading the request body: {error}"))),
    };
    let mut headers = parts.headers;
    let body = match without_protobuf(&mut headers, body) {
        Ok(body) => body,
        Err(error) => return refusal(&error),
    };
    let call = Call {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        headers,
        body,
        identity,
    };
    match answer(&core, &call) {
        Ok(outcome) => written(outcome),
        Err(error) => refusal(&error),
    }
}

/// Typed Go clients write built-in kinds in protobuf: from here on it is the JSON it stands for. Other kinds in
/// protobuf are left to be refused by name.
fn without_protobuf(headers: &mut HeaderMap, body: Bytes) -> Result<Bytes, ApiError> {
    if headers.get(CONTENT_TYPE).is_none_or(|media| media != "application/vnd.kubernetes.protobuf") {
        return Ok(body);
    }
    match crate::builtin::protobuf_to_json(&body) {
        Ok(object) => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Ok(present::to_bytes(&object))
        }
        Err(ProtobufError::Unknown { .. }) => Ok(body),
        Err(error @ (ProtobufError::Prefix | ProtobufError::Malformed { .. })) => {
            Err(ApiError::bad_request(error.to_string()))
        }
    }
}

fn answer(core: &Arc<Core>, call: &Call) -> Result<Outcome, ApiError> {
    crate::react::tick(core);
    let catalog = core.lock().catalog.clone();
    match route::of(&call.path) {
        Route::Resource(path) => verbs::resource(core, &catalog, call, path),
        Route::Document(segments) => discovery::document(core, &catalog, call, &segments),
    }
}

fn written(outcome: Outcome) -> Response<Body> {
    let mut response = match outcome {
        Outcome::Whole { code, body, warnings, encoding } => {
            let (body, media) = match encoding {
                Encoding::Json => (body, "application/json"),
                Encoding::Yaml => (yaml(&body), "application/yaml"),
            };
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = code;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
            for warning in warnings {
                if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
                    response.headers_mut().append(WARNING, value);
                }
            }
            response
        }
        Outcome::Stream(body) => {
            let mut response = Response::new(body);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Outcome::Plain(code, text) => {
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = code;
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            response
        }
        Outcome::Typed(media, body) => {
            let mut response = Response::new(Body::from(body));
            response.headers_mut().insert(CONTENT_TYPE, media);
            response
        }
    };
    response.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn yaml(json: &Bytes) -> Bytes {
    let value: Value = serde_json::from_slice(json).expect("the server prints valid JSON");
    serde_saphyr::to_string(&value).map_or_else(|_| json.clone(), Bytes::from)
}

/// A warning's text as a quoted string of a header.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '\n' | '\r' | '\t' => out.push(' '),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

pub(crate) fn refusal(error: &ApiError) -> Response<Body> {
    let mut response = written(Outcome::Whole {
        code: error.code,
        body: present::to_bytes(&error.to_status()),
        warnings: error.warnings.clone(),
        encoding: Encoding::Json,
    });
    if let Some(seconds) = error.details.as_ref().and_then(|details| details["retryAfterSeconds"].as_u64()) {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
