//! What programs do with the resources: read them, change something, write them back.

use kube::Resource;
use netferry_api::migration::{FeatureMigration, MigrationMode, conditions as migration};
use netferry_api::overlay::{self, OperatorNetwork, Plugin};
use netferry_api::rollout::conditions::{PoolConditionType, RolloutEvent};
use netferry_api::{egressip, group, hostnet, rollout};
use serde_json::{Value, json};

#[test]
fn a_feature_turned_off_stays_off_when_a_program_reads_and_writes_the_network() {
    let stored = json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "Network",
        "metadata": { "name": "cluster" },
        "spec": { "migration": { "features": { "egressIP": false, "egressFirewall": true, "multicast": false } } }
    });
    let mut network: OperatorNetwork = serde_json::from_value(stored).expect("legal");
    network.spec.migration.get_or_insert_default().mode = Some(MigrationMode::Live);
    let written = serde_json::to_value(&network).expect("plain data");
    assert_eq!(
        written["spec"]["migration"],
        json!({ "mode": "Live", "features": { "egressIP": false, "egressFirewall": true, "multicast": false } })
    );
}

#[test]
fn every_optional_boolean_that_a_server_fills_in_with_true_can_be_written_as_false() {
    // Found in the definitions, so that one added later is not forgotten.
    fn defaults_to_true(path: &str, schema: &Value, out: &mut Vec<String>) {
        if schema["default"] == json!(true) {
            out.push(path.to_owned());
        }
        for (name, child) in schema["properties"].as_object().into_iter().flatten() {
            defaults_to_true(&format!("{path}.{name}"), child, out);
        }
        if schema["items"].is_object() {
            defaults_to_true(&format!("{path}[]"), &schema["items"], out);
        }
    }
    let mut found = Vec::new();
    for (file, yaml) in netferry_api::crds() {
        let crd: Value = serde_saphyr::from_str(&yaml).expect("our own YAML");
        defaults_to_true(&file, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
    }
    let features = "networks.operator.openshift.io.yaml.spec.migration.features";
    assert_eq!(
        found,
        [
            format!("{features}.egressFirewall"),
            format!("{features}.egressIP"),
            format!("{features}.multicast")
        ]
    );
    let off =
        FeatureMigration { egress_ip: Some(false), egress_firewall: Some(false), multicast: Some(false) };
    assert_eq!(
        serde_json::to_value(off).expect("plain data"),
        json!({ "egressIP": false, "egressFirewall": false, "multicast": false })
    );
}

#[test]
fn a_feature_nobody_mentions_is_carried_over() {
    let features = FeatureMigration { multicast: Some(false), ..FeatureMigration::default() };
    assert!(features.egress_ip() && features.egress_firewall() && !features.multicast());
}

#[test]
fn an_empty_ipsec_object_means_full_encryption() {
    let old: overlay::IpsecConfig = serde_json::from_value(json!({})).expect("legal");
    assert_eq!(old.effective_mode(), overlay::IpsecMode::Full);
    assert_eq!(serde_json::to_value(old).expect("plain data"), json!({}), "and stays empty when written");
}

#[test]
fn resources_of_the_older_plugin_are_written_without_a_spec() {
    let subnet = overlay::HostSubnet::new(
        "worker-1",
        overlay::HostSubnetData {
            host: "worker-1".into(),
            host_ip: "192.168.111.23".into(),
            subnet: "10.128.2.0/23".into(),
            ..overlay::HostSubnetData::default()
        },
    );
    assert_eq!(
        serde_json::to_value(subnet).expect("plain data"),
        json!({
            "apiVersion": "network.openshift.io/v1",
            "kind": "HostSubnet",
            "metadata": { "name": "worker-1" },
            "host": "worker-1",
            "hostIP": "192.168.111.23",
            "subnet": "10.128.2.0/23"
        })
    );
    let enactment = hostnet::NodeNetworkConfigurationEnactment::new(
        &hostnet::NodeNetworkConfigurationEnactment::name_of("worker-1", "br1"),
        hostnet::EnactmentData {},
    );
    assert_eq!(
        serde_json::to_value(enactment).expect("plain data"),
        json!({
            "apiVersion": "nmstate.io/v1beta1",
            "kind": "NodeNetworkConfigurationEnactment",
            "metadata": { "name": "worker-1.br1" }
        })
    );
}

#[test]
fn a_pool_s_configuration_is_a_reference_with_its_sources_beside_it() {
    let wire =
        json!({ "name": "rendered-worker-1", "source": [{ "name": "00-worker" }, { "name": "99-mtu" }] });
    let typed: rollout::PoolConfiguration = serde_json::from_value(wire.clone()).expect("legal");
    assert_eq!(typed.rendered.name.as_deref(), Some("rendered-worker-1"));
    assert_eq!(serde_json::to_value(typed).expect("plain data"), wire);
}

#[test]
fn every_kind_is_in_the_group_the_list_of_groups_says() {
    let of = |group: &str, version: &str| format!("{group}/{version}");
    let api_versions = [
        (OperatorNetwork::api_version(&()).into_owned(), group::OPERATOR),
        (overlay::ConfigNetwork::api_version(&()).into_owned(), group::CONFIG),
        (rollout::MachineConfig::api_version(&()).into_owned(), group::MACHINE_CONFIGURATION),
        (rollout::MachineConfigPool::api_version(&()).into_owned(), group::MACHINE_CONFIGURATION),
        (hostnet::NodeNetworkConfigurationPolicy::api_version(&()).into_owned(), group::NMSTATE),
        (hostnet::NMState::api_version(&()).into_owned(), group::NMSTATE),
        (hostnet::NodeNetworkConfigurationEnactment::api_version(&()).into_owned(), group::NMSTATE_BETA),
        (hostnet::NodeNetworkState::api_version(&()).into_owned(), group::NMSTATE_BETA),
        (egressip::EgressIP::api_version(&()).into_owned(), group::OVN),
        (overlay::EgressFirewall::api_version(&()).into_owned(), group::OVN),
        (overlay::ClusterNetwork::api_version(&()).into_owned(), group::SDN),
        (overlay::HostSubnet::api_version(&()).into_owned(), group::SDN),
        (overlay::NetNamespace::api_version(&()).into_owned(), group::SDN),
        (overlay::EgressNetworkPolicy::api_version(&()).into_owned(), group::SDN),
    ];
    for (api_version, listed) in api_versions {
        assert_eq!(api_version, listed.to_string());
        assert_eq!(api_version, of(listed.group, listed.version));
    }
}

#[test]
fn a_plugin_that_is_not_ours_is_nobody() {
    assert_eq!(Plugin::named("OVNKubernetes"), Some(Plugin::OvnKubernetes));
    assert_eq!(Plugin::named("OpenShiftSDN"), Some(Plugin::OpenShiftSdn));
    for other in ["", "Calico", "ovnkubernetes", "OVNKubernetes "] {
        assert_eq!(Plugin::named(other), None, "{other:?}");
    }
}

/// Dashboards, runbooks and `kubectl wait` compare these letter for letter.
#[test]
fn conditions_and_reasons_are_spelled_as_their_readers_expect() {
    fn all<T: Copy + ToString>(names: &[T]) -> String {
        names.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(" ")
    }
    assert_eq!(
        all(migration::MigrationConditionType::ALL),
        "NetworkTypeMigrationInProgress NetworkTypeMigrationTargetCNIAvailable NetworkTypeMigrationMTUReady \
         NetworkTypeMigrationTargetCNIInUse NetworkTypeMigrationOriginalCNIPurged"
    );
    assert_eq!(
        all(migration::MigrationReason::ALL),
        "NetworkTypeMigrationStarted NetworkTypeMigrationCompleted NetworkTypeMigrationInitialized \
         NetworkTypeMigrationNotInProgress MachineConfigPoolDegraded MachineConfigPoolsUpdating \
         MachineConfigNotApplied MachineConfigApplied TargetCNINotDeployed TargetCNINotReady TargetCNIDeployed \
         OriginalCNINotPurged OriginalCNIPurged Error"
    );
    assert_eq!(
        all(migration::BlockedReason::ALL),
        "UnsupportedCNI UnsupportedHyperShiftCluster UnsupportedSDNNetworkIsolationMode NetworkOverlap \
         UnsupportedMACVLANInterface"
    );
    assert_eq!(
        all(overlay::conditions::OperatorConditionType::ALL),
        "Available Progressing Degraded Upgradeable"
    );
    assert_eq!(all(PoolConditionType::ALL), "Updated Updating NodeDegraded RenderDegraded Degraded");
    use hostnet::conditions::*;
    assert_eq!(all(PolicyConditionType::ALL), "Available Degraded Progressing Ignored");
    assert_eq!(all(EnactmentConditionType::ALL), "Available Failing Progressing Pending Aborted");
    assert_eq!(
        all(PolicyReason::ALL),
        "SuccessfullyConfigured FailedToConfigure ConfigurationProgressing NoMatchingNode"
    );
    assert_eq!(
        all(EnactmentReason::ALL),
        "SuccessfullyConfigured FailedToConfigure Retrying ConfigurationProgressing MaxUnavailableLimitReached \
         ConfigurationAborted"
    );
    assert_eq!(
        all(NMStateReason::ALL),
        "InternalError Deploying SuccessfullyDeployed TLSProfileNotFullyHonored"
    );
    assert_eq!(
        all(egressip::events::EgressIpEvent::ALL),
        "InvalidEgressIP NoMatchingNodeFound EgressIPConflict UnsupportedRequest UnassignedRequest UndefinedRequest"
    );
    // A name that is found again is the one it was written as.
    for event in RolloutEvent::ALL {
        assert_eq!(RolloutEvent::named(event.as_str()), Some(*event));
    }
}

#[test]
fn taints_keep_pods_away_as_strongly_as_they_should() {
    let waiting = rollout::annotations::update_in_progress();
    assert_eq!((waiting.key.as_str(), waiting.effect.as_str()), ("UpdateInProgress", "PreferNoSchedule"));
    let too_small = overlay::annotations::mtu_too_small();
    assert_eq!(
        (too_small.key.as_str(), too_small.effect.as_str()),
        ("k8s.ovn.org/mtu-too-small", "NoSchedule")
    );
}
