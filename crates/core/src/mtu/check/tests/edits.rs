use super::*;
use crate::mtu::record::Ends;

const CLUSTER: Cluster = Cluster { plugin: OVN, v6: false };

fn read_on(record: &Record, asked: &Asked) -> Result<Wanted, Vec<String>> {
    let nodes = hosts(&[("a", 1500), ("b", 1500)]);
    read(&CLUSTER, record, &nodes, asked).map_err(|all| all.iter().map(Refusal::to_string).collect())
}

fn after(record: &Record, asked: &Asked) -> Record {
    record.with(read_on(record, asked).unwrap().change)
}

fn edited(mtu: u32) -> Asked {
    Asked { mtu: Some(mtu), migration: None }
}

fn phase_one() -> Record {
    after(&Record::settled(mtu(1400)), &change(1400, 8900, 9000))
}

fn phase_two() -> Record {
    let record = after(&phase_one(), &edited(8900));
    let held = record.change.unwrap();
    assert_eq!(held.stage, Stage::Spreading { finish: true });
    record.with(Some(Change { stage: Stage::Settling, ..held }))
}

#[test]
fn a_change_from_what_is_applied_starts_and_its_target_is_published() {
    let record = phase_one();
    assert_eq!(spreading(&record), (1400, 8900, 1500, 9000));
    assert_eq!((record.published(), record.epoch), (mtu(8900), 1));
    assert_eq!(record.rendering().network.to_string(), "8900 (routes 1400)");
}

#[test]
fn the_mtu_field_is_ignored_while_a_change_is_asked() {
    let asked = Asked { mtu: Some(1234), ..change(1400, 8900, 9000) };
    assert_eq!(after(&phase_one(), &asked), phase_one());
}

#[test]
fn asking_the_same_again_changes_nothing() {
    assert_eq!(after(&phase_one(), &change(1400, 8900, 9000)), phase_one());
}

#[test]
fn another_target_from_the_same_beginning_is_accepted_in_phase_one() {
    let record = after(&phase_one(), &change(1400, 4000, 4100));
    assert_eq!(spreading(&record), (1400, 4000, 1500, 4100));
    assert_eq!((record.published(), record.epoch), (mtu(4000), 2));
}

#[test]
fn another_target_is_held_to_the_same_bounds() {
    assert_eq!(
        read_on(&phase_one(), &change(1400, 4000, 4000)).unwrap_err(),
        [
            "spec.migration.mtu.machine.to is 4000, but must be at least 4100: spec.migration.mtu.network.to 4000 and 100 for the encapsulation"
        ]
    );
}

/// The rollback of the specification's examples, verbatim: to equals from, and the hosts' old size.
#[test]
fn from_here_to_here_cancels_in_phase_one() {
    let record = after(&phase_one(), &change(1400, 1400, 1500));
    assert_eq!(record.change.map(|c| c.stage), Some(Stage::Returning));
    assert_eq!((record.published(), record.epoch), (mtu(1400), 2));
    assert_eq!(record.rendering().network, crate::size::Envelope::settled(mtu(1400)));
}

/// 1442 works on hosts at 1500 and may have been installed; nobody may choose it in a change.
#[test]
fn a_cluster_may_go_back_to_where_it_came_from_though_nobody_could_choose_it() {
    let tight = Record::settled(mtu(1442));
    let record = after(&tight, &change(1442, 8900, 9000));
    for back in [change(1442, 1442, 1500), change(8900, 1442, 1500)] {
        assert_eq!(after(&record, &back).change.map(|c| c.stage), Some(Stage::Returning));
    }
    let settling = record.with(record.change.map(|change| Change { stage: Stage::Settling, ..change }));
    assert_eq!(spreading(&after(&settling, &change(8900, 1442, 1500))), (8900, 1442, 9000, 1500));
    assert!(read_on(&Record::settled(mtu(8900)), &change(8900, 1442, 1500)).is_err());
}

#[test]
fn the_reverse_cancels_in_phase_one() {
    assert_eq!(
        after(&phase_one(), &change(8900, 1400, 1500)),
        after(&phase_one(), &change(1400, 1400, 1500))
    );
}

#[test]
fn a_cancelled_change_may_be_asked_for_again_and_cancelling_again_changes_nothing() {
    let cancelled = after(&phase_one(), &change(1400, 1400, 1500));
    assert_eq!(spreading(&after(&cancelled, &change(1400, 8900, 9000))), (1400, 8900, 1500, 9000));
    assert_eq!(after(&cancelled, &change(1400, 1400, 1500)), cancelled);
    assert_eq!(after(&cancelled, &change(8900, 1400, 1500)), cancelled);
    let wanted = read_on(&cancelled, &edited(1400)).unwrap();
    assert!(wanted.may_end && cancelled.with(wanted.change) == cancelled);
}

#[test]
fn another_beginning_is_refused_while_a_change_runs() {
    assert_eq!(
        read_on(&phase_one(), &change(1300, 8900, 9000)).unwrap_err(),
        ["spec.migration.mtu.network.from is 1300, but the MTU that is applied is 8900"]
    );
    let running = "the MTU is being changed from 1400 to 8900; finish it, or ask for the reverse \
                   (network from 8900 to 1400, machine to 1500) first";
    assert_eq!(read_on(&phase_one(), &change(8900, 4000, 4100)).unwrap_err(), [running]);
    assert_eq!(
        read_on(&phase_two(), &change(8900, 4000, 4100)).unwrap_err(),
        [
            "the MTU is being changed from 1400 to 8900; this is looked at again when every node has settled, or ask for \
          the reverse (network from 8900 to 1400, machine to 1500)"
        ]
    );
    assert_eq!(
        read_on(&phase_two(), &change(1400, 8900, 9000)).unwrap_err(),
        ["spec.migration.mtu.network.from is 1400, but the MTU that is applied is 8900"]
    );
}

#[test]
fn removing_the_migration_and_setting_the_target_asks_for_phase_two() {
    let wanted = read_on(&phase_one(), &edited(8900)).unwrap();
    assert_eq!(wanted.change.map(|c| c.stage), Some(Stage::Spreading { finish: true }));
    assert!(wanted.may_end);
    let held = phase_one().with(wanted.change);
    assert_eq!(held.epoch, phase_one().epoch, "nodes are told nothing new by it");
}

#[test]
fn where_the_mtu_is_not_set_removing_the_migration_alone_does_not_say_which_end_is_meant() {
    let not_set = "spec.defaultNetwork.ovnKubernetesConfig.mtu is not set; to finish set it to 8900";
    let refused = read_on(&phase_one(), &Asked::default()).unwrap_err();
    assert!(refused[0].contains(not_set), "{refused:?}");
    // Cancelled, there is but one end; in phase two, too.
    let cancelled = after(&phase_one(), &change(1400, 1400, 1500));
    for record in [cancelled, phase_two()] {
        let wanted = read_on(&record, &Asked::default()).unwrap();
        assert_eq!((wanted.change, wanted.may_end), (record.change, true));
    }
}

#[test]
fn where_nobody_says_it_hosts_are_asked_for_what_they_have_or_for_what_pods_need() {
    let asks = |to, sizes: &[(&str, u32)]| hosts_for(OVN, to, &hosts(sizes));
    assert_eq!(asks(8900, &[("a", 1500), ("b", 1500)]), 9000);
    assert_eq!(asks(8900, &[("a", 9216)]), 9216);
    assert_eq!(asks(1400, &[("a", 9000), ("b", 1500)]), 9000);
    assert_eq!(asks(1400, &[]), 1500);
}

#[test]
fn a_second_edit_can_be_taken_back_while_it_is_held() {
    let held = after(&phase_one(), &edited(8900));
    assert_eq!(after(&held, &change(1400, 8900, 9000)), phase_one());
}

#[test]
fn removing_the_migration_without_saying_where_to_is_refused_with_both_ways_out() {
    assert_eq!(
        read_on(&phase_one(), &edited(1400)).unwrap_err(),
        ["spec.migration was removed while the MTU changes from 1400 to 8900, and \
          spec.defaultNetwork.ovnKubernetesConfig.mtu is 1400; to finish set it to 8900; to cancel set \
          spec.migration.mtu to network from 1400 to 1400, machine to 1500"]
    );
    assert!(read_on(&phase_one(), &edited(1234)).is_err());
}

#[test]
fn removing_the_migration_of_a_change_that_is_taken_back_is_refused_where_the_mtu_is_not_the_old_end() {
    let cancelled = after(&phase_one(), &change(1400, 1400, 1500));
    for asked in [8900, 1234] {
        let refusal = format!(
            "spec.migration was removed while the change of MTU from 1400 to 8900 is taken back, and \
             spec.defaultNetwork.ovnKubernetesConfig.mtu is {asked}; set it to 1400; to go on with the change set \
             spec.migration.mtu to network from 1400 to 8900, machine to 9000"
        );
        assert_eq!(read_on(&cancelled, &edited(asked)).unwrap_err(), [refusal]);
    }
    let refused = read(&CLUSTER, &cancelled, &Hosts::new(), &edited(8900)).unwrap_err();
    assert_eq!(refused[0].reason(), "MigrationRemoved");
    // Both ways out that it names are ways out.
    assert!(read_on(&cancelled, &edited(1400)).is_ok_and(|wanted| wanted.may_end));
    assert_eq!(spreading(&after(&cancelled, &change(1400, 8900, 9000))), (1400, 8900, 1500, 9000));
}

#[test]
fn an_edited_mtu_without_a_migration_is_refused() {
    assert_eq!(
        read_on(&Record::settled(mtu(1400)), &edited(8900)).unwrap_err(),
        [
            "spec.defaultNetwork.ovnKubernetesConfig.mtu is 8900, but 1400 is applied; a running cluster moves only \
          through spec.migration.mtu (from 1400 to 8900)"
        ]
    );
    assert!(read_on(&phase_two(), &edited(1400)).is_err());
    assert!(read_on(&Record::settled(mtu(1400)), &edited(1400)).is_ok());
    assert!(read_on(&Record::settled(mtu(1400)), &Asked::default()).is_ok());
}

#[test]
fn the_reverse_in_phase_two_is_phase_one_of_the_way_back() {
    let record = after(&phase_two(), &change(8900, 1400, 1500));
    assert_eq!(spreading(&record), (8900, 1400, 9000, 1500));
    assert_eq!(record.published(), mtu(1400));
    assert_eq!(record.rendering().network, phase_one().rendering().network);
}

/// Whoever cancels phase one may find that phase two began meanwhile.
#[test]
fn a_cancellation_that_arrives_in_phase_two_is_the_reverse_and_stays_it() {
    let cancel = change(1400, 1400, 1500);
    let record = after(&phase_two(), &cancel);
    assert_eq!(record, after(&phase_two(), &change(8900, 1400, 1500)));
    assert_eq!(after(&record, &cancel), record, "and is no other request once it is under way");
}

#[test]
fn a_reversal_to_where_nobody_could_choose_to_go_is_still_what_is_asked_once_it_is_under_way() {
    let record = after(&Record::settled(mtu(1442)), &change(1442, 8900, 9000));
    let settling = record.with(record.change.map(|change| Change { stage: Stage::Settling, ..change }));
    for back in [change(1442, 1442, 1500), change(8900, 1442, 1500)] {
        let reversed = after(&settling, &back);
        assert_eq!(spreading(&reversed), (8900, 1442, 9000, 1500));
        assert_eq!(after(&reversed, &back), reversed);
    }
}

#[test]
fn a_way_back_that_is_sent_elsewhere_is_a_way_forward() {
    let back = after(&phase_two(), &change(8900, 1400, 1500));
    let is_back = |record: &Record| record.change.unwrap().back;
    assert!(is_back(&back) && is_back(&after(&back, &change(8900, 1400, 1500))));
    let elsewhere = after(&back, &change(8900, 5000, 9000));
    assert_eq!(spreading(&elsewhere), (8900, 5000, 9000, 9000));
    assert!(!is_back(&elsewhere));
    assert!(!is_back(&after(&back, &change(8900, 1400, 1600))), "nor with hosts at another size");
    let cancelled = after(&back, &change(8900, 8900, 9000));
    assert!(is_back(&after(&cancelled, &change(8900, 1400, 1500))));
}

#[test]
fn hosts_alone_may_change() {
    let record = after(&Record::settled(mtu(1400)), &change(1400, 1400, 9000));
    assert_eq!(spreading(&record), (1400, 1400, 1500, 9000));
    assert_eq!(record.rendering().network.pin(), None, "no route is pinned where nothing differs");
}

#[test]
fn where_the_hosts_come_from_must_be_known() {
    let record = Record::settled(mtu(1400));
    let read = |hosts: &Hosts, machine_from| {
        let mut asked = change(1400, 8900, 9000);
        asked.migration.as_mut().unwrap().machine.as_mut().unwrap().from = machine_from;
        let said = |all: Vec<Refusal>| all.iter().map(Refusal::to_string).collect::<Vec<_>>();
        super::read(&CLUSTER, &record, hosts, &asked).map(|w| w.change.unwrap().host).map_err(said)
    };
    let ends = |from| Ends { from: mtu(from), to: mtu(9000) };
    assert_eq!(read(&hosts(&[("a", 1500), ("b", 1500)]), None), Ok(ends(1500)));
    assert_eq!(
        read(&Hosts::new(), None).unwrap_err(),
        [
            "it is not known yet what MTU hosts run at (there are no nodes); wait, or say it in spec.migration.mtu.machine.from"
        ]
    );
    assert_eq!(read(&hosts(&[("a", 1500), ("b", 9000)]), Some(1500)), Ok(ends(1500)));
    assert_eq!(
        read(&hosts(&[("a", 1500), ("b", 9000)]), None).unwrap_err(),
        [
            "hosts run at different MTUs (a at 1500, b at 9000); say which is the old one in spec.migration.mtu.machine.from"
        ]
    );
    // Where the last change left them is not asked again, for as long as any is there.
    let missed = |left_at| {
        let record = Record { hosts: Some(mtu(left_at)), ..record };
        let asked = change(1400, 8900, 9000);
        let wanted = super::read(&CLUSTER, &record, &hosts(&[("a", 1500), ("b", 9000)]), &asked);
        wanted.map(|wanted| wanted.change.unwrap().host).ok()
    };
    assert_eq!((missed(1500), missed(4000)), (Some(ends(1500)), None));
    assert_eq!(
        read(&hosts(&[("a", 1500), ("b", 4000)]), Some(1500)).unwrap_err(),
        ["hosts run at neither 1500 nor 9000: b at 4000"]
    );
    assert_eq!(
        read(&Hosts::from([(node("a"), None)]), None).unwrap_err(),
        [
            "it is not known yet what MTU hosts run at (not reported by a); wait, or say it in spec.migration.mtu.machine.from"
        ]
    );
    assert_eq!(read(&Hosts::from([(node("a"), None)]), Some(1500)), Ok(ends(1500)));
    assert_eq!(
        read(&Hosts::new(), Some(9)).unwrap_err(),
        ["spec.migration.mtu.machine.from is 9, not between 576 and 65536"]
    );
}

/// It is where hosts go when the change is cancelled.
#[test]
fn where_the_hosts_come_from_is_not_believed_where_none_of_them_is() {
    let read = |record: u32, (to, from, machine): (u32, u32, u32), hosts: &Hosts| {
        let mut asked = change(record, to, machine);
        asked.migration.as_mut().unwrap().machine.as_mut().unwrap().from = Some(from);
        let said = |all: Vec<Refusal>| all.iter().map(Refusal::to_string).collect::<Vec<_>>();
        let record = Record::settled(mtu(record));
        super::read(&CLUSTER, &record, hosts, &asked).map(|w| w.change.unwrap().host.from).map_err(said)
    };
    let small = hosts(&[("a", 1500), ("b", 1500)]);
    let refusal = "spec.migration.mtu.machine.from is 9000, but every host that has reported runs at 1500; set it to that";
    assert_eq!(read(1400, (1300, 9000, 1500), &small).unwrap_err(), [refusal]);
    let mut one_silent = small.clone();
    one_silent.insert(node("c"), None);
    assert_eq!(read(1400, (1300, 9000, 1500), &one_silent).unwrap_err(), [refusal]);
    let large = hosts(&[("a", 9000), ("b", 9000)]);
    let refusal = "spec.migration.mtu.machine.from is 1500, but every host that has reported runs at 9000; set it to that";
    assert_eq!(read(8900, (1400, 1500, 9000), &large).unwrap_err(), [refusal]);
    assert_eq!(read(1400, (1300, 1500, 1500), &small), Ok(mtu(1500)), "hosts need not change");
    assert_eq!(read(1400, (1300, 1500, 1500), &one_silent), Ok(mtu(1500)));
}

#[test]
fn what_is_asked_of_a_plugin_that_is_not_ours_is_checked_and_then_refused_for_that() {
    let sdn = Cluster { plugin: Plugin::OpenShiftSdn, v6: false };
    let settled = Record::settled(mtu(1400));
    let reasons = |record: Option<&Record>, asked: &Asked| -> Vec<&str> {
        let all = unserved(
            &sdn,
            record,
            Fleet { hosts: &hosts(&[("a", 1500)]), equipped: &Equipped::new() },
            asked,
        );
        all.iter().map(Refusal::reason).collect()
    };
    assert_eq!(reasons(Some(&settled), &change(1400, 1450, 1500)), ["PluginNotServed"]);
    assert_eq!(reasons(Some(&settled), &change(1400, 1500, 1500)), ["MachineTooSmall", "PluginNotServed"]);
    assert_eq!(reasons(None, &change(1400, 1500, 1500)), ["PluginNotServed"]);
    assert_eq!(reasons(Some(&settled), &edited(1450)), ["WithoutMigration"]);
    assert!(reasons(Some(&settled), &Asked::default()).is_empty() && reasons(None, &edited(1450)).is_empty());
    assert_eq!(
        reasons(Some(&phase_two()), &edited(8900)),
        ["PluginNotServed"],
        "what is under way stands still"
    );
}

#[test]
fn one_machine_is_not_taken_to_another_size_and_is_told_what_to_do() {
    let alone = Cluster { plugin: Plugin::OvnKubernetes(Transport::Within), v6: false };
    let record = Record::settled(mtu(1500));
    let nothing = read(&alone, &record, &hosts(&[("a", 1500)]), &Asked::default()).unwrap();
    assert_eq!(nothing, Wanted { change: None, may_end: true });
    let same = Asked { mtu: Some(1500), migration: None };
    assert!(read(&alone, &record, &hosts(&[("a", 1500)]), &same).is_ok());
    for (asked, field) in [
        (change(1500, 1400, 1400), "spec.migration.mtu"),
        (asked(None, None, None), "spec.migration.mtu"),
        (Asked { mtu: Some(1400), migration: None }, "spec.defaultNetwork.ovnKubernetesConfig.mtu"),
    ] {
        let refusals = read(&alone, &record, &hosts(&[("a", 1500)]), &asked).unwrap_err();
        let [refusal] = &refusals[..] else { panic!("{refusals:?}") };
        assert_eq!(refusal.reason(), "OneMachine");
        let says = refusal.to_string();
        assert!(says.starts_with(&format!("{field}: ")) && says.contains("delete the Node"), "{says}");
    }
}

#[test]
fn a_change_that_is_under_way_goes_on_and_back_whatever_packets_are_asked_to_be_wrapped_in() {
    let bare = Cluster { plugin: Plugin::OvnKubernetes(Transport::Unwrapped), v6: false };
    let nodes = hosts(&[("a", 1500)]);
    for asked in [change(1400, 8900, 9000), change(1400, 1400, 1500), edited(8900)] {
        let usual = read(&CLUSTER, &phase_one(), &nodes, &asked);
        assert_eq!(read(&bare, &phase_one(), &nodes, &asked), usual);
    }
    let nothing = read(&bare, &Record::settled(mtu(1400)), &nodes, &Asked::default());
    assert_eq!(nothing, Ok(Wanted { change: None, may_end: true }));
}
