//! A node's machine daemon and its admission, against an API server.

mod admission;
mod daemon;
mod world;
