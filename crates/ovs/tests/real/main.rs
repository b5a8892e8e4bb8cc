//! The client against the real `ovsdb-server`, with the real schemas, and beside OVN's daemons.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod connection;
mod control;
mod daemons;
mod following;
mod ovn;
mod relay;
