//! The server of a pod that brings none of its own.
//!
//! On `SIGTERM` it behaves as a well-written server should: it stops calling itself ready, goes on serving for as long
//! as it was told to linger, and ends. `SIGINT` ends it at once.

mod sockets;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use self::stream::Stream;
use super::who::{self, Answer};

/// Connections beyond this wait in the backlog: a leak of the peer's must not become one of ours.
const CONNECTIONS: usize = 1024;
/// A connection on which nothing has moved for so long is closed: its peer's node may have lost power.
const IDLE: Duration = Duration::from_secs(600);

/// What to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the server calls itself.
    pub name: String,
    /// Ports of TCP.
    pub tcp: Vec<u16>,
    /// Ports of UDP.
    pub udp: Vec<u16>,
    /// How long it calls itself not ready after it started.
    pub ready_after: Duration,
    /// How long it serves after it was told to end.
    pub linger: Duration,
}

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A port is not to be had.
    #[error("listening on {protocol} port {port}")]
    Listen {
        /// TCP or UDP.
        protocol: &'static str,
        /// The port.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nothing to do.
    #[error("no port to serve: name at least one")]
    NoPorts,
    /// The loop itself.
    #[error("waiting for packets and signals")]
    Wait(#[source] Errno),
}

/// A server that listens already and has not answered yet.
#[derive(Debug)]
pub struct Server {
    options: Options,
    signals: SignalFd,
    tcp: Vec<TcpListener>,
    udp: Vec<(OwnedFd, u16)>,
    streams: BTreeMap<u64, Stream>,
    next: u64,
    started: Instant,
    ending: Option<Instant>,
}

enum Ready {
    Signals,
    Listener(usize),
    Datagrams(usize),
    Stream(u64),
}

impl Server {
    /// Opens every port in the namespace of the calling thread, and takes over its `SIGTERM` and `SIGINT`.
    pub fn listen(options: Options) -> Result<Server, ServeError> {
        if options.tcp.is_empty() && options.udp.is_empty() {
            return Err(ServeError::NoPorts);
        }
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGTERM);
        mask.add(Signal::SIGINT);
        mask.thread_block().map_err(ServeError::Wait)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
            .map_err(ServeError::Wait)?;
        let mut tcp = Vec::new();
        let mut udp = Vec::new();
        for &port in &options.tcp {
            let refused = |source| ServeError::Listen { protocol: "TCP", port, source };
            tcp.extend(sockets::listen(port).map_err(refused)?);
        }
        for &port in &options.udp {
            let refused = |source| ServeError::Listen { protocol: "UDP", port, source };
            udp.extend(sockets::datagrams(port).map_err(refused)?.into_iter().map(|socket| (socket, port)));
        }
        Ok(Server {
            options,
            signals,
            tcp,
            udp,
            streams: BTreeMap::new(),
            next: 0,
            started: Instant::now(),
            ending: None,
        })
    }

    /// Serves until a signal ends it.
    pub fn run(mut self) -> Result<(), ServeError> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let timeout = match self.ending {
                Some(end) => match end.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
                    _ => return Ok(()),
                },
                // Wakes now and then to look for connections whose peers have vanished.
                None => PollTimeout::from(30_000_u16),
            };
            for ready in self.wait(timeout)? {
                match ready {
                    Ready::Signals => {
                        if self.signalled() {
                            return Ok(());
                        }
                    }
                    Ready::Listener(at) => self.accept(at),
                    Ready::Datagrams(at) => self.datagrams(at, &mut buffer),
                    Ready::Stream(id) => self.stream(id, &mut buffer),
                }
            }
            let now = Instant::now();
            self.streams.retain(|_, stream| now.duration_since(stream.moved) < IDLE);
        }
    }

    fn ready(&self) -> bool {
        self.ending.is_none() && self.started.elapsed() >= self.options.ready_after
    }

    fn wait(&self, timeout: PollTimeout) -> Result<Vec<Ready>, ServeError> {
        let mut what = vec![Ready::Signals];
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if self.streams.len() < CONNECTIONS {
            for (at, listener) in self.tcp.iter().enumerate() {
                what.push(Ready::Listener(at));
                fds.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
            }
        }
        for (at, (socket, _)) in self.udp.iter().enumerate() {
            what.push(Ready::Datagrams(at));
            fds.push(PollFd::new(socket.as_fd(), PollFlags::POLLIN));
        }
        for (id, stream) in &self.streams {
            what.push(Ready::Stream(*id));
            fds.push(PollFd::new(stream.as_fd(), stream.interest()));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(ServeError::Wait(errno)),
        }
        let happened = fds.iter().map(|fd| fd.any() != Some(false));
        Ok(what.into_iter().zip(happened).filter_map(|(what, happened)| happened.then_some(what)).collect())
    }

    /// Whether the server ends now.
    fn signalled(&mut self) -> bool {
        while let Ok(Some(info)) = self.signals.read_signal() {
            if info.ssi_signo == Signal::SIGINT as u32 {
                return true;
            }
            let end = Instant::now() + self.options.linger;
            self.ending.get_or_insert(end);
        }
        false
    }

    fn accept(&mut self, at: usize) {
        // A connection that was gone before it was accepted, or a moment without descriptors: the next poll tries again.
        while self.streams.len() < CONNECTIONS
            && let Ok((socket, peer)) = self.tcp[at].accept()
        {
            if let Ok(stream) = Stream::new(socket, peer) {
                self.streams.insert(self.next, stream);
                self.next += 1;
            }
        }
    }

    fn stream(&mut self, id: u64, buffer: &mut [u8]) {
        let ready = self.ready();
        let name = &self.options.name;
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !stream.go_on(buffer, name, ready) {
            self.streams.remove(&id);
        }
    }

    fn datagrams(&mut self, at: usize, buffer: &mut [u8]) {
        let ready = self.ready();
        let (socket, port) = &self.udp[at];
        // An error here is the echo of an answer that found nobody; the socket itself goes on.
        while let Ok(Some(datagram)) = sockets::receive(socket, buffer) {
            let said = &buffer[..datagram.length];
            let answer = match said.strip_prefix(who::QUESTION) {
                Some(token) => {
                    let answer = Answer {
                        name: self.options.name.clone(),
                        peer: datagram.peer,
                        local: SocketAddr::new(datagram.local, *port),
                        ready,
                        token: String::from_utf8_lossy(token).into_owned(),
                    };
                    serde_json::to_vec(&answer).unwrap_or_default()
                }
                None => said.to_vec(),
            };
            sockets::answer(socket, &datagram, &answer);
        }
    }
}
