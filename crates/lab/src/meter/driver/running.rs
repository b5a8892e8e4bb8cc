//! One flow: what moves it, and what is counted of it.

use std::time::Duration;

use super::super::datagrams::{self, Account, Errors, Kind};
use super::super::ground::Ground;
use super::super::plan::{Flow, Sizes, Traffic};
use super::super::requests::Requests;
use super::super::streams;
use super::super::tally::Tally;
use crate::programs::probe::Protocol;

/// A gap shorter than this, or than a few packets, is the ordinary life of a busy machine.
const WORTH_LISTING: Duration = Duration::from_millis(100);

/// What moves a flow.
#[derive(Debug)]
pub(in crate::meter) enum Engine {
    Datagrams(datagrams::Sender),
    Stream(streams::Sender),
    Requests(Requests),
}

/// A flow and its account.
#[derive(Debug)]
pub(in crate::meter) struct Running {
    pub(in crate::meter) flow: Flow,
    pub(in crate::meter) forward: Tally,
    pub(in crate::meter) backward: Tally,
    pub(in crate::meter) errors: Errors,
    pub(in crate::meter) engine: Engine,
    pub(in crate::meter) paused: bool,
    /// A copy that is only there to find out whether the flow is answered; nobody is told of it afterwards.
    pub(in crate::meter) trial: bool,
    sizes: Sizes,
}

/// The flows that are not there for a trial only.
pub(super) fn counted(flows: &mut [Running]) -> impl Iterator<Item = &mut Running> {
    flows.iter_mut().filter(|running| !running.trial)
}

impl datagrams::Accounts for Vec<Running> {
    fn account(&mut self, flow: usize) -> Option<Account<'_>> {
        let running = self.get_mut(flow)?;
        Some(Account {
            forward: &mut running.forward,
            backward: &mut running.backward,
            errors: &mut running.errors,
            sizes: &running.sizes,
        })
    }
}

impl Running {
    pub(super) fn new(flow: Flow) -> Running {
        let (engine, sizes) = match &flow.traffic {
            Traffic::Udp(sizes) => {
                (Engine::Datagrams(datagrams::Sender::new(Kind::Udp, sizes.clone())), sizes.clone())
            }
            Traffic::Icmp(sizes) => {
                (Engine::Datagrams(datagrams::Sender::new(Kind::Icmp, sizes.clone())), sizes.clone())
            }
            Traffic::Tcp { record } => (Engine::Stream(streams::Sender::new(*record)), Sizes::Full),
            Traffic::TcpRequests { timeout } => {
                (Engine::Requests(Requests::new(Protocol::Tcp, *timeout)), Sizes::Full)
            }
            Traffic::UdpRequests { timeout } => {
                (Engine::Requests(Requests::new(Protocol::Udp, *timeout)), Sizes::Full)
            }
        };
        let worth_listing = WORTH_LISTING.max(flow.interval() * 5);
        Running {
            flow,
            forward: Tally::new(worth_listing),
            backward: Tally::new(worth_listing),
            errors: Errors::new(),
            engine,
            paused: false,
            trial: false,
            sizes,
        }
    }

    pub(super) fn tick(&mut self, at: usize, ground: &mut Ground) {
        let Running { flow, forward, errors, engine, .. } = self;
        match engine {
            Engine::Datagrams(sender) => sender.tick(at, flow, forward, errors, ground),
            Engine::Stream(sender) => sender.tick(at, flow, forward, errors, ground),
            Engine::Requests(requests) => requests.tick(at, flow, forward, ground),
        }
    }

    pub(super) fn ready(&mut self, at: usize, ground: &mut Ground) {
        let Running { forward, backward, errors, engine, .. } = self;
        match engine {
            Engine::Datagrams(sender) => sender.readable(at, forward, backward, errors, ground),
            Engine::Stream(sender) => sender.ready(at, forward, backward, errors, ground),
            // Requests have sockets of their own.
            Engine::Requests(_) => {}
        }
    }

    /// Whether something came, both ways.
    pub(super) fn answered(&self) -> bool {
        self.forward.received > 0 && (self.backward.received > 0 || !self.flow.traffic.reflected())
    }

    /// Whether something may still arrive that has not.
    pub(super) fn under_way(&mut self, ground: &mut Ground) -> bool {
        match &mut self.engine {
            Engine::Requests(requests) => {
                requests.sweep(&mut self.forward, ground);
                requests.under_way() > 0
            }
            Engine::Datagrams(_) | Engine::Stream(_) => {
                // What the kernel refused never left.
                self.forward.missing() > self.forward.refused
                    || self.backward.missing() > self.backward.refused
            }
        }
    }

    pub(super) fn close(&mut self, ground: &mut Ground) {
        match &mut self.engine {
            Engine::Datagrams(sender) => sender.close(ground),
            Engine::Stream(sender) => sender.close(ground),
            Engine::Requests(requests) => requests.close(ground),
        }
    }
}
