//! The values sets and maps hold.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::Verdict;
use crate::name::{IfName, Mac};

/// The type of one field of a key or of data. The numbers are those of `nft`, so that it can print our sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Datatype {
    /// An IPv4 address.
    V4,
    /// An IPv6 address.
    V6,
    /// An Ethernet address.
    Mac,
    /// A transport protocol.
    Protocol,
    /// A port.
    Port,
    /// A mark.
    Mark,
    /// A link's name.
    Name,
    /// One that this crate does not know: its number and length.
    Other {
        /// `nft`'s number for it.
        number: u32,
        /// Its bytes.
        length: u32,
    },
}

impl Datatype {
    const KNOWN: [(Datatype, u32, u32); 7] = [
        (Datatype::V4, 7, 4),
        (Datatype::V6, 8, 16),
        (Datatype::Mac, 9, 6),
        (Datatype::Protocol, 12, 1),
        (Datatype::Port, 13, 2),
        (Datatype::Mark, 19, 4),
        (Datatype::Name, 41, 16),
    ];

    pub(crate) fn number(self) -> u32 {
        if let Datatype::Other { number, .. } = self {
            return number;
        }
        Self::KNOWN.iter().find(|(d, _, _)| *d == self).map_or(0, |(_, n, _)| *n)
    }

    pub(crate) fn length(self) -> usize {
        if let Datatype::Other { length, .. } = self {
            return length as usize;
        }
        Self::KNOWN.iter().find(|(d, _, _)| *d == self).map_or(0, |(_, _, l)| *l as usize)
    }

    /// `nft` packs the numbers of a concatenation into one, six bits each.
    pub(crate) fn pack(fields: &[Datatype]) -> u32 {
        fields.iter().fold(0, |packed, field| packed << 6 | field.number())
    }

    /// The fields of a packed number; the length decides what to do with types that are unknown here.
    pub(crate) fn unpack(packed: u32, length: usize) -> Vec<Datatype> {
        let mut fields = Vec::new();
        let mut rest = packed;
        while rest != 0 {
            let number = rest & 0x3f;
            let known = Self::KNOWN.iter().find(|(_, n, _)| *n == number);
            let other = Datatype::Other { number, length: u32::try_from(length).unwrap_or(0) };
            fields.insert(0, known.map_or(other, |(d, _, _)| *d));
            rest >>= 6;
        }
        let one = Datatype::Other { number: packed, length: u32::try_from(length).unwrap_or(0) };
        if total(&fields) == length && !fields.is_empty() { fields } else { vec![one] }
    }
}

/// The length of a key or of data: fields of a concatenation fill whole registers.
pub(crate) fn total(fields: &[Datatype]) -> usize {
    match fields {
        [only] => only.length(),
        several => several.iter().map(|f| crate::wire::aligned(f.length())).sum(),
    }
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    /// An Ethernet address.
    Mac(Mac),
    /// A transport protocol.
    Protocol(u8),
    /// A port.
    Port(u16),
    /// A mark.
    Mark(u32),
    /// A link's name.
    Name(IfName),
    /// Bytes of a type this crate does not know.
    Other(Vec<u8>),
}

impl From<IpAddr> for Value {
    fn from(ip: IpAddr) -> Value {
        match ip {
            IpAddr::V4(v4) => Value::V4(v4),
            IpAddr::V6(v6) => Value::V6(v6),
        }
    }
}

impl Value {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Value::V4(ip) => ip.octets().to_vec(),
            Value::V6(ip) => ip.octets().to_vec(),
            Value::Mac(mac) => mac.0.to_vec(),
            Value::Protocol(number) => vec![*number],
            Value::Port(port) => port.to_be_bytes().to_vec(),
            // Marks never leave the host and have its byte order.
            Value::Mark(mark) => mark.to_ne_bytes().to_vec(),
            Value::Name(name) => padded_name(name.as_str()),
            Value::Other(bytes) => bytes.clone(),
        }
    }

    fn fits(&self, datatype: Datatype) -> bool {
        match (self, datatype) {
            (Value::V4(_), Datatype::V4)
            | (Value::V6(_), Datatype::V6)
            | (Value::Mac(_), Datatype::Mac)
            | (Value::Protocol(_), Datatype::Protocol)
            | (Value::Port(_), Datatype::Port)
            | (Value::Mark(_), Datatype::Mark)
            | (Value::Name(_), Datatype::Name) => true,
            (Value::Other(bytes), datatype) => bytes.len() == datatype.length(),
            (
                Value::V4(_)
                | Value::V6(_)
                | Value::Mac(_)
                | Value::Protocol(_)
                | Value::Port(_)
                | Value::Mark(_)
                | Value::Name(_),
                _,
            ) => false,
        }
    }

    fn read(datatype: Datatype, bytes: &[u8]) -> Option<Value> {
        let bytes = bytes.get(..datatype.length())?;
        Some(match datatype {
            Datatype::V4 => Value::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            Datatype::V6 => Value::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
            Datatype::Mac => Value::Mac(Mac::read(bytes)?),
            Datatype::Protocol => Value::Protocol(bytes[0]),
            Datatype::Port => Value::Port(u16::from_be_bytes(bytes.try_into().ok()?)),
            Datatype::Mark => Value::Mark(u32::from_ne_bytes(bytes.try_into().ok()?)),
            Datatype::Name => Value::Name(IfName::reported(&crate::wire::str(bytes)?)),
            Datatype::Other { .. } => Value::Other(bytes.to_vec()),
        })
    }
}

/// A link's name as the kernel compares it: 16 bytes.
pub(crate) fn padded_name(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(libc::IFNAMSIZ, 0);
    bytes
}

pub(crate) fn join(values: &[Value]) -> Vec<u8> {
    match values {
        [only] => only.bytes(),
        several => several.iter().fold(Vec::new(), |mut bytes, value| {
            bytes.extend_from_slice(&value.bytes());
            bytes.resize(crate::wire::aligned(bytes.len()), 0);
            bytes
        }),
    }
}

pub(crate) fn split(fields: &[Datatype], bytes: &[u8]) -> Option<Vec<Value>> {
    let mut at = 0;
    fields
        .iter()
        .map(|field| {
            let value = Value::read(*field, bytes.get(at..)?);
            at += crate::wire::aligned(field.length());
            value
        })
        .collect()
}

/// A key: one value per field, or a range per field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The value, or the first of a range.
    pub from: Vec<Value>,
    /// The last of a range, inclusive. Sets with intervals have it always, others never.
    pub to: Option<Vec<Value>>,
}

impl Key {
    /// One value per field.
    pub fn exact(values: impl Into<Vec<Value>>) -> Key {
        Key { from: values.into(), to: None }
    }

    /// A range, both ends included.
    pub fn range(from: impl Into<Vec<Value>>, to: impl Into<Vec<Value>>) -> Key {
        Key { from: from.into(), to: Some(to.into()) }
    }

    /// A prefix, in a set of addresses with intervals.
    pub fn net(net: IpNet) -> Key {
        Key::range([net.network().into()], [net.broadcast().into()])
    }

    pub(crate) fn fits(&self, fields: &[Datatype], intervals: bool) -> bool {
        let fit = |values: &[Value]| {
            values.len() == fields.len() && values.iter().zip(fields).all(|(v, d)| v.fits(*d))
        };
        fit(&self.from)
            && self.to.is_some() == intervals
            && self.to.as_ref().is_none_or(|to| fit(to) && join(&self.from) <= join(to))
    }
}

/// What an element leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing: an element of a set.
    None,
    /// Values: an element of a map.
    Values(Vec<Value>),
    /// A verdict: an element of a verdict map.
    Verdict(Verdict),
}

impl Data {
    /// One value.
    pub fn value(value: impl Into<Value>) -> Data {
        Data::Values(vec![value.into()])
    }

    pub(crate) fn fits(&self, leads_to: &super::LeadsTo) -> bool {
        match (self, leads_to) {
            (Data::None, super::LeadsTo::Nothing) | (Data::Verdict(_), super::LeadsTo::Verdict) => true,
            (Data::Values(values), super::LeadsTo::Values(fields)) => {
                values.len() == fields.len() && values.iter().zip(fields).all(|(v, d)| v.fits(*d))
            }
            (Data::None | Data::Values(_) | Data::Verdict(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_type_unpacks_to_its_fields() {
        for fields in [
            vec![Datatype::V4],
            vec![Datatype::Protocol, Datatype::Port],
            vec![Datatype::V6, Datatype::Name],
            vec![Datatype::V4, Datatype::Port, Datatype::Mark],
        ] {
            assert_eq!(Datatype::unpack(Datatype::pack(&fields), total(&fields)), fields);
        }
        assert_eq!(Datatype::unpack(4, 8), [Datatype::Other { number: 4, length: 8 }]);
    }

    #[test]
    fn fields_of_a_concatenation_fill_whole_registers() {
        let values = [Value::Protocol(6), Value::Port(80), Value::V4(Ipv4Addr::new(10, 0, 0, 1))];
        assert_eq!(join(&values), [6, 0, 0, 0, 0, 80, 0, 0, 10, 0, 0, 1]);
        let fields = [Datatype::Protocol, Datatype::Port, Datatype::V4];
        assert_eq!(split(&fields, &join(&values)).unwrap(), values);
        assert_eq!(join(&values[..1]), [6], "a single field is as long as it is");
    }

    #[test]
    fn a_key_that_does_not_fit_its_set_is_noticed() {
        let v4 = Value::V4(Ipv4Addr::new(10, 0, 0, 1));
        assert!(Key::exact([v4.clone()]).fits(&[Datatype::V4], false));
        assert!(!Key::exact([v4.clone()]).fits(&[Datatype::V6], false));
        assert!(!Key::exact([v4.clone()]).fits(&[Datatype::V4], true), "intervals need an end");
        assert!(Key::net("10.0.0.0/8".parse().unwrap()).fits(&[Datatype::V4], true));
        let upside_down = Key::range([v4], [Value::V4(Ipv4Addr::new(9, 0, 0, 1))]);
        assert!(!upside_down.fits(&[Datatype::V4], true));
    }
}
