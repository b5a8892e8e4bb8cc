//! Numbered records in TCP connections, there and back.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::{Interest, Token};
use nix::errno::Errno;
use nix::sys::socket::{self, MsgFlags, SockaddrStorage, getsockopt, sockopt};

use super::datagrams::{Account, Accounts, Errors, count};
use super::ground::{self, Ground, Owner, Watched};
use super::plan::{Endpoint, Flow};
use super::socket as sockets;
use super::tally::{Arrival, At, Tally};
use super::wire::{HEADER, Header, Way};

/// How long a handshake may take before it is tried anew. The kernel's own second SYN goes out after one second.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Between attempts to connect.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection as records.
#[derive(Debug)]
struct Records {
    watched: Watched,
    read: Vec<u8>,
    write: Vec<u8>,
}

impl Records {
    fn new(watched: Watched) -> Records {
        Records { watched, read: Vec::new(), write: Vec::new() }
    }

    /// Reads all that is there, each record with how long ago the kernel had it; whether the peer may say more.
    fn read(&mut self, buffer: &mut [u8], mut each: impl FnMut(Duration, Header)) -> Result<bool, Errno> {
        loop {
            let received = match sockets::receive(&self.watched.fd, buffer) {
                Ok(Some(received)) if received.length == 0 => return Ok(false),
                Ok(Some(received)) => received,
                Ok(None) => return Ok(true),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno),
            };
            self.read.extend_from_slice(&buffer[..received.length]);
            let mut done = 0;
            while self.read.len() - done >= HEADER {
                let header = Header::read(&self.read[done..]).ok_or(Errno::EBADMSG)?;
                let length = usize::try_from(header.length).map_err(|_| Errno::EBADMSG)?;
                if self.read.len() - done < length {
                    break;
                }
                each(received.age, header);
                done += length;
            }
            self.read.drain(..done);
        }
    }

    /// Writes what can be written; whether that was all.
    fn flush(&mut self) -> Result<bool, Errno> {
        while !self.write.is_empty() {
            match socket::send(self.watched.fd.as_raw_fd(), &self.write, MsgFlags::MSG_NOSIGNAL) {
                Ok(written) => drop(self.write.drain(..written)),
                Err(Errno::EAGAIN) => return Ok(false),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }
}

#[derive(Debug)]
enum Link {
    Down { again: At },
    Connecting { watched: Watched, since: At },
    Up(Records),
}

/// The sending side of a flow.
#[derive(Debug)]
pub(super) struct Sender {
    link: Link,
    record: u32,
    pub(super) connections: u64,
    pub(super) failed: u64,
    pub(super) broken: u64,
    /// Bytes of payload in a full segment, of the last connection.
    pub(super) segment: Option<u32>,
}

impl Sender {
    pub(super) fn new(record: u32) -> Sender {
        let least = u32::try_from(HEADER).unwrap_or_default();
        Sender {
            link: Link::Down { again: At::ZERO },
            record: record.max(least),
            connections: 0,
            failed: 0,
            broken: 0,
            segment: None,
        }
    }

    pub(super) fn tick(
        &mut self,
        at: usize,
        flow: &Flow,
        forward: &mut Tally,
        errors: &mut Errors,
        ground: &mut Ground,
    ) {
        let now = ground.now();
        match &mut self.link {
            Link::Down { again } if now >= *again => {
                forward.expect(now);
                match open(at, flow, ground) {
                    Ok(watched) => self.link = Link::Connecting { watched, since: now },
                    Err(errno) => self.unconnected(now, errno, errors, ground),
                }
            }
            Link::Down { .. } => {}
            Link::Connecting { since, .. } => {
                if now.saturating_sub(*since) >= HANDSHAKE {
                    self.unconnected(now, Errno::ETIMEDOUT, errors, ground);
                }
            }
            Link::Up(_) => self.send(at, forward, errors, ground),
        }
    }

    /// Sends a record, unless the last one still waits in our own buffer: that is a stall already, and more of it would
    /// only hide how long.
    fn send(&mut self, at: usize, forward: &mut Tally, errors: &mut Errors, ground: &mut Ground) {
        let Link::Up(records) = &mut self.link else { return };
        if !records.write.is_empty() {
            return;
        }
        records.write.extend(ground.packet(at, Way::Forward, forward.next(), self.record));
        let flushed = records.flush();
        // Only now: this thread may have been without a processor since it looked at the clock.
        let now = ground.now();
        forward.sent(now, self.record);
        if let Err(errno) = flushed {
            self.broke(now, Some(errno), forward, errors, ground);
        }
    }

    pub(super) fn ready(
        &mut self,
        at: usize,
        forward: &mut Tally,
        backward: &mut Tally,
        errors: &mut Errors,
        ground: &mut Ground,
    ) {
        let now = ground.now();
        match &mut self.link {
            Link::Down { .. } => {}
            Link::Connecting { watched, .. } => {
                let error = getsockopt(&watched.fd, sockopt::SocketError).unwrap_or_default();
                if error != 0 {
                    self.unconnected(now, Errno::from_raw(error), errors, ground);
                } else if socket::getpeername::<SockaddrStorage>(watched.fd.as_raw_fd()).is_ok() {
                    self.segment = getsockopt(&watched.fd, sockopt::TcpMaxSeg).ok();
                    self.connections += 1;
                    let old = std::mem::replace(&mut self.link, Link::Down { again: now });
                    if let Link::Connecting { watched, .. } = old {
                        self.link = Link::Up(Records::new(watched));
                    }
                    // At once: it has been expected since we began to connect, and a thread that comes late to its turns
                    // would count that as the path's delay.
                    self.send(at, forward, errors, ground);
                }
            }
            Link::Up(records) => {
                let mut buffer = std::mem::take(&mut ground.buffer);
                let flushed = records.flush();
                let read = records.read(&mut buffer, |age, header| {
                    let ours = header.run == ground.run && header.way == Way::Backward;
                    if ours && usize::try_from(header.flow) == Ok(at) {
                        backward.arrived(ground.now().saturating_sub(age), header.number, header.length);
                    }
                });
                ground.buffer = buffer;
                match flushed.and(read) {
                    Ok(true) => {}
                    Ok(false) => self.broke(now, None, forward, errors, ground),
                    Err(errno) => self.broke(now, Some(errno), forward, errors, ground),
                }
            }
        }
    }

    fn unconnected(&mut self, now: At, errno: Errno, errors: &mut Errors, ground: &mut Ground) {
        count(errors, errno);
        self.failed += 1;
        self.close(ground);
        self.link = Link::Down { again: now + AGAIN };
    }

    fn broke(
        &mut self,
        now: At,
        errno: Option<Errno>,
        forward: &mut Tally,
        errors: &mut Errors,
        ground: &mut Ground,
    ) {
        count(errors, errno.unwrap_or(Errno::ECONNABORTED));
        self.broken += 1;
        forward.expect(now);
        self.close(ground);
    }

    pub(super) fn close(&mut self, ground: &mut Ground) {
        let old = std::mem::replace(&mut self.link, Link::Down { again: ground.now() });
        match old {
            Link::Down { .. } => {}
            Link::Connecting { watched, .. } => ground.forget(watched),
            Link::Up(records) => ground.forget(records.watched),
        }
    }
}

fn open(at: usize, flow: &Flow, ground: &mut Ground) -> Result<Watched, Errno> {
    ground.enter(&flow.from)?;
    let socket = sockets::tcp(ground::source(flow))?;
    sockets::connect(&socket, flow.to)?;
    ground.watch(socket, Owner::Sender(at), Interest::READABLE | Interest::WRITABLE)
}

/// Where records are answered.
#[derive(Debug)]
pub(super) struct Reflector {
    pub(super) endpoint: Endpoint,
    door: Option<(TcpListener, Token)>,
    guests: HashMap<u64, Records>,
    next: u64,
}

impl Reflector {
    pub(super) fn open(at: usize, endpoint: Endpoint, ground: &mut Ground) -> Result<Reflector, Errno> {
        ground.enter(&endpoint.place)?;
        let listener = TcpListener::from(sockets::listen(endpoint.at)?);
        let token = ground.watch_fd(&listener, Owner::Door(at), Interest::READABLE)?;
        Ok(Reflector { endpoint, door: Some((listener, token)), guests: HashMap::new(), next: 0 })
    }

    pub(super) fn accept(&mut self, at: usize, ground: &mut Ground) -> Vec<u64> {
        let mut met = Vec::new();
        let Some((door, _)) = &self.door else { return met };
        while let Ok((stream, _)) = door.accept() {
            // A connection that is gone before it is looked at is no guest.
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            let owner = Owner::Guest(at, self.next);
            let interest = Interest::READABLE | Interest::WRITABLE;
            if ready.is_ok()
                && let Ok(watched) = ground.watch(OwnedFd::from(stream), owner, interest)
            {
                self.guests.insert(self.next, Records::new(watched));
                met.push(self.next);
                self.next += 1;
            }
        }
        met
    }

    pub(super) fn ready(&mut self, guest: u64, ground: &mut Ground, accounts: &mut impl Accounts) {
        let Some(records) = self.guests.get_mut(&guest) else { return };
        let mut buffer = std::mem::take(&mut ground.buffer);
        let mut answers = Vec::new();
        let read = records.read(&mut buffer, |age, header| {
            let ours = header.run == ground.run && header.way == Way::Forward;
            let Some(flow) = usize::try_from(header.flow).ok().filter(|_| ours) else { return };
            let Some(Account { forward, backward, .. }) = accounts.account(flow) else { return };
            let now = ground.now();
            if forward.arrived(now.saturating_sub(age), header.number, header.length) == Arrival::Fresh {
                answers.extend(ground.packet(flow, Way::Backward, backward.next(), header.length));
                backward.sent(now, header.length);
            }
        });
        ground.buffer = buffer;
        records.write.extend(answers);
        let flushed = records.flush();
        if matches!((read, flushed), (Ok(true), Ok(_))) {
            return;
        }
        if let Some(records) = self.guests.remove(&guest) {
            ground.forget(records.watched);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.door.is_some()
    }

    pub(super) fn close(&mut self, ground: &mut Ground) {
        if let Some((_, token)) = self.door.take() {
            ground.forget_token(token);
        }
        for (_, records) in self.guests.drain() {
            ground.forget(records.watched);
        }
    }
}
