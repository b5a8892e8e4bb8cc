//! The northbound tables.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::Row;
use crate::net::Mac;
use crate::port::Protocol;

/// Free-form settings of a row.
pub type Map = BTreeMap<String, String>;

macro_rules! row {
    ($row:ty, $table:literal, $this:ident => $key:expr) => {
        impl Row for $row {
            const TABLE: &'static str = $table;

            fn key(&self) -> String {
                let $this = self;
                $key
            }
        }
    };
}
pub(crate) use row;

/// The zone itself. There is one row of it and it always exists; only these columns of it are ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NbGlobal {
    /// The name of the zone.
    pub name: String,
    /// Options, among others'.
    pub options: Map,
}
row!(NbGlobal, "NB_Global", _this => "NB_Global".to_owned());

/// A logical switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogicalSwitch {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub other_config: Map,
    /// The groups of load balancers it has.
    pub load_balancer_groups: BTreeSet<String>,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(LogicalSwitch, "Logical_Switch", this => this.name.clone());

/// What a switch port is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PortKind {
    /// The port of an interface somewhere.
    Interface,
    /// The other end of a router's port.
    Router {
        /// That port.
        peer: String,
    },
    /// A port that lives in another zone.
    Remote,
}

/// An address a switch port may have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortAddress {
    /// Those of the router's port it belongs to.
    Router,
    /// These.
    Of {
        /// Its link-layer address.
        mac: Mac,
        /// Its addresses, with a length where they are a router's.
        ips: Vec<String>,
    },
}

impl std::fmt::Display for PortAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortAddress::Router => f.write_str("router"),
            PortAddress::Of { mac, ips } => {
                write!(f, "{mac}")?;
                ips.iter().try_for_each(|ip| write!(f, " {ip}"))
            }
        }
    }
}

/// A port of a logical switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogicalSwitchPort {
    /// Its name.
    pub name: String,
    /// Its switch.
    pub switch: String,
    /// What it is.
    pub kind: PortKind,
    /// What it may be addressed by.
    pub addresses: Vec<PortAddress>,
    /// What it may send from; nothing is everything.
    pub port_security: Vec<PortAddress>,
    /// Its options, the peer of a router's port excepted.
    pub options: Map,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(LogicalSwitchPort, "Logical_Switch_Port", this => this.name.clone());

/// A logical router.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogicalRouter {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: Map,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(LogicalRouter, "Logical_Router", this => this.name.clone());

/// A port of a logical router.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogicalRouterPort {
    /// Its name.
    pub name: String,
    /// Its router.
    pub router: String,
    /// Its link-layer address.
    pub mac: Mac,
    /// Its addresses and the networks behind it.
    pub networks: Vec<IpNet>,
    /// Its options.
    pub options: Map,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(LogicalRouterPort, "Logical_Router_Port", this => this.name.clone());

/// The chassis a router's port is bound to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatewayChassis {
    /// Its name.
    pub name: String,
    /// The router's port.
    pub port: String,
    /// The chassis.
    pub chassis: String,
    /// Higher wins.
    pub priority: u16,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(GatewayChassis, "Gateway_Chassis", this => this.name.clone());

/// What a static route looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouteBy {
    /// The destination.
    Destination,
    /// The source.
    Source,
}

impl RouteBy {
    /// As the database writes it.
    pub fn ovn(self) -> &'static str {
        match self {
            RouteBy::Destination => "dst-ip",
            RouteBy::Source => "src-ip",
        }
    }
}

/// A static route. A router has one per prefix and way of looking.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StaticRoute {
    /// Its router.
    pub router: String,
    /// What it looks at.
    pub by: RouteBy,
    /// Which addresses.
    pub prefix: IpNet,
    /// Where to.
    pub next_hop: IpAddr,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(StaticRoute, "Logical_Router_Static_Route", this => format!("{} {} {}", this.router, this.by.ovn(), this.prefix));

/// What a routing policy does with the packets it matches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RouterAction {
    /// Routes them as usual. Policies of a lower priority do not see them.
    Allow,
    /// Sends them to one of these next hops.
    Reroute(Vec<IpAddr>),
    /// Drops them.
    Drop,
}

impl RouterAction {
    /// As the database writes it.
    pub fn ovn(&self) -> &'static str {
        match self {
            RouterAction::Allow => "allow",
            RouterAction::Reroute(_) => "reroute",
            RouterAction::Drop => "drop",
        }
    }

    /// The next hops; empty if the action has none.
    pub fn next_hops(&self) -> &[IpAddr] {
        match self {
            RouterAction::Reroute(next_hops) => next_hops,
            RouterAction::Allow | RouterAction::Drop => &[],
        }
    }
}

/// A routing policy: what happens to packets before the routes of a router are asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RouterPolicy {
    /// Its router.
    pub router: String,
    /// Higher wins.
    pub priority: u16,
    /// Which packets.
    pub matches: String,
    /// What happens to them.
    pub action: RouterAction,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(RouterPolicy, "Logical_Router_Policy", this => format!("{} {} {}", this.router, this.priority, this.matches));

/// Source address translation on a router.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Nat {
    /// Its router.
    pub router: String,
    /// The source that is replaced.
    pub logical_ip: IpAddr,
    /// What replaces it.
    pub external_ip: IpAddr,
    /// The address set of destinations that are left alone.
    pub exempted: Option<String>,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(Nat, "NAT", this => format!("{} snat {}", this.router, this.logical_ip));

/// A load balancer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LoadBalancer {
    /// Its name.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// The backends of each address; none means refuse.
    pub vips: BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
    /// What a backend is chosen by, where it is not everything of a packet.
    pub selection_fields: BTreeSet<String>,
    /// Its options.
    pub options: Map,
    /// The groups it is in.
    pub groups: BTreeSet<String>,
    /// The switches it is on besides.
    pub switches: BTreeSet<String>,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(LoadBalancer, "Load_Balancer", this => this.name.clone());

/// A group of load balancers. The table has nowhere to put a mark: these are ours by their names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LoadBalancerGroup {
    /// Its name.
    pub name: String,
}
row!(LoadBalancerGroup, "Load_Balancer_Group", this => this.name.clone());

/// Where an ACL is attached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AclOn {
    /// A switch.
    Switch(String),
    /// Every switch with a port in this group.
    PortGroup(String),
}

/// Which packets an ACL sees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AclDirection {
    /// Those that enter the switch from a port.
    FromPort,
    /// Those that leave the switch to a port.
    ToPort,
}

impl AclDirection {
    /// As the database writes it.
    pub fn ovn(self) -> &'static str {
        match self {
            AclDirection::FromPort => "from-lport",
            AclDirection::ToPort => "to-lport",
        }
    }
}

/// What an ACL does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AclAction {
    /// Lets pass what is not a connection.
    Allow,
    /// Lets pass, and what answers too.
    AllowRelated,
    /// Lets pass without tracking the connection.
    AllowStateless,
    /// Drops.
    Drop,
}

impl AclAction {
    /// As the database writes it.
    pub fn ovn(self) -> &'static str {
        match self {
            AclAction::Allow => "allow",
            AclAction::AllowRelated => "allow-related",
            AclAction::AllowStateless => "allow-stateless",
            AclAction::Drop => "drop",
        }
    }
}

/// An access control entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Acl {
    /// Its identity, also in the external ids.
    pub id: String,
    /// A name for people, at most 63 characters and not unique.
    pub name: String,
    /// Where it is attached.
    pub on: AclOn,
    /// Which packets it sees.
    pub direction: AclDirection,
    /// Higher wins.
    pub priority: u16,
    /// Which packets it is about.
    pub matches: String,
    /// What it does with them.
    pub action: AclAction,
    /// Its options.
    pub options: Map,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(Acl, "ACL", this => this.id.clone());

/// A group of ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PortGroup {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: BTreeSet<String>,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(PortGroup, "Port_Group", this => this.name.clone());

/// A set of addresses of one family.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AddressSet {
    /// Its name.
    pub name: String,
    /// Its members.
    pub addresses: BTreeSet<IpNet>,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(AddressSet, "Address_Set", this => this.name.clone());
