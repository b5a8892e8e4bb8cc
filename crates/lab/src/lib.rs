//! A cluster on one machine: nodes, pods, fabric and an outside world out of network namespaces, with real Open vSwitch
//! and OVN in each node, faults on request and meters on every path.
//!
//! [`Lab`] is how a lab is started, asked, entered and ended, by tests and by `netferry lab` alike:
//!
//! ```no_run
//! use netferry_lab::{Lab, Lifetime, Options};
//! use std::time::Duration;
//!
//! # fn main() -> netferry_lab::Result<()> {
//! let name = "mine".parse().expect("a plain name");
//! let mut options = Options::new(name, "/usr/bin/netferry".into(), "/usr/bin/netferry-cni".into());
//! options.lifetime = Lifetime::OfCaller;
//! let lab = Lab::up(&options)?;
//! lab.wait_ready(Duration::from_secs(60), |waiting| eprintln!("{waiting:?}"))?;
//! let said = lab.exec("node-1", "ip", &["-br", "address"])?;
//! lab.power_cut("node-2")?;
//! lab.down()
//! # }
//! ```
//!
//! A lab is three kinds of processes, all of this program:
//! - [`cluster`]: one, the ancestor of all others, the first of its process namespace;
//! - [`node`]: one per node, the first of the node's own process namespace, the kubelet's stand-in included;
//! - [`container`]: what a container's command is started through.

pub mod addressing;
mod children;
mod client;
pub mod cluster;
pub mod container;
pub mod controllers;
mod enter;
mod error;
pub mod escort;
pub mod kills;
mod kubelet;
mod lab;
pub mod meter;
pub mod neighbours;
pub mod node;
mod options;
pub mod paths;
pub mod policy_table;
mod program;
pub mod programs;
mod protocol;
pub mod service_table;
mod state;

pub use addressing::Families;
pub use enter::Way;
pub use error::{During, LabError, Result};
pub use lab::Lab;
pub use options::{ControlPlane, Lifetime, Name, NewNode, Options, Parts, Restarts, Role};
pub use protocol::{Fault, NodeStatus, ProgramStatus, Stage, Status, Waiting};
pub use state::State;
