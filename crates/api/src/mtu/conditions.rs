//! Conditions of a change of MTU.

use crate::annotation::names;

names! {
    /// Types of the conditions, on the operator's `Network`.
    MtuConditionType {
        /// A change is under way; the reason is its phase, the message says how far it is and what it waits for.
        InProgress = "MTUChangeInProgress",
        /// It does not go on by itself; the message says what it waits for.
        Held = "MTUChangeHeld",
        /// What is asked is refused and changes nothing; the message says why, with fields and numbers.
        Refused = "MTUChangeRefused",
    }
}
