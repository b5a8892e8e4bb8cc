//! What a lab's cluster promises its pods, with real packets. Needs root.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../lab/bench.rs"]
mod bench;
mod paths;
mod policies;
mod services;
mod world;
