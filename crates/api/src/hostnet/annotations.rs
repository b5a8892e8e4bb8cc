//! Labels and annotations of host networking (`nmstate.io/…`).

use crate::annotation::{Annotation, AnnotationError, any_value, decimal, text_annotation};

/// Label of an enactment: the node.
pub const NODE_LABEL: &str = "nmstate.io/node";
/// Label of an enactment: the policy.
pub const POLICY_LABEL: &str = "nmstate.io/policy";

text_annotation! {
    /// `nmstate.io/webhook-mutating-timestamp`, on a policy: when it was last written, in nanoseconds
    /// since 1970.
    WebhookMutatingTimestamp(u64), "nmstate.io/webhook-mutating-timestamp", decimal
}
any_value!(WebhookMutatingTimestamp(u64));

/// `nmstate.io/force-nns-refresh`, a **label** on a node's state: a new value makes the node look at
/// once. By custom the time in nanoseconds since 1970; any other value counts as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForceRefresh(String);

impl ForceRefresh {
    /// Asks for a look at this time, in nanoseconds since 1970.
    pub fn at(nanoseconds: u64) -> ForceRefresh {
        ForceRefresh(nanoseconds.to_string())
    }

    /// The value; only whether it changed matters.
    pub fn get(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ForceRefresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Annotation for ForceRefresh {
    const KEY: &'static str = "nmstate.io/force-nns-refresh";

    fn parse(value: &str) -> Result<Self, AnnotationError> {
        let legal =
            value.len() <= 63 && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if legal {
            Ok(ForceRefresh(value.to_owned()))
        } else {
            Err(AnnotationError::Value { key: Self::KEY, problem: format!("{value:?} is not a label value") })
        }
    }
}
