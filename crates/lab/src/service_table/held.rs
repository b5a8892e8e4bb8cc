//! Conversations that go on while backends come and go.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::world::{Asker, Target};
use crate::programs::probe::Protocol;
use crate::programs::who;

/// Between two words of a conversation.
const BEAT: Duration = Duration::from_millis(50);
/// So long a word is waited for. A conversation by datagrams then says another.
const DATAGRAM_WITHIN: Duration = Duration::from_millis(200);
/// One by TCP has no other.
const BYTES_WITHIN: Duration = Duration::from_secs(30);
/// So many answers in a row are no accident.
const IN_A_ROW: usize = 3;

/// A conversation of one socket.
#[derive(Debug)]
pub(super) struct Held {
    name: String,
    protocol: Protocol,
    log: Arc<Mutex<Log>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Log {
    /// Who answered when, the latest last. By TCP nobody says a name.
    answers: Vec<(Instant, String)>,
    broken: Option<String>,
}

impl Held {
    pub(super) fn start(asker: &Asker, target: &Target) -> Held {
        let log = Arc::new(Mutex::new(Log::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (place, to, protocol) = (asker.site.place.clone(), target.at, target.protocol);
        let thread = std::thread::spawn({
            let (log, stop) = (log.clone(), stop.clone());
            move || {
                let talk = || match protocol {
                    Protocol::Udp => datagrams(to, &log, &stop),
                    Protocol::Tcp => bytes(to, &log, &stop),
                };
                let done =
                    place.namespace.run(talk).map_err(|error| std::io::Error::other(error.to_string()));
                if let Err(error) = done.and_then(|done| done) {
                    locked(&log).broken = Some(error.to_string());
                }
            }
        });
        let name = format!("{} -> {:?} {}", asker.name, target.protocol, target.at);
        Held { name, protocol, log, stop, thread: Some(thread) }
    }

    /// What is wrong, if not each of the latest answers since then is of one of these; without names, if the
    /// conversation does not go on.
    pub(super) fn wrong(&self, since: Instant, names: Option<&[String]>) -> Option<String> {
        let log = locked(&self.log);
        if let Some(broken) = &log.broken {
            return Some(format!("{}: broken: {broken}", self.name));
        }
        let fresh: Vec<&str> = log
            .answers
            .iter()
            .rev()
            .take(IN_A_ROW)
            .take_while(|(at, _)| *at > since)
            .map(|(_, name)| name.as_str())
            .collect();
        let named = |name: &&str| match (self.protocol, names) {
            (Protocol::Udp, Some(names)) => names.iter().any(|one| one == name),
            (Protocol::Udp, None) | (Protocol::Tcp, _) => true,
        };
        let fine = fresh.len() == IN_A_ROW && fresh.iter().all(named);
        (!fine).then(|| format!("{}: the latest answers since are of {fresh:?}", self.name))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has said in its log what went wrong.
            let _ = thread.join();
        }
    }
}

fn locked(log: &Mutex<Log>) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One socket, so one source port: for whoever tracks connections it is one flow.
fn datagrams(to: SocketAddr, log: &Mutex<Log>, stop: &AtomicBool) -> std::io::Result<()> {
    let any: SocketAddr = if to.is_ipv6() { ([0_u16; 8], 0).into() } else { ([0_u8; 4], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(DATAGRAM_WITHIN))?;
    let mut buffer = [0; 2048];
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        // Refusals of earlier words come out here and below; a conversation by datagrams takes no offence.
        let _ = socket.send(&who::datagram(&number.to_string()));
        if let Ok(length) = socket.recv(&mut buffer)
            && let Some(answer) = who::from_datagram(&buffer[..length])
        {
            locked(log).answers.push((Instant::now(), answer.name));
        }
        std::thread::sleep(BEAT);
    }
    Ok(())
}

fn bytes(to: SocketAddr, log: &Mutex<Log>, stop: &AtomicBool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, BYTES_WITHIN)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(BYTES_WITHIN))?;
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let said = format!("{number:016}");
        stream.write_all(said.as_bytes())?;
        let mut heard = [0; 16];
        stream.read_exact(&mut heard)?;
        if heard != said.as_bytes() {
            return Err(ErrorKind::InvalidData.into());
        }
        locked(log).answers.push((Instant::now(), String::new()));
        std::thread::sleep(BEAT);
    }
    Ok(())
}
