//! The question "who are you, and whom do you see?", and its answer.
//!
//! Source addresses are half of what a cluster's network promises (a client kept visible, a node's address instead of
//! `.2`), and only the answering side can see them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A datagram that starts like this is a question; what follows is repeated in the answer.
pub const QUESTION: &[u8] = b"who?";

/// What a server says of itself and of whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The server's name.
    pub name: String,
    /// Where the question came from, as the server saw it.
    pub peer: SocketAddr,
    /// The address the question arrived at, as the server saw it.
    pub local: SocketAddr,
    /// Whether the server calls itself ready.
    pub ready: bool,
    /// What followed the question, so that an answer cannot be taken for that of an earlier question.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

/// The question as a datagram.
pub fn datagram(token: &str) -> Vec<u8> {
    [QUESTION, token.as_bytes()].concat()
}

/// The question as an HTTP request.
pub fn request(host: SocketAddr, token: &str) -> Vec<u8> {
    format!("GET /who?{token} HTTP/1.0\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// The answer in a datagram.
pub fn from_datagram(datagram: &[u8]) -> Option<Answer> {
    serde_json::from_slice(datagram).ok()
}

/// The answer in an HTTP response that has come whole.
pub fn from_response(response: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(response).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if !head.starts_with("HTTP/1.0 200 ") {
        return None;
    }
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_and_successful_response_is_an_answer() {
        let answer = Answer {
            name: "a".to_owned(),
            peer: "10.0.0.1:5".parse().unwrap(),
            local: "[fd00::1]:80".parse().unwrap(),
            ready: true,
            token: String::new(),
        };
        let body = serde_json::to_string(&answer).unwrap();
        let whole = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}");
        assert_eq!(from_response(whole.as_bytes()), Some(answer));
        for broken in [&whole[..whole.len() - 1], &whole.replace("200 OK", "503 Unavailable"), "", "\r\n\r\n"]
        {
            assert_eq!(from_response(broken.as_bytes()), None, "{broken:?}");
        }
    }
}
