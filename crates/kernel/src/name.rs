//! Names and hardware addresses that the kernel will take.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The name of a network interface.
///
/// Invariant: 1 to 15 bytes, none of `/`, `:`, `%`, white space or NUL, not `.` or `..`. The kernel would take
/// `%d` as a template and make an interface of another name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IfName(String);

impl IfName {
    /// Checks a name.
    pub fn new(name: impl Into<String>) -> Result<IfName> {
        let name = name.into();
        let refuse = |why: &str| Err(Error::invalid(format!("interface name {name:?}"), why));
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return refuse("must have 1 to 15 bytes");
        }
        if name == "." || name == ".." {
            return refuse("means a directory");
        }
        if name.contains(|c: char| c.is_whitespace() || matches!(c, '/' | ':' | '%' | '\0')) {
            return refuse("contains one of '/', ':', '%' or white space");
        }
        Ok(IfName(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the kernel itself reported: it has checked it by rules that are not always ours.
    pub(crate) fn reported(name: &str) -> IfName {
        IfName(name.to_owned())
    }
}

impl fmt::Display for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IfName {
    type Err = Error;
    fn from_str(s: &str) -> Result<IfName> {
        IfName::new(s)
    }
}

impl AsRef<str> for IfName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everybody on the wire.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// One from a netlink attribute, if that is what it holds.
    pub(crate) fn read(bytes: &[u8]) -> Option<Mac> {
        bytes.try_into().ok().map(Mac)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = Error;
    fn from_str(s: &str) -> Result<Mac> {
        let refuse = || Error::invalid(format!("hardware address {s:?}"), "is not six hexadecimal pairs");
        let mut bytes = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(refuse)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| refuse())?;
        }
        parts.next().is_none().then_some(Mac(bytes)).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_kernel_would_misread_are_refused() {
        for bad in ["", "a/b", "veth%d", "eth0:1", "two words", ".", "..", "sixteen-bytes-xx", "nul\0"] {
            assert!(IfName::new(bad).is_err(), "{bad:?}");
        }
        for good in ["lo", "fifteen-bytes-x", "br-ex", "ovn-k8s-mp0"] {
            assert_eq!(IfName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_hardware_address_reads_back_as_printed() {
        let mac = Mac([0x0a, 0x58, 10, 244, 0, 2]);
        assert_eq!(mac.to_string(), "0a:58:0a:f4:00:02");
        assert_eq!(mac.to_string().parse::<Mac>().unwrap(), mac);
        for bad in ["", "0a:58:0a:f4:00", "0a:58:0a:f4:00:02:03", "0a-58-0a-f4-00-02", "a:58:0a:f4:00:022"] {
            assert!(bad.parse::<Mac>().is_err(), "{bad:?}");
        }
    }
}
