//! Numbered datagrams: UDP there and back, and echo requests.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::Interest;
use netferry_kernel::echo;
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags};

use super::ground::{self, Ground, Owner, Watched};
use super::plan::{Endpoint, Flow, Sizes};
use super::socket as sockets;
use super::tally::{Arrival, Tally};
use super::wire::{HEADER, Way};

/// Why sends and receives failed, and how often.
pub(super) type Errors = BTreeMap<&'static str, u64>;

pub(super) fn count(errors: &mut Errors, errno: Errno) {
    *errors.entry(errno.desc()).or_default() += 1;
}

/// Sends of one number: the first, one after an EMSGSIZE, one after an error that an earlier packet had left behind.
const TRIES: usize = 3;

/// What became of a send.
enum Sent {
    Out(u32),
    Refused,
    /// The socket's own buffer is full: nothing was lost, nothing was sent.
    HeldBack,
}

/// Which header follows the one of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Udp,
    Icmp,
}

/// A connected socket that fills every packet to what the way takes.
#[derive(Debug)]
pub(super) struct Line {
    watched: Watched,
    to: SocketAddr,
    kind: Kind,
    mtu: u32,
}

impl Line {
    fn open(
        ground: &mut Ground,
        owner: Owner,
        socket: OwnedFd,
        to: SocketAddr,
        kind: Kind,
    ) -> Result<Line, Errno> {
        let to = match kind {
            Kind::Udp => to,
            Kind::Icmp => SocketAddr::new(to.ip(), 0),
        };
        sockets::connect(&socket, to)?;
        Ok(Line { watched: ground.watch(socket, owner, Interest::READABLE)?, to, kind, mtu: 0 })
    }

    fn path_mtu(&mut self) -> Result<u32, Errno> {
        let fd = &self.watched.fd;
        // A raw socket looks its way up anew for every packet without telling; connecting makes it tell.
        if self.kind == Kind::Udp
            && let Ok(mtu) = sockets::path_mtu(fd, self.to)
            && mtu == self.mtu
        {
            return Ok(mtu);
        }
        // Something changed, and what was cached may be of a route that is gone: an idle socket says 68 then.
        sockets::connect(fd, self.to)?;
        self.mtu = sockets::path_mtu(fd, self.to)?;
        Ok(self.mtu)
    }

    fn send(
        &mut self,
        sizes: &Sizes,
        number: u64,
        errors: &mut Errors,
        packet: impl Fn(u32) -> Vec<u8>,
    ) -> Sent {
        let least = u32::try_from(HEADER).unwrap_or_default();
        let overhead = ground::overhead(self.to);
        for _ in 0..TRIES {
            let sent = self.path_mtu().and_then(|mtu| {
                let length = sizes.pick(number, mtu).saturating_sub(overhead).max(least);
                let bytes = match self.kind {
                    Kind::Udp => packet(length),
                    Kind::Icmp => echo::request(self.to.ip(), number, &packet(length)),
                };
                socket::send(self.watched.fd.as_raw_fd(), &bytes, MsgFlags::empty())?;
                Ok(length + overhead)
            });
            match sent {
                Ok(size) => return Sent::Out(size),
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return Sent::HeldBack,
                Err(errno) => count(errors, errno),
            }
            // Whatever it was, it may have been about an earlier packet, or about a way that has just changed.
            self.mtu = 0;
        }
        Sent::Refused
    }
}

/// The sending side of a flow.
#[derive(Debug)]
pub(super) struct Sender {
    line: Option<Line>,
    kind: Kind,
    sizes: Sizes,
}

impl Sender {
    pub(super) fn new(kind: Kind, sizes: Sizes) -> Sender {
        Sender { line: None, kind, sizes }
    }

    pub(super) fn tick(
        &mut self,
        at: usize,
        flow: &Flow,
        forward: &mut Tally,
        errors: &mut Errors,
        ground: &mut Ground,
    ) {
        if self.line.is_none() {
            match self.open(at, flow, ground) {
                Ok(line) => self.line = Some(line),
                Err(errno) => {
                    count(errors, errno);
                    return forward.refused(ground.now());
                }
            }
        }
        let Some(line) = &mut self.line else { return };
        let number = forward.next();
        // Counted before it is sent: the answer is read by this very thread, so it cannot be earlier.
        let packet = |length| ground.packet(at, Way::Forward, number, length);
        match line.send(&self.sizes, number, errors, packet) {
            Sent::Out(size) => forward.sent(ground.now(), size),
            Sent::Refused => forward.refused(ground.now()),
            Sent::HeldBack => {}
        }
    }

    fn open(&self, at: usize, flow: &Flow, ground: &mut Ground) -> Result<Line, Errno> {
        ground.enter(&flow.from)?;
        let socket = match self.kind {
            Kind::Udp => sockets::udp(ground::source(flow))?,
            Kind::Icmp => sockets::icmp(ground::source(flow))?,
        };
        Line::open(ground, Owner::Sender(at), socket, flow.to, self.kind)
    }

    pub(super) fn readable(
        &mut self,
        at: usize,
        forward: &mut Tally,
        backward: &mut Tally,
        errors: &mut Errors,
        ground: &mut Ground,
    ) {
        let Some(line) = &self.line else { return };
        let mut buffer = std::mem::take(&mut ground.buffer);
        loop {
            match sockets::receive(&line.watched.fd, &mut buffer) {
                Ok(Some(received)) => {
                    ground.overruns.insert(line.watched.token, received.overrun);
                    let now = ground.now().saturating_sub(received.age);
                    let bytes = &buffer[..received.length];
                    match self.kind {
                        Kind::Udp => {
                            if let Some((_, header)) =
                                ground.read(bytes, Way::Backward).filter(|(f, _)| *f == at)
                            {
                                backward.arrived(
                                    now,
                                    header.number,
                                    header.length + ground::overhead(line.to),
                                );
                            }
                        }
                        Kind::Icmp => {
                            let payload = echo::reply(line.to.ip(), bytes).unwrap_or_default();
                            if let Some((_, header)) =
                                ground.read(payload, Way::Forward).filter(|(f, _)| *f == at)
                            {
                                forward.arrived(
                                    now,
                                    header.number,
                                    header.length + ground::overhead(line.to),
                                );
                            }
                        }
                    }
                }
                Ok(None) => break,
                Err(errno) => count(errors, errno),
            }
        }
        ground.buffer = buffer;
    }

    pub(super) fn close(&mut self, ground: &mut Ground) {
        if let Some(line) = self.line.take() {
            ground.forget(line.watched);
        }
    }
}

/// Where datagrams are answered.
#[derive(Debug)]
pub(super) struct Reflector {
    pub(super) endpoint: Endpoint,
    door: Option<Watched>,
    guests: HashMap<usize, Line>,
}

/// Where a reflector finds the account of a flow it hears from.
pub(super) trait Accounts {
    fn account(&mut self, flow: usize) -> Option<Account<'_>>;
}

/// What a reflector needs of a flow.
pub(super) struct Account<'a> {
    pub(super) forward: &'a mut Tally,
    pub(super) backward: &'a mut Tally,
    pub(super) errors: &'a mut Errors,
    pub(super) sizes: &'a Sizes,
}

impl Reflector {
    pub(super) fn open(at: usize, endpoint: Endpoint, ground: &mut Ground) -> Result<Reflector, Errno> {
        ground.enter(&endpoint.place)?;
        let socket = sockets::udp_sharing(endpoint.at)?;
        let door = ground.watch(socket, Owner::Door(at), Interest::READABLE)?;
        Ok(Reflector { endpoint, door: Some(door), guests: HashMap::new() })
    }

    /// Reads what came, at the door or for a guest, and answers it.
    pub(super) fn readable(
        &mut self,
        at: usize,
        guest: Option<usize>,
        ground: &mut Ground,
        accounts: &mut impl Accounts,
    ) {
        let mut buffer = std::mem::take(&mut ground.buffer);
        loop {
            let watched = match guest {
                Some(guest) => self.guests.get(&guest).map(|line| &line.watched),
                None => self.door.as_ref(),
            };
            let Some(watched) = watched else { break };
            let received = match sockets::receive(&watched.fd, &mut buffer) {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(errno) => {
                    if let Some(account) = guest.and_then(|guest| accounts.account(guest)) {
                        count(account.errors, errno);
                    }
                    continue;
                }
            };
            ground.overruns.insert(watched.token, received.overrun);
            let Some((flow, header)) = ground.read(&buffer[..received.length], Way::Forward) else {
                continue;
            };
            let (Some(account), Some(peer)) = (accounts.account(flow), received.from) else { continue };
            let now = ground.now().saturating_sub(received.age);
            let size = header.length + ground::overhead(peer);
            if account.forward.arrived(now, header.number, size) == Arrival::Fresh {
                self.answer(at, flow, peer, account, ground);
            }
        }
        ground.buffer = buffer;
    }

    /// Answers on a connected socket: only such a one is told what the way back takes.
    fn answer(
        &mut self,
        at: usize,
        flow: usize,
        peer: SocketAddr,
        account: Account<'_>,
        ground: &mut Ground,
    ) {
        let Account { backward, errors, sizes, .. } = account;
        if self.guests.get(&flow).is_none_or(|line| line.to != peer) {
            // A peer changes when the translation in between forgets it and makes it up again.
            match self.meet(at, flow, peer, ground) {
                Ok(line) => {
                    if let Some(old) = self.guests.insert(flow, line) {
                        ground.forget(old.watched);
                    }
                }
                Err(errno) => {
                    count(errors, errno);
                    return backward.refused(ground.now());
                }
            }
        }
        let Some(line) = self.guests.get_mut(&flow) else { return };
        let number = backward.next();
        let packet = |length| ground.packet(flow, Way::Backward, number, length);
        match line.send(sizes, number, errors, packet) {
            Sent::Out(size) => backward.sent(ground.now(), size),
            Sent::Refused | Sent::HeldBack => backward.refused(ground.now()),
        }
    }

    fn meet(&self, at: usize, flow: usize, peer: SocketAddr, ground: &mut Ground) -> Result<Line, Errno> {
        ground.enter(&self.endpoint.place)?;
        let socket = sockets::udp_sharing(self.endpoint.at)?;
        let owner = Owner::Guest(at, u64::try_from(flow).unwrap_or(u64::MAX));
        Line::open(ground, owner, socket, peer, Kind::Udp)
    }

    pub(super) fn is_open(&self) -> bool {
        self.door.is_some()
    }

    pub(super) fn close(&mut self, ground: &mut Ground) {
        for watched in self.door.take().into_iter().chain(self.guests.drain().map(|(_, line)| line.watched)) {
            ground.forget(watched);
        }
    }
}
