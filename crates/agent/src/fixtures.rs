//! What tests of this crate make up about a host.

use std::collections::BTreeSet;

use netferry_kernel::link::{Kind, Link};
use netferry_kernel::{IfName, Mac};

pub(crate) fn name(name: &str) -> IfName {
    IfName::new(name).unwrap()
}

/// A device that is up and carries 1500 bytes, with a MAC address after its index.
pub(crate) fn link(index: u32, called: &str) -> Link {
    Link {
        index,
        name: name(called),
        kind: Kind::Device,
        up: true,
        carrier: true,
        loopback: called == "lo",
        mtu: 1500,
        min_mtu: 0,
        max_mtu: 0,
        mac: Some(Mac([2, 0, 0, 0, 0, index as u8])),
        master: None,
        lower: None,
        lower_namespace: None,
        group: 0,
        alias: None,
        alt_names: BTreeSet::new(),
    }
}
