//! One netlink socket: questions, dumps, batches, transactions.
//!
//! The kernel does the work of a request inside `send`, so its answers are there when `send` returns: blocking
//! sockets never wait, and no task is needed to pair answers with questions.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, setsockopt, sockopt,
};

use super::{Attributes, Batch, Message, attribute, flag, messages};
use crate::count;
use crate::error::{Attempt, Error, Result};
use crate::sys;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const EXPLANATION: u16 = 1;

/// Messages per datagram of a batch: bounds what the acknowledgements need of the receive buffer.
const CHUNK: usize = 256;
/// A dump that others keep interrupting is read again, so often.
const PATIENCE: usize = 16;
/// 10 000 nftables rules are 3.2 MB and must fit one `send`.
const SEND_BUFFER: usize = 64 << 20;
const RECEIVE_BUFFER: usize = 8 << 20;
/// The kernel makes dump messages of at most 32 KiB, notifications of a page or two.
const DATAGRAM: usize = 128 << 10;

/// Which part of the kernel answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Route,
    Netfilter,
    Generic,
}

/// What the kernel said no to, and its words.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) errno: Errno,
    pub(crate) explained: Option<String>,
}

impl Fault {
    pub(crate) fn of(self, attempt: Attempt, object: impl Into<String>) -> Error {
        Error::Refused { attempt, object: object.into(), explained: self.explained, errno: self.errno }
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault { errno, explained: None }
    }
}

/// A socket in the namespace the thread was in when it was opened.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

impl Socket {
    pub(crate) fn open(protocol: Protocol) -> Result<Socket> {
        let socket = Socket::raw(protocol, 0, SockFlag::empty())?;
        let refused = |errno| Error::refused(Attempt::Opening, "netlink socket buffers", errno);
        // Without the capability to exceed the limits of the host the default must do.
        for forced in [
            setsockopt(&socket.fd, sockopt::SndBufForce, &SEND_BUFFER),
            setsockopt(&socket.fd, sockopt::RcvBufForce, &RECEIVE_BUFFER),
        ] {
            match forced {
                Ok(()) | Err(Errno::EPERM) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        Ok(socket)
    }

    /// A socket that hears the given groups and never waits.
    pub(crate) fn listening(
        protocol: Protocol,
        groups: u32,
        receive_buffer: Option<usize>,
    ) -> Result<Socket> {
        let socket = Socket::raw(protocol, groups, SockFlag::SOCK_NONBLOCK)?;
        if let Some(bytes) = receive_buffer {
            setsockopt(&socket.fd, sockopt::RcvBufForce, &bytes)
                .map_err(|errno| Error::refused(Attempt::Opening, "netlink receive buffer", errno))?;
        }
        Ok(socket)
    }

    fn raw(protocol: Protocol, groups: u32, flags: SockFlag) -> Result<Socket> {
        let refused = |errno| Error::refused(Attempt::Opening, format!("{protocol:?} netlink socket"), errno);
        let number = match protocol {
            Protocol::Route => SockProtocol::NetlinkRoute,
            Protocol::Netfilter => SockProtocol::NetlinkNetFilter,
            Protocol::Generic => SockProtocol::NetlinkGeneric,
        };
        let flags = flags | SockFlag::SOCK_CLOEXEC;
        let fd = socket::socket(AddressFamily::Netlink, SockType::Raw, flags, number).map_err(refused)?;
        socket::bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups)).map_err(refused)?;
        for option in [sys::Netlink::ExtendedAck, sys::Netlink::CappedAck, sys::Netlink::StrictDumps] {
            sys::set_netlink(&fd, option).map_err(refused)?;
        }
        Ok(Socket { fd, sequence: 0, buffer: Vec::new() })
    }

    /// One datagram; the length is the real one, so that a cut one is noticed.
    pub(crate) fn receive(&mut self, flags: MsgFlags) -> Result<&[u8], Errno> {
        self.buffer.resize(DATAGRAM, 0);
        let length = loop {
            match socket::recv(self.fd.as_raw_fd(), &mut self.buffer, flags | MsgFlags::MSG_TRUNC) {
                Err(Errno::EINTR) => {}
                other => break other?,
            }
        };
        self.buffer.get(..length).ok_or(Errno::EMSGSIZE)
    }

    fn send(&self, datagram: &[u8]) -> Result<(), Errno> {
        loop {
            match socket::send(self.fd.as_raw_fd(), datagram, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                Ok(sent) if sent == datagram.len() => return Ok(()),
                Ok(_) => return Err(Errno::EMSGSIZE),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn number(&mut self, messages: usize) -> u32 {
        let base = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(u32::try_from(messages).unwrap_or(u32::MAX));
        base
    }

    /// A dump, read again from the start when the kernel says that it changed on the way.
    pub(crate) fn dump<T>(
        &mut self,
        kind: u16,
        object: &str,
        body: impl Fn(&mut attribute::Writer),
        read: impl Fn(Message<'_>, &mut Vec<T>),
    ) -> Result<Vec<T>> {
        for _ in 0..PATIENCE {
            let mut found = Vec::new();
            let mut batch = Batch::default();
            batch.push(kind, flag::DUMP, Attempt::Reading, object, &body);
            count::asked();
            let base = self.number(1);
            self.send(batch.numbered(0, 1, base))
                .map_err(|errno| Error::refused(Attempt::Reading, object, errno))?;
            let whole = self
                .until_done(base, &mut |message| read(message, &mut found))
                .map_err(|fault| fault.of(Attempt::Reading, object))?;
            if whole {
                return Ok(found);
            }
        }
        Err(Error::refused(Attempt::Reading, object, Errno::EAGAIN))
    }

    fn until_done(&mut self, base: u32, read: &mut impl FnMut(Message<'_>)) -> Result<bool, Fault> {
        let mut whole = true;
        loop {
            for message in messages(self.receive(MsgFlags::empty())?) {
                if message.sequence != base {
                    continue;
                }
                whole &= message.flags & flag::DUMP_INTERRUPTED == 0;
                match message.kind {
                    DONE => return done(message).map_or(Ok(whole), Err),
                    ERROR => match fault(message) {
                        Some(fault) => return Err(fault),
                        None => return Ok(whole),
                    },
                    _ => read(message),
                }
            }
        }
    }

    /// One question with one answer.
    pub(crate) fn ask<T>(
        &mut self,
        kind: u16,
        object: &str,
        body: impl FnOnce(&mut attribute::Writer),
        read: impl Fn(Message<'_>) -> Option<T>,
    ) -> Result<T> {
        let mut batch = Batch::default();
        batch.push(kind, flag::ACK, Attempt::Reading, object, body);
        count::asked();
        let base = self.number(1);
        self.send(batch.numbered(0, 1, base))
            .map_err(|errno| Error::refused(Attempt::Reading, object, errno))?;
        let mut found = None;
        self.until_done(base, &mut |message| found = read(message).or(found.take()))
            .map_err(|fault| fault.of(Attempt::Reading, object))?;
        found.ok_or_else(|| Error::Unreadable { object: object.into(), why: "there was no answer" })
    }

    /// Messages that the kernel carries out one by one: what is refused does not stop what follows.
    pub(crate) fn run(&mut self, mut batch: Batch) -> Result<()> {
        let mut failed = Vec::new();
        let of = batch.len();
        let mut from = 0;
        while from < of {
            let to = (from + CHUNK).min(of);
            if let Some(bad) = batch.entries[from..to].iter().find(|e| e.overflowed) {
                return Err(Error::invalid(&bad.object, "does not fit a netlink message"));
            }
            count::changed(to - from);
            let base = self.number(to - from);
            self.send(batch.numbered(from, to, base)).map_err(|errno| {
                let entry = &batch.entries[from];
                Error::refused(entry.attempt, &entry.object, errno)
            })?;
            let mut pending = to - from;
            while pending > 0 {
                let datagram = self.receive(MsgFlags::empty()).map_err(|errno| {
                    Error::refused(Attempt::Reading, "the kernel's acknowledgements", errno)
                })?;
                for message in messages(datagram).filter(|m| m.kind == ERROR) {
                    let position = message.sequence.wrapping_sub(base) as usize;
                    if position >= to - from {
                        continue;
                    }
                    pending -= 1;
                    if let Some(fault) = fault(message) {
                        let entry = &batch.entries[from + position];
                        failed.push(fault.of(entry.attempt, &entry.object));
                    }
                }
            }
            from = to;
        }
        match (failed.len(), of) {
            (0, _) => Ok(()),
            (1, 1) => Err(failed.remove(0)),
            (_, of) => Err(Error::Several { failed, of }),
        }
    }

    /// Messages that the kernel carries out all or not at all: no acknowledgements are asked for, refusals
    /// are waiting when `send` returns. The first one decides, the others follow from it.
    pub(crate) fn commit(&mut self, batch: &mut Batch) -> Result<(), (Option<usize>, Fault)> {
        let of = batch.len();
        if let Some(bad) = batch.entries.iter().position(|e| e.overflowed) {
            return Err((Some(bad), Errno::EMSGSIZE.into()));
        }
        count::changed(of);
        let base = self.number(of);
        self.send(batch.numbered(0, of, base)).map_err(|errno| (None, errno.into()))?;
        let mut first = None;
        loop {
            match self.receive(MsgFlags::MSG_DONTWAIT) {
                Err(Errno::EAGAIN) => return first.map_or(Ok(()), Err),
                Err(errno) => first = first.or(Some((None, errno.into()))),
                Ok(datagram) => {
                    for message in messages(datagram).filter(|m| m.kind == ERROR) {
                        let position = message.sequence.wrapping_sub(base) as usize;
                        if position < of
                            && first.is_none()
                            && let Some(fault) = fault(message)
                        {
                            first = Some((Some(position), fault));
                        }
                    }
                }
            }
        }
    }
}

/// `NLMSG_ERROR`: a number (zero is an acknowledgement), the request's header, then attributes.
fn fault(message: Message<'_>) -> Option<Fault> {
    let number = i32::from_ne_bytes(message.body.get(..4)?.try_into().ok()?);
    if number == 0 {
        return None;
    }
    let echoed = if message.flags & flag::ACK_IS_CAPPED != 0 {
        super::HEADER
    } else {
        let length = message.body.get(4..8).and_then(attribute::u32).unwrap_or(16);
        super::aligned(length as usize)
    };
    let explained = (message.flags & flag::ACK_HAS_ATTRIBUTES != 0)
        .then(|| Attributes::after(message.body, 4 + echoed).find(EXPLANATION))
        .flatten()
        .and_then(attribute::str);
    Some(Fault { errno: Errno::from_raw(-number), explained })
}

/// `NLMSG_DONE` carries the error a dump ended with.
fn done(message: Message<'_>) -> Option<Fault> {
    let number = i32::from_ne_bytes(message.body.get(..4)?.try_into().ok()?);
    let explained = (message.flags & flag::ACK_HAS_ATTRIBUTES != 0)
        .then(|| Attributes::after(message.body, 4).find(EXPLANATION))
        .flatten()
        .and_then(attribute::str);
    (number != 0).then(|| Fault { errno: Errno::from_raw(-number), explained })
}
