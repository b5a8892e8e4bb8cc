//! What the CNI specification says, and what the plugin and the agent say to each other.
//!
//! - [`version`], [`call`], [`config`], [`result`] and [`error`] are the specification's own types: what a runtime
//!   hands to a plugin, and what it gets back.
//! - [`protocol`] is the conversation with the agent over its unix socket.
//! - [`plugin`] joins the two: it is all of `netferry-cni` except the process around it.
//!
//! No async runtime: the plugin is started once per pod and verb, and its start is part of every pod's.

pub mod call;
pub mod config;
pub mod error;
pub mod plugin;
pub mod protocol;
pub mod result;
pub mod version;

pub use call::{Attachment, Call, Command, PodRef};
pub use config::NetworkConfig;
pub use error::{CniError, Code};
pub use plugin::{Output, run};
pub use protocol::{Answer, Ask, DEFAULT_SOCKET, Spent, ask};
pub use result::{CniResult, Interface, IpConfig, RouteEntry};
pub use version::Version;
