//! Keeping the bridge as large as this boot made it.
//!
//! Only the bridge, which is ours. What the host gives its uplink while it runs is the host's to say, and left as it is
//! until a change of MTU holds it ([`crate::mtu::sizes::keep`]).

use std::convert::Infallible;
use std::time::Duration;

use netferry_kernel::link::{Changes, Want};
use netferry_kernel::{Event, IfName, Kernel, Objects as _, Result, Topics, Watch};
use tokio::time::Instant;

use super::follow::Done;
use crate::pause::Pause;

/// After the bridge was put right, before it is looked at again. Somebody who changes it every time we do is answered
/// less and less often: two that work against each other would keep a processor busy.
const BREATH: Pause = Pause::new(Duration::from_millis(100), Duration::from_secs(5));
/// After something the kernel refused.
const PAUSE: Pause = Pause::new(Duration::from_millis(200), Duration::from_secs(5));

/// What the bridge is to carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BridgeSize {
    /// What host-init gave it at this boot.
    #[default]
    OfBoot,
    /// Links are on their way to another size, in an order that is not to be disturbed: whatever it has is left.
    OnItsWay,
    /// So much for the time being.
    Now(u32),
}

impl BridgeSize {
    /// What it is to carry, unless it is left.
    pub(super) fn wanted(self, of_boot: u32) -> Option<u32> {
        match self {
            BridgeSize::OfBoot => Some(of_boot),
            BridgeSize::OnItsWay => None,
            BridgeSize::Now(mtu) => Some(mtu),
        }
    }
}

/// Puts the bridge's link right whenever somebody gives it another size, for as long as it is run. The switch does so
/// too, but only when something else has it look at the bridge.
pub(super) async fn keep(kernel: &Kernel, bridge: &IfName, done: &Done) -> Infallible {
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let Err(error) = follow(kernel, bridge, done).await;
        tracing::warn!(%bridge, error = &error as &dyn std::error::Error, "keeping the size of the bridge");
        pause.wait_since(began).await;
    }
}

async fn follow(kernel: &Kernel, bridge: &IfName, done: &Done) -> Result<Infallible> {
    let mut watch = Watch::open(kernel, Topics { links: true, ..Topics::default() })?;
    let mut size = done.size.clone();
    let mut breath = BREATH;
    let mut last = Instant::now();
    loop {
        let concerned = tokio::select! {
            event = watch.next() => concerns(&event?, bridge),
            Ok(()) = size.changed() => true,
        };
        let wanted = size.borrow_and_update().wanted(done.bridge.mtu);
        if !concerned || !done.stands() {
            continue;
        }
        if put_right(kernel, bridge, wanted)? {
            breath.wait_since(std::mem::replace(&mut last, Instant::now())).await;
        }
    }
}

fn concerns(event: &Event, bridge: &IfName) -> bool {
    match event {
        Event::Resync => true,
        Event::Link(link) => link.name == *bridge,
        Event::LinkGone(_)
        | Event::Address(_)
        | Event::AddressGone(_)
        | Event::Route(_)
        | Event::RouteGone(_)
        | Event::Rule(_)
        | Event::RuleGone(_)
        | Event::Neighbour(_)
        | Event::NeighbourGone(_)
        | Event::Setting
        | Event::Nft(_) => false,
    }
}

/// Whether there was something to put right.
fn put_right(kernel: &Kernel, bridge: &IfName, wanted: Option<u32>) -> Result<bool> {
    // One that is not there is made by the switch, with the size its row says.
    let (Some(wanted), Some(link)) = (wanted, kernel.links().named(bridge)?) else { return Ok(false) };
    if link.mtu == wanted {
        return Ok(false);
    }
    let set = vec![Want::adjust(bridge.clone()).mtu(wanted)];
    kernel.links().apply(&Changes { set, ..Changes::default() })?;
    tracing::info!(%bridge, was = link.mtu, now = wanted, "somebody gave the bridge another size");
    Ok(true)
}
