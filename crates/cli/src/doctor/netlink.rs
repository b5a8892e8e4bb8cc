//! Just enough netlink to ask the kernel whether it knows something.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket,
    sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};

const ERROR: u16 = 2;
const HEADER: usize = 16;

/// Set on every request; the other flags say what to do with an object that is there already.
const REQUEST: u16 = 1;
/// Ask for an acknowledgement.
pub(super) const ACK: u16 = 4;
/// Make it.
pub(super) const CREATE: u16 = 0x400;
/// And fail if it is there.
pub(super) const EXCLUSIVE: u16 = 0x200;

/// A connection to one part of the kernel.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(super) fn open(protocol: SockProtocol) -> nix::Result<Self> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        // The kernel answers while we send; a lost answer must not hang the doctor.
        setsockopt(&socket, ReceiveTimeout, &TimeVal::seconds(2))?;
        Ok(Self { socket })
    }

    /// Sends the messages in one datagram and returns the first error the kernel answers with.
    ///
    /// `Ok` as soon as one answer is no error: an acknowledgement, or what was asked for.
    pub(super) fn ask(&self, messages: &[Message]) -> nix::Result<()> {
        let bytes: Vec<u8> = messages.iter().flat_map(|m| m.bytes.clone()).collect();
        sendto(self.socket.as_raw_fd(), &bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = vec![0; 32 * 1024];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        match error_in(&answer[..length]) {
            Some(0) | None => Ok(()),
            Some(code) => Err(Errno::from_raw(-code)),
        }
    }
}

fn error_in(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?);
    (kind == ERROR).then_some(code)
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of a kind, with the fixed part that kind starts with and the attributes that follow.
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8], attributes: &[Vec<u8>]) -> Self {
        let body: Vec<u8> = fixed.iter().copied().chain(attributes.iter().flatten().copied()).collect();
        let length = u32::try_from(HEADER + body.len()).expect("a probe is a few dozen bytes");
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend(1_u32.to_ne_bytes()); // sequence
        bytes.extend(0_u32.to_ne_bytes()); // port: the kernel fills it in
        bytes.extend(body);
        Self { bytes }
    }
}

/// An attribute, padded to four bytes.
pub(super) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + payload.len()).expect("a probe's attribute is a few dozen bytes");
    let mut bytes = Vec::with_capacity(usize::from(length) + 3);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The same for a string, which the kernel wants terminated.
pub(super) fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}
