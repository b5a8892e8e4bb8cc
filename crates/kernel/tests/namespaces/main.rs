//! Every kind of object against a real kernel, each test in namespaces of its own, read back by `ip` and `nft`.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod addresses;
mod links;
mod namespaces;
mod nft;
mod nft_changes;
mod others;
mod routes;
mod watch;
mod world;
