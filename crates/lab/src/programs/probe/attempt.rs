//! One attempt, from its socket to its result.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, getsockopt, sockopt,
};

use super::{Probe, Protocol, Silence};
use crate::programs::who::{self, Answer};

/// Tells the answers of one process's questions apart.
static TOKENS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[derive(Debug)]
enum Stage {
    /// TCP: the handshake is under way.
    Connecting,
    /// TCP: the request is out.
    Asked(Vec<u8>),
    /// UDP: asked, and when to ask again.
    Datagram(Option<Instant>),
    Over(Result<Answer, Silence>),
}

#[derive(Debug)]
pub(crate) struct Attempt {
    socket: Option<OwnedFd>,
    to: SocketAddr,
    again: Option<Duration>,
    token: String,
    stage: Stage,
    started: Instant,
    ended: Option<Instant>,
    deadline: Instant,
}

impl Attempt {
    /// Starts it in the namespace of the calling thread. `again` is when an unanswered datagram is sent again.
    pub(crate) fn start(probe: &Probe, again: Option<Duration>) -> Attempt {
        let started = Instant::now();
        let number = TOKENS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut attempt = Attempt {
            socket: None,
            to: probe.to,
            again,
            token: format!("{}-{number}", std::process::id()),
            stage: Stage::Connecting,
            started,
            ended: None,
            deadline: started + Duration::from_millis(probe.timeout_ms),
        };
        match open(probe) {
            Ok(socket) => attempt.socket = Some(socket),
            Err(errno) => attempt.over(Err(Silence::of(errno))),
        }
        if probe.protocol == Protocol::Udp && attempt.socket.is_some() {
            attempt.stage = Stage::Datagram(Some(started));
            attempt.remind(started);
        }
        attempt
    }

    pub(crate) fn age(&self) -> Duration {
        self.ended.unwrap_or_else(Instant::now).duration_since(self.started)
    }

    /// The result, if there is one by now.
    pub(crate) fn result(&mut self, now: Instant) -> Option<Result<Answer, Silence>> {
        if now >= self.deadline && !matches!(self.stage, Stage::Over(_)) {
            self.over(Err(Silence::Timeout));
        }
        match &self.stage {
            Stage::Over(result) => Some(result.clone()),
            Stage::Connecting | Stage::Asked(_) | Stage::Datagram(_) => None,
        }
    }

    /// When it wants to be looked at, whatever happens on its socket.
    pub(crate) fn wakes(&self) -> Instant {
        match &self.stage {
            Stage::Datagram(again) => again.unwrap_or(self.deadline).min(self.deadline),
            Stage::Over(_) => self.started,
            Stage::Connecting | Stage::Asked(_) => self.deadline,
        }
    }

    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let fd = self.socket.as_ref()?.as_fd();
        match self.stage {
            Stage::Connecting => Some((fd, PollFlags::POLLOUT)),
            Stage::Asked(_) | Stage::Datagram(_) => Some((fd, PollFlags::POLLIN)),
            Stage::Over(_) => None,
        }
    }

    /// Asks again, if it is time to.
    pub(crate) fn remind(&mut self, now: Instant) {
        let Stage::Datagram(again) = &mut self.stage else { return };
        if again.is_none_or(|again| again > now) {
            return;
        }
        *again = self.again.map(|later| now + later);
        // An error here may be the answer to the question before; reading the socket tells.
        if let Some(socket) = &self.socket {
            let _ = socket::send(socket.as_raw_fd(), &who::datagram(&self.token), MsgFlags::empty());
        }
    }

    /// Goes as far as it gets without waiting.
    pub(crate) fn go_on(&mut self, buffer: &mut [u8]) {
        while self.step(buffer) {}
    }

    /// Whether there may be more to do at once.
    fn step(&mut self, buffer: &mut [u8]) -> bool {
        let Some(socket) = &self.socket else { return false };
        match &mut self.stage {
            Stage::Connecting => match getsockopt(socket, sockopt::SocketError) {
                Ok(0) => {
                    // A request is far smaller than any send buffer: it goes whole.
                    let request = who::request(self.to, &self.token);
                    match socket::send(socket.as_raw_fd(), &request, MsgFlags::MSG_NOSIGNAL) {
                        Ok(_) => self.stage = Stage::Asked(Vec::new()),
                        Err(Errno::EAGAIN | Errno::ENOTCONN) => return false,
                        Err(errno) => self.over(Err(Silence::of(errno))),
                    }
                }
                Ok(error) => self.over(Err(Silence::of(Errno::from_raw(error)))),
                Err(errno) => self.over(Err(Silence::of(errno))),
            },
            Stage::Asked(said) => match socket::recv(socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(0) => {
                    let answer = who::from_response(said).filter(|answer| answer.token == self.token);
                    self.over(answer.ok_or(Silence::Nonsense));
                }
                Ok(length) if said.len() + length > buffer.len() => self.over(Err(Silence::Nonsense)),
                Ok(length) => said.extend_from_slice(&buffer[..length]),
                Err(Errno::EAGAIN) => return false,
                Err(Errno::EINTR) => {}
                Err(errno) => self.over(Err(Silence::of(errno))),
            },
            Stage::Datagram(_) => match socket::recv(socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(length) => {
                    let answer = who::from_datagram(&buffer[..length]);
                    self.over(answer.filter(|answer| answer.token == self.token).ok_or(Silence::Nonsense));
                }
                Err(Errno::EAGAIN) => return false,
                Err(Errno::EINTR) => {}
                Err(errno) => self.over(Err(Silence::of(errno))),
            },
            Stage::Over(_) => return false,
        }
        true
    }

    fn over(&mut self, result: Result<Answer, Silence>) {
        self.stage = Stage::Over(result);
        self.ended = Some(Instant::now());
        self.socket = None;
    }
}

fn open(probe: &Probe) -> Result<OwnedFd, Errno> {
    let family = match probe.to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let kind = match probe.protocol {
        Protocol::Tcp => SockType::Stream,
        Protocol::Udp => SockType::Datagram,
    };
    let socket = socket::socket(family, kind, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    if let Some(from) = probe.from {
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0)))?;
    }
    match socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(probe.to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}
