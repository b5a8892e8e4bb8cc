//! Which rendering of each capability a MachineConfig carries.

use std::collections::BTreeMap;

use crate::annotation::{Wired, json_annotation};

/// `netferry.dev/epochs`, on a MachineConfig: which rendering of each capability it carries, by the name of the
/// capability, as in `{"mtu":3}`. No node takes a configuration that is older in any of them than what it has.
///
/// Invariant: no name is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Epochs(BTreeMap<String, u64>);

impl Epochs {
    /// `None` if a name is empty.
    pub fn new(epochs: impl IntoIterator<Item = (String, u64)>) -> Option<Epochs> {
        let epochs: BTreeMap<String, u64> = epochs.into_iter().collect();
        (!epochs.contains_key("")).then_some(Epochs(epochs))
    }

    /// The epoch of each capability.
    pub fn get(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}

impl Wired for Epochs {
    type Wire = BTreeMap<String, u64>;

    fn from_wire(wire: BTreeMap<String, u64>) -> Result<Self, String> {
        Epochs::new(wire).ok_or_else(|| "the name of a capability is empty".into())
    }

    fn to_wire(&self) -> BTreeMap<String, u64> {
        self.0.clone()
    }
}

json_annotation!(Epochs, "netferry.dev/epochs");
