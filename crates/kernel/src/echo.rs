//! Echo requests and replies, as raw sockets of ICMP and ICMPv6 take and give them.

use std::net::IpAddr;

/// `nf`. Identifiers of other programs are not looked at: the payload says whose a reply is.
const IDENTIFIER: u16 = 0x6e66;
/// How long the header is.
const HEADER: usize = 8;

/// A request to `to`. The checksum of IPv6 is the kernel's business.
pub fn request(to: IpAddr, number: u64, payload: &[u8]) -> Vec<u8> {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes.extend_from_slice(&IDENTIFIER.to_be_bytes());
    bytes.extend_from_slice(&u16::try_from(number & 0xffff).unwrap_or_default().to_be_bytes());
    bytes.extend_from_slice(payload);
    if to.is_ipv4() {
        let sum = sum(&bytes);
        bytes[2..4].copy_from_slice(&(!sum).to_be_bytes());
    }
    bytes
}

/// The payload of a reply of `from`, if what a raw socket received is one. That of IPv4 gives the IP header too.
pub fn reply(from: IpAddr, bytes: &[u8]) -> Option<&[u8]> {
    let (icmp, reply) = match from {
        IpAddr::V4(_) => (bytes.get(usize::from(bytes.first()? & 0xf) * 4..)?, 0),
        IpAddr::V6(_) => (bytes, 129),
    };
    (*icmp.first()? == reply).then(|| icmp.get(HEADER..)).flatten()
}

/// The sum of RFC 1071.
fn sum(bytes: &[u8]) -> u16 {
    let pairs =
        bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]));
    let sum: u32 = pairs.map(u32::from).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_adds_up_to_nothing_and_what_comes_of_it_is_its_payload() {
        let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "fd00::1".parse().unwrap());
        for payload in [&b"even"[..], b"odd", b""] {
            let request_v4 = request(v4, 7, payload);
            assert_eq!(sum(&request_v4), 0xffff);
            let mut received = vec![0x45; 20];
            received.extend([0].iter().chain(&request_v4[1..]));
            assert_eq!(reply(v4, &received), Some(payload));
            let mut received = request(v6, 7, payload);
            assert_eq!(reply(v6, &received), None, "a request is no reply");
            received[0] = 129;
            assert_eq!(reply(v6, &received), Some(payload));
        }
    }

    #[test]
    fn what_is_cut_off_is_no_reply() {
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        for length in 0..28 {
            let mut received = vec![0; length];
            received.iter_mut().take(1).for_each(|byte| *byte = 0x45);
            assert_eq!(reply(v4, &received), None, "{length}");
        }
    }
}
