//! Conversations by datagrams that are tracked to where they should not lead any more.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use netferry_core::overlay::host::datagrams::{Conversation, Datagrams};
use netferry_kernel::conntrack::{Flow, Tuple};
use netferry_kernel::{Family, Kernel, Objects as _, Result};

const UDP: u8 = 17;
/// The zone that the host's own conversations are tracked in.
const HOSTS: u16 = 0;

/// Forgets them, so that their next packets find the right way; answers how many there were.
pub fn set_right(kernel: &Kernel, datagrams: &Datagrams) -> Result<usize> {
    let addresses = kernel.addresses().observe()?;
    let own: BTreeSet<IpAddr> = addresses.iter().map(|address| address.net.addr()).collect();
    let mut forgotten = 0;
    for family in [Family::V4, Family::V6] {
        let flows = kernel.conntrack().flows(family)?.into_iter().filter(|flow| {
            conversation(flow).is_some_and(|one| datagrams.leads_astray(&one, |ip| own.contains(&ip)))
        });
        forgotten += kernel.conntrack().forget_these(flows.collect())?.len();
    }
    Ok(forgotten)
}

fn conversation(flow: &Flow) -> Option<Conversation> {
    let asked = |tuple: &Tuple| Some(SocketAddr::new(tuple.destination, tuple.destination_port?));
    let answers = |tuple: &Tuple| Some(SocketAddr::new(tuple.source, tuple.source_port?));
    // Where the kernel moves packets, OVN tracks conversations of its own in the same tables: a pod's with a NodePort, which
    // its switch answers, looks like one that the host should have led elsewhere.
    if flow.zone != HOSTS || flow.original.protocol != UDP {
        return None;
    }
    let client = flow.original.source;
    Some(Conversation { client, asked: asked(&flow.original)?, answers: answers(&flow.reply)? })
}
