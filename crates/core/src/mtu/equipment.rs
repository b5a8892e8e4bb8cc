//! What hosts are able to do.

use std::collections::BTreeMap;

use super::record::Ends;
use crate::name::NodeName;
use crate::size::{Envelope, Mtu};

/// What is known of a host's abilities.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Equipment {
    /// The cards its uplink stands on.
    pub cards: Vec<Card>,
    /// What keeps its own configuration as it is.
    pub fixed: Fixed,
}

/// The abilities of hosts; nothing of a node that has not said.
pub type Equipped = BTreeMap<NodeName, Equipment>;

/// A network card and what it can do.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// The smallest MTU it takes.
    pub least: u32,
    /// The largest MTU it takes.
    pub most: u32,
}

/// What of a change a card does not take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unfit {
    /// It would have to carry this.
    TooSmall(Mtu),
    /// It would have to be set to this.
    TooLarge(Mtu),
}

impl Card {
    /// Whether it takes all that a change has links carry and routes let out: at the one phase or other it is set to both.
    ///
    /// # Errors
    /// What it does not take.
    pub fn takes(&self, span: Envelope) -> Result<(), Unfit> {
        if self.most < span.carries().bytes() {
            Err(Unfit::TooSmall(span.carries()))
        } else if self.least > span.sends().bytes() {
            Err(Unfit::TooLarge(span.sends()))
        } else {
            Ok(())
        }
    }
}

/// Why a host's own configuration cannot be told another MTU of its uplink, in its own words; nothing where it can.
///
/// A boot that finds this out keeps the kubelet away, and with it the agent: no cancellation reaches such a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Fixed {
    /// Any other one.
    pub change: Option<String>,
    /// A larger one: what the uplink stands on has to grow with it.
    pub growth: Option<String>,
}

impl Fixed {
    /// What speaks against taking a host from one size to another.
    pub fn against(&self, host: Ends) -> Option<&str> {
        let growth = self.growth.as_deref().filter(|_| host.to > host.from);
        let change = self.change.as_deref().filter(|_| host.to != host.from);
        change.or(growth)
    }
}
