//! The handle on one namespace's kernel.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::netns::Namespace;
use crate::wire::{Protocol, Socket};
use crate::{address, conntrack, link, neighbour, nft, offload, route, rule, sysctl};

/// One network namespace, as far as netlink, `/proc/sys/net` and packet sockets reach.
#[derive(Debug)]
pub struct Kernel {
    namespace: Namespace,
    route: Mutex<Socket>,
    netfilter: Mutex<Socket>,
    generic: Mutex<Socket>,
}

impl Kernel {
    /// The namespace this thread is in.
    pub fn here() -> Result<Kernel> {
        Kernel::inside(Namespace::current()?)
    }

    /// Another namespace. The caller's thread does not move; the handle works from anywhere.
    pub fn inside(namespace: Namespace) -> Result<Kernel> {
        let (route, netfilter, generic) = namespace.run(|| {
            Ok::<_, crate::Error>((
                Socket::open(Protocol::Route)?,
                Socket::open(Protocol::Netfilter)?,
                Socket::open(Protocol::Generic)?,
            ))
        })??;
        Ok(Kernel {
            namespace,
            route: Mutex::new(route),
            netfilter: Mutex::new(netfilter),
            generic: Mutex::new(generic),
        })
    }

    /// The namespace itself.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Links.
    pub fn links(&self) -> link::Links<'_> {
        link::Links(self)
    }

    /// Addresses on links.
    pub fn addresses(&self) -> address::Addresses<'_> {
        address::Addresses(self)
    }

    /// Routes, of all tables.
    pub fn routes(&self) -> route::Routes<'_> {
        route::Routes(self)
    }

    /// Policy rules.
    pub fn rules(&self) -> rule::Rules<'_> {
        rule::Rules(self)
    }

    /// Neighbour entries.
    pub fn neighbours(&self) -> neighbour::Neighbours<'_> {
        neighbour::Neighbours(self)
    }

    /// nftables.
    pub fn nft(&self) -> nft::Nft<'_> {
        nft::Nft(self)
    }

    /// Tracked connections.
    pub fn conntrack(&self) -> conntrack::Conntrack<'_> {
        conntrack::Conntrack(self)
    }

    /// `/proc/sys/net` of this namespace.
    pub fn sysctls(&self) -> sysctl::Sysctls<'_> {
        sysctl::Sysctls(self)
    }

    /// Offload switches of links.
    pub fn offloads(&self) -> offload::Offloads<'_> {
        offload::Offloads(self)
    }

    pub(crate) fn route_socket(&self) -> MutexGuard<'_, Socket> {
        locked(&self.route)
    }

    pub(crate) fn netfilter_socket(&self) -> MutexGuard<'_, Socket> {
        locked(&self.netfilter)
    }

    pub(crate) fn generic_socket(&self) -> MutexGuard<'_, Socket> {
        locked(&self.generic)
    }
}

/// A panic while a socket was held leaves at most unread answers in it, which their sequence numbers tell apart.
fn locked(socket: &Mutex<Socket>) -> MutexGuard<'_, Socket> {
    socket.lock().unwrap_or_else(PoisonError::into_inner)
}
