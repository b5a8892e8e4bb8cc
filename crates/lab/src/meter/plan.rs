//! What a meter is asked to do.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use netferry_kernel::Namespace;

/// A network namespace with a name: a node, a pod, the outside.
#[derive(Clone, Debug)]
pub struct Place {
    /// How it is called in reports.
    pub name: String,
    /// Where sockets are opened. A socket stays where it was opened and keeps the namespace alive.
    pub namespace: Arc<Namespace>,
}

impl Place {
    /// A namespace and its name.
    pub fn new(name: impl Into<String>, namespace: Namespace) -> Place {
        Place { name: name.into(), namespace: Arc::new(namespace) }
    }
}

/// Where the meter itself answers.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// In which namespace.
    pub place: Place,
    /// On which of its addresses, and on which port. Nothing else may listen there.
    pub at: SocketAddr,
}

/// How large packets are, in bytes of IP.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Sizes {
    /// As large as the path takes, asked before every packet.
    #[default]
    Full,
    /// These in turn, none larger than the path takes.
    InTurn(Vec<u32>),
}

impl Sizes {
    /// Small ones, odd ones, IPv6's least, and the largest.
    pub fn mixed() -> Sizes {
        Sizes::InTurn(vec![u32::MAX, 100, 577, 1280])
    }

    pub(super) fn pick(&self, number: u64, mtu: u32) -> u32 {
        match self {
            Sizes::Full => mtu,
            Sizes::InTurn(sizes) => {
                let count = u64::try_from(sizes.len()).unwrap_or(1).max(1);
                let turn = usize::try_from(number % count).unwrap_or_default();
                sizes.get(turn).copied().unwrap_or(mtu).min(mtu)
            }
        }
    }
}

/// What flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Numbered datagrams with don't-fragment, each answered with one as large as the way back takes.
    Udp(Sizes),
    /// One connection with numbered records in it, each answered with one; made again when it breaks.
    Tcp {
        /// Bytes of a record.
        record: u32,
    },
    /// Echo requests with don't-fragment, answered by the other side's kernel.
    Icmp(Sizes),
    /// A connection per request, to a pod's server ([`crate::programs`]).
    TcpRequests {
        /// How long one may take.
        timeout: Duration,
    },
    /// A socket and a datagram per request, to a pod's server. A datagram that is lost is a request that failed.
    UdpRequests {
        /// How long one may take.
        timeout: Duration,
    },
}

impl Traffic {
    /// Full-size datagrams.
    pub const UDP: Traffic = Traffic::Udp(Sizes::Full);
    /// Full-size echo requests.
    pub const ICMP: Traffic = Traffic::Icmp(Sizes::Full);
    /// A stream of 1.6 Mbit/s each way at the usual rate.
    pub const TCP: Traffic = Traffic::Tcp { record: 2000 };

    /// As reports say it.
    pub fn word(&self) -> &'static str {
        match self {
            Traffic::Udp(_) => "udp",
            Traffic::Tcp { .. } => "tcp",
            Traffic::Icmp(_) => "icmp",
            Traffic::TcpRequests { .. } => "tcp-requests",
            Traffic::UdpRequests { .. } => "udp-requests",
        }
    }

    /// Whether the meter answers by itself at the flow's reflectors.
    pub(super) fn reflected(&self) -> bool {
        match self {
            Traffic::Udp(_) | Traffic::Tcp { .. } => true,
            Traffic::Icmp(_) | Traffic::TcpRequests { .. } | Traffic::UdpRequests { .. } => false,
        }
    }
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// How it is called in reports.
    pub name: String,
    /// What kind of path it measures; reports sum up by it.
    pub kind: String,
    /// What flows.
    pub traffic: Traffic,
    /// Where it starts.
    pub from: Place,
    /// From which address, if the kernel is not to choose.
    pub source: Option<IpAddr>,
    /// Where packets are sent: a reflector's own address, or a Service's. The port means nothing to ICMP.
    pub to: SocketAddr,
    /// Where the meter answers, all that `to` may lead to. Empty for ICMP and requests.
    pub reflectors: Vec<Endpoint>,
    /// The places in between, by name, that it cannot do without.
    pub through: Vec<String>,
    /// Packets, records or requests per second.
    pub rate: u32,
}

/// Packets per second of a flow where nothing else is said.
pub const RATE: u32 = 100;

impl Flow {
    /// A flow straight to an endpoint of the meter's own.
    pub fn between(name: impl Into<String>, traffic: Traffic, from: Place, to: Endpoint) -> Flow {
        let reflectors = if traffic.reflected() { vec![to.clone()] } else { Vec::new() };
        Flow {
            name: name.into(),
            kind: "direct".to_owned(),
            traffic,
            from,
            source: None,
            to: to.at,
            reflectors,
            through: Vec::new(),
            rate: RATE,
        }
    }

    /// The same at another rate.
    #[must_use]
    pub fn at_rate(self, rate: u32) -> Flow {
        Flow { rate, ..self }
    }

    /// The same as a flow of a kind of path.
    #[must_use]
    pub fn of_kind(self, kind: impl Into<String>) -> Flow {
        Flow { kind: kind.into(), ..self }
    }

    /// The same through places it cannot do without, although the meter has no socket of it there.
    #[must_use]
    pub fn through(self, places: Vec<String>) -> Flow {
        Flow { through: places, ..self }
    }

    /// Whether a place is at one of its ends, or on its way.
    pub fn touches(&self, place: &str) -> bool {
        self.from.name == place
            || self.reflectors.iter().any(|reflector| reflector.place.name == place)
            || self.through.iter().any(|name| name == place)
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.rate.max(1)
    }

    /// Whether it cannot run while these places are away.
    pub(super) fn needs_one_of(&self, away: &BTreeSet<String>) -> bool {
        let gone = |place: &Place| away.contains(&place.name);
        let unanswered =
            !self.reflectors.is_empty() && self.reflectors.iter().all(|reflector| gone(&reflector.place));
        gone(&self.from) || unanswered || self.through.iter().any(|name| away.contains(name))
    }
}
