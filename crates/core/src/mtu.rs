//! The largest packet a link carries.

use std::fmt;

/// The size of the largest IP packet a link carries or a route lets pass.
///
/// Invariant: between [`Mtu::MIN`] and [`Mtu::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mtu(u16);

/// No link of ours runs at that size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("MTU {0} is not between {min} and {max}", min = Mtu::MIN, max = Mtu::MAX)]
pub struct OutOfRange(pub u32);

impl Mtu {
    /// The smallest an IPv4 link may have (RFC 791 asks for 576, RFC 8200 for 1280 where there is IPv6).
    pub const MIN: u16 = 576;
    /// The largest an IP packet can be.
    pub const MAX: u16 = 65535;

    /// The only way to an MTU.
    pub fn new(bytes: u32) -> Result<Mtu, OutOfRange> {
        u16::try_from(bytes).ok().filter(|b| *b >= Mtu::MIN).map(Mtu).ok_or(OutOfRange(bytes))
    }

    /// The size in bytes.
    pub fn bytes(self) -> u32 {
        u32::from(self.0)
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
    fn an_mtu_outside_what_ip_allows_is_refused() {
        for (bytes, fits) in
            [(0, false), (575, false), (576, true), (1400, true), (65535, true), (65536, false)]
        {
            assert_eq!(Mtu::new(bytes).is_ok(), fits, "{bytes}");
        }
    }
}
