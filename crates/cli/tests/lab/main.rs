//! Labs, with real processes, namespaces and packets. Needs root.

mod bench;
mod footprint;
mod leftovers;
mod machines;
