//! The one thread that sends, answers and counts for all flows.

mod places;
mod running;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender as Reply};
use std::time::Duration;

use mio::{Events, Poll, Token};
use netferry_kernel::Namespace;
use nix::errno::Errno;

use super::datagrams;
use super::ground::{Ground, Owner};
use super::plan::{Endpoint, Flow, Traffic};
use super::report::Report;
use super::streams;
use super::tally::At;
use super::{MeterError, Place, summary};
use places::{Leaving, Trying};
use running::counted;
pub(super) use running::{Engine, Running};

/// The token of the waker.
pub(super) const WAKE: Token = Token(0);
/// While the last packets are waited for, clocks are looked at this often.
const DRAIN_STEP: Duration = Duration::from_millis(10);
/// What is later than this is not sent.
const LATE: Duration = Duration::from_millis(20);

/// What the driver is told.
#[derive(Debug)]
pub(super) enum Command {
    Snapshot(Reply<Report>),
    Lap(String, Reply<()>),
    Add(Vec<Flow>, Reply<Result<(), MeterError>>),
    Leave(String, Duration, Reply<()>),
    TryOut(Vec<Place>, Duration, Reply<Result<Report, MeterError>>),
    Return(Place, Reply<Result<(), MeterError>>),
    Finish(Duration, Reply<Report>),
}

#[derive(Debug)]
enum Reflector {
    Datagrams(datagrams::Reflector),
    Streams(streams::Reflector),
}

impl Reflector {
    fn endpoint(&self) -> &Endpoint {
        match self {
            Reflector::Datagrams(reflector) => &reflector.endpoint,
            Reflector::Streams(reflector) => &reflector.endpoint,
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Reflector::Datagrams(reflector) => reflector.is_open(),
            Reflector::Streams(reflector) => reflector.is_open(),
        }
    }

    fn close(&mut self, ground: &mut Ground) {
        match self {
            Reflector::Datagrams(reflector) => reflector.close(ground),
            Reflector::Streams(reflector) => reflector.close(ground),
        }
    }
}

/// Whether what was due `at` is still to be sent, and when the next is due.
///
/// A thread that was late does not make up for it: everything that waited would leave at once, and a burst loses
/// packets that the path would not. Every flow keeps its place among the others, or one late moment would make all of
/// them burst together from then on.
fn turn(at: At, now: At, interval: Duration) -> (bool, At) {
    let late = now.saturating_sub(at);
    let missed = late.as_nanos() / interval.as_nanos().max(1);
    let next = at + interval * u32::try_from(missed + 1).unwrap_or(u32::MAX);
    (late <= LATE, next)
}

pub(super) struct Driver {
    poll: Poll,
    ground: Ground,
    flows: Vec<Running>,
    reflectors: Vec<Reflector>,
    due: BinaryHeap<Reverse<(At, usize)>>,
    commands: Receiver<Command>,
    away: BTreeSet<String>,
    leaving: Vec<Leaving>,
    trying: Vec<Trying>,
    laps: Vec<String>,
    home: Namespace,
}

impl Driver {
    pub(super) fn new(
        poll: Poll,
        home: Namespace,
        run: u64,
        commands: Receiver<Command>,
    ) -> std::io::Result<Driver> {
        let registry = poll.registry().try_clone()?;
        Ok(Driver {
            poll,
            ground: Ground::new(registry, WAKE.0 + 1, run),
            flows: Vec::new(),
            reflectors: Vec::new(),
            due: BinaryHeap::new(),
            commands,
            away: BTreeSet::new(),
            leaving: Vec::new(),
            trying: Vec::new(),
            laps: Vec::new(),
            home,
        })
    }

    /// Opens what answers the flows, then starts them, spread over their intervals so that they do not burst together.
    pub(super) fn add(&mut self, flows: Vec<Flow>) -> Result<(), MeterError> {
        for flow in flows.iter().filter(|flow| flow.traffic.reflected()) {
            for endpoint in &flow.reflectors {
                self.reflect(endpoint, &flow.traffic)?;
            }
        }
        let now = self.ground.now();
        let count = u32::try_from(flows.len()).unwrap_or(u32::MAX).max(1);
        for (turn, flow) in (0_u32..).zip(flows) {
            let start = now + flow.interval() * turn / count;
            self.due.push(Reverse((start, self.flows.len())));
            self.flows.push(Running::new(flow));
        }
        Ok(())
    }

    fn reflect(&mut self, endpoint: &Endpoint, traffic: &Traffic) -> Result<(), MeterError> {
        let streams = matches!(traffic, Traffic::Tcp { .. });
        let there = self.reflectors.iter().any(|reflector| {
            let other = reflector.endpoint();
            matches!(reflector, Reflector::Streams(_)) == streams
                && other.at == endpoint.at
                && same(&other.place, &endpoint.place)
        });
        if there {
            return Ok(());
        }
        let at = self.reflectors.len();
        let opened = if streams {
            streams::Reflector::open(at, endpoint.clone(), &mut self.ground).map(Reflector::Streams)
        } else {
            datagrams::Reflector::open(at, endpoint.clone(), &mut self.ground).map(Reflector::Datagrams)
        };
        let reflector = opened.map_err(|source| listen_error(endpoint, source))?;
        self.reflectors.push(reflector);
        Ok(())
    }

    /// Runs until it is told to finish, or whoever could tell it is gone.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        loop {
            loop {
                match self.commands.try_recv() {
                    Ok(Command::Finish(patience, reply)) => {
                        self.drain(patience, &mut events);
                        let report = self.report(false);
                        let _ = reply.send(report);
                        return;
                    }
                    Ok(command) => self.obey(command),
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                }
            }
            self.tick();
            self.let_go();
            self.judge_trials();
            let next = self.due.peek().map(|Reverse((at, _))| at.saturating_sub(self.ground.now()));
            let waited_for = !self.leaving.is_empty() || !self.trying.is_empty();
            let longest = if waited_for { DRAIN_STEP } else { Duration::from_secs(1) };
            self.step(next.unwrap_or(longest).min(longest), &mut events);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Snapshot(reply) => {
                let _ = reply.send(self.report(true));
            }
            Command::Lap(name, done) => {
                self.laps.push(name);
                for running in &mut self.flows {
                    running.forward.lap();
                    running.backward.lap();
                }
                let _ = done.send(());
            }
            Command::Add(flows, reply) => {
                let _ = reply.send(self.add(flows));
            }
            Command::Leave(place, patience, done) => {
                self.away.insert(place.clone());
                let now = self.ground.now();
                self.pause_and_resume();
                self.leaving.push(Leaving { place, until: now + patience, done });
            }
            Command::TryOut(places, patience, done) => match self.try_out(&places) {
                Ok(flows) => {
                    let until = self.ground.now() + patience;
                    self.trying.push(Trying { flows, answered: false, until, done });
                }
                Err(error) => {
                    let _ = done.send(Err(error));
                }
            },
            Command::Return(place, reply) => {
                let _ = reply.send(self.come_back(place));
            }
            // Taken by `run`, which ends with it.
            Command::Finish(..) => {}
        }
    }

    fn report(&mut self, running: bool) -> Report {
        summary::report(counted(&mut self.flows), &self.laps, &self.ground, running)
    }

    /// Sends what is due.
    fn tick(&mut self) {
        let now = self.ground.now();
        while let Some(Reverse((at, index))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            let running = &mut self.flows[index];
            if running.trial && running.paused {
                // It was judged, and never goes on.
                continue;
            }
            let (in_time, next) = turn(at, now, running.flow.interval());
            self.due.push(Reverse((next, index)));
            if in_time && !running.paused {
                running.tick(index, &mut self.ground);
            }
        }
    }

    /// Waits for packets and takes them.
    fn step(&mut self, timeout: Duration, events: &mut Events) {
        if self.poll.poll(events, Some(timeout)).is_err() {
            // Interrupted: the loop comes back at once.
            return;
        }
        for event in events.iter() {
            let Some(owner) = self.ground.owner(event.token()) else { continue };
            match owner {
                Owner::Sender(flow) => {
                    if let Some(running) = self.flows.get_mut(flow) {
                        running.ready(flow, &mut self.ground);
                    }
                }
                Owner::Request(flow, number) => {
                    if let Some(Running { engine: Engine::Requests(requests), forward, .. }) =
                        self.flows.get_mut(flow)
                    {
                        requests.ready(number, forward, &mut self.ground);
                    }
                }
                Owner::Door(at) => self.reflector(at, None),
                Owner::Guest(at, guest) => self.reflector(at, Some(guest)),
            }
        }
    }

    fn reflector(&mut self, at: usize, guest: Option<u64>) {
        let Driver { reflectors, flows, ground, .. } = self;
        match reflectors.get_mut(at) {
            Some(Reflector::Datagrams(reflector)) => {
                let guest = guest.and_then(|guest| usize::try_from(guest).ok());
                reflector.readable(at, guest, ground, flows);
            }
            Some(Reflector::Streams(reflector)) => match guest {
                Some(guest) => reflector.ready(guest, ground, flows),
                None => {
                    for guest in reflector.accept(at, ground) {
                        reflector.ready(guest, ground, flows);
                    }
                }
            },
            None => {}
        }
    }

    /// Waits for what is under way, but not for ever, and closes the accounts.
    fn drain(&mut self, patience: Duration, events: &mut Events) {
        let end = self.ground.now() + patience;
        loop {
            // What came while the machine stood still waits to be read: it is read before it can be called lost.
            self.step(DRAIN_STEP, events);
            let late = self.ground.now();
            let over = late >= end && (events.is_empty() || late >= end + patience);
            if over || !counted(&mut self.flows).any(|running| running.under_way(&mut self.ground)) {
                break;
            }
        }
        let now = self.ground.now();
        for running in &mut self.flows {
            running.forward.close(now);
            running.backward.close(now);
            running.close(&mut self.ground);
        }
    }
}

fn same(one: &Place, other: &Place) -> bool {
    Arc::ptr_eq(&one.namespace, &other.namespace)
        || one.namespace.id().ok().is_some_and(|id| other.namespace.id().ok() == Some(id))
}

fn listen_error(endpoint: &Endpoint, source: Errno) -> MeterError {
    let at: SocketAddr = endpoint.at;
    MeterError::Listen { place: endpoint.place.name.clone(), at, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_were_late_keep_their_places_and_do_not_burst() {
        let ms = Duration::from_millis;
        let interval = ms(100);
        let mut due: Vec<At> = (0..100).map(ms).collect();
        // The thread comes to it after half a second of something else.
        let now = ms(500);
        let sent = due.iter_mut().filter_map(|at| {
            let (in_time, next) = turn(*at, now, interval);
            *at = next;
            in_time.then_some(())
        });
        assert_eq!(sent.count(), 0);
        assert!(due.iter().all(|at| *at > now && *at <= now + interval), "{due:?}");
        due.dedup();
        assert_eq!(due.len(), 100);
    }

    #[test]
    fn what_is_a_little_late_is_sent_and_the_next_is_not_later_for_it() {
        let (at, interval) = (Duration::from_millis(40), Duration::from_millis(10));
        assert_eq!(turn(at, at, interval), (true, at + interval));
        assert_eq!(turn(at, at + interval / 2, interval), (true, at + interval));
        assert_eq!(turn(at, at + LATE, interval), (true, at + LATE + interval));
    }
}
