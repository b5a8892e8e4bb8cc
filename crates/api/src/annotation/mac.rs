//! Hardware addresses.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A hardware address, printed in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address both plugins derive from an IPv4 address: `0a:58`, then its four bytes.
    pub fn of(address: Ipv4Addr) -> Mac {
        let [a, b, c, d] = address.octets();
        Mac([0x0a, 0x58, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is not a hardware address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a hardware address: six pairs of hexadecimal digits with colons between")]
pub struct NotAMac(String);

impl FromStr for Mac {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Mac, NotAMac> {
        let refuse = || NotAMac(text.to_owned());
        let mut bytes = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().ok_or_else(refuse)?;
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(refuse());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| refuse())?;
        }
        match pairs.next() {
            None => Ok(Mac(bytes)),
            Some(_) => Err(refuse()),
        }
    }
}
