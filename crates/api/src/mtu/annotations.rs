//! What a node and the operator tell each other about a change of MTU, beside what is observed.

use crate::annotation::{any_value, decimal, nonempty, text_annotation};

text_annotation! {
    /// `netferry.dev/mtu-waits`, on a node: it serves no pods before it has taken its configuration, and why. The node
    /// takes it back on the condition that it was told nothing since, in one write.
    MtuWaits(String), "netferry.dev/mtu-waits", nonempty
}
text_annotation! {
    /// `netferry.dev/epoch`, on a MachineConfig: which rendering of the cluster's sizes it carries. No node takes an
    /// older one than it has.
    Epoch(u64), "netferry.dev/epoch", decimal
}
any_value!(Epoch(u64));

impl MtuWaits {
    /// Why, in a sentence; `None` if nothing is said.
    pub fn new(why: &str) -> Option<MtuWaits> {
        nonempty(why).ok().map(MtuWaits)
    }
}
