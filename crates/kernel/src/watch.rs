//! Changes that anybody makes, as they happen.
//!
//! The kernel drops notifications when nobody reads them fast enough, and says so once. From then on what was
//! learned from events is worth nothing: the watch throws away what is still queued and gives [`Event::Resync`],
//! upon which the receiver observes again. The first item is a `Resync` too, so that there is one way to start
//! and to recover: observe when told, then follow the events.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use tokio::io::unix::AsyncFd;

use crate::address::{self, Address};
use crate::error::{Attempt, Error, Result};
use crate::kernel::Kernel;
use crate::link::{self, Link};
use crate::neighbour::{self, Neighbour};
use crate::nft::{self, Notice};
use crate::route::{self, Route};
use crate::rule::{self, Rule};
use crate::sys;
use crate::wire::{Message, Protocol, Socket, messages};

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Events may have been lost, or none was seen yet: observe again.
    Resync,
    /// A link appeared or changed.
    Link(Box<Link>),
    /// A link is gone.
    LinkGone(Box<Link>),
    /// An address appeared or changed.
    Address(Address),
    /// An address is gone.
    AddressGone(Address),
    /// A route appeared or replaced another.
    Route(Route),
    /// A route is gone. IPv4 routes that go with their link are not told one by one.
    RouteGone(Route),
    /// A policy rule appeared.
    Rule(Rule),
    /// A policy rule is gone.
    RuleGone(Rule),
    /// A neighbour entry appeared or changed.
    Neighbour(Neighbour),
    /// A neighbour entry is gone.
    NeighbourGone(Neighbour),
    /// A setting that the kernel tells about (forwarding, the reverse-path check) of one link or of all was changed:
    /// read those of interest again.
    Setting,
    /// Something in nftables.
    Nft(Notice),
}

/// What to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Topics {
    /// Links.
    pub links: bool,
    /// Addresses.
    pub addresses: bool,
    /// Routes, of all tables.
    pub routes: bool,
    /// Policy rules.
    pub rules: bool,
    /// Neighbour entries; on a busy host these are many.
    pub neighbours: bool,
    /// Settings of links: see [`Event::Setting`].
    pub settings: bool,
    /// nftables.
    pub nft: bool,
}

impl Topics {
    /// Everything.
    pub const ALL: Topics = Topics {
        links: true,
        addresses: true,
        routes: true,
        rules: true,
        neighbours: true,
        settings: true,
        nft: true,
    };
    /// Everything but neighbours.
    pub const CONFIGURATION: Topics = Topics { neighbours: false, ..Topics::ALL };

    fn groups(self) -> u32 {
        let group = |on: bool, numbers: &[u32]| {
            numbers.iter().filter(|_| on).fold(0, |mask, number| mask | 1 << (number - 1))
        };
        group(self.links, &[1])
            | group(self.neighbours, &[3])
            | group(self.addresses, &[5, 9])
            | group(self.routes, &[7, 11])
            | group(self.rules, &[8, 19])
            | group(self.settings, &[24, 25])
    }
}

/// `RTM_NEWNETCONF`.
const NEW_SETTING: u16 = 80;
const NFTABLES_GROUP: u32 = 1 << 6;

/// A subscription. Poll it on a tokio runtime, as a stream or with [`Watch::next`].
#[derive(Debug)]
pub struct Watch {
    route: AsyncFd<Socket>,
    netfilter: Option<AsyncFd<Socket>>,
    queue: VecDeque<Event>,
}

impl Watch {
    /// Starts listening; whatever changes from now on is seen or answered with a `Resync`.
    pub fn open(kernel: &Kernel, topics: Topics) -> Result<Watch> {
        Watch::with_buffer(kernel, topics, None)
    }

    /// As [`Watch::open`], with a receive buffer of so many bytes. A small one overruns early.
    pub fn with_buffer(kernel: &Kernel, topics: Topics, bytes: Option<usize>) -> Result<Watch> {
        let bytes = bytes.or(Some(4 << 20));
        let (route, netfilter) = kernel.namespace().run(|| {
            let route = Socket::listening(Protocol::Route, topics.groups(), bytes)?;
            let netfilter = topics
                .nft
                .then(|| Socket::listening(Protocol::Netfilter, NFTABLES_GROUP, bytes))
                .transpose()?;
            Ok::<_, Error>((route, netfilter))
        })??;
        let register = |socket| {
            sys::readable(socket)
                .map_err(|source| Error::io(Attempt::Watching, "netlink notifications", source))
        };
        Ok(Watch {
            route: register(route)?,
            netfilter: netfilter.map(register).transpose()?,
            queue: VecDeque::from([Event::Resync]),
        })
    }

    /// The next event.
    pub async fn next(&mut self) -> Result<Event> {
        poll_fn(|context| self.poll(context)).await
    }

    /// What is there already, without waiting.
    pub fn ready(&mut self) -> Result<Vec<Event>> {
        drain(self.route.get_mut(), &mut self.queue)?;
        if let Some(netfilter) = &mut self.netfilter {
            drain(netfilter.get_mut(), &mut self.queue)?;
        }
        Ok(self.queue.drain(..).collect())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Event>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Poll::Ready(Ok(event));
            }
            let mut waiting = true;
            for source in [Some(&mut self.route), self.netfilter.as_mut()].into_iter().flatten() {
                match source.poll_read_ready_mut(context) {
                    Poll::Pending => {}
                    Poll::Ready(Err(e)) => {
                        return Poll::Ready(Err(Error::io(Attempt::Watching, "netlink notifications", e)));
                    }
                    Poll::Ready(Ok(mut guard)) => {
                        waiting = false;
                        drain(guard.get_inner_mut(), &mut self.queue)?;
                        guard.clear_ready();
                    }
                }
            }
            if waiting {
                return Poll::Pending;
            }
        }
    }
}

impl futures::Stream for Watch {
    type Item = Result<Event>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Event>>> {
        self.poll(context).map(Some)
    }
}

/// Reads until there is nothing more. After an overrun everything read, and everything still waiting to be
/// handed out, is older than the observation that a `Resync` asks for.
fn drain(socket: &mut Socket, queue: &mut VecDeque<Event>) -> Result<()> {
    let mut lost = false;
    loop {
        match socket.receive(MsgFlags::MSG_DONTWAIT) {
            Ok(datagram) => {
                if !lost {
                    queue.extend(messages(datagram).filter_map(read));
                }
            }
            Err(Errno::ENOBUFS | Errno::EMSGSIZE) => lost = true,
            Err(Errno::EAGAIN) if lost => {
                queue.clear();
                queue.push_back(Event::Resync);
                return Ok(());
            }
            Err(Errno::EAGAIN) => return Ok(()),
            Err(errno) => return Err(Error::refused(Attempt::Watching, "netlink notifications", errno)),
        }
    }
}

fn read(message: Message<'_>) -> Option<Event> {
    match message.kind {
        link::NEW => link::read(message).map(|l| Event::Link(Box::new(l))),
        link::DEL => link::read(message).map(|l| Event::LinkGone(Box::new(l))),
        address::NEW => Address::read(message).map(Event::Address),
        address::DEL => Address::read(message).map(Event::AddressGone),
        route::NEW => route::read(message).map(Event::Route),
        route::DEL => route::read(message).map(Event::RouteGone),
        rule::NEW => Rule::read(message).map(Event::Rule),
        rule::DEL => Rule::read(message).map(Event::RuleGone),
        neighbour::NEW => Neighbour::read(message).map(Event::Neighbour),
        neighbour::DEL => Neighbour::read(message).map(Event::NeighbourGone),
        NEW_SETTING => Some(Event::Setting),
        _ => nft::notice(message).map(Event::Nft),
    }
}
