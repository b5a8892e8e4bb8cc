//! JSON-RPC 1.0 messages: requests, replies, notifications.

use crate::error::shortened;
use serde_json::{Map, Value, json};
use std::fmt;

/// A message from the other side.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Wants a reply with this id.
    Request {
        /// Its id, whatever JSON it is.
        id: Value,
        /// The method.
        method: String,
        /// The parameters.
        params: Vec<Value>,
    },
    /// Wants no reply.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Vec<Value>,
    },
    /// Answers a request of ours.
    Reply {
        /// The id we gave.
        id: Value,
        /// The result, or the error.
        result: Result<Value, RpcError>,
    },
}

/// An error that the server answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// Short and fixed: "unknown method", "constraint violation".
    pub error: String,
    /// What it is about, if the server said.
    pub details: Option<String>,
}

impl RpcError {
    /// Reads an error: a text, or an object with `error` and `details`.
    pub fn parse(value: &Value) -> RpcError {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(shortened);
        match value.as_str() {
            Some(error) => RpcError { error: shortened(error), details: None },
            None => RpcError {
                error: text("error").unwrap_or_else(|| shortened(&value.to_string())),
                details: text("details"),
            },
        }
    }

    /// Does the server not know the method at all? The sign to fall back to an older one.
    pub fn is_unknown_method(&self) -> bool {
        self.error == "unknown method"
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.details {
            Some(details) => write!(f, "{}: {details}", self.error),
            None => f.write_str(&self.error),
        }
    }
}

impl std::error::Error for RpcError {}

/// A complete JSON text that is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not JSON after all.
    #[error("a message is not JSON ({why}): {text}")]
    NotJson {
        /// What the reader said.
        why: String,
        /// Its beginning.
        text: String,
    },
    /// JSON, but neither request nor reply.
    #[error("a message is neither request nor reply: {text}")]
    NotAMessage {
        /// Its beginning.
        text: String,
    },
}

impl Message {
    /// Reads one message.
    pub fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| MessageError::NotJson {
            why: e.to_string(),
            text: shortened(&String::from_utf8_lossy(&bytes[..bytes.len().min(1024)])),
        })?;
        let Value::Object(mut fields) = value else {
            return Err(MessageError::NotAMessage { text: shortened(&value.to_string()) });
        };
        let mut take = |key: &str| fields.remove(key).unwrap_or(Value::Null);
        let (method, params, id) = (take("method"), take("params"), take("id"));
        let (result, error) = (take("result"), take("error"));
        match (method, params, id) {
            (Value::String(method), Value::Array(params), Value::Null) => {
                Ok(Message::Notification { method, params })
            }
            (Value::String(method), Value::Array(params), id) => Ok(Message::Request { id, method, params }),
            (Value::Null, Value::Null, id) if !id.is_null() => Ok(Message::Reply {
                id,
                result: if error.is_null() { Ok(result) } else { Err(RpcError::parse(&error)) },
            }),
            (method, _, id) => Err(MessageError::NotAMessage {
                text: shortened(&json!({ "method": method, "id": id }).to_string()),
            }),
        }
    }
}

/// The bytes of a request.
pub fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    json!({ "id": id, "method": method, "params": params }).to_string().into_bytes()
}

/// The bytes of a reply.
pub fn reply(id: Value, result: Value) -> Vec<u8> {
    let fields = [("id", id), ("result", result), ("error", Value::Null)];
    Value::Object(fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Map<_, _>>())
        .to_string()
        .into_bytes()
}

/// The bytes of an error reply.
pub fn error_reply(id: Value, error: &str) -> Vec<u8> {
    json!({ "id": id, "result": null, "error": error }).to_string().into_bytes()
}
