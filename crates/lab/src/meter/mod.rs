//! Meters: numbered, full-size, never fragmented packets on any path between two namespaces, counted exactly.
//!
//! A meter is one thread. It opens sockets inside the namespaces it is given, sends and answers by itself, and keeps an
//! account of every number in each direction: a packet that is missing at the end was lost on the way, not in the
//! meter. [`Running::snapshot`] tells how it stands at any moment, [`Running::finish`] waits for what is under way and
//! tells the rest.
//!
//! ```no_run
//! use std::time::Duration;
//! use netferry_lab::meter::{Endpoint, Flow, Limits, Meter, Place, Traffic};
//! # fn run(a: netferry_kernel::Namespace, b: netferry_kernel::Namespace) -> Result<(), Box<dyn std::error::Error>> {
//! let (a, b) = (Place::new("pod a", a), Place::new("pod b", b));
//! let there = Endpoint { place: b, at: "10.244.1.5:4242".parse()? };
//! let meter = Meter::start(vec![Flow::between("a to b", Traffic::UDP, a, there)])?;
//! // Do something to the network that should lose nothing, and look meanwhile:
//! assert_eq!(meter.snapshot()?.totals.lost, 0);
//! let report = meter.finish(Duration::from_secs(2))?;
//! assert!(report.verdict(Limits::NONE_LOST).passed, "{report}");
//! # Ok(()) }
//! ```

mod datagrams;
mod driver;
mod ground;
mod plan;
mod report;
mod requests;
mod socket;
mod streams;
mod summary;
mod table;
mod tally;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::{Poll, Waker};
use netferry_kernel::Namespace;
use nix::errno::Errno;

use self::driver::{Command, Driver};
pub use self::plan::{Endpoint, Flow, Place, RATE, Sizes, Traffic};
pub use self::report::{Answers, Direction, FlowReport, Gap, Lap, Limits, Report, Stream, Totals, Verdict};

/// What a meter could not do.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// Nothing can be answered there: the address is not the place's, or something listens there already.
    #[error("listening on {at} in {place}")]
    Listen {
        /// Where.
        place: String,
        /// On which address and port.
        at: SocketAddr,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The meter's own thread.
    #[error("starting the meter's thread")]
    Start(#[source] std::io::Error),
    /// The thread is gone: it ended by a fault of its own.
    #[error("the meter has stopped")]
    Stopped,
}

/// Starts meters.
#[derive(Debug)]
pub struct Meter;

/// A meter at work. Dropping it ends it without a report.
#[derive(Debug)]
pub struct Running {
    commands: Option<Sender<Command>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Meter {
    /// Opens everything that answers and starts to send. Fails if a reflector cannot listen; a flow that cannot send
    /// is no failure of the meter but a loss it reports.
    pub fn start(flows: Vec<Flow>) -> Result<Running, MeterError> {
        socket::make_room();
        let poll = Poll::new().map_err(MeterError::Start)?;
        let waker = Arc::new(Waker::new(poll.registry(), driver::WAKE).map_err(MeterError::Start)?);
        let home = Namespace::current().map_err(|e| MeterError::Start(std::io::Error::other(e)))?;
        let (commands, receiver) = mpsc::channel();
        let mut driver = Driver::new(poll, home, run_number(), receiver).map_err(MeterError::Start)?;
        let (started, start) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("meter".to_owned())
            .spawn(move || {
                let added = driver.add(flows);
                let go_on = added.is_ok();
                let _ = started.send(added);
                if go_on {
                    driver.run();
                }
            })
            .map_err(MeterError::Start)?;
        let running = Running { commands: Some(commands), waker, thread: Some(thread) };
        start.recv().map_err(|_| MeterError::Stopped)??;
        Ok(running)
    }
}

impl Running {
    /// How it stands now.
    pub fn snapshot(&self) -> Result<Report, MeterError> {
        self.ask(Command::Snapshot)
    }

    /// What is sent from now on belongs to a lap of this name, until the next one begins.
    pub fn lap(&self, name: impl Into<String>) -> Result<(), MeterError> {
        self.ask(|reply| Command::Lap(name.into(), reply))
    }

    /// More flows.
    pub fn add(&self, flows: Vec<Flow>) -> Result<(), MeterError> {
        self.ask(|reply| Command::Add(flows, reply))?
    }

    /// Gives a place up: flows that need it pause, what is under way is waited for so long, then every socket there is
    /// closed, so that the namespace can vanish. While they pause, flows miss nothing.
    pub fn leave(&self, place: &str, patience: Duration) -> Result<(), MeterError> {
        self.ask(|reply| Command::Leave(place.to_owned(), patience, reply))
    }

    /// These places are back, in namespaces of now: tries the flows that wait for them, without counting, until each was
    /// answered or the patience ends. Tells of all that were tried.
    pub fn try_out(&self, places: &[Place], patience: Duration) -> Result<Report, MeterError> {
        self.ask(|reply| Command::TryOut(places.to_vec(), patience, reply))?
    }

    /// The place is back, in a namespace of now: its flows go on.
    pub fn come_back(&self, place: Place) -> Result<(), MeterError> {
        self.ask(|reply| Command::Return(place, reply))?
    }

    /// Stops sending, waits at most so long for what is under way, and tells what was found.
    pub fn finish(mut self, patience: Duration) -> Result<Report, MeterError> {
        let report = self.ask(|reply| Command::Finish(patience, reply))?;
        self.end();
        Ok(report)
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T, MeterError> {
        let (reply, answer) = mpsc::channel();
        let commands = self.commands.as_ref().ok_or(MeterError::Stopped)?;
        commands.send(command(reply)).map_err(|_| MeterError::Stopped)?;
        self.waker.wake().map_err(|_| MeterError::Stopped)?;
        answer.recv().map_err(|_| MeterError::Stopped)
    }

    fn end(&mut self) {
        self.commands = None;
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Tells the packets of this meter from those of another on the same ports.
fn run_number() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or_default();
    nanos ^ (u64::from(std::process::id()) << 40)
}
