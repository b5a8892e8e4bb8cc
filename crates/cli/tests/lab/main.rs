//! Labs, with real processes, namespaces and packets. Needs root.

mod bench;
mod change;
mod commands;
mod footprint;
mod identity;
mod killing;
mod kubectl;
mod leftovers;
mod machines;
mod mtu;
mod one_machine;
mod pods;
mod repairs;
mod single_node;
mod sizes;
mod soak_page;
mod solo;
mod stage;
mod tampering;
mod verify;
