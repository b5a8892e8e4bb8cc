//! The largest packet a link carries.

mod envelope;

use std::fmt;

pub use envelope::Envelope;

/// The size of the largest IP packet a link carries or a route lets pass.
///
/// Invariant: between [`Mtu::MIN`] and [`Mtu::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mtu(u32);

/// No link of ours runs at that size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("MTU {0} is not between {min} and {max}", min = Mtu::MIN, max = Mtu::MAX)]
pub struct OutOfRange(pub u32);

impl Mtu {
    /// The smallest an IPv4 link may have (RFC 791).
    pub const MIN: u32 = 576;
    /// The smallest a link may have where there is IPv6 (RFC 8200).
    pub const MIN_V6: u32 = 1280;
    /// The largest a link may have: the loopback's.
    pub const MAX: u32 = 65536;

    /// The only way to an MTU.
    pub fn new(bytes: u32) -> Result<Mtu, OutOfRange> {
        if (Mtu::MIN..=Mtu::MAX).contains(&bytes) { Ok(Mtu(bytes)) } else { Err(OutOfRange(bytes)) }
    }

    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_outside_what_links_can_have_is_refused() {
        for (bytes, fits) in
            [(0, false), (575, false), (576, true), (1400, true), (65536, true), (65537, false)]
        {
            assert_eq!(Mtu::new(bytes).is_ok(), fits, "{bytes}");
        }
    }
}
