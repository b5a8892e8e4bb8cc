use super::super::check::{AskedChange, AskedEnds, Plugin, Transport};
use super::super::probe::judge::{Lost, Pair};
use super::super::record::Ends;
use super::super::status::ConditionKind;
use super::*;
use crate::fixtures::{mtu, name};
use crate::probe::Way;

fn change(from: u32, to: u32, machine: u32) -> Asked {
    let network = Some(AskedEnds { from: Some(from), to: Some(to) });
    let machine = Some(AskedEnds { from: None, to: Some(machine) });
    Asked { mtu: Some(from), migration: Some(AskedChange { network, machine }) }
}

fn from_hosts_at(host: u32, asked: Asked) -> Asked {
    let mut asked = asked;
    asked.migration.as_mut().unwrap().machine.as_mut().unwrap().from = Some(host);
    asked
}

fn finish(mtu: u32) -> Asked {
    Asked { mtu: Some(mtu), migration: None }
}

/// A cluster whose nodes do what they are told, when the test says so.
struct World {
    record: Record,
    asked: Asked,
    mode: Mode,
    nodes: BTreeMap<NodeName, NodeFacts>,
    equipped: Equipped,
    probes: Probes,
}

impl World {
    fn new(network: u32, host: u32) -> World {
        let mut world = World {
            record: Record::settled(mtu(network)),
            asked: finish(network),
            mode: Mode::default(),
            nodes: BTreeMap::new(),
            equipped: Equipped::new(),
            probes: Probes::default(),
        };
        for node in ["a", "b", "c"] {
            world.join(node, host);
        }
        world
    }

    fn join(&mut self, node: &str, host: u32) {
        let Rendering { epoch, network, .. } = self.record.rendering();
        let observed = Observed { epoch, network: Some(network), host: Envelope::settled(mtu(host)) };
        self.nodes
            .insert(name(node), NodeFacts { done: Some(epoch), observed: Some(observed), unclaimed: false });
    }

    fn decide(&self) -> Decision {
        let World { record, asked, mode, nodes, equipped, probes } = self;
        let cluster = Cluster { plugin: Plugin::OvnKubernetes(Transport::Geneve), v6: false };
        decide(record, &Facts { cluster, asked: *asked, mode: *mode, nodes, equipped, probes })
    }

    /// Decides and does it, until there is nothing to do but wait for nodes.
    fn settle(&mut self) -> Decision {
        for _ in 0..20 {
            let decision = self.decide();
            if decision.forget {
                self.mode = Mode { paused: self.mode.paused, ..Mode::default() };
                continue;
            }
            match decision.edit {
                Some(SpecEdit::Finish(mtu)) => self.asked = finish(mtu.bytes()),
                Some(SpecEdit::Migrate { from, to, machine_to, .. }) => {
                    self.asked = change(from.bytes(), to.bytes(), machine_to.bytes());
                }
                None if decision.record == self.record => return decision,
                None => {}
            }
            self.record = decision.record;
        }
        panic!("never comes to rest: {:?}", self.record)
    }

    fn ask(&mut self, asked: Asked) -> Decision {
        self.asked = asked;
        self.settle()
    }

    fn reboot(&mut self, node: &str) -> Decision {
        let Rendering { epoch, network, host } = self.record.rendering();
        let facts = self.nodes.get_mut(&name(node)).unwrap();
        let before = facts.observed.unwrap().host;
        let host = host.run().unwrap_or(before);
        let observed = Observed { epoch, network: Some(network), host };
        *facts = NodeFacts { done: Some(epoch), observed: Some(observed), unclaimed: false };
        self.settle()
    }

    fn reboot_all(&mut self) -> Decision {
        let nodes: Vec<NodeName> = self.nodes.keys().cloned().collect();
        for node in nodes {
            self.reboot(node.as_str());
        }
        self.settle()
    }

    fn runs(&self) -> Vec<String> {
        self.nodes.values().map(|n| n.observed.unwrap().network.unwrap().to_string()).collect()
    }
}

fn message(decision: &Decision, kind: ConditionKind) -> (bool, &'static str, &str) {
    let condition = decision.conditions.iter().find(|c| c.kind == kind).unwrap();
    (condition.holds, condition.reason, &condition.message)
}

#[test]
fn an_attended_change_waits_for_its_second_edit_and_says_so() {
    let mut world = World::new(1400, 1500);
    let decision = world.ask(change(1400, 8900, 9000));
    assert_eq!(decision.phase, Phase::One);
    assert_eq!(
        message(&decision, ConditionKind::InProgress),
        (
            true,
            "PhaseOne",
            "phase one of 1400 to 8900: 0 of 3 nodes run pods at 8900 (routes 1400); waiting for a (has not \
             taken its configuration), b (has not taken its configuration), c (has not taken its configuration)"
        )
    );
    let decision = world.reboot_all();
    assert_eq!(decision.phase, Phase::AwaitingFinish);
    assert_eq!(
        message(&decision, ConditionKind::Held),
        (
            true,
            "AwaitingFinish",
            "every node is ready for phase two; remove spec.migration and set mtu to 8900, or turn back with \
             network.to equal to network.from"
        )
    );
    let decision = world.ask(finish(8900));
    assert_eq!(decision.phase, Phase::Two);
    world.reboot_all();
    assert_eq!(world.record, Record { epoch: 3, hosts: Some(mtu(9000)), ..Record::settled(mtu(8900)) });
    assert_eq!(world.runs(), ["8900", "8900", "8900"]);
}

#[test]
fn an_unattended_change_goes_to_its_end_alone_up_and_down() {
    for (from, to, host, machine) in [(1400, 8900, 1500, 9000), (8900, 1400, 9000, 1500)] {
        let mut world = World::new(from, host);
        world.mode.unattended = true;
        world.ask(change(from, to, machine));
        world.reboot_all();
        assert_eq!(world.asked, finish(to), "the second edit was made");
        world.reboot_all();
        assert_eq!((world.record.mtu, world.record.change), (mtu(to), None));
        assert!(world.nodes.values().all(|n| n.observed.unwrap().host == Envelope::settled(mtu(machine))));
    }
}

#[test]
fn a_second_edit_too_early_is_held_and_names_the_nodes() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot("a");
    world.nodes.get_mut(&name("b")).unwrap().observed = None;
    let before = world.record;
    let decision = world.ask(finish(8900));
    assert_eq!(decision.phase, Phase::Held);
    assert_eq!(decision.refusals, []);
    assert_eq!(world.record.rendering(), before.rendering(), "nothing else is rendered");
    assert_eq!(
        message(&decision, ConditionKind::Held),
        (
            true,
            "NodesMissing",
            "phase two was asked for before every node was seen in phase one; waiting for b (has not reported \
             what it runs), c (has not taken its configuration)"
        )
    );
    world.nodes.get_mut(&name("b")).unwrap().observed = world.nodes[&name("a")].observed;
    world.reboot("b");
    let decision = world.reboot("c");
    assert_eq!(decision.phase, Phase::Two);
}

#[test]
fn a_node_whose_disk_holds_something_else_is_not_in_phase_one_whatever_it_runs() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    world.nodes.get_mut(&name("b")).unwrap().done = None;
    assert_eq!(world.ask(finish(8900)).phase, Phase::Held);
}

#[test]
fn a_node_that_says_done_but_runs_something_else_is_named_with_what_it_runs() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    let told = world.record.epoch;
    for (observed, said) in [
        (
            Observed { epoch: 0, network: None, host: Envelope::settled(mtu(9000)) },
            "reports an older configuration",
        ),
        (Observed { epoch: told, network: None, host: Envelope::settled(mtu(9000)) }, "serves no pods yet"),
        (
            Observed {
                epoch: told,
                network: Some(Envelope::settled(mtu(1400))),
                host: Envelope::settled(mtu(9000)),
            },
            "runs pods at 1400",
        ),
        (
            Observed {
                epoch: told,
                network: Some(world.record.rendering().network),
                host: Envelope::settled(mtu(9000)),
            },
            "runs its uplink at 9000",
        ),
    ] {
        world.nodes.get_mut(&name("b")).unwrap().observed = Some(observed);
        assert_eq!(
            world.decide().missing.iter().map(Missing::to_string).collect::<Vec<_>>(),
            [format!("b ({said})")]
        );
    }
}

#[test]
fn a_route_of_somebodys_own_that_lets_out_less_stops_nothing() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    let node = world.nodes.get_mut(&name("b")).unwrap();
    node.observed.as_mut().unwrap().host = Envelope::spanning(mtu(9000), mtu(1300));
    assert!(world.decide().missing.is_empty());
}

#[test]
fn a_node_that_joins_in_phase_one_is_waited_for_and_one_that_leaves_is_not() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot("a");
    world.reboot("b");
    world.nodes.remove(&name("c"));
    world.nodes.insert(name("d"), NodeFacts::default());
    assert_eq!(world.ask(finish(8900)).phase, Phase::Held);
    world.nodes.remove(&name("d"));
    assert_eq!(world.settle().phase, Phase::Two);
    world.join("e", 9000);
    assert_eq!(world.settle().phase, Phase::Two, "nor does one that joins later undo it");
}

#[test]
fn a_cluster_that_answers_with_no_nodes_is_not_one_in_which_all_arrived() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.nodes.clear();
    assert_eq!(world.ask(finish(8900)).phase, Phase::Held);
}

#[test]
fn a_cancelled_change_ends_where_it_began() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot("a");
    let decision = world.ask(change(1400, 1400, 1500));
    assert_eq!(decision.phase, Phase::Returning);
    let decision = world.reboot_all();
    assert_eq!(decision.phase, Phase::AwaitingRemoval);
    assert_eq!(
        message(&decision, ConditionKind::Held),
        (true, "AwaitingRemoval", "every node is back at 1400; remove spec.migration")
    );
    world.ask(finish(1400));
    assert_eq!((world.record.mtu, world.record.change), (mtu(1400), None));
    assert!(world.nodes.values().all(|n| n.observed.unwrap().host == Envelope::settled(mtu(1500))));
}

#[test]
fn the_reverse_in_phase_two_goes_back_through_phase_one() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    world.ask(finish(8900));
    world.reboot("a");
    let decision = world.ask(change(8900, 1400, 1500));
    assert_eq!(decision.phase, Phase::One);
    world.ask(finish(1400));
    world.reboot("a");
    assert_eq!(world.runs(), ["8900 (routes 1400)", "8900 (routes 1400)", "8900 (routes 1400)"]);
    world.reboot_all();
    world.reboot_all();
    assert_eq!((world.record.mtu, world.record.change), (mtu(1400), None));
    assert_eq!(world.runs(), ["1400", "1400", "1400"]);
}

#[test]
fn a_paused_change_stays_where_it_is_and_can_be_cancelled() {
    let mut world = World::new(1400, 1500);
    world.mode = Mode { unattended: true, paused: true, on_loss: None };
    let decision = world.ask(change(1400, 8900, 9000));
    assert_eq!(decision.rollout, Rollout::Paused);
    assert_eq!(world.reboot_all().phase, Phase::AwaitingFinish);
    assert_eq!(world.ask(change(1400, 1400, 1500)).phase, Phase::Returning);
}

#[test]
fn a_pause_holds_nothing_where_no_change_is_under_way() {
    let mut world = World::new(1400, 1500);
    world.mode.paused = true;
    let decision = world.settle();
    assert_eq!(decision.rollout, Rollout::Go, "other configurations roll out as ever");
    assert_eq!(
        message(&decision, ConditionKind::Held),
        (false, "AsExpected", "no change is under way; one that begins takes no node until it is resumed")
    );
    assert_eq!(world.ask(change(1400, 8900, 9000)).rollout, Rollout::Paused);
}

fn narrow(from: &str, to: &str) -> Trouble {
    let pair = Pair { from: name(from), to: name(to) };
    Trouble { pair, way: Way::ALL[0].0, lost: Lost::Above(mtu(1500)) }
}

fn lossy(from: &str, to: &str) -> Trouble {
    Trouble { lost: Lost::Some { lost: 4, of: 20 }, ..narrow(from, to) }
}

#[test]
fn a_pair_the_new_size_does_not_get_through_stops_phase_two() {
    let mut world = World::new(1400, 1500);
    world.mode = Mode { unattended: true, on_loss: Some(OnLoss::Pause), paused: false };
    world.probes.untried = vec![name("c")];
    world.ask(change(1400, 8900, 9000));
    let decision = world.reboot_all();
    assert_eq!(
        message(&decision, ConditionKind::Held),
        (true, "NotProbed", "the new size was not tried yet on c")
    );
    world.probes = Probes { failed: vec![narrow("a", "c")], ..Probes::default() };
    let decision = world.settle();
    assert_eq!(decision.phase, Phase::AwaitingFinish);
    assert_eq!(decision.rollout, Rollout::Losing(vec![narrow("a", "c")]));
    assert_eq!(
        message(&decision, ConditionKind::Held),
        (
            true,
            "PacketsLost",
            "packets are lost from a to c (hosts, IPv4: all above 1500); no further node is taken"
        )
    );
    world.probes = Probes::default();
    assert_eq!(world.settle().phase, Phase::Two);
}

#[test]
fn a_change_the_underlay_cannot_carry_turns_around_unless_told_to_wait() {
    for (on_loss, ends_in) in [
        (None, Phase::Returning),
        (Some(OnLoss::Reverse), Phase::Returning),
        (Some(OnLoss::Pause), Phase::One),
    ] {
        let mut world = World::new(1400, 1500);
        world.mode = Mode { unattended: true, on_loss, paused: false };
        world.ask(change(1400, 8900, 9000));
        world.reboot("a");
        world.reboot("b");
        world.probes.failed = vec![narrow("a", "b")];
        assert_eq!(world.settle().phase, ends_in, "{on_loss:?}");
        if ends_in == Phase::Returning {
            world.reboot_all();
            assert_eq!((world.record.mtu, world.record.change), (mtu(1400), None));
        }
    }
}

#[test]
fn losses_that_may_pass_stop_a_change_and_turn_it_around_only_when_asked_to() {
    for (on_loss, ends_in) in
        [(None, Phase::One), (Some(OnLoss::Pause), Phase::One), (Some(OnLoss::Reverse), Phase::Returning)]
    {
        let mut world = World::new(1400, 1500);
        world.mode = Mode { unattended: true, on_loss, paused: false };
        world.ask(change(1400, 8900, 9000));
        world.reboot("a");
        world.probes.losing = vec![lossy("a", "b")];
        assert_eq!(world.settle().phase, ends_in, "{on_loss:?}");
    }
}

#[test]
fn loss_in_phase_two_turns_a_change_around_once_and_not_back_again() {
    let mut world = World::new(1400, 1500);
    world.mode = Mode { unattended: true, on_loss: Some(OnLoss::Reverse), paused: false };
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    world.reboot("a");
    world.probes.losing = vec![lossy("a", "b")];
    let decision = world.settle();
    assert_eq!((decision.phase, decision.rollout), (Phase::One, Rollout::Go));
    world.reboot_all();
    world.reboot_all();
    assert_eq!((world.record.mtu, world.record.change), (mtu(1400), None));
}

#[test]
fn a_refused_edit_changes_nothing_and_what_was_under_way_goes_on() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    let before = world.record;
    let decision = world.ask(change(1300, 8900, 9000));
    assert_eq!((decision.record, decision.edit), (before, None));
    assert_eq!(decision.phase, Phase::One);
    assert_eq!(
        message(&decision, ConditionKind::Refused),
        (
            true,
            "FromIsNotApplied",
            "spec.migration.mtu.network.from is 1300, but the MTU that is applied is 8900"
        )
    );
}

/// Nobody at 1500 is ever made to send 9000 to the others.
#[test]
fn hosts_are_not_taken_to_where_somebody_wrongly_says_they_were() {
    for (network, host, (to, from, machine)) in
        [(1400, 1500, (1300, 9000, 1500)), (8900, 9000, (1400, 1500, 9000))]
    {
        let mut world = World::new(network, host);
        let decision = world.ask(from_hosts_at(from, change(network, to, machine)));
        assert_eq!((decision.phase, world.record.change), (Phase::Idle, None));
        let (holds, reason, said) = message(&decision, ConditionKind::Refused);
        assert!(holds && reason == "HostsNotAtFrom", "{said}");
        assert!(said.contains(&format!("machine.from is {from}")), "{said}");
        assert!(said.contains(&format!("runs at {host}")), "{said}");
    }
}

#[test]
fn another_change_asked_in_phase_two_begins_when_every_node_has_settled() {
    for unattended in [false, true] {
        let mut world = World::new(1400, 1500);
        world.mode.unattended = unattended;
        world.ask(change(1400, 8900, 9000));
        world.reboot_all();
        world.ask(finish(8900));
        world.reboot("a");
        let next = change(8900, 5000, 9000);
        let decision = world.ask(next);
        assert_eq!(
            (decision.phase, message(&decision, ConditionKind::Refused).1),
            (Phase::Two, "ChangeRunning")
        );
        world.reboot("b");
        let decision = world.reboot("c");
        assert_eq!((decision.phase, decision.refusals), (Phase::One, vec![]));
        assert_eq!(world.asked, next, "nobody wrote over it");
        assert_eq!(world.record.change.unwrap().network, Ends { from: mtu(8900), to: mtu(5000) });
    }
}

#[test]
fn a_change_whose_nodes_have_settled_ends_whatever_else_is_asked_and_refused() {
    for refused in [change(1300, 8900, 9000), change(8900, 70_000, 9000), finish(1400)] {
        let mut world = World::new(1400, 1500);
        world.mode.unattended = true;
        world.ask(change(1400, 8900, 9000));
        world.reboot_all();
        world.reboot("a");
        world.ask(refused);
        let decision = world.reboot_all();
        assert_eq!((world.record.mtu, world.record.change), (mtu(8900), None), "{refused:?}");
        assert_eq!(world.asked, refused, "it is left for people to see");
        assert!(!decision.refusals.is_empty());
    }
}

#[test]
fn what_is_refused_in_phase_one_is_not_written_over_and_the_change_says_that_it_waits() {
    let mut world = World::new(1400, 1500);
    world.mode.unattended = true;
    world.ask(change(1400, 8900, 9000));
    let refused = change(8900, 5000, 9000);
    world.ask(refused);
    let decision = world.reboot_all();
    assert_eq!((decision.phase, world.asked), (Phase::AwaitingFinish, refused));
    assert_eq!(message(&decision, ConditionKind::Held).1, "AwaitingFinish");
    world.ask(change(1400, 8900, 9000));
    assert_eq!(world.asked, finish(8900), "asked for again, it goes on by itself");
}

#[test]
fn a_change_that_has_to_turn_around_does_so_over_what_is_asked_and_refused() {
    for phase_two in [false, true] {
        let mut world = World::new(1400, 1500);
        world.ask(change(1400, 8900, 9000));
        world.reboot_all();
        let refused = match phase_two {
            false => change(8900, 5000, 9000),
            true => {
                world.ask(finish(8900));
                change(1300, 5000, 9000)
            }
        };
        world.ask(refused);
        assert_eq!(world.asked, refused);
        world.probes.failed = vec![narrow("a", "b")];
        world.reboot("a");
        let back = if phase_two { change(8900, 1400, 1500) } else { change(1400, 1400, 1500) };
        assert_eq!(world.asked, back);
    }
}

#[test]
fn a_refused_edit_does_not_end_a_change_that_was_taken_back() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot("a");
    world.ask(change(1400, 1400, 1500));
    world.reboot_all();
    let before = world.record;
    for refused in [change(1400, 8900, 8950), finish(8900)] {
        let decision = world.ask(refused);
        assert_eq!((decision.record, decision.refusals.len()), (before, 1), "{refused:?}");
    }
    world.ask(finish(1400));
    assert_eq!((world.record.mtu, world.record.change), (mtu(1400), None));
}

#[test]
fn a_cancellation_that_comes_late_takes_phase_two_back() {
    for unattended in [false, true] {
        let mut world = World::new(1400, 1500);
        world.mode.unattended = unattended;
        world.ask(change(1400, 8900, 9000));
        world.reboot_all();
        world.ask(finish(8900));
        world.reboot("a");
        let decision = world.ask(change(1400, 1400, 1500));
        assert_eq!((decision.phase, decision.refusals), (Phase::One, vec![]));
        world.reboot_all();
        world.ask(finish(1400));
        world.reboot_all();
        assert_eq!((world.record.mtu, world.record.change), (mtu(1400), None));
    }
}

#[test]
fn a_way_back_that_is_sent_elsewhere_is_guarded_like_any_change() {
    let mut world = World::new(1400, 1500);
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    world.ask(finish(8900));
    world.ask(change(8900, 1400, 1500));
    world.probes.losing = vec![lossy("a", "b")];
    assert_eq!(world.settle().rollout, Rollout::Go, "there is nothing better than to arrive");
    let decision = world.ask(change(8900, 5000, 9000));
    assert_eq!(decision.rollout, Rollout::Losing(vec![lossy("a", "b")]));
}

#[test]
fn every_turn_of_a_change_is_told_once() {
    let mut world = World::new(1400, 1500);
    let mut told = Vec::new();
    let mut ask = |world: &mut World, asked| {
        world.asked = asked;
        loop {
            let decision = world.decide();
            told.extend(decision.events.iter().map(|event| event.reason()));
            if decision.record == world.record {
                break;
            }
            world.record = decision.record;
        }
    };
    ask(&mut world, change(1400, 8900, 9000));
    ask(&mut world, change(1400, 1400, 1500));
    ask(&mut world, change(1400, 8900, 9000));
    ask(&mut world, finish(8900));
    ask(&mut world, change(1400, 8900, 9000));
    world.reboot_all();
    ask(&mut world, finish(8900));
    ask(&mut world, change(8900, 1400, 1500));
    assert_eq!(
        told,
        [
            "MTUChangeStarted",
            "MTUChangeCancelled",
            "MTUChangeStarted",
            "MTUChangeFinishAsked",
            "MTUChangeFinishTakenBack",
            "MTUChangeFinishAsked",
            "MTUChangePhaseTwo",
            "MTUChangeReversed",
        ]
    );
}

fn by_itself() -> Mode {
    Mode { unattended: true, on_loss: Some(OnLoss::Pause), paused: false }
}

#[test]
fn what_was_said_of_a_change_goes_before_the_change_does_and_is_not_taken_for_the_next() {
    let mut world = World::new(1400, 1500);
    world.mode = by_itself();
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    assert_eq!(world.mode, by_itself(), "it holds in phase two, too");
    world.reboot_all();
    assert_eq!((world.record.change, world.mode), (None, Mode::default()));
    world.ask(change(8900, 1400, 1500));
    let decision = world.reboot_all();
    assert_eq!(decision.phase, Phase::AwaitingFinish);
}

#[test]
fn what_was_said_of_a_change_that_was_taken_back_goes_with_it() {
    let mut world = World::new(1400, 1500);
    world.mode = by_itself();
    world.ask(change(1400, 8900, 9000));
    world.reboot("a");
    world.ask(change(1400, 1400, 1500));
    assert_eq!(world.mode, by_itself());
    world.reboot_all();
    assert_eq!((world.record.change, world.mode), (None, Mode::default()));
    assert_eq!(world.record.mtu, mtu(1400));
}

/// Whoever asks for the next change before this one has ended says there how that one goes.
#[test]
fn what_may_be_said_of_the_next_change_is_not_taken_away() {
    let mut world = World::new(1400, 1500);
    world.mode = by_itself();
    world.ask(change(1400, 8900, 9000));
    world.reboot_all();
    world.ask(change(8900, 4000, 9000));
    assert!(matches!(world.record.change, Some(Change { stage: Stage::Settling, .. })));
    world.reboot_all();
    assert_eq!(world.mode, by_itself());
    let next = world.record.change.unwrap();
    assert_eq!((next.network.from, next.network.to), (mtu(8900), mtu(4000)));
}

#[test]
fn what_was_said_before_a_change_begins_waits_for_it() {
    let mut world = World::new(1400, 1500);
    world.mode = by_itself();
    assert!(!world.decide().forget);
}
