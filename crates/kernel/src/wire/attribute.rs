//! Attributes: length, kind, value, padded to four bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::aligned;

const NESTED: u16 = 0x8000;
const KIND: u16 = 0x3fff;

/// Writes message bodies.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) buffer: Vec<u8>,
    /// An attribute was longer than its 16-bit length can say. Checked once, when the message is finished.
    pub(crate) overflowed: bool,
}

impl Writer {
    /// Bytes as they are: fixed headers. The caller keeps them a multiple of four.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Writer {
        self.buffer.extend_from_slice(bytes);
        self
    }

    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Writer {
        let length = u16::try_from(value.len() + 4).unwrap_or_else(|_| {
            self.overflowed = true;
            4
        });
        self.buffer.extend_from_slice(&length.to_ne_bytes());
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        self.buffer.extend_from_slice(value);
        self.buffer.resize(aligned(self.buffer.len()), 0);
        self
    }

    pub(crate) fn flag(&mut self, kind: u16) -> &mut Writer {
        self.bytes(kind, &[])
    }

    pub(crate) fn u8(&mut self, kind: u16, value: u8) -> &mut Writer {
        self.bytes(kind, &[value])
    }

    pub(crate) fn u32(&mut self, kind: u16, value: u32) -> &mut Writer {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn be16(&mut self, kind: u16, value: u16) -> &mut Writer {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// nftables and conntrack speak network byte order.
    pub(crate) fn be32(&mut self, kind: u16, value: u32) -> &mut Writer {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(crate) fn be64(&mut self, kind: u16, value: u64) -> &mut Writer {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Text with the NUL that the kernel's policies want.
    pub(crate) fn str(&mut self, kind: u16, value: &str) -> &mut Writer {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    pub(crate) fn ip(&mut self, kind: u16, value: IpAddr) -> &mut Writer {
        match value {
            IpAddr::V4(v4) => self.bytes(kind, &v4.octets()),
            IpAddr::V6(v6) => self.bytes(kind, &v6.octets()),
        }
    }

    pub(crate) fn nest(&mut self, kind: u16, inner: impl FnOnce(&mut Writer)) -> &mut Writer {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        inner(self);
        let length = u16::try_from(self.buffer.len() - start).unwrap_or_else(|_| {
            self.overflowed = true;
            4
        });
        self.buffer[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.buffer[start + 2..start + 4].copy_from_slice(&(kind | NESTED).to_ne_bytes());
        self
    }
}

/// Reads attributes; a damaged tail ends the iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes after a fixed header.
    pub(crate) fn after(body: &'a [u8], header: usize) -> Attributes<'a> {
        Attributes(body.get(header..).unwrap_or_default())
    }

    /// The first attribute of a kind.
    pub(crate) fn find(self, kind: u16) -> Option<&'a [u8]> {
        self.into_iter().find_map(|(k, value)| (k == kind).then_some(value))
    }

    /// The attributes inside the first attribute of a kind; none if it is not there.
    pub(crate) fn inside(self, kind: u16) -> Attributes<'a> {
        Attributes(self.find(kind).unwrap_or_default())
    }
}

impl<'a> IntoIterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        Iter(self.0)
    }
}

/// See [`Attributes`].
#[derive(Debug)]
pub(crate) struct Iter<'a>(&'a [u8]);

impl<'a> Iterator for Iter<'a> {
    type Item = (u16, &'a [u8]);
    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let header = self.0.get(..4)?;
        let length = u16::from_ne_bytes([header[0], header[1]]) as usize;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & KIND;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

pub(crate) fn u8(value: &[u8]) -> Option<u8> {
    value.first().copied()
}

pub(crate) fn u16(value: &[u8]) -> Option<u16> {
    value.try_into().ok().map(u16::from_ne_bytes)
}

pub(crate) fn u32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

pub(crate) fn be16(value: &[u8]) -> Option<u16> {
    value.try_into().ok().map(u16::from_be_bytes)
}

pub(crate) fn be32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

pub(crate) fn be64(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

/// Text up to its NUL; the kernel's names are bytes, and those that are not UTF-8 are shown with replacements.
pub(crate) fn str(value: &[u8]) -> Option<String> {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    Some(String::from_utf8_lossy(&value[..end]).into_owned())
}

pub(crate) fn ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(|b| IpAddr::V4(Ipv4Addr::from(b))),
        16 => <[u8; 16]>::try_from(value).ok().map(|b| IpAddr::V6(Ipv6Addr::from(b))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nested_attributes_read_back_as_written() {
        let mut w = Writer::default();
        w.u32(1, 7).str(2, "lo").nest(3, |w| {
            w.be16(1, 80).ip(2, IpAddr::V4(Ipv4Addr::LOCALHOST));
        });
        let read = Attributes(&w.buffer);
        assert_eq!(read.find(1).and_then(u32), Some(7));
        assert_eq!(read.find(2).and_then(str).as_deref(), Some("lo"));
        assert_eq!(read.inside(3).find(1).and_then(be16), Some(80));
        assert_eq!(read.inside(3).find(2).and_then(ip), Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(read.inside(9).into_iter().next().is_none());
    }

    #[test]
    fn an_attribute_too_long_for_its_length_field_is_noticed() {
        let mut w = Writer::default();
        w.bytes(1, &[0; 65_532]);
        assert!(w.overflowed);
        let mut w = Writer::default();
        w.nest(1, |w| {
            w.bytes(1, &[0; 40_000]).bytes(2, &[0; 40_000]);
        });
        assert!(w.overflowed);
    }

    proptest! {
        #[test]
        fn whatever_the_bytes_reading_them_ends_and_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            for (_, value) in Attributes(&bytes) {
                let _ = (u8(value), u16(value), u32(value), be16(value), be64(value), str(value), ip(value));
                for _ in Attributes(value) {}
            }
            for message in super::super::messages(&bytes) {
                for _ in Attributes(message.body) {}
            }
        }
    }
}
