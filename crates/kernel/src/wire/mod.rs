//! Netlink on the wire: attributes, messages, sockets. What they mean is up to the modules above.

pub(crate) mod attribute;
pub(crate) mod batch;
pub(crate) mod socket;

pub(crate) use attribute::{Attributes, Writer, ip, str, u8, u16, u32};
pub(crate) use batch::Batch;
pub(crate) use socket::{Protocol, Socket};

/// `struct nlmsghdr`: length, type, flags, sequence, port.
pub(crate) const HEADER: usize = 16;

/// Request flags (`NLM_F_*`).
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 0x1;
    pub(crate) const ACK: u16 = 0x4;
    pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCLUSIVE: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
    pub(crate) const ACK_HAS_ATTRIBUTES: u16 = 0x200;
    pub(crate) const ACK_IS_CAPPED: u16 = 0x100;
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// The messages of a datagram; a damaged tail ends the iteration.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let header = datagram.get(..HEADER)?;
        let field =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = field(0) as usize;
        let body = datagram.get(HEADER..length)?;
        let message = Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            flags: u16::from_ne_bytes([header[6], header[7]]),
            sequence: field(8),
            body,
        };
        datagram = datagram.get(aligned(length)..).unwrap_or_default();
        Some(message)
    })
}

/// Netlink aligns everything to four bytes.
pub(crate) const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}
