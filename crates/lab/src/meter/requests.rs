//! Requests, each by itself: a connection or a datagram to a pod's server, from a port of its own.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::{Interest, Token};

use super::ground::{Ground, Owner};
use super::plan::Flow;
use super::tally::Tally;
use crate::programs::probe::attempt::Attempt;
use crate::programs::probe::{Probe, Protocol, Silence};

/// Requests that may be under way together. Beyond it none is started: the Service is gone, and what is counted then
/// are those that wait.
const UNDER_WAY: usize = 1000;

/// The requests of one flow.
#[derive(Debug)]
pub(super) struct Requests {
    protocol: Protocol,
    timeout: Duration,
    running: HashMap<u64, (Attempt, Option<Token>)>,
    pub(super) silences: BTreeMap<Silence, u64>,
    pub(super) answered_by: BTreeMap<String, u64>,
    pub(super) seen_from: BTreeMap<IpAddr, u64>,
    pub(super) slowest: Duration,
}

impl Requests {
    pub(super) fn new(protocol: Protocol, timeout: Duration) -> Requests {
        Requests {
            protocol,
            timeout,
            running: HashMap::new(),
            silences: BTreeMap::new(),
            answered_by: BTreeMap::new(),
            seen_from: BTreeMap::new(),
            slowest: Duration::ZERO,
        }
    }

    pub(super) fn tick(&mut self, at: usize, flow: &Flow, tally: &mut Tally, ground: &mut Ground) {
        self.sweep(tally, ground);
        if self.running.len() >= UNDER_WAY {
            return;
        }
        let number = tally.next();
        let mut probe = Probe::new(self.protocol, flow.to);
        probe.from = flow.source;
        probe.timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        tally.sent(ground.now(), 0);
        if ground.enter(&flow.from).is_err() {
            *self.silences.entry(Silence::Local).or_default() += 1;
            return;
        }
        let attempt = Attempt::start(&probe, None);
        let raw = attempt.interest().map(|(fd, _)| fd.as_raw_fd());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = raw.and_then(|fd| ground.watch_fd(&fd, Owner::Request(at, number), interest).ok());
        self.running.insert(number, (attempt, token));
        self.ready(number, tally, ground);
    }

    pub(super) fn ready(&mut self, number: u64, tally: &mut Tally, ground: &mut Ground) {
        let Some((attempt, _)) = self.running.get_mut(&number) else { return };
        attempt.go_on(&mut ground.buffer);
        let Some(result) = attempt.result(Instant::now()) else { return };
        let age = attempt.age();
        if let Some((_, Some(token))) = self.running.remove(&number) {
            ground.forget_token(token);
        }
        match result {
            Ok(answer) => {
                tally.arrived(ground.now(), number, 0);
                *self.answered_by.entry(answer.name).or_default() += 1;
                *self.seen_from.entry(answer.peer.ip()).or_default() += 1;
                self.slowest = self.slowest.max(age);
            }
            Err(silence) => *self.silences.entry(silence).or_default() += 1,
        }
    }

    /// Ends what has taken too long.
    pub(super) fn sweep(&mut self, tally: &mut Tally, ground: &mut Ground) {
        let now = Instant::now();
        let over: Vec<u64> = self
            .running
            .iter_mut()
            .filter_map(|(number, (attempt, _))| attempt.result(now).map(|_| *number))
            .collect();
        for number in over {
            self.ready(number, tally, ground);
        }
    }

    pub(super) fn under_way(&self) -> usize {
        self.running.len()
    }

    pub(super) fn failed(&self) -> u64 {
        self.silences.values().sum()
    }

    pub(super) fn close(&mut self, ground: &mut Ground) {
        for (_, (_, token)) in self.running.drain() {
            if let Some(token) = token {
                ground.forget_token(token);
            }
        }
    }
}
