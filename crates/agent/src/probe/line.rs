//! The sockets questions and answers go through: one per address of this node, so that answers come from where the
//! question went.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use netferry_core::probe::Way;
use netferry_core::probe::message::{LENGTH, Message};
use netferry_core::probe::round::Peers;
use netferry_core::size::Mtu;
use netferry_kernel::Kernel;
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// After a socket failed to receive.
const PAUSE: Duration = Duration::from_millis(200);

/// Where the number of an answer, and who it is from, are told.
pub(super) type Heard = mpsc::Sender<(u64, IpAddr)>;

/// Why a question was not asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotSent {
    /// There is no line yet, or this node's own link does not take it.
    Here,
    /// The kernel knows no way, or had no room: as good as lost.
    Lost,
}

/// The lines of this node.
#[derive(Debug)]
pub(super) struct Lines {
    kernel: Arc<Kernel>,
    port: u16,
    peers: watch::Receiver<Peers>,
    heard: Heard,
    open: BTreeMap<Way, Line>,
}

#[derive(Debug)]
struct Line {
    address: IpAddr,
    socket: Arc<UdpSocket>,
    /// Answers for as long as the line is there.
    answering: JoinSet<()>,
}

impl Lines {
    pub(super) fn new(kernel: Arc<Kernel>, port: u16, peers: watch::Receiver<Peers>, heard: Heard) -> Lines {
        Lines { kernel, port, peers, heard, open: BTreeMap::new() }
    }

    /// Opens lines at these addresses, and closes all others. What cannot be opened yet is tried again the next time:
    /// the address may not be there. One that nobody answers at any more, whatever ended that, is opened anew: others
    /// would take its silence for a way that is too narrow.
    pub(super) fn keep(&mut self, addresses: &[(Way, IpAddr)]) {
        self.open.retain(|way, line| {
            addresses.contains(&(*way, line.address)) && line.answering.try_join_next().is_none()
        });
        for (way, address) in addresses {
            if self.open.contains_key(way) {
                continue;
            }
            match self.line(*address) {
                Ok(line) => drop(self.open.insert(*way, line)),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(%address, error, "no probes from this address yet");
                }
            }
        }
    }

    fn line(&self, address: IpAddr) -> io::Result<Line> {
        let at = SocketAddr::new(address, self.port);
        let socket = self.kernel.namespace().run(|| open(at)).map_err(io::Error::other)??;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let mut answering = JoinSet::new();
        answering.spawn(answer(Arc::clone(&socket), self.peers.clone(), self.heard.clone()));
        Ok(Line { address, socket, answering })
    }

    /// Asks a node a question of this size.
    pub(super) fn ask(&self, way: Way, to: IpAddr, number: u64, size: Mtu) -> Result<(), NotSent> {
        let line = self.open.get(&way).ok_or(NotSent::Here)?;
        let question = Message::Question(number).write(way.payload(size));
        match line.socket.try_send_to(&question, SocketAddr::new(to, self.port)) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => {
                Err(NotSent::Here)
            }
            Err(_) => Err(NotSent::Lost),
        }
    }
}

/// A socket whose packets are never cut up, and are sent whatever the route says they should be at most.
fn open(at: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(at)?;
    match at {
        SocketAddr::V4(_) => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
        SocketAddr::V6(_) => sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Answers questions of nodes, and hands their answers on. Others get no answer.
async fn answer(socket: Arc<UdpSocket>, peers: watch::Receiver<Peers>, heard: Heard) {
    let mut datagram = vec![0; 1 << 16];
    loop {
        let (length, from) = match socket.recv_from(&mut datagram).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "listening for probes");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(message) = Message::read(&datagram[..length]) else { continue };
        let is_node = |peers: &Peers| {
            peers.values().any(|peer| peer.addresses.iter().any(|(_, address)| *address == from.ip()))
        };
        if !is_node(&peers.borrow()) {
            continue;
        }
        match message {
            // An answer that cannot be sent is a lost one, which whoever asked finds out.
            Message::Question(number) => {
                let _ = socket.try_send_to(&Message::Answer(number).write(LENGTH), from);
            }
            Message::Answer(number) => {
                if heard.send((number, from.ip())).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use netferry_core::name::NodeName;
    use netferry_core::probe::Peer;
    use netferry_testkit::wait::in_time;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_line_that_nobody_answers_at_any_more_is_opened_anew() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let (way, number) = (Way::named("hosts-ipv4").unwrap(), 7);
        let peer = Peer { uid: String::new(), addresses: vec![(way, here)], runs: None, there: true };
        let peers = watch::Sender::new(Peers::from([(NodeName::new("a").unwrap(), peer)]));
        let (heard, _answers) = mpsc::channel(1);
        let mut lines = Lines::new(Arc::new(Kernel::here().unwrap()), 0, peers.subscribe(), heard);
        lines.keep(&[(way, here)]);
        let first = lines.open[&way].socket.local_addr().unwrap();
        lines.keep(&[(way, here)]);
        assert_eq!(lines.open[&way].socket.local_addr().unwrap(), first, "one that is well is kept");

        lines.open.get_mut(&way).unwrap().answering.abort_all();
        let asks = UdpSocket::bind((here, 0)).await.unwrap();
        let answered = async {
            let mut datagram = [0; LENGTH];
            loop {
                lines.keep(&[(way, here)]);
                let to = lines.open[&way].socket.local_addr().unwrap();
                asks.send_to(&Message::Question(number).write(LENGTH), to).await.unwrap();
                let answer = timeout(Duration::from_millis(100), asks.recv_from(&mut datagram));
                if let Ok(answer) = answer.await {
                    return Message::read(&datagram[..answer.unwrap().0]);
                }
            }
        };
        assert_eq!(in_time("an answer", answered).await, Some(Message::Answer(number)));
    }
}
