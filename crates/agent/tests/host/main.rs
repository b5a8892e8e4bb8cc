//! The host's side against a real kernel and a real Open vSwitch, each test in namespaces of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bridge_size;
mod facts;
mod flows;
mod foresight;
mod guard;
mod init;
mod keep;
mod neighbours;
mod persisted;
mod pod_links;
mod probe;
mod routers;
mod tunnel_routes;
mod ways;
mod world;
