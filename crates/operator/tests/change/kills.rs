//! Whatever takes part in a change ends at each of its steps, on each way a change can go.
//!
//! A way is gone once undisturbed, and its steps are counted: what the operator writes, what machines write, what agents
//! do to the API and to their disks, what boots do. Then it is gone anew for every part and every step at which that part
//! can end. `make test` tries each part at one step of each way, with `NETFERRY_SOAK` at every one.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::MtuUnattended;
use netferry_core::mtu::record::Stage;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::support::Line;
use crate::support::blows::{Part, Steps};
use crate::support::chance::Chance;
use crate::support::crowd::each;
use crate::support::machine::mtu;
use crate::support::site::{HOSTS, PODS, Site};

/// A way from one size to another, or back again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Up,
    Down,
    /// Up, taken back when the first node carries both sizes.
    Cancelled,
    /// Up, turned around when the first node sends the new size.
    Reversed,
}

/// What ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// The operator; what it was about to write never arrives.
    Operator,
    /// The operator; what it was about to write arrives when the next one leads.
    OperatorWithAWriteOnItsWay,
    /// The API, when the operator writes: nobody reaches it for longer than a lease lasts.
    ApiBeforeTheOperator,
    /// The API, when a machine writes.
    ApiBeforeAMachine,
    /// The power of one machine when the operator writes, be it the one that is moving or not.
    PowerElsewhere,
    /// A part of the machine that makes the step.
    Of(Part),
}

const FAULTS: [Fault; 8] = [
    Fault::Operator,
    Fault::OperatorWithAWriteOnItsWay,
    Fault::ApiBeforeTheOperator,
    Fault::ApiBeforeAMachine,
    Fault::PowerElsewhere,
    Fault::Of(Part::Agent),
    Fault::Of(Part::HostInit),
    Fault::Of(Part::Power),
];

/// How many steps a way has.
#[derive(Clone, Copy, Debug)]
struct Count {
    operator: usize,
    machines: usize,
    agent: usize,
    host_init: usize,
    power: usize,
}

impl Count {
    /// Those at which this can happen.
    fn of(self, fault: Fault) -> usize {
        match fault {
            Fault::Operator
            | Fault::OperatorWithAWriteOnItsWay
            | Fault::ApiBeforeTheOperator
            | Fault::PowerElsewhere => self.operator,
            Fault::ApiBeforeAMachine => self.machines,
            Fault::Of(Part::Agent) => self.agent,
            Fault::Of(Part::HostInit) => self.host_init,
            Fault::Of(Part::Power) => self.power,
        }
    }
}

/// Counts the writes on a line; holds it from this one on, and says when it came.
fn stop_at(line: &Line, at: Option<usize>) -> (Arc<AtomicUsize>, Arc<Notify>) {
    let (count, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, noticed) = (count.clone(), reached.clone());
    line.hold(move |method, path| {
        let writes =
            !["GET", "WATCH"].contains(&method) && !path.contains("/leases") && !path.contains("/events");
        let now = writes && at.is_some_and(|at| counted.load(Ordering::Relaxed) >= at);
        if now {
            noticed.notify_one();
        } else if writes {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        now
    });
    (count, reached)
}

/// Asks for everything that is asked for on a way, and waits until all have arrived; where.
async fn ask(site: &Site, way: Way) -> u32 {
    let (pods, hosts) = if way == Way::Down { ((PODS.1, PODS.0), (HOSTS.1, HOSTS.0)) } else { (PODS, HOSTS) };
    site.ask_change(pods.0, pods.1, hosts.1).await;
    let serves = |site: &Site, size: u32, sends: bool| {
        site.fleet.truth.with(|seen| {
            let of = |(pods, _): &(netferry_core::size::Envelope, _)| {
                if sends { pods.sends() } else { pods.carries() }
            };
            seen.serving.values().any(|serving| of(serving) == mtu(size)).then_some(())
        })
    };
    let end = match way {
        Way::Up | Way::Down => pods.1,
        Way::Cancelled => {
            site.until("a node carries both", async |site| serves(site, pods.1, false)).await;
            site.ask_change(pods.0, pods.0, hosts.0).await;
            pods.0
        }
        Way::Reversed => {
            site.until("a node sends the new size", async |site| {
                let stage = site.record().await?.change?.stage;
                (stage == Stage::Settling).then_some(())?;
                serves(site, pods.1, true)
            })
            .await;
            site.ask_change(pods.1, pods.0, hosts.0).await;
            pods.0
        }
    };
    arrive(site, end).await;
    end
}

async fn arrive(site: &Site, at: u32) {
    let there = async |site: &Site| site.settled().await.ok().filter(|mtu| *mtu == at);
    site.until(&format!("all arrive at {at}"), there).await;
}

/// Goes a way with three nodes; at one step something may end.
async fn go((way, fault): (Way, Option<(Fault, usize)>)) -> Count {
    let (pods, hosts) = if way == Way::Down { (PODS.1, HOSTS.1) } else { (PODS.0, HOSTS.0) };
    let mut site = Site::at(1, Chance::new(7), pods, hosts).await;
    let mut operator = site.cluster.operator("first");
    site.populate(3, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    let at = |wanted: fn(Fault) -> bool| fault.filter(|(fault, _)| wanted(*fault)).map(|(_, at)| at);
    let (operators, reached) =
        stop_at(&operator.line, at(|fault| !matches!(fault, Fault::ApiBeforeAMachine | Fault::Of(_))));
    let (machines, reached_by_machine) = stop_at(&site.line, at(|fault| fault == Fault::ApiBeforeAMachine));
    let part = match fault {
        Some((Fault::Of(part), at)) => Some((part, at)),
        _ => None,
    };
    site.fleet.truth.with(|seen| seen.steps = Steps::ending(part));
    let begun = Cell::new(false);
    let happens = async {
        tokio::select! {
            () = reached.notified() => {}
            () = reached_by_machine.notified() => {}
        }
        begun.set(true);
        match fault.map(|(fault, _)| fault) {
            None | Some(Fault::Of(_)) => unreachable!("nothing is held for these"),
            Some(Fault::Operator) => operator = site.cluster.operator("second"),
            Some(Fault::OperatorWithAWriteOnItsWay) => {
                let line = operator.line.clone();
                operator = site.cluster.operator("second");
                sleep(Duration::from_secs(60)).await;
                line.let_go();
            }
            Some(Fault::ApiBeforeTheOperator | Fault::ApiBeforeAMachine) => {
                let lines = [&site.line, &operator.line];
                lines.iter().for_each(|line| line.hold(|_, _| true));
                sleep(Duration::from_secs(60)).await;
                lines.iter().for_each(|line| line.let_go());
            }
            Some(Fault::PowerElsewhere) => {
                site.fleet.cut_power("n002");
                operator.line.let_go();
            }
        }
    };
    let (mut happens, mut arrives) = (std::pin::pin!(happens), std::pin::pin!(ask(&site, way)));
    let end = tokio::select! {
        biased;
        () = &mut happens => arrives.await,
        end = &mut arrives => {
            if begun.get() {
                happens.await;
                arrive(&site, end).await;
            }
            end
        }
    };
    let over = part.is_some() && site.fleet.truth.with(|seen| seen.steps.over());
    assert!(fault.is_none() || begun.get() || over, "{way:?}, {fault:?}: it never came to that step");
    assert_eq!(site.said_of_the_change().await, [""; 0], "what was said of it outlives it");
    if part.is_some() {
        // What was left behind on the way must not be taken for something on the next one.
        let (to, host) = if end == PODS.0 { (PODS.1, HOSTS.1) } else { (PODS.0, HOSTS.0) };
        site.annotate(MtuUnattended::KEY, Some("true")).await;
        site.ask_change(end, to, host).await;
        arrive(&site, to).await;
    }
    site.cluster.historian.testify();
    let made = |part| site.fleet.truth.with(|seen| seen.steps.made(part));
    Count {
        operator: operators.load(Ordering::Relaxed),
        machines: machines.load(Ordering::Relaxed),
        agent: made(Part::Agent),
        host_init: made(Part::HostInit),
        power: made(Part::Power),
    }
}

/// Goes a way with each fault at one of its steps, each at another; at all of them with `NETFERRY_SOAK`.
fn whatever_ends_on_the_way(way: Way) {
    let mut count = None;
    each([(way, None)], go, |_, counted| count = counted.ok());
    let count = count.expect("it arrives undisturbed");
    let soak = std::env::var_os("NETFERRY_SOAK").is_some();
    let trials = FAULTS.into_iter().enumerate().flat_map(|(nth, fault)| {
        let steps = count.of(fault);
        assert!(steps > 10, "{fault:?}: only {steps} steps of {count:?}");
        let tried = if soak {
            0..steps
        } else {
            let at = steps * (2 * nth + 1) / (2 * FAULTS.len());
            at..at + 1
        };
        tried.map(move |at| (way, Some((fault, at))))
    });
    let trials: Vec<_> = trials.collect();
    let (tried, mut broken) = (trials.len(), Vec::new());
    each(trials, go, |(_, fault), gone| {
        if let Err(cause) = gone {
            broken.push(format!("{fault:?}: {}", cause.lines().next().unwrap_or_default()));
        }
    });
    eprintln!(
        "- {way:?}: {count:?}; {tried} times something ended at one of these steps, {} broke a promise",
        broken.len()
    );
    assert!(broken.is_empty(), "{way:?}: {broken:#?}");
}

#[test]
fn whatever_ends_at_whichever_step_of_an_increase_it_arrives_and_nothing_is_lost() {
    whatever_ends_on_the_way(Way::Up);
}

#[test]
fn whatever_ends_at_whichever_step_of_a_decrease_it_arrives_and_nothing_is_lost() {
    whatever_ends_on_the_way(Way::Down);
}

#[test]
fn whatever_ends_at_whichever_step_of_a_cancelled_change_it_is_back_and_nothing_is_lost() {
    whatever_ends_on_the_way(Way::Cancelled);
}

#[test]
fn whatever_ends_at_whichever_step_of_a_reversed_change_it_is_back_and_nothing_is_lost() {
    whatever_ends_on_the_way(Way::Reversed);
}
