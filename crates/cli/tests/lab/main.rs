//! Labs, with real processes, namespaces and packets. Needs root.

mod bench;
mod change;
mod commands;
mod footprint;
mod killing;
mod kubectl;
mod leftovers;
mod machines;
mod mtu;
mod pods;
mod repairs;
mod sizes;
mod soak_page;
mod stage;
mod tampering;
mod single_node;
