//! What a lab's cluster promises its pods, with real packets. Needs root.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../lab/bench.rs"]
#[allow(dead_code, reason = "each program of tests uses its own part")]
mod bench;
mod paths;
mod world;
