use super::*;

/// Row by row the table everybody who did this before knows: plugin, family, what is asked of 1400, what is said.
#[test]
fn every_row_of_the_validation_table_is_answered_with_its_refusals() {
    const SDN: Plugin = Plugin::OpenShiftSdn;
    const IPSEC: Plugin = Plugin::OvnKubernetes(Transport::GeneveInIpsec);
    const BARE: Plugin = Plugin::OvnKubernetes(Transport::Unwrapped);
    const NO_OVERLAY: &str = "spec.defaultNetwork.ovnKubernetesConfig.transport is NoOverlay, but nodes wrap packets in Geneve all the same; make the Network anew with the transport Geneve";
    type Row = (Plugin, bool, Option<u32>, Option<u32>, Option<u32>, &'static [&'static str]);
    #[rustfmt::skip]
    let rows: &[Row] = &[
        (OVN, false, Some(1400), Some(1300), Some(1500), &[]),
        (OVN, false, None, Some(1300), Some(1500),
            &["a change of MTU needs network.from, network.to and machine.to; missing: spec.migration.mtu.network.from"]),
        (OVN, false, Some(1400), None, Some(1500),
            &["a change of MTU needs network.from, network.to and machine.to; missing: spec.migration.mtu.network.to"]),
        (OVN, false, Some(1500), Some(100), None,
            &["a change of MTU needs network.from, network.to and machine.to; missing: spec.migration.mtu.machine.to"]),
        (OVN, false, Some(1500), Some(1300), Some(1500),
            &["spec.migration.mtu.network.from is 1500, but the MTU that is applied is 1400"]),
        (OVN, false, Some(1400), Some(100), Some(1500),
            &["spec.migration.mtu.network.to is 100, not between 576 and 65536"]),
        (OVN, false, Some(1400), Some(65537), Some(1500),
            &["spec.migration.mtu.network.to is 65537, not between 576 and 65536",
              "spec.migration.mtu.machine.to is 1500, but must be at least 65637: spec.migration.mtu.network.to 65537 and 100 for the encapsulation"]),
        (OVN, false, Some(1400), Some(1500), Some(1500),
            &["spec.migration.mtu.machine.to is 1500, but must be at least 1600: spec.migration.mtu.network.to 1500 and 100 for the encapsulation"]),
        (OVN, true, Some(1400), Some(1200), Some(1500),
            &["spec.migration.mtu.network.to is 1200, not between 1280 and 65536"]),
        (OVN, true, Some(1400), Some(65536), Some(65636),
            &["spec.migration.mtu.machine.to is 65636, not between 1280 and 65536"]),
        (SDN, false, Some(1400), Some(1300), Some(1500), &[]),
        (SDN, false, None, Some(1300), Some(1500),
            &["a change of MTU needs network.from, network.to and machine.to; missing: spec.migration.mtu.network.from"]),
        (SDN, false, Some(1500), Some(1300), Some(1500),
            &["spec.migration.mtu.network.from is 1500, but the MTU that is applied is 1400"]),
        (SDN, false, Some(1400), Some(100), Some(1500),
            &["spec.migration.mtu.network.to is 100, not between 576 and 65536"]),
        (SDN, false, Some(1400), Some(65537), Some(1500),
            &["spec.migration.mtu.network.to is 65537, not between 576 and 65536",
              "spec.migration.mtu.machine.to is 1500, but must be at least 65587: spec.migration.mtu.network.to 65537 and 50 for the encapsulation"]),
        (SDN, false, Some(1400), Some(1500), Some(1500),
            &["spec.migration.mtu.machine.to is 1500, but must be at least 1550: spec.migration.mtu.network.to 1500 and 50 for the encapsulation"]),
        // The edges of each bound.
        (OVN, false, Some(1400), Some(576), Some(676), &[]),
        (OVN, false, Some(1400), Some(575), Some(675),
            &["spec.migration.mtu.network.to is 575, not between 576 and 65536"]),
        (OVN, false, Some(1400), Some(576), Some(575),
            &["spec.migration.mtu.machine.to is 575, not between 576 and 65536",
              "spec.migration.mtu.machine.to is 575, but must be at least 676: spec.migration.mtu.network.to 576 and 100 for the encapsulation"]),
        (OVN, true, Some(1400), Some(1280), Some(1380), &[]),
        (OVN, true, Some(1400), Some(1279), Some(1380),
            &["spec.migration.mtu.network.to is 1279, not between 1280 and 65536"]),
        (OVN, false, Some(1400), Some(65436), Some(65536), &[]),
        (OVN, false, Some(1400), Some(65437), Some(65536),
            &["spec.migration.mtu.machine.to is 65536, but must be at least 65537: spec.migration.mtu.network.to 65437 and 100 for the encapsulation"]),
        (OVN, false, Some(1400), Some(1399), Some(1499), &[]),
        (OVN, false, Some(1400), Some(1400), Some(1499),
            &["spec.migration.mtu.machine.to is 1499, but must be at least 1500: spec.migration.mtu.network.to 1400 and 100 for the encapsulation"]),
        (IPSEC, false, Some(1400), Some(1354), Some(1500), &[]),
        (IPSEC, false, Some(1400), Some(1355), Some(1500),
            &["spec.migration.mtu.machine.to is 1500, but must be at least 1501: spec.migration.mtu.network.to 1355 and 146 for the encapsulation"]),
        (SDN, false, Some(1400), Some(1450), Some(1500), &[]),
        (SDN, false, Some(1400), Some(1451), Some(1500),
            &["spec.migration.mtu.machine.to is 1500, but must be at least 1501: spec.migration.mtu.network.to 1451 and 50 for the encapsulation"]),
        // Elsewhere nothing would be added to packets.
        (BARE, false, Some(1400), Some(1500), Some(1500), &[NO_OVERLAY]),
        (BARE, false, Some(1400), Some(1300), Some(1500), &[NO_OVERLAY]),
        // A sum beyond 32 bits is a large number, not a small one.
        (OVN, false, Some(1400), Some(u32::MAX), Some(1500),
            &["spec.migration.mtu.network.to is 4294967295, not between 576 and 65536",
              "spec.migration.mtu.machine.to is 1500, but must be at least 4294967395: spec.migration.mtu.network.to 4294967295 and 100 for the encapsulation"]),
        // Everything wrong at once is said at once.
        (OVN, true, Some(9000), Some(1200), Some(1250),
            &["spec.migration.mtu.network.from is 9000, but the MTU that is applied is 1400",
              "spec.migration.mtu.network.to is 1200, not between 1280 and 65536",
              "spec.migration.mtu.machine.to is 1250, not between 1280 and 65536",
              "spec.migration.mtu.machine.to is 1250, but must be at least 1300: spec.migration.mtu.network.to 1200 and 100 for the encapsulation"]),
    ];
    for (plugin, v6, from, to, machine, said) in rows {
        let cluster = Cluster { plugin: *plugin, v6: *v6 };
        let record = Record::settled(mtu(1400));
        let answer = read(&cluster, &record, &hosts(&[("a", 1500)]), &asked(*from, *to, *machine));
        let refusals: Vec<String> =
            answer.map_or_else(|all| all.iter().map(Refusal::to_string).collect(), |_| Vec::new());
        assert_eq!(refusals, *said, "{plugin:?} v6={v6} {from:?} {to:?} {machine:?}");
    }
}

#[test]
fn a_change_without_network_or_machine_names_all_that_is_missing() {
    let cluster = Cluster { plugin: OVN, v6: false };
    let network = Some(AskedEnds { from: Some(1400), to: Some(1300) });
    let machine = Some(AskedEnds { from: None, to: Some(1500) });
    for (network, machine, missing) in [
        (None, None, vec![Field::NetworkFrom, Field::NetworkTo, Field::MachineTo]),
        (None, machine, vec![Field::NetworkFrom, Field::NetworkTo]),
        (network, None, vec![Field::MachineTo]),
    ] {
        let asked = Asked { mtu: None, migration: Some(AskedChange { network, machine }) };
        let refused = read(&cluster, &Record::settled(mtu(1400)), &Hosts::new(), &asked).unwrap_err();
        assert_eq!(refused, [Refusal::Missing(missing)]);
    }
}
