//! The agent with real databases, daemons, a real switch and the embedded API server.

mod daemons;
mod faults;
mod objects;
mod on_host;
mod world;
mod zone;
