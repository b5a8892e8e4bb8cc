//! A node's machine daemon and its admission, against an API server.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod admission;
mod daemon;
mod world;
