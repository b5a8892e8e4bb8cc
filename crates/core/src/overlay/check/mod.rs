//! A second pair of eyes: what is wrong with the rows of a zone, found without knowing how they were made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::overlay::names;
use crate::overlay::rows::*;

mod addresses;
mod references;
#[cfg(test)]
mod tests;

/// Something that is wrong with the rows of a zone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Finding {
    /// A row refers to one that is not there.
    Dangling {
        /// The table of the row that refers.
        table: &'static str,
        /// That row.
        row: String,
        /// The table of the missing row.
        to: &'static str,
        /// The missing row.
        missing: String,
    },
    /// Two rows have what only one may have.
    Twice {
        /// What they share.
        what: What,
        /// Its value.
        value: String,
        /// One of them.
        a: String,
        /// The other.
        b: String,
    },
    /// A row that nothing uses, so that it has no effect.
    Useless {
        /// Its table.
        table: &'static str,
        /// The row.
        row: String,
    },
    /// A row without our mark would never be found again to be changed or removed.
    Unmarked {
        /// Its table.
        table: &'static str,
        /// The row.
        row: String,
    },
    /// A row is filed under a key that is not its own.
    Misfiled {
        /// Its table.
        table: &'static str,
        /// The key.
        key: String,
    },
    /// A route's next hop lies behind no port of its router.
    Unreachable {
        /// The route.
        route: String,
    },
    /// A value its table does not take.
    Malformed {
        /// Its table.
        table: &'static str,
        /// The row.
        row: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What two rows can wrongly share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// The link-layer address of two ports of a switch.
    Mac,
    /// The address of two ports of a switch.
    Address,
    /// The key of two ports of a switch, or of two switches.
    TunnelKey,
    /// The prefix behind two routes or ports of a router.
    Prefix,
    /// The router's port two switch ports say they are the end of.
    Peer,
    /// The address of two load balancers of a switch.
    Vip,
    /// Where the tunnels of two chassis end.
    Encap,
}

impl Finding {
    /// Whether users can cause it by what they ask for: two Services may name one outside address. Such a finding is
    /// to be reported; any other means that the rows must not be written.
    pub fn is_users(&self) -> bool {
        matches!(self, Finding::Twice { what: What::Vip, .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Dangling { table, row, to, missing } => {
                write!(f, "{table} {row} refers to {to} {missing}, which is not there")
            }
            Finding::Twice { what, value, a, b } => write!(f, "{a} and {b} have the same {what:?} {value}"),
            Finding::Useless { table, row } => write!(f, "{table} {row} is used by nothing"),
            Finding::Unmarked { table, row } => write!(f, "{table} {row} does not carry our mark"),
            Finding::Misfiled { table, key } => write!(f, "{table} {key} is filed under another's key"),
            Finding::Unreachable { route } => write!(f, "the next hop of {route} lies behind no port"),
            Finding::Malformed { table, row, why } => write!(f, "{table} {row}: {why}"),
        }
    }
}

/// Lists everything that is wrong with the rows of a zone.
pub fn zone(rows: &Rows) -> BTreeSet<Finding> {
    let mut found = BTreeSet::new();
    references::check(rows, &mut found);
    addresses::check(rows, &mut found);
    marks(rows, &mut found);
    shapes(rows, &mut found);
    found
}

/// Files values under what must be unique and reports the second of each.
pub(super) struct Unique<'a> {
    what: What,
    seen: BTreeMap<String, String>,
    found: &'a mut BTreeSet<Finding>,
}

impl<'a> Unique<'a> {
    pub(super) fn new(what: What, found: &'a mut BTreeSet<Finding>) -> Unique<'a> {
        Unique { what, seen: BTreeMap::new(), found }
    }

    /// `within` and `value` together are what must be unique.
    pub(super) fn see(&mut self, within: &str, value: impl fmt::Display, by: &str) {
        let key = format!("{within} {value}");
        match self.seen.get(&key) {
            Some(other) if other != by => {
                let (a, b) = (other.clone(), by.to_owned());
                self.found.insert(Finding::Twice { what: self.what, value: value.to_string(), a, b });
            }
            Some(_) => {}
            None => {
                self.seen.insert(key, by.to_owned());
            }
        }
    }
}

fn marks(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let mut mark = |table: &'static str, row: &str, ids: &Map| {
        if ids.get(names::MARK.0).map(String::as_str) != Some(names::MARK.1) {
            found.insert(Finding::Unmarked { table, row: row.to_owned() });
        }
    };
    macro_rules! marked {
        ($($field:ident: $row:ty),*) => {
            $(for (key, row) in &rows.$field {
                mark(<$row>::TABLE, key, &row.external_ids);
            })*
        };
    }
    marked!(switches: LogicalSwitch, switch_ports: LogicalSwitchPort, routers: LogicalRouter,
        router_ports: LogicalRouterPort, gateway_chassis: GatewayChassis, static_routes: StaticRoute,
        router_policies: RouterPolicy, nats: Nat, load_balancers: LoadBalancer, acls: Acl,
        port_groups: PortGroup, address_sets: AddressSet, remote_chassis: RemoteChassis,
        interfaces: Interface);
    macro_rules! filed {
        ($($field:ident),*) => {
            $(misfiled(&rows.$field, found);)*
        };
    }
    filed!(
        globals,
        switches,
        switch_ports,
        routers,
        router_ports,
        gateway_chassis,
        static_routes,
        router_policies,
        nats,
        load_balancers,
        load_balancer_groups,
        acls,
        port_groups,
        address_sets,
        remote_chassis,
        remote_bindings,
        switch_settings,
        interfaces
    );
}

fn misfiled<T: Row>(table: &Table<T>, found: &mut BTreeSet<Finding>) {
    let wrong = table.iter().filter(|(key, row)| row.key() != **key);
    found.extend(wrong.map(|(key, _)| Finding::Misfiled { table: T::TABLE, key: key.clone() }));
}

fn shapes(rows: &Rows, found: &mut BTreeSet<Finding>) {
    let mut wrong = |table, row: &str, why| {
        found.insert(Finding::Malformed { table, row: row.to_owned(), why });
    };
    for (key, acl) in &rows.acls {
        if acl.name.chars().count() > 63 {
            wrong(Acl::TABLE, key, "the name has more than 63 characters");
        }
        if acl.priority > 32767 {
            wrong(Acl::TABLE, key, "the priority is above 32767");
        }
        if acl.external_ids.get(names::ID) != Some(&acl.id) {
            wrong(Acl::TABLE, key, "the external ids do not hold the identity");
        }
    }
    for name in rows.port_groups.keys().chain(rows.address_sets.keys()) {
        let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !first || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c)) {
            wrong("Address_Set or Port_Group", name, "the name is not an identifier");
        }
    }
    for (key, set) in &rows.address_sets {
        let v4 = set.addresses.iter().filter(|net| net.addr().is_ipv4()).count();
        if v4 != 0 && v4 != set.addresses.len() {
            wrong(AddressSet::TABLE, key, "the members are of two families");
        }
    }
    for (key, lb) in &rows.load_balancers {
        let mixed = |vip: &std::net::SocketAddr, to: &std::net::SocketAddr| vip.is_ipv4() != to.is_ipv4();
        if lb.vips.iter().any(|(vip, backends)| backends.iter().any(|to| mixed(vip, to))) {
            wrong(LoadBalancer::TABLE, key, "an address and its backend are of two families");
        }
        if lb.vips.is_empty() {
            wrong(LoadBalancer::TABLE, key, "it has no address");
        }
    }
}
