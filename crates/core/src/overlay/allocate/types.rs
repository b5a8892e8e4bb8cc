//! What an allocation is made from and of.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;

use crate::name::NodeName;
use crate::net::{Addresses, Family, Subnets};
use crate::overlay::networks::{ClusterRange, Networks};

/// The number of a node: its place in the transit and join networks and its port's key on the transit switch.
///
/// Invariant: between [`NodeId::FIRST`] and [`NodeId::LAST`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u16);

impl NodeId {
    /// 0 would be the networks' own addresses, and 1 is the cluster router's by convention.
    pub const FIRST: u16 = 2;
    /// A port's tunnel key has 15 bits.
    pub const LAST: u16 = 32767;

    /// The only way to an id.
    pub fn new(id: u64) -> Option<NodeId> {
        u16::try_from(id).ok().filter(|id| (NodeId::FIRST..=NodeId::LAST).contains(id)).map(NodeId)
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an annotation of a node says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Claim<T> {
    /// The annotation is not there.
    #[default]
    Absent,
    /// The annotation is there and cannot be read; its text.
    Mangled(String),
    /// What it says.
    Says(T),
}

/// A node as the allocator sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applicant {
    /// Its name.
    pub name: NodeName,
    /// When it was created, in seconds of any one clock: where two nodes claim the same, the older keeps it.
    pub created: i64,
    /// The id it carries.
    pub id: Claim<u64>,
    /// The subnets it carries.
    pub subnets: Claim<Vec<IpNet>>,
    /// What the node itself reports to be running with, if it does.
    ///
    /// It is what saves a node whose annotation was mangled or changed by hand: its pods live in that subnet, and giving
    /// it to another node would make two of every address.
    pub running: Option<Running>,
}

/// What a node reports to be running with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    /// Its id.
    pub id: NodeId,
    /// Its subnets.
    pub subnets: Subnets,
}

/// What a node is given. Everything else of its place in the overlay follows from it.
///
/// Invariant: made by [`allocate`](super::allocate) or [`Assignment::new`], so the transit and join addresses are those of the id,
/// and the subnets are of those the cluster's ranges are divided into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    id: NodeId,
    subnets: Subnets,
    transit: Addresses,
    join: Addresses,
}

impl Assignment {
    /// The assignment of a node with this id and these subnets; `None` when the id has no place in the networks, or
    /// the subnets are not of the cluster's families or not what its ranges are divided into.
    pub fn new(networks: &Networks, id: NodeId, subnets: Subnets) -> Option<Assignment> {
        // Whoever believed a subnet that is wider, or none of the cluster's, would send that node what is others'.
        if subnets.families() != networks.families() || !subnets.iter().all(|net| networks.gives(net)) {
            return None;
        }
        let n = u32::from(id.number());
        Some(Assignment { id, subnets, transit: networks.transit().nth(n)?, join: networks.join().nth(n)? })
    }

    /// The id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The subnets of its pods.
    pub fn subnets(&self) -> Subnets {
        self.subnets
    }

    /// Its router's addresses on the transit switch.
    pub fn transit(&self) -> Addresses {
        self.transit
    }

    /// The addresses it forwards to Services from.
    pub fn join(&self) -> Addresses {
        self.join
    }

    /// `.1`: the router, the gateway of its pods.
    pub fn router(&self) -> Addresses {
        self.fixed(1)
    }

    /// `.2`: the management port, the node's own address in the overlay.
    pub fn management(&self) -> Addresses {
        self.fixed(2)
    }

    fn fixed(&self, n: u32) -> Addresses {
        self.subnets.nth(n).expect("a node's subnet holds four addresses")
    }
}

/// Something about a node that somebody should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// An annotation could not be used.
    Unusable {
        /// The node.
        node: NodeName,
        /// Which of its claims.
        what: Resource,
        /// Why.
        why: Unusable,
    },
    /// Another node has what this one claims: it runs with it, or it is older.
    Taken {
        /// The node that was given something else.
        node: NodeName,
        /// What was claimed twice.
        what: Resource,
        /// Who keeps it.
        by: NodeName,
    },
    /// A node that was given something else goes on running with what is another's, as its pods keep it from moving.
    Lingers {
        /// The node.
        node: NodeName,
        /// What it runs with.
        what: Resource,
        /// Whose that is.
        by: NodeName,
    },
    /// Nothing is left to give; the node has no place in the overlay until something is freed or added.
    Exhausted {
        /// The node that stays without.
        node: NodeName,
        /// What ran out.
        what: Exhausted,
    },
}

/// Why a claim is of no use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// It cannot be read.
    Mangled(String),
    /// An id outside what ids can be in these networks.
    NoSuchId(u64),
    /// A subnet outside every range of its family.
    OutsideRanges(IpNet),
    /// A subnet of another size than nodes have in the range it lies in.
    OtherSize(IpNet, ClusterRange),
    /// Two subnets of one family.
    TwoOfAFamily(IpNet, IpNet),
    /// An id other than the one the node runs with.
    RunsWithId {
        /// What the annotation says.
        says: u64,
        /// What is true.
        runs: NodeId,
    },
    /// A subnet other than the one the node runs with, where its pods live.
    RunsWithSubnet {
        /// What the annotation says.
        says: IpNet,
        /// What is true.
        runs: IpNet,
    },
}

/// What nodes claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Resource {
    /// The id.
    Id,
    /// A subnet of this family.
    Subnet(Family),
    /// The list of subnets as a whole.
    Subnets,
}

/// What ran out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exhausted {
    /// Every id has a node.
    Ids {
        /// How many there are.
        capacity: u32,
    },
    /// The network is for one machine, and there is one.
    Machine {
        /// Which it is.
        by: NodeName,
    },
    /// Every subnet of every range of a family has a node.
    Subnets {
        /// The family.
        family: Family,
        /// The ranges that are full.
        ranges: Vec<ClusterRange>,
        /// How many subnets they hold together.
        capacity: u128,
    },
}

/// Who has what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// What each node is given. A node that is not here gets nothing for now; see the findings.
    pub nodes: BTreeMap<NodeName, Assignment>,
    /// What somebody should know.
    pub findings: Vec<Finding>,
}
