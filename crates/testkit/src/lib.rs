//! What tests and benchmarks share: a real Kubernetes control plane on loopback, an HTTPS client for it, machines
//! with a kernel of their own, a disk that loses its power, and waiting.

#[cfg(test)]
mod arrows;
pub mod assets;
pub mod disk;
pub mod https;
pub mod page;
mod pki;
pub mod real;
mod supervised;
pub mod vm;
pub mod wait;
#[cfg(test)]
mod walks;

pub use assets::assets;
pub use https::Https;
pub use pki::Identity;
pub use real::RealControlPlane;
