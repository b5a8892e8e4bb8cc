//! The definitions, and what reading into a type and writing back does to an object.

use std::sync::LazyLock;

use netferry_api::{egressip, hostnet, overlay, rollout};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: K = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(typed).expect("plain data")
}

/// The object as it looks after a program has read it into its type and written it back.
pub(crate) fn read_and_written(object: &Value) -> Value {
    let kind =
        format!("{}/{}", object["apiVersion"].as_str().unwrap_or(""), object["kind"].as_str().unwrap_or(""));
    match kind.as_str() {
        "operator.openshift.io/v1/Network" => through::<overlay::OperatorNetwork>(object),
        "config.openshift.io/v1/Network" => through::<overlay::ConfigNetwork>(object),
        "machineconfiguration.openshift.io/v1/MachineConfig" => through::<rollout::MachineConfig>(object),
        "machineconfiguration.openshift.io/v1/MachineConfigPool" => {
            through::<rollout::MachineConfigPool>(object)
        }
        "nmstate.io/v1/NodeNetworkConfigurationPolicy"
        | "nmstate.io/v1beta1/NodeNetworkConfigurationPolicy" => {
            through::<hostnet::NodeNetworkConfigurationPolicy>(object)
        }
        "nmstate.io/v1beta1/NodeNetworkConfigurationEnactment" => {
            through::<hostnet::NodeNetworkConfigurationEnactment>(object)
        }
        "nmstate.io/v1beta1/NodeNetworkState" => through::<hostnet::NodeNetworkState>(object),
        "nmstate.io/v1/NMState" | "nmstate.io/v1beta1/NMState" => through::<hostnet::NMState>(object),
        "k8s.ovn.org/v1/EgressIP" => through::<egressip::EgressIP>(object),
        "k8s.ovn.org/v1/EgressFirewall" => through::<overlay::EgressFirewall>(object),
        "network.openshift.io/v1/HostSubnet" => through::<overlay::HostSubnet>(object),
        "network.openshift.io/v1/NetNamespace" => through::<overlay::NetNamespace>(object),
        "network.openshift.io/v1/ClusterNetwork" => through::<overlay::ClusterNetwork>(object),
        "network.openshift.io/v1/EgressNetworkPolicy" => through::<overlay::EgressNetworkPolicy>(object),
        other => panic!("no type for {other}"),
    }
}

/// Paths of what `before` says and `after` does not. Nothing and emptiness are the same thing here.
pub(crate) fn lost(path: &str, before: &Value, after: &Value, out: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                lost(&format!("{path}.{key}"), value, after.get(key).unwrap_or(&Value::Null), out);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                lost(&format!("{path}[{index}]"), before, after, out);
            }
        }
        (Value::Object(empty), Value::Null) if empty.is_empty() => {}
        (Value::Array(empty), Value::Null) if empty.is_empty() => {}
        (before, after) if before == after => {}
        (before, after) => out.push(format!("{path}: {before} became {after}")),
    }
}

pub(crate) static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let parse = |yaml: &str| serde_saphyr::from_str(yaml).expect("our own YAML");
    netferry_api::crds().iter().map(|(_, yaml)| parse(yaml)).collect()
});
