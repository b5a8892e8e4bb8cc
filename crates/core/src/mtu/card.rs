//! What network cards can do.

use std::collections::BTreeMap;

use super::{Envelope, Mtu};
use crate::name::NodeName;

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

/// The cards that hosts' uplinks stand on; nothing for a node that has not said.
pub type Cards = BTreeMap<NodeName, Vec<Card>>;

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
