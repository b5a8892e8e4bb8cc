//! Labs, with real processes, namespaces and packets. Needs root.

mod bench;
mod footprint;
mod kubectl;
mod leftovers;
mod machines;
mod pods;
mod soak_page;
