//! Every state a small cluster can reach while its MTU changes, checked against what was promised.
//!
//! Each test visits all states of one cluster: how many edits an administrator makes at any time, and what else goes
//! wrong, is bounded, and when is not. What is tried together is bounded by what two minutes hold; with
//! `NETFERRY_SOAK` set the same clusters suffer more at once, for an hour.

mod cluster;
mod explore;
mod later;
mod machine;
mod mutants;
mod operator;
mod promises;

use cluster::{Planner, World};
use explore::{Model, Report, explore, walk};
use later::{Later, taken_and_not_started};
use netferry_core::mtu::plan::OnLoss;

/// Three nodes, one administrator with two edits, good weather.
const UP: World = World {
    planner: Planner::SHIPPING,
    network: (1400, 8900),
    host: (1500, 9000),
    unattended: false,
    nodes: 3,
    edits: 2,
    power_losses: 0,
    late_writes: 0,
    leavings: 0,
    old_news: false,
    versions: false,
    pauses: 0,
    narrows: 0,
    on_loss: None,
};

/// Pods fit hosts of either size.
const HOSTS: World = World { network: (1300, 1400), ..UP };

/// Pods stay as they are.
const HOSTS_ALONE: World = World { network: (1400, 1400), ..UP };

const DOWN: World = World { network: (8900, 1400), host: (9000, 1500), ..UP };

fn soak() -> bool {
    std::env::var_os("NETFERRY_SOAK").is_some()
}

/// Visits every state; panics with the way to the first that breaks a promise.
#[track_caller]
fn keeps_its_promises(world: World, harder: World) {
    breaks_none(&if soak() { harder } else { world });
}

#[track_caller]
#[expect(clippy::disallowed_macros, reason = "a test tells what it covered")]
fn breaks_none<M: Model>(model: &M) {
    let Report { states, steps, broken } = explore(model, 50_000_000);
    if let Some((broken, way)) = broken {
        panic!("{broken}, after {} of {states} states:\n  {}", way.len(), way.join("\n  "));
    }
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    eprintln!("- {test}: {states} states, {steps} steps, 0 promises broken");
    assert!(states > 1000, "only {states} states: the model is stuck at its beginning");
}

#[test]
fn an_increase_keeps_its_promises_whatever_is_edited_when() {
    keeps_its_promises(World { edits: 3, ..UP }, World { edits: 4, ..UP });
}

#[test]
fn a_decrease_keeps_its_promises_whatever_is_edited_when() {
    keeps_its_promises(World { edits: 3, ..DOWN }, World { edits: 4, ..DOWN });
}

#[test]
fn an_unattended_change_keeps_its_promises_when_the_power_fails_anywhere() {
    let unattended = World { unattended: true, power_losses: 1, ..DOWN };
    keeps_its_promises(World { edits: 1, ..unattended }, World { power_losses: 2, ..unattended });
}

#[test]
fn power_loss_anywhere_breaks_no_promise() {
    keeps_its_promises(World { power_losses: 1, ..UP }, World { power_losses: 2, edits: 3, ..UP });
}

#[test]
fn an_operator_that_dies_and_whose_last_write_comes_late_or_twice_breaks_no_promise() {
    keeps_its_promises(World { late_writes: 1, ..UP }, World { late_writes: 1, edits: 3, ..UP });
}

#[test]
fn old_news_of_nodes_break_no_promise() {
    let old = World { old_news: true, ..DOWN };
    keeps_its_promises(
        World { edits: 1, unattended: true, ..old },
        World { edits: 2, power_losses: 1, ..old },
    );
}

#[test]
fn a_node_that_joins_at_any_time_breaks_no_promise() {
    let joining = World { nodes: 2, ..UP };
    let harder = World { edits: 1, unattended: true, late_writes: 1, power_losses: 1, ..joining };
    keeps_its_promises(joining, harder);
}

#[test]
fn a_node_that_joins_and_of_which_the_operator_hears_late_breaks_no_promise() {
    // Pods of these fit hosts of either size: nothing but the rules for newcomers keeps one from serving too early.
    let joining = World { nodes: 2, old_news: true, ..HOSTS };
    keeps_its_promises(World { edits: 1, unattended: true, ..joining }, joining);
}

#[test]
fn a_node_that_leaves_and_comes_back_at_any_time_breaks_no_promise() {
    // Two edits: it may come back after a change it left in phase one was cancelled, and know nothing of that.
    let leaving = World { leavings: 1, edits: 2, unattended: true, ..UP };
    // A write that is late tells a node that came back what it was to do before: nothing but its version refuses that.
    keeps_its_promises(leaving, World { late_writes: 1, versions: true, edits: 1, ..leaving });
}

#[test]
fn a_node_that_leaves_a_decrease_and_comes_back_at_any_time_breaks_no_promise() {
    let leaving = World { leavings: 1, edits: 2, unattended: true, ..DOWN };
    keeps_its_promises(leaving, World { power_losses: 1, ..leaving });
}

#[test]
fn a_node_that_leaves_a_change_of_hosts_and_comes_back_at_any_time_breaks_no_promise() {
    let leaving = World { leavings: 1, edits: 2, unattended: true, ..HOSTS };
    keeps_its_promises(leaving, World { power_losses: 1, ..leaving });
    if soak() {
        breaks_none(&World { late_writes: 1, versions: true, edits: 1, ..leaving });
    }
}

#[test]
fn a_node_that_leaves_before_it_started_with_what_it_took_and_loses_its_power_breaks_no_promise() {
    let ways = if soak() { &[UP, DOWN, HOSTS][..] } else { &[UP] };
    for way in ways {
        let leaving = World { leavings: 1, power_losses: 1, unattended: true, ..*way };
        breaks_none(&Later::when(leaving, taken_and_not_started).with_power_of_all(soak()));
    }
}

#[test]
fn a_change_that_is_paused_and_resumed_at_any_time_keeps_its_promises() {
    for way in [UP, DOWN, HOSTS, HOSTS_ALONE] {
        let paused = World { pauses: 1, unattended: true, ..way };
        keeps_its_promises(paused, World { power_losses: 1, ..paused });
        let by_hand = World { edits: 3, unattended: false, ..paused };
        if soak() {
            breaks_none(&by_hand);
        }
    }
}

#[test]
fn a_paused_change_keeps_its_promises_when_the_operator_dies_with_a_write_on_its_way() {
    let paused = World { edits: 1, pauses: 2, late_writes: 1, versions: true, unattended: true, ..UP };
    keeps_its_promises(paused, World { edits: 2, pauses: 1, ..paused });
}

#[test]
fn a_change_that_finds_a_way_too_narrow_at_any_time_turns_around_and_keeps_its_promises() {
    for way in [UP, DOWN, HOSTS, HOSTS_ALONE] {
        let narrow = World { narrows: 1, unattended: true, ..way };
        keeps_its_promises(World { edits: 1, power_losses: 1, ..narrow }, World { pauses: 1, ..narrow });
        let by_hand = World { unattended: false, ..narrow };
        keeps_its_promises(by_hand, World { power_losses: 1, ..by_hand });
    }
}

#[test]
fn a_way_that_is_too_narrow_while_the_operator_dies_with_a_write_on_its_way_breaks_no_promise() {
    let narrow = World { edits: 1, narrows: 1, late_writes: 1, versions: true, unattended: true, ..DOWN };
    keeps_its_promises(narrow, World { narrows: 2, pauses: 1, ..narrow });
}

#[test]
fn a_change_told_to_wait_while_a_way_is_too_narrow_keeps_its_promises() {
    for way in [UP, DOWN, HOSTS, HOSTS_ALONE] {
        let narrow = World { narrows: 1, unattended: true, on_loss: Some(OnLoss::Pause), ..way };
        keeps_its_promises(narrow, World { power_losses: 1, ..narrow });
    }
}

/// More at once than every order of it could be visited in: all weather, many edits, by chance.
#[test]
fn no_promise_is_broken_on_random_walks_through_everything_at_once() {
    let (walks, most) = if soak() { (100_000, 400) } else { (2_000, 300) };
    for seed in 0..walks {
        // As tight as works on hosts at 1500, which nobody could choose in a change.
        let tight = World { network: (1442, 8900), ..UP };
        let direction = [UP, DOWN, tight, HOSTS][seed as usize % 4];
        let world = World {
            nodes: 1 + (seed as usize / 2) % 3,
            unattended: seed % 5 == 0,
            old_news: seed % 3 == 0,
            edits: 8,
            power_losses: 8,
            late_writes: 4,
            leavings: 3,
            versions: true,
            pauses: 4,
            narrows: 4,
            on_loss: [None, Some(OnLoss::Reverse), Some(OnLoss::Pause)][seed as usize % 7 % 3],
            ..direction
        };
        if let Err((broken, way)) = walk(&world, seed, most) {
            panic!("seed {seed}: {broken}, after\n  {}", way.join("\n  "));
        }
    }
}
