//! The socket a path is measured through: nothing of it is ever cut up.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use netferry_core::mtu::paths::Target;
use netferry_core::mtu::paths::message::{Message, Token};
use netferry_core::net::Family;
use netferry_core::probe::{Layer, Way};
use netferry_core::size::Mtu;
use netferry_kernel::echo;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, SocketType, ipproto};

/// No packet is larger, whatever a link would carry.
const LARGEST: u32 = 65535;
/// A wait of nothing would be one without end.
const SHORTEST: Duration = Duration::from_millis(1);

/// A line to who is asked.
pub(super) struct Line {
    socket: UdpSocket,
    target: Target,
    token: Token,
}

/// Something that came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heard {
    /// To which question.
    pub(super) number: u64,
    /// What who answers would send; a ping does not say.
    pub(super) uses: Option<u32>,
    /// How large the packet was.
    pub(super) size: u32,
}

impl Line {
    pub(super) fn open(target: Target, token: Token) -> io::Result<Line> {
        let (socket, to) = match target {
            Target::Answers(to) => (UdpSocket::bind(SocketAddr::new(any(to.ip()), 0))?, to),
            Target::Echoes(to) => (pings(to)?, SocketAddr::new(to, 0)),
        };
        never_cut(&socket, to.ip())?;
        socket.connect(to)?;
        Ok(Line { socket, target, token })
    }

    /// As far as sizes go all paths of a family are alike.
    pub(super) fn way(&self) -> Way {
        Way { layer: Layer::Pods, family: self.target.family() }
    }

    /// The largest packet that is sent on this path, as the kernel knows it now.
    pub(super) fn uses(&self) -> io::Result<u32> {
        path_mtu(&self.socket, self.target.family())
    }

    /// Asks by a packet of this size, for an answer of that one.
    pub(super) fn ask(&self, number: u64, size: Mtu, back: u32) -> io::Result<()> {
        let question = Message::Question { number, back }.write(&self.token, self.way().payload(size));
        let bytes = match self.target {
            Target::Answers(_) => question,
            Target::Echoes(to) => echo::request(to, number, &question),
        };
        self.socket.send(&bytes).map(drop)
    }

    /// What came, if anything of ours does in time.
    pub(super) fn hear(&self, until: Instant) -> Option<Heard> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.socket.set_read_timeout(Some(left.max(SHORTEST))).ok()?;
            // What the kernel was told of an earlier packet comes as an error. It has taken note of it.
            let Ok(length) = self.socket.recv(&mut buffer) else { continue };
            if let Some(heard) = self.read(&buffer[..length]) {
                return Some(heard);
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> Option<Heard> {
        let payload = match self.target {
            Target::Answers(_) => bytes,
            Target::Echoes(to) => echo::reply(to, bytes)?,
        };
        let size = size_of(payload.len(), self.target.family());
        match (Message::read(payload, &self.token)?, self.target) {
            (Message::Answer { number, uses }, Target::Answers(_)) => {
                Some(Heard { number, uses: Some(uses), size })
            }
            // A ping comes back as it was sent.
            (Message::Question { number, .. }, Target::Echoes(_)) => Some(Heard { number, uses: None, size }),
            (Message::Question { .. }, Target::Answers(_)) | (Message::Answer { .. }, Target::Echoes(_)) => {
                None
            }
        }
    }
}

/// How large the packet of a datagram or ping is that carries so much.
fn size_of(payload: usize, family: Family) -> u32 {
    let floor = Way { layer: Layer::Pods, family }.floor();
    let headers =
        floor.bytes() - u32::try_from(Way { layer: Layer::Pods, family }.payload(floor)).unwrap_or_default();
    u32::try_from(payload).unwrap_or(LARGEST).saturating_add(headers)
}

/// The largest packet that is sent to who a socket is connected to.
pub(super) fn path_mtu(socket: &UdpSocket, family: Family) -> io::Result<u32> {
    let mtu = match family {
        Family::V4 => sockopt::ip_mtu(socket)?,
        Family::V6 => sockopt::ipv6_mtu(socket)?,
    };
    Ok(mtu.min(LARGEST))
}

/// Packets that are too large are refused instead.
pub(super) fn never_cut(socket: &UdpSocket, to: IpAddr) -> io::Result<()> {
    match to {
        IpAddr::V4(_) => sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DO)?,
        IpAddr::V6(_) => sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DO)?,
    }
    Ok(())
}

/// A socket for pings, which is used as one for datagrams is.
fn pings(to: IpAddr) -> io::Result<UdpSocket> {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    Ok(rustix::net::socket(family, SocketType::RAW, Some(protocol))?.into())
}

/// Any address of the same family.
fn any(to: IpAddr) -> IpAddr {
    match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}
