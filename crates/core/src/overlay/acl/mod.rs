//! A small model of how OVN judges a packet by ACLs.
//!
//! It reads what the rows say, as text, and knows nothing of how they were made: property tests hold it against what
//! Kubernetes says the policies mean.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::overlay::rows::{AclAction, AclDirection, AclOn, Rows};
use crate::port::{Port, Protocol};

mod expression;
#[cfg(test)]
mod tests;

pub use expression::{Expression, Malformed, parse};

/// The first packet of a connection, as one switch sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The port it enters the switch from.
    pub inport: String,
    /// The port it leaves the switch to.
    pub outport: String,
    /// Its source.
    pub source: IpAddr,
    /// Its destination.
    pub destination: IpAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The destination's port.
    pub port: Port,
}

/// Why a packet cannot be judged: the rows are not fit to be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    /// A match does not follow the language.
    #[error("reading the match of ACL {acl}")]
    Malformed {
        /// The ACL.
        acl: String,
        /// What is wrong.
        #[source]
        why: Malformed,
    },
    /// A match refers to a set or a group that is not there.
    #[error("the match of ACL {acl} refers to {name}, which is not there")]
    Unknown {
        /// The ACL.
        acl: String,
        /// The name, with its sign.
        name: String,
    },
    /// Two ACLs of one priority fit and say different things; OVN may do either.
    #[error("at priority {priority} one ACL lets the packet pass and another drops it")]
    Undecided {
        /// The priority.
        priority: u16,
    },
}

/// Whether the ACLs of one direction let a packet pass through `switch`.
///
/// Of the ACLs attached to the switch, directly or through a group one of whose ports it has, those of the highest
/// priority that fit decide. Where none fits the packet passes.
pub fn evaluate(
    rows: &Rows,
    switch: &str,
    direction: AclDirection,
    packet: &Packet,
) -> Result<bool, Trouble> {
    let on_switch = |port: &String| rows.switch_ports.get(port).is_some_and(|row| row.switch == switch);
    let mut decided: Option<(u16, BTreeSet<bool>)> = None;
    for acl in rows.acls.values().filter(|acl| acl.direction == direction) {
        let attached = match &acl.on {
            AclOn::Switch(on) => on == switch,
            AclOn::PortGroup(group) => {
                rows.port_groups.get(group).is_some_and(|group| group.ports.iter().any(on_switch))
            }
        };
        let outranked = decided.as_ref().is_some_and(|(priority, _)| *priority > acl.priority);
        if !attached || outranked {
            continue;
        }
        let expression =
            parse(&acl.matches).map_err(|why| Trouble::Malformed { acl: acl.id.clone(), why })?;
        let fits =
            expression.fits(rows, packet).map_err(|name| Trouble::Unknown { acl: acl.id.clone(), name })?;
        if fits {
            let passes = match acl.action {
                AclAction::Allow | AclAction::AllowRelated | AclAction::AllowStateless => true,
                AclAction::Drop => false,
            };
            match &mut decided {
                Some((priority, said)) if *priority == acl.priority => {
                    said.insert(passes);
                }
                Some(_) | None => decided = Some((acl.priority, BTreeSet::from([passes]))),
            }
        }
    }
    match decided {
        None => Ok(true),
        Some((priority, said)) if said.len() > 1 => Err(Trouble::Undecided { priority }),
        Some((_, said)) => Ok(said.contains(&true)),
    }
}
