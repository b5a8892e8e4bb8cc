use super::super::testing::*;
use super::*;

fn service(more: Value) -> (&'static str, Value) {
    let mut service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "s", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]},
    });
    merge(&mut service, &more);
    ("Service", service)
}

fn pod(name: &str, address: &str, more: Value) -> (&'static str, Value) {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut pod, &more);
    ("Pod", pod)
}

fn created(writes: &[Write]) -> Vec<&Value> {
    let slice = |write: &'_ Write| matches!(write.what, What::Create(_));
    let creating = writes.iter().filter(|write| slice(write));
    creating
        .filter_map(|write| if let What::Create(slice) = &write.what { Some(slice) } else { None })
        .collect()
}

fn conditions(more: Value, service_more: Value) -> Value {
    let cache = cache(vec![service(service_more), pod("a", "10.244.0.5", more)]);
    let writes = look(&cache, "shop", "web");
    created(&writes)[0]["endpoints"][0]["conditions"].clone()
}

#[test]
fn an_endpoint_says_whether_it_is_ready_serves_and_ends() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let said =
        |ready, serving, terminating| json!({"ready": ready, "serving": serving, "terminating": terminating});
    assert_eq!(conditions(json!({}), json!({})), said(true, true, false));
    assert_eq!(conditions(going.clone(), json!({})), said(false, true, true));
    assert_eq!(conditions(unready.clone(), json!({})), said(false, false, false));
    let anyway = json!({"spec": {"publishNotReadyAddresses": true}});
    assert_eq!(conditions(unready, anyway.clone()), said(true, false, false));
    assert_eq!(conditions(going, anyway), said(true, true, true));
}

#[test]
fn a_slice_says_whose_it_is_and_what_is_behind_it() {
    let node = ("Node", json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}}));
    let cache = cache(vec![service(json!({})), node, pod("a", "10.244.0.5", json!({}))]);
    let writes = look(&cache, "shop", "web");
    let slice = created(&writes)[0];
    assert_eq!(slice["metadata"]["generateName"], "web-");
    assert_eq!(slice["metadata"]["labels"], json!({SERVICE: "web", MANAGER: US, "team": "a"}));
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "s");
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "", "protocol": "TCP", "port": 8080}]));
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["10.244.0.5"]));
    assert_eq!(slice["endpoints"][0]["nodeName"], "n1");
    assert_eq!(slice["endpoints"][0]["zone"], "z");
    assert_eq!(slice["endpoints"][0]["targetRef"]["name"], "a");
}

#[test]
fn every_family_has_slices_of_its_own() {
    let both = json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}});
    let ips = json!({"status": {"podIPs": [{"ip": "10.244.0.5"}, {"ip": "fd00::5"}]}});
    let cache = cache(vec![service(both), pod("a", "10.244.0.5", ips)]);
    let writes = look(&cache, "shop", "web");
    let said: Vec<(&Value, &Value)> = created(&writes)
        .iter()
        .map(|slice| (&slice["addressType"], &slice["endpoints"][0]["addresses"][0]))
        .collect();
    assert_eq!(said, [(&json!("IPv4"), &json!("10.244.0.5")), (&json!("IPv6"), &json!("fd00::5"))]);
}

#[test]
fn pods_that_number_a_named_port_otherwise_have_a_slice_of_their_own() {
    let named = json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": "http"}]}});
    let other =
        json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 9090}]}]}});
    let none = json!({"spec": {"containers": [{"name": "c"}]}});
    let cache = cache(vec![
        service(named),
        pod("a", "10.244.0.5", json!({})),
        pod("b", "10.244.0.6", other),
        pod("c", "10.244.0.7", none),
    ]);
    let writes = look(&cache, "shop", "web");
    let mut said: Vec<(String, String)> = created(&writes)
        .iter()
        .map(|slice| {
            (slice["ports"][0]["port"].to_string(), slice["endpoints"][0]["addresses"][0].to_string())
        })
        .collect();
    said.sort();
    let quoted = |port: &str, address: &str| (port.to_owned(), format!("{address:?}"));
    assert_eq!(
        said,
        [quoted("8080", "10.244.0.5"), quoted("9090", "10.244.0.6"), quoted("null", "10.244.0.7")]
    );
}

fn slice(name: &str, addresses: &[String]) -> (&'static str, Value) {
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    let slice = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {SERVICE: "web", MANAGER: US}},
        "addressType": "IPv4", "ports": [{"name": "", "protocol": "TCP", "port": 8080}], "endpoints": endpoints,
    });
    ("EndpointSlice", slice)
}

#[test]
fn endpoints_stay_in_the_slice_they_are_in_and_slices_are_filled_before_new_ones_are_made() {
    let address = |n: usize| format!("10.244.{}.{}", n / 200, n % 200 + 5);
    let mut objects = vec![service(json!({}))];
    objects.extend((0..150).map(|n| pod(&format!("p{n}"), &address(n), json!({}))));
    objects.push(slice("first", &(0..60).map(address).collect::<Vec<_>>()));
    let writes = look(&cache(objects), "shop", "web");
    let What::Merge(patch) = &writes.iter().find(|write| write.name == "first").unwrap().what else {
        panic!()
    };
    assert_eq!(patch["endpoints"].as_array().unwrap().len(), 100);
    assert_eq!(patch["endpoints"][59]["addresses"][0], address(59));
    assert_eq!(created(&writes)[0]["endpoints"].as_array().unwrap().len(), 50);
}

#[test]
fn a_pod_that_is_over_leaves_and_the_last_slice_stays_empty() {
    let over = json!({"status": {"phase": "Succeeded"}});
    let cache = cache(vec![
        service(json!({})),
        pod("a", "10.244.0.5", over),
        slice("first", &["10.244.0.5".into()]),
        slice("second", &["10.244.0.6".into()]),
    ]);
    let writes = look(&cache, "shop", "web");
    assert_eq!(writes.len(), 2, "{writes:?}");
    let emptied =
        |write: &&Write| matches!(&write.what, What::Merge(patch) if patch["endpoints"] == json!([]));
    assert_eq!(writes.iter().filter(emptied).count(), 1);
    let deleted = |write: &&Write| matches!(&write.what, What::Delete { .. });
    assert_eq!(writes.iter().filter(deleted).count(), 1);
}

#[test]
fn services_that_select_nothing_are_left_to_whoever_writes_their_slices() {
    for more in [json!({"spec": {"selector": null}}), json!({"spec": {"type": "ExternalName"}})] {
        let cache = cache(vec![service(more), pod("a", "10.244.0.5", json!({}))]);
        assert_eq!(look(&cache, "shop", "web"), []);
    }
}
