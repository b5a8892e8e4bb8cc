//! Moving nodes to a configuration, a few at a time.
//!
//! Machine configurations are merged per pool ([`merge`]), nodes of a pool are chosen ([`choose`]), each is drained
//! ([`drain`]), takes the configuration ([`daemon`], [`journal`]), restarts and is let back in. What nobody uses any
//! more is removed ([`sweep`]). Several capabilities
//! ride on it; none of them is known here.

pub mod choose;
pub mod config;
pub mod daemon;
pub mod drain;
pub mod effect;
pub mod epochs;
pub mod journal;
pub mod layout;
pub mod legal;
pub mod merge;
pub mod pool;
pub mod progress;
pub mod status;
pub mod sweep;
