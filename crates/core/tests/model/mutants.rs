//! Planners with one mistake each. A model that does not find them out would not find ours out either.

use netferry_core::mtu::admit::{Admit, Arrival, admit};
use netferry_core::mtu::plan::{Decision, Facts, Mode, OnLoss, decide};
use netferry_core::mtu::probe::judge::Probes;
use netferry_core::mtu::record::{Change, Record, Stage};
use netferry_core::name::NodeName;
use netferry_core::rollout::choose::{Choice, Hold, choose};
use netferry_core::rollout::daemon::{self, Named};
use netferry_core::rollout::effect::Effect;
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::pool::{MaxUnavailable, Node, Pool, Truth};

use crate::cluster::{Planner, World};
use crate::explore::{Model, explore};
use crate::later::{Later, taken_and_not_started};
use crate::{DOWN, UP};

/// The mistake is found, and it is the one that was made.
#[track_caller]
fn is_found_out<M: Model>(world: &M, promise: &str) {
    let (broken, way) = explore(world, 1_000_000).broken.expect("the mistake goes unnoticed");
    assert!(broken.starts_with(promise), "{broken}, after {way:#?}");
}

fn early(record: &Record, facts: &Facts) -> Decision {
    let mut decision = decide(record, facts);
    if let Some(change @ Change { stage: Stage::Spreading { finish: true }, .. }) = decision.record.change {
        decision.record = decision.record.with(Some(Change { stage: Stage::Settling, ..change }));
    }
    decision
}

#[test]
fn a_planner_that_begins_phase_two_early_is_found_out() {
    let planner = Planner { decide: early, ..Planner::SHIPPING };
    is_found_out(&World { planner, ..UP }, "I3");
    is_found_out(&World { planner, ..DOWN }, "I3");
}

fn one_phase(record: &Record, facts: &Facts) -> Decision {
    let mut decision = decide(record, facts);
    if let Some(change @ Change { stage: Stage::Spreading { .. }, .. }) = decision.record.change {
        decision.record.change = Some(Change { stage: Stage::Settling, ..change });
    }
    decision
}

#[test]
fn a_planner_with_one_phase_is_found_out() {
    is_found_out(&World { planner: Planner { decide: one_phase, ..Planner::SHIPPING }, ..UP }, "I3");
}

fn two_at_once(pool: &Pool, nodes: &[Node], operator: Option<&NodeName>, held: Option<&Hold>) -> Choice {
    let pool = Pool { max_unavailable: MaxUnavailable::Number(2), ..pool.clone() };
    choose(&pool, nodes, operator, held)
}

#[test]
fn a_planner_that_takes_two_nodes_at_once_is_found_out() {
    is_found_out(&World { planner: Planner { choose: two_at_once, ..Planner::SHIPPING }, ..UP }, "I2");
}

fn blind(pool: &Pool, nodes: &[Node], operator: Option<&NodeName>, held: Option<&Hold>) -> Choice {
    let ready = |node: &Node| Node { ready: Some(Truth::True), ..node.clone() };
    choose(pool, &nodes.iter().map(ready).collect::<Vec<_>>(), operator, held)
}

#[test]
fn a_planner_that_takes_a_node_while_another_is_off_by_itself_is_found_out() {
    let planner = Planner { choose: blind, ..Planner::SHIPPING };
    is_found_out(&World { planner, edits: 1, power_losses: 1, ..UP }, "I2: a node is taken");
}

fn forgetful(pool: &Pool, nodes: &[Node], operator: Option<&NodeName>, held: Option<&Hold>) -> Choice {
    let pool = Pool { taken: std::collections::BTreeSet::new(), ..pool.clone() };
    choose(&pool, nodes, operator, held)
}

#[test]
fn a_planner_that_goes_by_what_it_heard_alone_is_found_out() {
    let planner = Planner { choose: forgetful, ..Planner::SHIPPING };
    is_found_out(&World { planner, old_news: true, ..UP }, "I2: 2 nodes are away");
}

fn obedient(facts: &daemon::Facts) -> daemon::Step {
    let ageless =
        |named: Option<&Named>| named.map(|named| Named { epochs: Epochs::default(), ..named.clone() });
    let (desired, disk) = (ageless(facts.desired), ageless(facts.disk));
    daemon::decide(&daemon::Facts { desired: desired.as_ref(), disk: disk.as_ref(), ..facts.clone() })
}

fn careless(facts: &daemon::Facts) -> daemon::Step {
    let due = if facts.due == Effect::Apply { Effect::Nothing } else { facts.due };
    daemon::decide(&daemon::Facts { due, ..facts.clone() })
}

#[test]
fn a_daemon_that_reports_done_before_it_applied_is_found_out() {
    let planner = Planner { daemon: careless, ..Planner::SHIPPING };
    is_found_out(&World { planner, ..UP }, "stuck: nothing more happens");
}

#[test]
fn a_daemon_that_takes_an_older_configuration_is_found_out() {
    let planner = Planner { daemon: obedient, ..Planner::SHIPPING };
    is_found_out(&World { planner, late_writes: 1, unattended: true, ..UP }, "I");
}

fn trusting(arrival: &Arrival) -> Admit {
    admit(&Arrival { newcomer: false, ..*arrival })
}

#[test]
fn an_agent_that_lets_a_newcomer_serve_like_any_other_is_found_out() {
    let planner = Planner { admit: trusting, ..Planner::SHIPPING };
    is_found_out(&World { planner, leavings: 1, ..UP }, "I3");
}

fn hasty(arrival: &Arrival) -> Admit {
    admit(&Arrival { told: false, ..*arrival })
}

#[test]
fn an_agent_that_serves_while_it_is_about_to_be_taken_is_found_out() {
    let planner = Planner { admit: hasty, ..Planner::SHIPPING };
    is_found_out(&World { planner, nodes: 2, ..UP }, "I2");
}

fn shortsighted(arrival: &Arrival) -> Admit {
    admit(&Arrival { unstarted: false, ..*arrival })
}

#[test]
fn an_agent_that_lets_a_newcomer_serve_whatever_its_disk_holds_is_found_out() {
    let planner = Planner { admit: shortsighted, ..Planner::SHIPPING };
    let leaving = World { planner, leavings: 1, power_losses: 1, unattended: true, ..UP };
    is_found_out(&Later::when(leaving, taken_and_not_started), "I3");
}

fn restless(record: &Record, facts: &Facts) -> Decision {
    let decision = decide(record, facts);
    let mode = Mode { paused: false, ..facts.mode };
    let restless = decide(record, &Facts { mode, ..facts.clone() });
    match restless.record.change {
        Some(Change { stage: Stage::Settling, .. }) => Decision { rollout: decision.rollout, ..restless },
        Some(_) | None => decision,
    }
}

#[test]
fn a_planner_that_begins_phase_two_while_it_is_paused_is_found_out() {
    let planner = Planner { decide: restless, ..Planner::SHIPPING };
    is_found_out(&World { planner, pauses: 1, ..UP }, "I5: while the change waits phase two begins");
}

fn unheld(pool: &Pool, nodes: &[Node], operator: Option<&NodeName>, _: Option<&Hold>) -> Choice {
    choose(pool, nodes, operator, None)
}

#[test]
fn a_planner_that_takes_a_node_while_the_change_waits_is_found_out() {
    let planner = Planner { choose: unheld, ..Planner::SHIPPING };
    let world = World { planner, edits: 1, ..UP };
    is_found_out(&World { pauses: 1, ..world }, "I5: while the change waits a node is taken");
    let told_to_wait = World { narrows: 1, on_loss: Some(OnLoss::Pause), ..world };
    is_found_out(&told_to_wait, "I5: while the change waits a node is taken");
}

fn straight_back(record: &Record, facts: &Facts) -> Decision {
    let decision = decide(record, facts);
    match record.change {
        Some(change @ Change { stage: Stage::Settling, back: false, .. }) if decision.edit.is_some() => {
            let record = record.with(Some(Change { stage: Stage::Returning, ..change }));
            Decision { record, edit: None, ..decision }
        }
        Some(_) | None => decision,
    }
}

#[test]
fn a_planner_that_turns_around_without_a_phase_in_which_nodes_hold_both_is_found_out() {
    let planner = Planner { decide: straight_back, ..Planner::SHIPPING };
    let narrow = World { planner, edits: 1, narrows: 1, unattended: true, ..UP };
    is_found_out(&narrow, "I4");
    is_found_out(&World { network: DOWN.network, host: DOWN.host, ..narrow }, "I4");
}

fn stubborn(record: &Record, facts: &Facts) -> Decision {
    let none = Probes::default();
    decide(record, &Facts { probes: &none, ..facts.clone() })
}

#[test]
fn a_planner_that_goes_on_where_a_way_is_too_narrow_is_found_out() {
    let planner = Planner { decide: stubborn, ..Planner::SHIPPING };
    let narrow = World { planner, edits: 1, narrows: 1, ..UP };
    is_found_out(&narrow, "I5: a way is too narrow");
    is_found_out(&World { unattended: true, ..narrow }, "I5: a way is too narrow");
}

fn undecided(record: &Record, facts: &Facts) -> Decision {
    let forth = |change: Change| Change { back: false, ..change };
    let forgotten = |record: &Record| Record { change: record.change.map(forth), ..*record };
    let decision = decide(&forgotten(record), facts);
    Decision { record: forgotten(&decision.record), ..decision }
}

#[test]
fn a_planner_that_turns_around_more_than_once_is_found_out() {
    let planner = Planner { decide: undecided, ..Planner::SHIPPING };
    is_found_out(&World { planner, edits: 1, narrows: 1, unattended: true, ..UP }, "I5: a way is too narrow");
}
