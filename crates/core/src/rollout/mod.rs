//! Moving nodes to a configuration, a few at a time.
//!
//! Machine configurations are merged per pool ([`merge`]), nodes of a pool are chosen ([`choose`]), each is drained,
//! takes the configuration ([`layout`]), restarts and is let back in. Several capabilities ride on it; none of them is
//! known here.

pub mod choose;
pub mod config;

pub mod layout;
pub mod merge;
pub mod pool;
pub mod status;
