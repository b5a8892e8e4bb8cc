//! Sockets on every address of the namespace, one per family.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    self, AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrStorage, setsockopt, sockopt,
};

/// A datagram, without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) length: usize,
    pub(super) peer: SocketAddr,
    /// Where it was sent to. The answer must come from there: the peer takes it from nowhere else.
    pub(super) local: IpAddr,
}

pub(super) fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    let sockets = both_families(SockType::Stream, port)?;
    sockets
        .into_iter()
        .map(|socket| {
            socket::listen(&socket, Backlog::MAXALLOWABLE)?;
            Ok(TcpListener::from(socket))
        })
        .collect()
}

pub(super) fn datagrams(port: u16) -> io::Result<Vec<OwnedFd>> {
    both_families(SockType::Datagram, port)
}

/// One socket per family the namespace has. A namespace without IPv6 is no reason not to serve IPv4.
fn both_families(kind: SockType, port: u16) -> io::Result<Vec<OwnedFd>> {
    let mut open = Vec::new();
    let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    for address in any {
        match bound(kind, SocketAddr::new(address, port)) {
            Ok(socket) => open.push(socket),
            Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    if open.is_empty() {
        return Err(Errno::EAFNOSUPPORT.into());
    }
    Ok(open)
}

fn bound(kind: SockType, address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family, kind, flags, None)?;
    if kind == SockType::Stream {
        setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    }
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => {
            setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
    }
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket)
}

/// The next datagram, if one is there.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<Datagram>, Errno> {
    let mut control = cmsg_space!(libc::in6_pktinfo);
    let mut into = [IoSliceMut::new(buffer)];
    let message = match socket::recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut into,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Ok(message) => message,
        Err(Errno::EAGAIN) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let peer = message.address.as_ref().and_then(address_of).ok_or(Errno::EDESTADDRREQ)?;
    let mut local = None;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::Ipv4PacketInfo(info) = control {
            local = Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr))));
        } else if let ControlMessageOwned::Ipv6PacketInfo(info) = control {
            local = Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
        }
    }
    Ok(Some(Datagram { length: message.bytes, peer, local: local.ok_or(Errno::EDESTADDRREQ)? }))
}

/// Answers from the address that was asked. What the network does not take is lost, as datagrams are.
pub(super) fn answer(socket: &OwnedFd, to: &Datagram, said: &[u8]) {
    let slices = [IoSlice::new(said)];
    let peer = SockaddrStorage::from(to.peer);
    let send = |control: ControlMessage<'_>| {
        socket::sendmsg(socket.as_raw_fd(), &slices, &[control], MsgFlags::empty(), Some(&peer))
    };
    let _ = match to.local {
        IpAddr::V4(local) => send(ControlMessage::Ipv4PacketInfo(&libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr { s_addr: u32::from(local).to_be() },
            ipi_addr: libc::in_addr { s_addr: 0 },
        })),
        IpAddr::V6(local) => send(ControlMessage::Ipv6PacketInfo(&libc::in6_pktinfo {
            ipi6_addr: libc::in6_addr { s6_addr: local.octets() },
            ipi6_ifindex: 0,
        })),
    };
}

fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::new(v4.ip().into(), v4.port()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port())))
}
