//! Whether pods can be attached, and whether those that are reach anything.

use std::path::Path;
use std::time::Duration;

use netferry_core::overlay::names;
use netferry_ovs::tables::vswitch::Interface;
use netferry_ovs::{Client, Snapshot, Status};
use tokio::sync::watch;

use super::Readiness;
use super::record::INSTALLED;
use crate::node::gate::Verdict;
use crate::overlay::switch;

/// How long the switch may take to answer before it counts as gone.
const LIMIT: Duration = Duration::from_secs(2);

/// What is not ready yet, though the zone's rows are written.
const UNDECIDED: &str = "it is not decided yet whether this node may start pods";
const DATABASE: &str = "the switch's database does not answer";
const PORT: &str = "OVN does not have the management port in the datapath yet";

/// Follows whether pods can be attached, for as long as it is run: the gate is open, the zone's rows are written, and the
/// switch acts on them.
///
/// The management port goes the same way as any pod's: through both databases, `ovn-northd`, `ovn-controller` and the
/// switch. When OVN says that it is in the datapath, the next port will get there too.
pub async fn follow(
    switch: Client,
    mut zone: watch::Receiver<Readiness>,
    mut gate: watch::Receiver<Verdict>,
    into: watch::Sender<Readiness>,
) {
    let mut changes = switch.watch(&["Interface"]);
    let mut status = switch.status();
    loop {
        let following = matches!(*status.borrow_and_update(), Status::Following);
        let verdict = gate.borrow_and_update().clone();
        let now = match (verdict, zone.borrow_and_update().clone()) {
            (Verdict::Wait(why), _) => Readiness::NotReady(why),
            (_, other @ (Readiness::NotReady(_) | Readiness::Limited(_))) => other,
            (Verdict::Undecided, _) => Readiness::NotReady(UNDECIDED.to_owned()),
            (Verdict::Serve, Readiness::Ready) => of_switch(&switch.snapshot(), following),
        };
        into.send_if_modified(|last| {
            let differs = *last != now;
            *last = now;
            differs
        });
        tokio::select! {
            _ = changes.next() => {}
            changed = status.changed() => if changed.is_err() { return },
            changed = zone.changed() => if changed.is_err() { return },
            // Once every owner has agreed for good, the gate does not change any more.
            Ok(()) = gate.changed() => {}
        }
    }
}

fn of_switch(now: &Snapshot, following: bool) -> Readiness {
    if !following {
        Readiness::NotReady(DATABASE.to_owned())
    } else if has_management_port(now) {
        Readiness::Ready
    } else {
        Readiness::NotReady(PORT.to_owned())
    }
}

/// Whether OVN has the management port in the datapath. What it said before the last boot was taken back by host-init.
pub(crate) fn has_management_port(now: &Snapshot) -> bool {
    let port = now.named::<Interface>(names::MANAGEMENT_LINK).ok().flatten();
    port.is_some_and(|port| port.external_ids.get(INSTALLED).is_some_and(|value| value == "true"))
}

/// Whether the switch itself runs. Without it no packet of any pod moves, and nothing in a database says so.
pub(super) async fn is_switching(ovs_run: &Path) -> bool {
    let found = tokio::time::timeout(LIMIT, switch::control(ovs_run)).await;
    matches!(found, Ok(Ok(_)))
}
