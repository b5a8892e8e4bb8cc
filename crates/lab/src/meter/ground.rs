//! What every flow of a meter stands on: the poller, the clock, and the namespace its thread is in.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use netferry_kernel::Namespace;
use nix::errno::Errno;

use super::plan::{Flow, Place};
use super::tally::At;
use super::wire::{Header, Way};

/// Whose a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The sending side of a flow.
    Sender(usize),
    /// A request of a flow.
    Request(usize, u64),
    /// The socket of a reflector that waits for strangers.
    Door(usize),
    /// What a reflector opened for one it knows.
    Guest(usize, u64),
}

#[derive(Debug)]
pub(super) struct Ground {
    registry: Registry,
    owners: HashMap<Token, Owner>,
    next: usize,
    /// Namespaces are compared by who holds them: two handles of one are entered twice, which is harmless.
    here: Option<Arc<Namespace>>,
    started: Instant,
    pub(super) run: u64,
    pub(super) buffer: Vec<u8>,
    /// Packets that were there and that this process was too slow to read.
    pub(super) overruns: HashMap<Token, u32>,
}

/// A socket that is being watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) fd: OwnedFd,
    pub(super) token: Token,
}

impl Ground {
    pub(super) fn new(registry: Registry, first: usize, run: u64) -> Ground {
        Ground {
            registry,
            owners: HashMap::new(),
            next: first,
            here: None,
            started: Instant::now(),
            run,
            buffer: vec![0; 128 << 10],
            overruns: HashMap::new(),
        }
    }

    pub(super) fn now(&self) -> At {
        self.started.elapsed()
    }

    /// Moves this thread into a place. Sockets opened before stay where they are.
    pub(super) fn enter(&mut self, place: &Place) -> Result<(), Errno> {
        if self.here.as_ref().is_some_and(|here| Arc::ptr_eq(here, &place.namespace)) {
            return Ok(());
        }
        // The namespace is held by an open descriptor, so only privilege can be missing.
        place.namespace.enter().map_err(|_| Errno::EPERM)?;
        self.here = Some(place.namespace.clone());
        Ok(())
    }

    /// Lets go of the namespace this thread is in, if it is this one, so that it can vanish.
    pub(super) fn leave(&mut self, namespace: &Arc<Namespace>, home: &Namespace) {
        if self.here.as_ref().is_some_and(|here| Arc::ptr_eq(here, namespace)) && home.enter().is_ok() {
            self.here = None;
        }
    }

    pub(super) fn watch(&mut self, fd: OwnedFd, owner: Owner, interest: Interest) -> Result<Watched, Errno> {
        let token = self.watch_fd(&fd, owner, interest)?;
        Ok(Watched { fd, token })
    }

    /// Watches a socket that something else owns.
    pub(super) fn watch_fd(
        &mut self,
        fd: &impl AsRawFd,
        owner: Owner,
        interest: Interest,
    ) -> Result<Token, Errno> {
        let token = Token(self.next);
        self.next += 1;
        self.registry.register(&mut SourceFd(&fd.as_raw_fd()), token, interest).map_err(|_| Errno::ENOSPC)?;
        self.owners.insert(token, owner);
        Ok(token)
    }

    /// Forgets a socket; closing it ends the watch.
    pub(super) fn forget(&mut self, watched: Watched) {
        self.owners.remove(&watched.token);
    }

    pub(super) fn forget_token(&mut self, token: Token) {
        self.owners.remove(&token);
    }

    pub(super) fn owner(&self, token: Token) -> Option<Owner> {
        self.owners.get(&token).copied()
    }

    /// A packet of a flow as bytes, `size` bytes of payload long.
    pub(super) fn packet(&self, flow: usize, way: Way, number: u64, length: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        let flow = u32::try_from(flow).unwrap_or(u32::MAX);
        Header { run: self.run, flow, way, number, length }.write(&mut bytes);
        bytes
    }

    /// Which flow and number a packet of this run and way is.
    pub(super) fn read(&self, bytes: &[u8], way: Way) -> Option<(usize, Header)> {
        let header = Header::read(bytes).filter(|header| header.run == self.run && header.way == way)?;
        Some((usize::try_from(header.flow).ok()?, header))
    }
}

/// Where a flow's own socket is bound.
pub(super) fn source(flow: &Flow) -> SocketAddr {
    let any = match flow.to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(flow.source.unwrap_or(any), 0)
}

/// Bytes of IP and of what follows it, before the payload.
pub(super) fn overhead(to: SocketAddr) -> u32 {
    match to {
        SocketAddr::V4(_) => 20 + 8,
        SocketAddr::V6(_) => 40 + 8,
    }
}
