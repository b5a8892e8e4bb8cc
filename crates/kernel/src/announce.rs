//! Telling the wire where an address lives now, and asking routers on it to tell of themselves.
//!
//! Routers keep what they once learned for hours. After an address has moved, nothing reaches it until somebody
//! tells them: a gratuitous ARP (request and reply, because some listen to one only), or an unsolicited
//! neighbour advertisement with the override flag.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use etherparse::icmpv6::NeighborAdvertisementHeader;
use etherparse::{ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header, Icmpv6Type, PacketBuilder};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::error::{Attempt, Error, Result};
use crate::kernel::Kernel;
use crate::name::Mac;
use crate::sys;

/// `33:33:00:00:00:01`, where every IPv6 node listens.
const ALL_NODES: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);
const ALL_NODES_IP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const TARGET_LINK_ADDRESS: u8 = 2;
/// `33:33:00:00:00:02`, where every IPv6 router listens.
const ALL_ROUTERS: Mac = Mac([0x33, 0x33, 0, 0, 0, 2]);
const ALL_ROUTERS_IP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// An address and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The link it is told on.
    pub link: u32,
    /// Which address.
    pub ip: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
}

impl Kernel {
    /// Sends the announcements, in order.
    pub fn announce(&self, announcements: &[Announcement]) -> Result<()> {
        if announcements.is_empty() {
            return Ok(());
        }
        let socket = self.sender()?;
        for announcement in announcements {
            for frame in frames(announcement.ip, announcement.mac) {
                send(&socket, announcement.link, &frame, || {
                    format!("announcement of {} at {}", announcement.ip, announcement.mac)
                })?;
            }
        }
        Ok(())
    }

    /// Asks the routers behind a link to tell of themselves. Unasked they do so every few minutes.
    pub fn solicit_routers(&self, link: u32, mac: Mac) -> Result<()> {
        send(&self.sender()?, link, &solicitation(mac), || "question for routers".to_owned())
    }

    fn sender(&self) -> Result<OwnedFd> {
        self.namespace()
            // Protocol none: this socket only sends, nothing is queued to it.
            .run(|| socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None))?
            .map_err(|errno| Error::refused(Attempt::Opening, "packet socket", errno))
    }
}

fn send(socket: &OwnedFd, link: u32, frame: &[u8], what: impl FnOnce() -> String) -> Result<()> {
    sys::send_frame(socket, link, frame)
        .map_err(|errno| Error::refused(Attempt::Sending, format!("{} on link {link}", what()), errno))
}

/// The frames that announce an address.
pub fn frames(ip: IpAddr, mac: Mac) -> Vec<Vec<u8>> {
    match ip {
        IpAddr::V4(ip) => {
            vec![arp(ip, mac, ArpOperation::REQUEST), arp(ip, mac, ArpOperation::REPLY)]
        }
        IpAddr::V6(ip) => vec![advertisement(ip, mac)],
    }
}

fn arp(ip: Ipv4Addr, mac: Mac, operation: ArpOperation) -> Vec<u8> {
    let header = Ethernet2Header { source: mac.0, destination: Mac::BROADCAST.0, ether_type: EtherType::ARP };
    let packet = ArpEthIpv4Packet {
        operation,
        sender_mac: mac.0,
        sender_ipv4: ip.octets(),
        target_mac: if operation == ArpOperation::REPLY { Mac::BROADCAST.0 } else { [0; 6] },
        target_ipv4: ip.octets(),
    };
    [header.to_bytes().as_slice(), packet.to_bytes().as_slice()].concat()
}

fn advertisement(ip: Ipv6Addr, mac: Mac) -> Vec<u8> {
    let flags = NeighborAdvertisementHeader { router: false, solicited: false, r#override: true };
    let mut body = ip.octets().to_vec();
    body.extend_from_slice(&[TARGET_LINK_ADDRESS, 1]);
    body.extend_from_slice(&mac.0);
    let mut frame = Vec::with_capacity(86);
    PacketBuilder::ethernet2(mac.0, ALL_NODES.0)
        .ipv6(ip.octets(), ALL_NODES_IP.octets(), 255)
        .icmpv6(Icmpv6Type::NeighborAdvertisement(flags))
        .write(&mut frame, &body)
        .expect("a vector takes everything and the body is far below the length of a packet");
    frame
}

/// From nobody, so that the answer goes to everybody: nobody's is the only address that is surely there.
fn solicitation(mac: Mac) -> Vec<u8> {
    let mut frame = Vec::with_capacity(62);
    PacketBuilder::ethernet2(mac.0, ALL_ROUTERS.0)
        .ipv6(Ipv6Addr::UNSPECIFIED.octets(), ALL_ROUTERS_IP.octets(), 255)
        .icmpv6(Icmpv6Type::RouterSolicitation)
        .write(&mut frame, &[])
        .expect("a vector takes everything");
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    const MAC: Mac = Mac([0x0a, 0x58, 10, 10, 10, 100]);

    #[test]
    fn an_ipv4_address_is_announced_as_request_and_as_reply_to_everybody() {
        let ip = Ipv4Addr::new(10, 10, 10, 100);
        let operations: Vec<_> = frames(IpAddr::V4(ip), MAC)
            .iter()
            .map(|frame| {
                assert_eq!(frame[..6], Mac::BROADCAST.0);
                let packet = SlicedPacket::from_ethernet(frame).unwrap();
                let Some(NetSlice::Arp(arp)) = packet.net else { panic!("not ARP") };
                assert_eq!(arp.sender_hw_addr(), MAC.0);
                assert_eq!(arp.sender_protocol_addr(), ip.octets());
                assert_eq!(arp.target_protocol_addr(), ip.octets(), "sender and target are the same");
                arp.operation()
            })
            .collect();
        assert_eq!(operations, [ArpOperation::REQUEST, ArpOperation::REPLY]);
    }

    #[test]
    fn an_ipv6_address_is_advertised_with_override_and_a_right_checksum() {
        let ip: Ipv6Addr = "2001:db8::100".parse().unwrap();
        let frame = frames(IpAddr::V6(ip), MAC).remove(0);
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv6(header)) = packet.net else { panic!("not IPv6") };
        assert_eq!(header.header().hop_limit(), 255, "with less it is ignored as forged");
        assert_eq!(header.header().destination_addr(), ALL_NODES_IP);
        let Some(TransportSlice::Icmpv6(icmp)) = packet.transport else { panic!("not ICMPv6") };
        assert!(icmp.is_checksum_valid(ip.octets(), ALL_NODES_IP.octets()));
        let Icmpv6Type::NeighborAdvertisement(flags) = icmp.icmp_type() else {
            panic!("not an advertisement")
        };
        assert!(flags.r#override && !flags.solicited && !flags.router);
        assert_eq!(icmp.payload()[..16], ip.octets());
        assert_eq!(icmp.payload()[16..], [&[2, 1], &MAC.0[..]].concat());
    }
}
