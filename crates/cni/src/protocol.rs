//! The conversation between the plugin and the agent.
//!
//! One connection, one question. The agent greets as soon as it takes the connection, so that one that hangs is
//! found out in seconds although an answer may take a minute; then the plugin asks and the agent answers, each in
//! one line of JSON.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::call::{Attachment, PodRef};
use crate::error::{CniError, Code};
use crate::result::CniResult;

/// Where the agent listens, unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/netferry/cni.sock";
/// The version of this conversation. Plugin and agent are installed together but not at the same instant.
pub const PROTOCOL: u32 = 1;
/// The longest line either side accepts; a collection of garbage lists every container of a node.
pub const LONGEST_LINE: usize = 4 << 20;
/// How long the agent works on one question before it gives up.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// What the agent says first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// See [`PROTOCOL`].
    pub protocol: u32,
    /// The agent's own version, for messages.
    pub agent: String,
}

impl Greeting {
    /// Of this version.
    pub fn ours() -> Greeting {
        Greeting { protocol: PROTOCOL, agent: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// What the plugin asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// Attach this container.
    Add {
        /// What to make.
        attachment: Attachment,
        /// The network's name.
        network: String,
        /// The path of the container's namespace.
        netns: String,
        /// Whose container.
        pod: PodRef,
    },
    /// Take this attachment away.
    Del {
        /// Which.
        attachment: Attachment,
        /// The network's name.
        network: String,
    },
    /// Is this attachment as it was made?
    Check {
        /// Which.
        attachment: Attachment,
        /// The network's name.
        network: String,
        /// The path of the container's namespace.
        netns: String,
        /// What all plugins made.
        previous: CniResult,
    },
    /// Can containers be attached?
    Status,
    /// Take away every attachment of the network but these.
    Gc {
        /// The network's name.
        network: String,
        /// These stay.
        valid: Vec<Attachment>,
    },
}

/// Where the time of one question went, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Spent {
    /// From question to answer, as the agent sees it.
    pub total_us: u64,
    /// Of it, waiting for OVN to have the port in the datapath.
    pub ovn_us: u64,
    /// Of it, waiting for the API.
    pub api_us: u64,
}

impl Spent {
    /// Our own part.
    pub fn own_us(&self) -> u64 {
        self.total_us.saturating_sub(self.ovn_us).saturating_sub(self.api_us)
    }
}

/// What the agent answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// What an ADD made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<CniResult>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CniError>,
    /// Where the time went.
    #[serde(default)]
    pub spent: Spent,
}

/// How long to wait for the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Until it takes the connection and greets.
    pub greeting: Duration,
    /// From then until it answers.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { greeting: Duration::from_secs(5), answer: REQUEST_LIMIT + Duration::from_secs(10) }
    }
}

/// Asks the agent.
///
/// # Errors
/// Code 11 when it is not there, does not answer, or goes away; 5 when its socket cannot be used at all. Both name
/// the socket. A refusal of the agent's is its own error.
pub fn ask(socket: impl AsRef<Path>, ask: &Ask, patience: Patience) -> Result<Answer, CniError> {
    let socket = socket.as_ref();
    let again = |text: &str, error: &dyn std::fmt::Display| {
        let text = format!("the netferry agent at {} {text}", socket.display());
        CniError::new(Code::TryAgain, text).with_details(error.to_string())
    };
    let mut stream = connect(socket, patience.greeting).map_err(|error| {
        use io::ErrorKind::{ConnectionRefused, NotFound, TimedOut};
        if matches!(error.kind(), NotFound | ConnectionRefused | TimedOut) {
            return again("is not running; try again when it is", &error);
        }
        CniError::new(Code::Io, format!("cannot use the netferry agent's socket {}", socket.display()))
            .with_details(error.to_string())
    })?;
    let mut lines =
        Lines { from: BufReader::new(stream.try_clone().map_err(|e| again("cannot be reached", &e))?) };
    let greeting: Greeting =
        lines.next(patience.greeting).map_err(|error| again("does not take questions", &error))?;
    if greeting.protocol != PROTOCOL {
        let text = format!("(version {}) is not of this plugin's version", greeting.agent);
        let protocols = format!("it speaks protocol {}, the plugin {PROTOCOL}", greeting.protocol);
        return Err(again(&text, &protocols));
    }
    let mut line = serde_json::to_vec(ask).map_err(|error| {
        CniError::new(Code::Io, "the question to the agent cannot be written").with_details(error.to_string())
    })?;
    line.push(b'\n');
    let sent = stream.set_write_timeout(Some(patience.greeting)).and_then(|()| stream.write_all(&line));
    sent.map_err(|error| again("did not take the question", &error))?;
    let answer: Answer =
        lines.next(patience.answer).map_err(|error| again("went away before it answered", &error))?;
    match answer.error {
        Some(error) => Err(error),
        None => Ok(answer),
    }
}

/// An agent that hangs lets its queue of connections fill up, and connecting then waits without end: so it is done
/// on a thread that can be left behind.
fn connect(socket: &Path, within: Duration) -> io::Result<UnixStream> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let path = socket.to_owned();
    std::thread::spawn(move || sender.send(UnixStream::connect(path)));
    receiver.recv_timeout(within).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

struct Lines {
    from: BufReader<UnixStream>,
}

impl Lines {
    /// The next line, within a time that a line which comes byte by byte does not stretch.
    fn next<T: for<'de> Deserialize<'de>>(&mut self, within: Duration) -> io::Result<T> {
        let deadline = Instant::now() + within;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("nothing for {} s", within.as_secs()),
                ));
            }
            self.from.get_ref().set_read_timeout(Some(left))?;
            let room = (LONGEST_LINE - line.len()) as u64;
            match (&mut self.from).take(room).read_until(b'\n', &mut line) {
                Ok(0) if line.len() >= LONGEST_LINE => return Err(io::Error::other("a line without end")),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        serde_json::from_slice(&line).map_err(io::Error::other)
    }
}
