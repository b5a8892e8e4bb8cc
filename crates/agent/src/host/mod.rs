//! The host around the zone: what its kernel and its switch must have for the overlay to work.

pub mod guard;
pub mod neighbours;
