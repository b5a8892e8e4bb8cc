//! Moving nodes to a configuration, a few at a time.

pub mod annotations;
pub mod conditions;
mod epochs;
mod machine_config;
mod pool;
mod waits;

pub use epochs::Epochs;
pub use machine_config::*;
pub use pool::*;
pub use waits::Waits;
