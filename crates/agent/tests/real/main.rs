//! The agent with real databases, daemons, a real switch and the embedded API server.

mod daemons;
mod faults;
mod objects;
mod world;
mod zone;
