//! Many connection attempts at once, and who answered each.
//!
//! A truth table of policies is thousands of attempts of which half are meant to time out, so they all wait together,
//! on one thread, in the namespace that thread is in.

pub(crate) mod attempt;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use self::attempt::Attempt;
use super::who::Answer;

/// How long an attempt may take where nothing else is said. A first SYN that is lost is sent again after a second.
pub const TIMEOUT: Duration = Duration::from_millis(1500);

/// A datagram may be lost without anybody having forbidden it, so it is asked again.
const AGAIN: Duration = Duration::from_millis(250);

/// By which protocol to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A connection, a request, an answer.
    Tcp,
    /// A datagram, asked again while there is time, and an answer.
    Udp,
}

/// One attempt to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// Whatever the caller wants to recognise the outcome by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// By which protocol.
    pub protocol: Protocol,
    /// Whom to ask.
    pub to: SocketAddr,
    /// From which address, if the kernel is not to choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// How long it may take, in milliseconds.
    #[serde(default = "default_timeout")]
    pub timeout_ms: u64,
}

fn default_timeout() -> u64 {
    u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX)
}

impl Probe {
    /// An attempt with the usual patience.
    pub fn new(protocol: Protocol, to: SocketAddr) -> Probe {
        Probe { id: String::new(), protocol, to, from: None, timeout_ms: default_timeout() }
    }
}

/// Why nobody answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Silence {
    /// Nothing came back in time: what a dropping policy looks like.
    Timeout,
    /// The other side said no: nobody listens there, or a Service without endpoints rejects.
    Refused,
    /// A connection that was there was torn down.
    Reset,
    /// There is no way to the address.
    Unreachable,
    /// Something answered that is not one of our servers.
    Nonsense,
    /// The attempt could not even be made from here.
    Local,
}

impl Silence {
    pub(crate) fn of(errno: Errno) -> Silence {
        const KNOWN: [(Errno, Silence); 9] = [
            (Errno::ECONNREFUSED, Silence::Refused),
            (Errno::ECONNRESET, Silence::Reset),
            (Errno::EPIPE, Silence::Reset),
            (Errno::ECONNABORTED, Silence::Reset),
            (Errno::ENETUNREACH, Silence::Unreachable),
            (Errno::EHOSTUNREACH, Silence::Unreachable),
            (Errno::EACCES, Silence::Unreachable),
            (Errno::EPERM, Silence::Unreachable),
            (Errno::ETIMEDOUT, Silence::Timeout),
        ];
        KNOWN.iter().find(|(known, _)| *known == errno).map_or(Silence::Local, |(_, silence)| *silence)
    }
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Silence::Timeout => "no answer in time",
            Silence::Refused => "refused",
            Silence::Reset => "reset",
            Silence::Unreachable => "unreachable",
            Silence::Nonsense => "answered, but not by a lab server",
            Silence::Local => "could not be tried from here",
        })
    }
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The attempt's own mark.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Whom it asked.
    pub to: SocketAddr,
    /// By which protocol.
    pub protocol: Protocol,
    /// Who answered, and whom the answering side saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Silence>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

impl Outcome {
    /// Whether somebody answered.
    pub fn connected(&self) -> bool {
        self.answer.is_some()
    }
}

/// Makes all attempts, `at_once` of them at a time, in the namespace of the calling thread. Outcomes come in the order
/// of the attempts.
pub fn all(probes: &[Probe], at_once: usize) -> Vec<Outcome> {
    let mut outcomes: Vec<Option<Outcome>> = vec![None; probes.len()];
    let mut waiting = probes.iter().enumerate();
    let mut running: Vec<(usize, Attempt)> = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        while running.len() < at_once.max(1)
            && let Some((at, probe)) = waiting.next()
        {
            running.push((at, Attempt::start(probe, Some(AGAIN))));
        }
        if running.is_empty() {
            break;
        }
        let now = Instant::now();
        running.retain_mut(|(at, attempt)| match attempt.result(now) {
            Some(result) => {
                outcomes[*at] = Some(outcome(&probes[*at], attempt, result));
                false
            }
            None => true,
        });
        wait(&mut running, &mut buffer);
    }
    outcomes.into_iter().map(|outcome| outcome.expect("an attempt runs until it has a result")).collect()
}

fn outcome(probe: &Probe, attempt: &Attempt, result: Result<Answer, Silence>) -> Outcome {
    let (answer, silence) = match result {
        Ok(answer) => (Some(answer), None),
        Err(silence) => (None, Some(silence)),
    };
    Outcome {
        id: probe.id.clone(),
        to: probe.to,
        protocol: probe.protocol,
        answer,
        silence,
        elapsed_ms: u64::try_from(attempt.age().as_millis()).unwrap_or(u64::MAX),
    }
}

/// Sleeps until something can go on, and lets it.
fn wait(running: &mut [(usize, Attempt)], buffer: &mut [u8]) {
    let now = Instant::now();
    let Some(next) = running.iter().map(|(_, attempt)| attempt.wakes()).min() else { return };
    let mut polled: Vec<usize> = Vec::new();
    let mut fds: Vec<PollFd<'_>> = Vec::new();
    for (at, (_, attempt)) in running.iter().enumerate() {
        if let Some((fd, interest)) = attempt.interest() {
            polled.push(at);
            fds.push(PollFd::new(fd, interest));
        }
    }
    // Rounded up: a millisecond too early would make the loop spin.
    let left = next.saturating_duration_since(now) + Duration::from_millis(1);
    let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    let happened: Vec<usize> = polled
        .into_iter()
        .zip(&fds)
        .filter_map(|(at, fd)| fd.revents().is_some_and(|e| e != PollFlags::empty()).then_some(at))
        .collect();
    drop(fds);
    for at in happened {
        running[at].1.go_on(buffer);
    }
    let now = Instant::now();
    for (_, attempt) in running {
        attempt.remind(now);
    }
}
