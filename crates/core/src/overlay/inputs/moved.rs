//! Who datagrams are sent to, and are not any more.

use std::collections::BTreeSet;

use crate::overlay::service::Led;

/// Backends of datagrams that came and left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Those that came.
    pub came: BTreeSet<Led>,
    /// Those that left.
    pub left: BTreeSet<Led>,
}

impl Moved {
    pub(super) fn note(&mut self, before: &BTreeSet<Led>, now: &BTreeSet<Led>) {
        self.left.extend(before.difference(now).copied());
        self.came.extend(now.difference(before).copied());
    }

    /// Whether nothing came and nothing left.
    pub fn is_empty(&self) -> bool {
        self.came.is_empty() && self.left.is_empty()
    }
}
