//! Pods on a real switch with a real zone behind it, asked for as runtimes ask.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod attach;
mod broken;
mod misuse;
#[path = "../host/world.rs"]
#[allow(dead_code, reason = "shared with the tests of the host")]
mod node;
mod reference;
mod static_pods;
mod whole;
mod world;
