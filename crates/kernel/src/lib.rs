//! Southbound to one host's kernel: links, addresses, routes, policy rules, neighbours, nftables, conntrack,
//! sysctls, offloads, announcements, namespaces. It knows nothing of Kubernetes.
//!
//! Everything has one shape ([`Objects`]): `observe() -> State`, `diff(want, have, mark) -> Changes`,
//! `apply(Changes)`. Diffs are pure, and what does not carry our [`Mark`] is never in a removal.
//!
//! A [`Kernel`] is a handle on one namespace, usable from any thread: its sockets were opened inside and stay
//! there. Its calls block for microseconds (the kernel answers inside `send`), so they may be made from async
//! code as they are. Changes made by others come as a stream: [`Watch`].
//!
//! ```no_run
//! use netferry_kernel::route::{Hop, Route};
//! use netferry_kernel::{Event, Kernel, Mark, Objects, Topics, Watch};
//!
//! # async fn run(want: Vec<Route>) -> netferry_kernel::Result<()> {
//! let kernel = Kernel::here()?;
//! let mut watch = Watch::open(&kernel, Topics::CONFIGURATION)?;
//! loop {
//!     // The first event is a `Resync`: what is there is adopted, repaired, and followed, by one line.
//!     if let Event::Resync | Event::RouteGone(_) | Event::Link(_) = watch.next().await? {
//!         let done = kernel.routes().converge(&want, &Mark::default())?;
//!         assert!(done.conflicts.is_empty(), "somebody else's route is in the way");
//!     }
//! }
//! # }
//! ```

pub mod address;
pub mod announce;
pub mod conntrack;
pub mod count;
pub mod echo;
mod error;
mod family;
mod generic;
mod kernel;
pub mod link;
mod mark;
pub mod memory;
mod name;
pub mod neighbour;
mod netns;
pub mod nft;
mod objects;
pub mod offload;
pub mod packets;
pub mod process;
pub mod route;
pub mod rule;
mod sys;
pub mod sysctl;
mod tun;
pub mod watch;
mod wire;

pub use error::{Attempt, Error, Result, Then};
pub use family::Family;
pub use kernel::Kernel;
pub use mark::Mark;
pub use name::{IfName, Mac};
pub use netns::{Namespace, NamespaceId};
pub use objects::{Changes, Conflict, Object, Objects, diff};
pub use tun::{Tun, TunMode};
pub use watch::{Event, Topics, Watch};
