//! One node's zone of the overlay: its daemons, its databases, its switch.
//!
//! `core`'s [`Model`](netferry_core::overlay::inputs::Model) decides which rows there should be; [`keep`] makes the difference, in one transaction per change, and
//! puts back what others change; [`astray`] sees to it that datagrams leave with their backends; [`daemons`] keeps the processes behind the databases; [`wanted`](self) says how rows
//! are written there.

pub mod astray;
pub mod daemons;
mod drift;
mod handle;
mod keep;
mod stores;
mod trouble;
mod wanted;
mod write;

pub use handle::{Requests, Unavailable, ZoneHandle};
pub use keep::{Heard, Keeper, Outlook};
pub use stores::Stores;
