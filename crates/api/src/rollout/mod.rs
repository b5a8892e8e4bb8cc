//! Moving nodes to a configuration, a few at a time.

pub mod annotations;
pub mod conditions;
mod machine_config;
mod pool;

pub use machine_config::*;
pub use pool::*;
