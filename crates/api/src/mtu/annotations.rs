//! What a node and the operator tell each other about a change of MTU, beside what is observed.

use crate::annotation::{Annotation, AnnotationError, any_value, flag, names, text_annotation};

text_annotation! {
    /// `netferry.dev/mtu-unattended`, on the operator's `Network`: a change finishes by itself once every node was
    /// observed in phase one; the operator makes the second edit.
    MtuUnattended(bool), "netferry.dev/mtu-unattended", flag
}
text_annotation! {
    /// `netferry.dev/mtu-paused`, on the operator's `Network`: no further node is taken and no phase begun.
    MtuPaused(bool), "netferry.dev/mtu-paused", flag
}
any_value!(MtuUnattended(bool), MtuPaused(bool));

names! {
    /// `netferry.dev/mtu-on-loss`, on the operator's `Network`: what happens when probes lose packets.
    MtuOnLoss {
        /// No further node is taken; somebody decides. Unset, that is what losses lead to that may pass; a change whose
        /// new size does not get through is turned around.
        Pause = "pause",
        /// The change is turned around.
        Reverse = "reverse",
    }
}

impl Annotation for MtuOnLoss {
    const KEY: &'static str = "netferry.dev/mtu-on-loss";

    fn parse(value: &str) -> Result<Self, AnnotationError> {
        MtuOnLoss::named(value).ok_or_else(|| AnnotationError::Value {
            key: Self::KEY,
            problem: format!("{value:?} is neither pause nor reverse"),
        })
    }
}
