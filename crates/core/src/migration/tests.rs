use super::*;
use crate::overlay::networks::ClusterRange;

fn range(net: &str, host_prefix: u8) -> ClusterRange {
    ClusterRange::new(net.parse().unwrap(), host_prefix).unwrap()
}

fn plain() -> Settings {
    Settings {
        network_type: "OVNKubernetes".into(),
        migration: None,
        cluster: vec![range("10.128.0.0/14", 23)],
        service: vec!["172.30.0.0/16".parse().unwrap()],
        geneve_port: 6081,
        vxlan_port: 4789,
        sdn_mode: "NetworkPolicy".into(),
        hybrid: None,
        may_widen: true,
        hosted: false,
        dual_stack: DualStack::Any,
    }
}

fn migrating(network_type: Option<&str>, mode: MigrationMode) -> Settings {
    let migration = Migration { network_type: network_type.map(Into::into), mode };
    Settings { migration: Some(migration), ..plain() }
}

fn dual() -> Settings {
    let mut dual = plain();
    dual.cluster.push(range("fd01::/48", 64));
    dual.service.push("fd02::/112".parse().unwrap());
    dual
}

#[track_caller]
fn said(old: &Settings, new: &Settings, expected: &[&str]) {
    let refusals: Vec<String> = may_become(old, new)
        .map_or_else(|all| all.iter().map(ChangeRefusal::to_string).collect(), |()| Vec::new());
    assert_eq!(refusals, expected);
}

#[test]
fn what_stays_the_same_is_accepted() {
    said(&plain(), &plain(), &[]);
    said(&dual(), &dual(), &[]);
}

#[test]
fn the_plugin_changes_only_to_the_one_that_was_prepared() {
    let sdn = || Settings { network_type: "OpenShiftSDN".into(), ..plain() };
    let prepared = |name| migrating(Some(name), MigrationMode::Offline);
    said(
        &plain(),
        &sdn(),
        &["spec.defaultNetwork.type cannot become \"OpenShiftSDN\" without spec.migration"],
    );
    said(&prepared("OpenShiftSDN"), &sdn(), &[]);
    said(
        &prepared("Other"),
        &sdn(),
        &["spec.defaultNetwork.type cannot become \"OpenShiftSDN\"; spec.migration.networkType is \"Other\""],
    );
    said(
        &migrating(None, MigrationMode::Offline),
        &sdn(),
        &["spec.defaultNetwork.type cannot become \"OpenShiftSDN\"; spec.migration.networkType is \"\""],
    );
}

#[test]
fn a_running_change_of_plugin_keeps_its_target_and_mode() {
    let live = |name| migrating(Some(name), MigrationMode::Live);
    said(
        &live("A"),
        &live("B"),
        &["spec.migration.networkType cannot become \"B\" while a change to \"A\" is under way"],
    );
    said(
        &live("A"),
        &migrating(Some("A"), MigrationMode::Offline),
        &["spec.migration.mode cannot become Offline while a change in mode Live is under way"],
    );
    said(&plain(), &live("A"), &[]);
    said(&live("A"), &plain(), &[]);
    said(&live("A"), &migrating(None, MigrationMode::Offline), &[]);
}

#[test]
fn no_live_change_with_a_hosted_control_plane() {
    let hosted = Settings { hosted: true, ..migrating(Some("A"), MigrationMode::Live) };
    said(&plain(), &hosted, &["spec.migration.mode Live is not possible with a hosted control plane"]);
    said(&plain(), &Settings { hosted: true, ..migrating(Some("A"), MigrationMode::Offline) }, &[]);
}

#[test]
fn ranges_stay_while_a_change_is_under_way() {
    let mtu_only = migrating(None, MigrationMode::Offline);
    let by_type = migrating(Some("A"), MigrationMode::Live);
    let service = |s: &Settings| Settings { service: vec!["172.31.0.0/16".parse().unwrap()], ..s.clone() };
    let cluster = |s: &Settings| Settings { cluster: vec![range("10.128.0.0/13", 23)], ..s.clone() };
    for running in [&mtu_only, &by_type] {
        said(
            running,
            &service(running),
            &["spec.serviceNetwork cannot be changed while a change is under way"],
        );
    }
    said(&by_type, &cluster(&by_type), &[]);
    said(
        &mtu_only,
        &cluster(&mtu_only),
        &["spec.clusterNetwork cannot be changed while a change is under way"],
    );
}

#[test]
fn ports_and_modes_are_fixed_but_while_the_plugin_changes() {
    let other = Settings { geneve_port: 6082, vxlan_port: 4790, sdn_mode: "Subnet".into(), ..plain() };
    let fixed = [
        "spec.defaultNetwork.ovnKubernetesConfig.genevePort cannot be changed from 6081 to 6082",
        "spec.defaultNetwork.openshiftSDNConfig.vxlanPort cannot be changed from 4789 to 4790",
        "spec.defaultNetwork.openshiftSDNConfig.mode cannot be changed from NetworkPolicy to Subnet",
    ];
    said(&plain(), &other, &fixed);
    said(&migrating(Some("OVNKubernetes"), MigrationMode::Offline), &other, &[]);
    // A change of MTU alone frees nothing.
    said(&migrating(None, MigrationMode::Offline), &other, &fixed);
}

#[test]
fn a_hybrid_network_comes_and_goes_but_is_not_edited() {
    let hybrid = |port| {
        let ranges = vec![range("10.132.0.0/14", 23)];
        Settings { hybrid: Some(Hybrid { ranges, vxlan_port: port }), ..plain() }
    };
    said(&plain(), &hybrid(None), &[]);
    said(&hybrid(None), &plain(), &[]);
    said(
        &hybrid(None),
        &hybrid(Some(9898)),
        &[
            "spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig cannot be changed while it is in use; remove it first",
        ],
    );
}

#[test]
fn a_cluster_range_may_grow_and_nothing_else() {
    let with = |ranges: &[(&str, u8)]| Settings {
        cluster: ranges.iter().map(|(net, prefix)| range(net, *prefix)).collect(),
        ..plain()
    };
    let two = with(&[("10.128.0.0/14", 23), ("10.0.0.0/14", 23)]);
    let refused = |old: &Settings, new: &Settings, why: &str| {
        let said = may_become(old, new).unwrap_err();
        assert!(said.len() == 1 && said[0].to_string().ends_with(why), "{said:?}");
    };
    said(&plain(), &with(&[("10.128.0.0/13", 23)]), &[]);
    said(&two, &with(&[("10.0.0.0/13", 23), ("10.128.0.0/14", 23)]), &[]);
    refused(&plain(), &with(&[("10.128.0.0/15", 23)]), "an entry cannot shrink");
    refused(&plain(), &with(&[("10.128.0.0/14", 24)]), "hostPrefix must stay");
    refused(&plain(), &with(&[("10.0.0.0/14", 23)]), "an entry's address must stay");
    refused(&plain(), &two, "entries of one family cannot be added or removed");
    let rigid = |s: Settings| Settings { may_widen: false, ..s };
    refused(&rigid(plain()), &rigid(with(&[("10.128.0.0/13", 23)])), "this plugin cannot follow a change");
}

#[test]
fn a_second_family_comes_behind_the_first_where_the_platform_takes_it() {
    said(&plain(), &dual(), &[]);
    said(&dual(), &plain(), &[]);
    const SERVICE: &str = "spec.serviceNetwork cannot be changed except to add the second family behind the first, or to remove it";
    let mut cluster_reversed = dual();
    cluster_reversed.cluster.reverse();
    said(
        &plain(),
        &cluster_reversed,
        &[
            "spec.clusterNetwork 10.128.0.0/14 (/23 per node) cannot become fd01::/48 (/64 per node), 10.128.0.0/14 \
           (/23 per node): the first entry's family must stay",
        ],
    );
    let mut service_reversed = dual();
    service_reversed.service.reverse();
    said(&plain(), &service_reversed, &[SERVICE]);
    for other in ["172.31.0.0/16", "172.30.0.0/15"] {
        let mut other_primary = dual();
        other_primary.service[0] = other.parse().unwrap();
        said(&plain(), &other_primary, &[SERVICE]);
    }
    for dual_stack in [DualStack::Never, DualStack::FromTheStart] {
        let new = Settings { dual_stack, ..dual() };
        assert!(may_become(&plain(), &new).is_err());
        assert!(may_become(&Settings { dual_stack, ..dual() }, &new).is_ok());
    }
    let v6 = Settings {
        cluster: vec![range("fd01::/48", 64)],
        service: vec!["fd02::/112".parse().unwrap()],
        ..plain()
    };
    assert!(may_become(&plain(), &v6).is_err());
}

#[test]
fn ranges_that_stay_are_as_they_were_and_in_order_when_the_second_family_comes_or_goes() {
    let with = |ranges: &[&str]| Settings {
        cluster: ranges.iter().map(|net| range(net, if net.contains(':') { 64 } else { 23 })).collect(),
        ..plain()
    };
    let shown = |ranges: &[&str]| {
        let of = |net: &&str| format!("{net} (/{} per node)", if net.contains(':') { 64 } else { 23 });
        ranges.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    let (a, b, wide, v6) = ("10.128.0.0/14", "10.0.0.0/14", "10.128.0.0/13", "fd01::/48");
    for (old, new) in [
        (vec![a], vec![wide, v6]),
        (vec![a, v6], vec![wide]),
        (vec![a, b], vec![b, a, v6]),
        (vec![a, b, v6], vec![b, a]),
    ] {
        let refusal = format!(
            "spec.clusterNetwork {} cannot become {}: the first family's entries and their order must stay when the \
             second comes or goes",
            shown(&old),
            shown(&new)
        );
        said(&with(&old), &with(&new), &[&refusal]);
    }
    said(&with(&[a, b]), &with(&[a, b, v6]), &[]);
    said(&with(&[a, b, v6]), &with(&[a, b]), &[]);
    // Each of the two alone is fine.
    said(&with(&[a, b]), &with(&[b, wide]), &[]);
    said(&with(&[a, b, v6]), &with(&[b, wide, v6]), &[]);
}
