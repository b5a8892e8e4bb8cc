//! Values tests are made of.

use crate::name::NodeName;
use crate::size::Mtu;

pub(crate) fn mtu(bytes: u32) -> Mtu {
    Mtu::new(bytes).unwrap()
}

pub(crate) fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}
