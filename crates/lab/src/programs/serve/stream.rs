//! One TCP connection: a question over HTTP, or bytes to echo.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::poll::PollFlags;

use crate::programs::who::Answer;

/// A request longer than this is not one of ours.
const REQUEST: usize = 4096;

#[derive(Debug)]
enum Mode {
    /// Too little has come to tell.
    Undecided,
    Request,
    Echo,
    /// Everything is said; what is left to write goes out and the connection ends.
    Closing,
}

/// A connection and what is to be written to it. While that is not empty nothing is read: the peer's own window is
/// the bound of what we hold.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
    mode: Mode,
    read: Vec<u8>,
    write: Vec<u8>,
    pub(super) moved: Instant,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream {
    pub(super) fn new(socket: TcpStream, peer: SocketAddr) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let local = socket.local_addr()?;
        Ok(Stream {
            socket,
            peer,
            local,
            mode: Mode::Undecided,
            read: Vec::new(),
            write: Vec::new(),
            moved: Instant::now(),
        })
    }

    pub(super) fn interest(&self) -> PollFlags {
        if self.write.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT }
    }

    /// Reads and writes what can be; whether the connection goes on.
    pub(super) fn go_on(&mut self, buffer: &mut [u8], name: &str, ready: bool) -> bool {
        loop {
            match self.flush() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
            if matches!(self.mode, Mode::Closing) {
                return false;
            }
            match self.socket.read(buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    self.moved = Instant::now();
                    self.take(&buffer[..length], name, ready);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    fn take(&mut self, bytes: &[u8], name: &str, ready: bool) {
        const VERB: &[u8] = b"GET ";
        if matches!(self.mode, Mode::Echo) {
            self.write.extend_from_slice(bytes);
            return;
        }
        self.read.extend_from_slice(bytes);
        if matches!(self.mode, Mode::Undecided) {
            let seen = self.read.len().min(VERB.len());
            if self.read[..seen] != VERB[..seen] {
                self.mode = Mode::Echo;
                self.write.append(&mut self.read);
                return;
            }
            if seen == VERB.len() {
                self.mode = Mode::Request;
            }
        }
        if self.read.windows(4).any(|end| end == b"\r\n\r\n") {
            self.write = self.response(name, ready);
            self.mode = Mode::Closing;
        } else if self.read.len() > REQUEST {
            self.write = b"HTTP/1.0 431 Request Header Fields Too Large\r\n\r\n".to_vec();
            self.mode = Mode::Closing;
        }
    }

    fn response(&self, name: &str, ready: bool) -> Vec<u8> {
        let line = self.read.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let target = line.split(' ').nth(1).unwrap_or_default();
        let (path, token) = target.split_once('?').unwrap_or((target, ""));
        let (status, kind, body) = match (path, ready) {
            ("/who", _) => {
                let answer = Answer {
                    name: name.to_owned(),
                    peer: self.peer,
                    local: self.local,
                    ready,
                    token: token.to_owned(),
                };
                ("200 OK", "application/json", serde_json::to_string(&answer).unwrap_or_default())
            }
            ("/" | "/hostname", _) => ("200 OK", "text/plain", format!("{name}\n")),
            ("/clientip", _) => ("200 OK", "text/plain", format!("{}\n", self.peer)),
            ("/healthz", _) | ("/readyz", true) => ("200 OK", "text/plain", "ok\n".to_owned()),
            ("/readyz", false) => ("503 Service Unavailable", "text/plain", "not ready\n".to_owned()),
            _ => ("404 Not Found", "text/plain", "only /, /who, /clientip, /readyz, /healthz\n".to_owned()),
        };
        format!(
            "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// Whether all is written.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.write.is_empty() {
            match self.socket.write(&self.write) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.moved = Instant::now();
                    self.write.drain(..written);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}
