//! Facts about who gets which address and port.

use super::*;

fn cluster() -> Ranges {
    Ranges {
        networks: vec!["10.96.0.0/16".parse().unwrap(), "fd00:96::/112".parse().unwrap()],
        ports: 30000..=32767,
    }
}

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "s"}, "spec": spec})
}

fn allocated(spec: Value, old: Option<&Value>, used: &Allocated) -> Result<Value, String> {
    let mut service = service(spec);
    allocate_service(&mut service, old, used, &cluster()).map_err(|e| e.message)?;
    Ok(service)
}

#[test]
fn a_service_gets_an_address_of_the_first_family() {
    let made = allocated(json!({"type": "ClusterIP"}), None, &Allocated::default()).unwrap();
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(made["spec"]["ipFamilyPolicy"], "SingleStack");
    assert_eq!(made["spec"]["clusterIP"], made["spec"]["clusterIPs"][0]);
    let again = allocated(json!({"type": "ClusterIP"}), None, &Allocated::of([&made])).unwrap();
    assert_ne!(made["spec"]["clusterIP"], again["spec"]["clusterIP"], "no address is given twice");
}

#[test]
fn preferring_two_families_gets_both() {
    let spec = json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]});
    let made = allocated(spec, None, &Allocated::default()).unwrap();
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    assert!(made["spec"]["clusterIPs"][0].as_str().unwrap().starts_with("fd00:96::"));
    assert!(made["spec"]["clusterIPs"][1].as_str().unwrap().starts_with("10.96."));
}

#[test]
fn giving_up_the_second_family_gives_up_its_address() {
    let spec = json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"});
    let old = allocated(spec, None, &Allocated::default()).unwrap();
    let mut spec = old["spec"].clone();
    spec["ipFamilyPolicy"] = json!("SingleStack");
    let new = allocated(spec, Some(&old), &Allocated::of([&old])).unwrap();
    assert_eq!(new["spec"]["clusterIPs"], json!([old["spec"]["clusterIP"]]));
    assert_eq!(new["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[test]
fn a_headless_service_without_selector_requires_both_families() {
    let made =
        allocated(json!({"type": "ClusterIP", "clusterIP": "None"}), None, &Allocated::default()).unwrap();
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(made["spec"]["ipFamilyPolicy"], "RequireDualStack");
    assert_eq!(made["spec"]["clusterIPs"], json!(["None"]));
}

#[test]
fn an_address_is_refused_with_the_reason() {
    let used = Allocated::of([&service(json!({"clusterIPs": ["10.96.0.1"]}))]);
    for (address, why) in [
        ("1.2.3.4", "the provided network does not match the current range"),
        ("10.96.0.0", "the provided network does not match the current range"),
        ("10.96.0.1", "provided IP is already allocated"),
    ] {
        let refused = allocated(json!({"type": "ClusterIP", "clusterIP": address}), None, &used).unwrap_err();
        assert_eq!(
            refused,
            format!(
                "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: {why}"
            )
        );
    }
}

#[test]
fn a_node_port_is_refused_with_the_reason() {
    let used = Allocated { ports: BTreeSet::from([30001]), ..Allocated::default() };
    for (port, why) in [
        (80, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (30001, "provided port is already allocated"),
    ] {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
        let refused = allocated(spec, None, &used).unwrap_err();
        assert_eq!(
            refused,
            format!("Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {why}")
        );
    }
}

#[test]
fn two_protocols_on_one_port_share_a_node_port() {
    let ports =
        json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 80, "protocol": "UDP"}]);
    let made = allocated(json!({"type": "NodePort", "ports": ports}), None, &Allocated::default()).unwrap();
    assert_eq!(made["spec"]["ports"][0]["nodePort"], made["spec"]["ports"][1]["nodePort"]);
}

#[test]
fn a_replacement_keeps_what_it_does_not_mention() {
    let spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]});
    let old = allocated(spec.clone(), None, &Allocated::default()).unwrap();
    let new = allocated(spec, Some(&old), &Allocated::of([&old])).unwrap();
    assert_eq!(new["spec"], old["spec"]);
    assert!(new["spec"]["healthCheckNodePort"].as_i64().unwrap() >= 30000);
}

#[test]
fn an_address_given_up_is_not_the_next_one_taken() {
    let with = |uid: &str| {
        let mut service = json!({"metadata": {"name": "s", "uid": uid}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
        allocate_service(&mut service, None, &Allocated::default(), &cluster()).unwrap();
        (service["spec"]["clusterIP"].clone(), service["spec"]["ports"][0]["nodePort"].clone())
    };
    assert_eq!(with("a"), with("a"), "the same services get the same addresses");
    assert_ne!(with("a").0, with("b").0);
    assert_ne!(with("a").1, with("b").1);
}

#[test]
fn a_range_is_used_up_before_anybody_is_turned_away() {
    let ranges = Ranges { networks: vec!["10.96.0.0/28".parse().unwrap()], ports: 30000..=30003 };
    let mut services: Vec<Value> = Vec::new();
    loop {
        let uid = services.len().to_string();
        let mut next = json!({"metadata": {"name": "s", "uid": uid}, "spec": {"type": "ClusterIP"}});
        match allocate_service(&mut next, None, &Allocated::of(&services), &ranges) {
            Ok(()) => services.push(next),
            Err(error) => {
                assert_eq!(
                    error.message,
                    "Internal error occurred: failed to allocate a serviceIP: range is full"
                );
                break;
            }
        }
    }
    assert_eq!(services.len(), 14, "all but the network's and the broadcast address");
}
