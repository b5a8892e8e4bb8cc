//! Meters against networks whose faults are known: what was done to the packets is what the meter must say.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod faults;
mod mtu;
mod paths;
mod places;
mod streams;
mod world;
