//! What is applied: the one durable fact a change is driven by.

use crate::size::{Envelope, Mtu};

/// The network and host configuration that is in force, as the operator stored it last.
///
/// It is written whole, in one object, and only by whoever read its newest version: two operators cannot both move
/// it. Nodes follow what is rendered from it ([`Record::rendering`]) and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Record {
    /// Counts renderings. A node never goes back to an older one, so an order that was written late, by an operator
    /// that slept while another took over, cannot undo what the cluster has agreed on since.
    pub epoch: u64,
    /// The pods' MTU before the change, and what it is while there is none.
    pub mtu: Mtu,
    /// The change that is under way.
    pub change: Option<Change>,
    /// Where the last change that concerned hosts left them; nothing where none did. Hosts' sizes are not ours while there
    /// is no change, but a host that was away for one must be told how large a packet the others take.
    pub hosts: Option<Mtu>,
}

/// Two sizes, an old and a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ends {
    /// The one every node held when the change began.
    pub from: Mtu,
    /// The one it leads to.
    pub to: Mtu,
}

impl Ends {
    /// Safe beside nodes at either end.
    pub fn span(self) -> Envelope {
        Envelope::spanning(self.from, self.to)
    }

    /// The way back.
    pub fn swapped(self) -> Ends {
        Ends { from: self.to, to: self.from }
    }
}

/// A change that is under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Change {
    /// The pods' MTU.
    pub network: Ends,
    /// The hosts' MTU.
    pub host: Ends,
    /// How far it is.
    pub stage: Stage,
    /// Whether it is itself the way back from another. Trouble on the way forward may turn a change around; trouble on
    /// the way back must not, or it would go back and forth for ever.
    pub back: bool,
}

/// How far a change is.
///
/// ```text
///             all nodes observed, finish asked
///  Spreading ──────────────────────────────────▶ Settling ──all observed──▶ (no change)
///   │     ▲                                          │
///   │     └──────────── ends swapped: reverse ───────┘
///   ▼ cancel ▲ asked again
///  Returning ──all observed──▶ (no change)
/// ```
///
/// While a change is `Spreading` or `Returning` every node holds the old size, while it is `Settling` every node
/// holds the new one; the move from one to the other is made only when every node is known to hold both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// Phase one: every node is taken to what spans both ends.
    Spreading {
        /// Whether phase two was asked for. It starts when every node was observed in phase one, not before.
        finish: bool,
    },
    /// Phase two: every node settles at the new size.
    Settling,
    /// Cancelled in phase one: every node settles at the old size again.
    Returning,
}

/// What nodes are told to run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rendering {
    /// Which one it is; see [`Record::epoch`].
    pub epoch: u64,
    /// What pods and management ports run at.
    pub network: Envelope,
    /// What hosts do.
    pub host: HostRendering,
}

/// What hosts are told to run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostRendering {
    /// The host's own configuration says it.
    Own {
        /// What the other hosts take, where we know: one that is larger sends no more than that.
        others: Option<Mtu>,
    },
    /// Run so, and let the host's own configuration say `target` from now on.
    Towards {
        /// What interfaces and routes run at.
        run: Envelope,
        /// What is written into the host's own configuration.
        target: Mtu,
    },
    /// Run at this size; the host's own configuration says so already.
    At(Mtu),
}

impl HostRendering {
    /// What hosts are to run at; nothing where that is their own affair.
    pub fn run(self) -> Option<Envelope> {
        match self {
            HostRendering::Own { .. } => None,
            HostRendering::Towards { run, .. } => Some(run),
            HostRendering::At(mtu) => Some(Envelope::settled(mtu)),
        }
    }
}

impl Record {
    /// No change under way, at `mtu`.
    pub fn settled(mtu: Mtu) -> Record {
        Record { epoch: 0, mtu, change: None, hosts: None }
    }

    /// What is published as the cluster's MTU: where the cluster is going.
    pub fn published(&self) -> Mtu {
        match self.change {
            None => self.mtu,
            Some(Change { network, stage: Stage::Returning, .. }) => network.from,
            Some(Change { network, stage: Stage::Spreading { .. } | Stage::Settling, .. }) => network.to,
        }
    }

    /// What nodes are told to run.
    pub fn rendering(&self) -> Rendering {
        let (network, host) = match self.change {
            None => (Envelope::settled(self.mtu), HostRendering::Own { others: self.hosts }),
            Some(Change { network, host, stage: Stage::Spreading { .. }, .. }) => {
                (network.span(), HostRendering::Towards { run: host.span(), target: host.to })
            }
            Some(Change { network, host, stage: Stage::Settling, .. }) => {
                (Envelope::settled(network.to), HostRendering::At(host.to))
            }
            Some(Change { network, host, stage: Stage::Returning, .. }) => (
                Envelope::settled(network.from),
                HostRendering::Towards { run: Envelope::settled(host.from), target: host.from },
            ),
        };
        Rendering { epoch: self.epoch, network, host }
    }

    /// The same record with another change, a new epoch if nodes are told something else by it.
    pub fn with(&self, change: Option<Change>) -> Record {
        let next = Record { change, ..*self };
        let same = next.rendering() == self.rendering();
        Record { epoch: self.epoch + u64::from(!same), ..next }
    }

    /// The record of a cluster in which every node has arrived where its change leads, and none is under way any more.
    ///
    /// One more epoch: hosts are no longer told what to run, which restarts nobody.
    pub fn ended(&self) -> Record {
        let Some(Change { network, host, stage, .. }) = self.change else { return *self };
        let (mtu, left_at) = match stage {
            Stage::Returning => (network.from, host.from),
            Stage::Spreading { .. } | Stage::Settling => (network.to, host.to),
        };
        let concerned = host.from != host.to || self.hosts.is_some();
        Record { epoch: self.epoch + 1, mtu, change: None, hosts: concerned.then_some(left_at) }
    }

    /// The sizes, of pods and of hosts, that every node holds for as long as this record stands.
    ///
    /// Hosts' sizes are not ours while there is no change.
    pub fn anchor(&self) -> (Mtu, Option<Mtu>) {
        match self.change {
            None => (self.mtu, None),
            Some(Change { network, host, stage: Stage::Spreading { .. } | Stage::Returning, .. }) => {
                (network.from, Some(host.from))
            }
            Some(Change { network, host, stage: Stage::Settling, .. }) => (network.to, Some(host.to)),
        }
    }
}
