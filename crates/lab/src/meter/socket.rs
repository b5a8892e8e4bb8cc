//! Sockets of the meter: never fragmenting, never blocking, with room enough that a busy machine loses nothing in them.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    self, AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrStorage, setsockopt, sockopt,
};
use rustix::net::sockopt as net;

/// Two seconds of a thousand full-size packets per second, as the kernel counts them.
const ROOM: usize = 8 << 20;

/// No program takes longer to start.
const HELD_FOR: Duration = Duration::from_secs(2);

/// What came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) length: usize,
    pub(super) from: Option<SocketAddr>,
    /// How long ago the kernel had it.
    pub(super) age: Duration,
    /// How many this socket has dropped so far because it was not read in time.
    pub(super) overrun: u32,
}

pub(super) fn udp(bind: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open(bind, SockType::Datagram, None)?;
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(bind))?;
    Ok(socket)
}

/// For a reflector, whose sockets share a port: one that waits for strangers, and one for each that it knows.
pub(super) fn udp_sharing(bind: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open(bind, SockType::Datagram, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(bind))?;
    Ok(socket)
}

pub(super) fn icmp(bind: SocketAddr) -> Result<OwnedFd, Errno> {
    let protocol = match bind {
        SocketAddr::V4(_) => SockProtocol::Icmp,
        SocketAddr::V6(_) => SockProtocol::IcmpV6,
    };
    let socket = open(bind, SockType::Raw, Some(protocol))?;
    if !bind.ip().is_unspecified() {
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(bind.ip(), 0)))?;
    }
    Ok(socket)
}

pub(super) fn tcp(bind: SocketAddr) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family(bind), SockType::Stream, flags, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    setsockopt(&socket, sockopt::TcpNoDelay, &true)?;
    // Those that a listening socket accepts have it too.
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(bind))?;
    Ok(socket)
}

/// Listens. A program that is being started somewhere in this process holds whatever was open, and thereby a port that
/// was given back just now, until it has become another program: such a port is waited for.
pub(super) fn listen(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let end = Instant::now() + HELD_FOR;
    loop {
        let listening =
            tcp(at).and_then(|socket| socket::listen(&socket, Backlog::MAXALLOWABLE).map(|()| socket));
        match listening {
            Err(Errno::EADDRINUSE) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

pub(super) fn connect(socket: &OwnedFd, to: SocketAddr) -> Result<(), Errno> {
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// What the way to the connected peer takes, as the kernel knows it now.
pub(super) fn path_mtu(socket: &OwnedFd, to: SocketAddr) -> Result<u32, Errno> {
    let mtu = match to {
        SocketAddr::V4(_) => net::ip_mtu(socket),
        SocketAddr::V6(_) => net::ipv6_mtu(socket),
    };
    mtu.map_err(|errno| Errno::from_raw(errno.raw_os_error()))
}

pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Option<Received>, Errno> {
    let mut control = cmsg_space!(libc::timespec, u32);
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
    let mut received = Received {
        length: message.bytes,
        from: message.address.as_ref().and_then(socket_addr),
        age: Duration::ZERO,
        overrun: 0,
    };
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmTimestampns(stamp) = control {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            received.age = since.saturating_sub(Duration::from(stamp));
        } else if let ControlMessageOwned::RxqOvfl(count) = control {
            received.overrun = count;
        }
    }
    Ok(Some(received))
}

/// Hundreds of flows need thousands of descriptors; the usual soft limit is 1024.
pub(super) fn make_room() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

pub(super) fn socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::new(v4.ip().into(), v4.port()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port())))
}

fn open(of: SocketAddr, kind: SockType, protocol: Option<SockProtocol>) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(family(of), kind, flags, protocol)?;
    let never_fragment = match of {
        SocketAddr::V4(_) => net::set_ip_mtu_discover(&socket, net::Ipv4PathMtuDiscovery::DO),
        SocketAddr::V6(_) => net::set_ipv6_mtu_discover(&socket, net::Ipv6PathMtuDiscovery::DO),
    };
    never_fragment.map_err(|errno| Errno::from_raw(errno.raw_os_error()))?;
    // Beyond the machine's limit only with privilege; without it, as much as may be had.
    if setsockopt(&socket, sockopt::RcvBufForce, &ROOM).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &ROOM)?;
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    Ok(socket)
}

fn family(of: SocketAddr) -> AddressFamily {
    match of {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_waited_in_a_stream_says_since_when() {
        let listener = TcpListener::from(listen("127.0.0.1:0".parse().unwrap()).unwrap());
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(false).unwrap();
        let accepted = OwnedFd::from(listener.accept().unwrap().0);
        // Not to synchronise: it is the time that the reader is late by.
        let late = Duration::from_millis(20);
        // The kernel begins to stamp what comes a moment after somebody first asked for it.
        for _ in 0..500 {
            sender.write_all(b"early").unwrap();
            std::thread::sleep(late);
            let received = receive(&accepted, &mut [0; 16]).unwrap().expect("it came");
            assert_eq!(received.length, 5);
            if received.age >= late {
                return;
            }
        }
        panic!("it never says since when");
    }
}
