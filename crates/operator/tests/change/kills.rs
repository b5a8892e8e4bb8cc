//! Something dies, or falls silent, at one step of a change after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::support::chance::Chance;
use crate::support::site::{HOSTS, PODS, Site};

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The operator dies; what it was about to write never arrives.
    OperatorDies,
    /// The operator dies; what it was about to write arrives when the next one leads.
    OperatorDiesAndItsWriteComesLate,
    /// Nobody reaches the API for longer than a lease lasts.
    ApiFallsSilent,
    /// A machine loses power, be it the one that is moving or another.
    PowerLoss(&'static str),
}

const FAULTS: [Fault; 5] = [
    Fault::OperatorDies,
    Fault::OperatorDiesAndItsWriteComesLate,
    Fault::ApiFallsSilent,
    Fault::PowerLoss("n000"),
    Fault::PowerLoss("n002"),
];

/// One change of three nodes from one end to the other, with a fault at the operator's write of this number. How many
/// writes there were until then, or until all had arrived.
async fn change(fault: Fault, at: usize, up: bool) -> usize {
    let (pods, hosts) = if up { (PODS, HOSTS) } else { ((PODS.1, PODS.0), (HOSTS.1, HOSTS.0)) };
    let mut site = Site::at(1, Chance::new(at as u64), pods.0, hosts.0).await;
    let mut operator = site.cluster.operator("first");
    site.populate(3, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    // The operator's writes are counted; from that one on they are held.
    let (count, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, noticed) = (count.clone(), reached.clone());
    operator.line.hold(move |method, path| {
        let writes = method != "GET" && !path.contains("/leases") && !path.contains("/events");
        let now = writes && counted.fetch_add(1, Ordering::Relaxed) >= at;
        if now {
            noticed.notify_one();
        }
        now
    });
    site.ask_change(pods.0, pods.1, hosts.1).await;
    let arrived = async {
        site.until("all arrive", async |site| site.settled().await.ok().filter(|mtu| *mtu == pods.1)).await;
    };
    tokio::select! {
        biased;
        () = reached.notified() => {}
        () = arrived => return count.load(Ordering::Relaxed),
    }
    match fault {
        Fault::OperatorDies => operator = site.cluster.operator("second"),
        Fault::OperatorDiesAndItsWriteComesLate => {
            let line = operator.line.clone();
            operator = site.cluster.operator("second");
            sleep(Duration::from_secs(60)).await;
            line.let_go();
        }
        Fault::ApiFallsSilent => {
            site.line.hold(|_, _| true);
            operator.line.hold(|_, _| true);
            sleep(Duration::from_secs(60)).await;
            site.line.let_go();
            operator.line.let_go();
        }
        Fault::PowerLoss(machine) => {
            site.fleet.cut_power(machine);
            operator.line.let_go();
        }
    }
    site.until("all arrive", async |site| site.settled().await.ok().filter(|mtu| *mtu == pods.1)).await;
    site.cluster.historian.testify();
    drop(operator);
    at
}

/// Each fault at one step here, spread over the change; at every one with `NETFERRY_SOAK`.
async fn at_every_step(up: bool) {
    let writes = change(Fault::OperatorDies, usize::MAX, up).await;
    assert!(writes > 50, "a change of three nodes makes more than {writes} writes");
    let stride = if std::env::var_os("NETFERRY_SOAK").is_some() { 1 } else { writes };
    let mut tried = 0;
    for (offset, fault) in FAULTS.into_iter().enumerate() {
        // Each fault at steps of its own, so that together they meet more of them.
        for at in (offset * stride / FAULTS.len()..writes).step_by(stride) {
            change(fault, at, up).await;
            tried += 1;
        }
    }
    eprintln!("{writes} writes; {tried} changes with a fault at one of them");
}

#[tokio::test(start_paused = true)]
async fn whatever_dies_at_whichever_step_of_an_increase_it_arrives_and_nothing_is_lost() {
    at_every_step(true).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_dies_at_whichever_step_of_a_decrease_it_arrives_and_nothing_is_lost() {
    at_every_step(false).await;
}
