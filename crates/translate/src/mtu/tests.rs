use super::*;

fn spec(value: Value) -> OperatorNetworkSpec {
    serde_json::from_value(value).unwrap()
}

fn mtu(bytes: u32) -> Mtu {
    Mtu::new(bytes).unwrap()
}

#[test]
fn the_plugin_and_its_headers_are_read_from_the_network() {
    let ovn = |config: Value| json!({ "defaultNetwork": { "type": "OVNKubernetes", "ovnKubernetesConfig": config } });
    let geneve = Some(Plugin::OvnKubernetes(Transport::Geneve));
    let ipsec = Some(Plugin::OvnKubernetes(Transport::GeneveInIpsec));
    for (value, plugin) in [
        (json!({}), geneve),
        (ovn(json!({})), geneve),
        (ovn(json!({ "ipsecConfig": { "mode": "Disabled" } })), geneve),
        (ovn(json!({ "ipsecConfig": { "mode": "External" } })), geneve),
        (ovn(json!({ "ipsecConfig": { "mode": "Full" } })), ipsec),
        (ovn(json!({ "ipsecConfig": {} })), ipsec),
        (ovn(json!({ "transport": "NoOverlay" })), Some(Plugin::OvnKubernetes(Transport::Unwrapped))),
        (json!({ "defaultNetwork": { "type": "OpenShiftSDN" } }), Some(Plugin::OpenShiftSdn)),
        (json!({ "defaultNetwork": { "type": "Calico" } }), None),
    ] {
        assert_eq!(
            cluster(&spec(value.clone()), topology::Mode::MultiNode).map(|cluster| cluster.plugin),
            plugin,
            "{value}"
        );
    }
    let ranges = |cidrs: &[&str]| {
        let entries: Vec<Value> = cidrs.iter().map(|cidr| json!({ "cidr": cidr })).collect();
        cluster(&spec(json!({ "clusterNetwork": entries })), topology::Mode::MultiNode).unwrap().v6
    };
    let alone = cluster(&spec(ovn(json!({}))), topology::Mode::SingleNode).unwrap();
    assert_eq!(alone.plugin, Plugin::OvnKubernetes(Transport::Within));
    assert!(!ranges(&["10.0.0.0/14"]) && ranges(&["fd01::/48"]) && ranges(&["10.0.0.0/14", "fd01::/48"]));
}

#[test]
fn what_is_asked_is_handed_over_as_it_stands_there() {
    let ends = |from: Option<u32>, to: Option<u32>| Some(AskedEnds { from, to });
    let ovn = json!({ "ovnKubernetesConfig": { "mtu": 1400 }, "openshiftSDNConfig": { "mtu": 1450 } });
    let sdn = json!({ "type": "OpenShiftSDN", "ovnKubernetesConfig": { "mtu": 1400 }, "openshiftSDNConfig": { "mtu": 1450 } });
    for (value, mtu, migration) in [
        (json!({}), None, None),
        (json!({ "defaultNetwork": ovn }), Some(1400), None),
        (json!({ "defaultNetwork": sdn }), Some(1450), None),
        (json!({ "migration": {} }), None, None),
        (json!({ "migration": { "mtu": {} } }), None, Some(AskedChange { network: None, machine: None })),
        (
            json!({ "migration": { "mtu": { "network": { "from": 1400, "to": 9000 }, "machine": { "to": 9100 } } } }),
            None,
            Some(AskedChange { network: ends(Some(1400), Some(9000)), machine: ends(None, Some(9100)) }),
        ),
    ] {
        assert_eq!(asked(&spec(value.clone())), Asked { mtu, migration }, "{value}");
    }
}

#[test]
fn a_mode_that_cannot_be_understood_stops_everything_and_is_named() {
    let annotations = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(mode(None).unwrap(), Mode::default());
    let all = annotations(&[
        ("netferry.dev/mtu-unattended", "true"),
        ("netferry.dev/mtu-on-loss", "reverse"),
        ("netferry.dev/mtu-paused", "true"),
    ]);
    assert_eq!(
        mode(Some(&all)).unwrap(),
        Mode { unattended: true, on_loss: Some(OnLoss::Reverse), paused: true }
    );
    let wrong =
        annotations(&[("netferry.dev/mtu-unattended", "true"), ("netferry.dev/mtu-on-loss", "Explode")]);
    let (mode, said) = mode(Some(&wrong)).unwrap_err();
    assert_eq!(mode, Mode { paused: true, ..Mode::default() });
    assert_eq!(
        said.to_string(),
        "annotation netferry.dev/mtu-on-loss: \"Explode\" is neither pause nor reverse"
    );
}

#[test]
fn the_second_edit_takes_the_migration_away_and_nothing_else_of_somebody_s() {
    let finish = SpecEdit::Finish(mtu(9000));
    let change = json!({ "mtu": { "network": { "from": 1400, "to": 9000 } } });
    let live = json!({ "networkType": "OVNKubernetes", "mode": "Live", "mtu": {} });
    for (value, patch) in [
        (
            json!({ "migration": change }),
            json!({ "defaultNetwork": { "ovnKubernetesConfig": { "mtu": 9000 } }, "migration": null }),
        ),
        (
            json!({ "migration": live }),
            json!({ "defaultNetwork": { "ovnKubernetesConfig": { "mtu": 9000 } }, "migration": { "mtu": null } }),
        ),
        (
            json!({ "defaultNetwork": { "type": "OpenShiftSDN" }, "migration": change }),
            json!({ "defaultNetwork": { "openshiftSDNConfig": { "mtu": 9000 } }, "migration": null }),
        ),
    ] {
        assert_eq!(printed_edit(&finish, &spec(value)), patch);
    }
    for (machine_from, written) in [(None, Value::Null), (Some(mtu(9100)), json!(9100))] {
        let back = SpecEdit::Migrate { from: mtu(9000), to: mtu(1400), machine_from, machine_to: mtu(1500) };
        let machine = json!({ "from": written, "to": 1500 });
        assert_eq!(
            printed_edit(&back, &spec(json!({}))),
            json!({ "migration": { "mtu": { "network": { "from": 9000, "to": 1400 }, "machine": machine } } })
        );
    }
}

fn changing(stage: Stage) -> Record {
    let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
    let change = Change { network: ends(1400, 9000), host: ends(1500, 9100), stage, back: false };
    Record { epoch: 4, change: Some(change), ..Record::settled(mtu(1400)) }
}

const STAGES: [Stage; 4] = [
    Stage::Spreading { finish: false },
    Stage::Spreading { finish: true },
    Stage::Settling,
    Stage::Returning,
];

#[test]
fn others_are_told_of_a_change_until_its_second_edit_took_effect() {
    assert_eq!(published_migration(&Record::settled(mtu(1400))), None);
    for (stage, told) in
        STAGES.into_iter().zip([Some((9000, 9100)), Some((9000, 9100)), None, Some((1400, 1500))])
    {
        let told = told.map(|(network, machine)| {
            json!({ "mtu": { "network": { "from": 1400, "to": network }, "machine": { "from": 1500, "to": machine } } })
        });
        let printed =
            published_migration(&changing(stage)).map(|status| serde_json::to_value(status).unwrap());
        assert_eq!(printed, told, "{stage:?}");
    }
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let others =
        [Record::settled(mtu(576)), changing(Stage::Settling).ended(), changing(Stage::Returning).ended()];
    for record in STAGES.map(changing).into_iter().chain(others) {
        assert_eq!(super::record(&printed_record(&record)).unwrap(), record);
        let back = Record { change: record.change.map(|change| Change { back: true, ..change }), ..record };
        assert_eq!(super::record(&printed_record(&back)).unwrap(), back);
    }
}

#[test]
fn what_is_applied_stands_in_one_place_of_one_object() {
    let map = |key: &str| {
        let written = json!({ "metadata": { "name": APPLIED }, "data": { key: printed_record(&Record::settled(mtu(1400))) } });
        serde_json::from_value::<ConfigMap>(written).unwrap()
    };
    assert_eq!(applied(&map("mtu")).unwrap(), Record::settled(mtu(1400)));
    assert!(matches!(applied(&map("others")), Err(NotARecord::Missing)));
    assert!(matches!(applied(&ConfigMap::default()), Err(NotARecord::Missing)));
}

#[test]
fn a_record_that_is_not_understood_whole_is_not_understood_at_all() {
    let good = printed_record(&changing(Stage::Settling));
    for (text, said) in [
        ("", "it is not the JSON it should be"),
        ("{}", "it is not the JSON it should be"),
        (&good.replace("\"version\":1", "\"version\":2"), "version 2 is not the version 1"),
        (&good.replace("Settling", "Resting"), "it is not the JSON it should be"),
        (&good.replace("\"back\"", "\"forth\""), "it is not the JSON it should be"),
        (&good.replace("\"mtu\"", "\"hosts\":1,\"mtu\""), "MTU 1 is not between 576 and 65536"),
        (&good.replace("9000", "70000"), "MTU 70000 is not between 576 and 65536"),
    ] {
        let wrong = super::record(text).unwrap_err().to_string();
        assert!(wrong.starts_with(said), "{wrong}");
    }
}

fn seen(value: &Value) -> Result<Option<Observed>, NotObserved> {
    observed(Some(&[(MtuObserved::KEY.to_owned(), value.to_string())].into()))
}

#[test]
fn what_a_node_carries_during_a_trial_is_not_what_it_runs_at() {
    let value = |trial: Value| {
        let mut value = json!({
            "version": 1, "interfaces": [{ "name": "eth0", "role": "uplink", "mtu": 9000 }],
            "routes": [{ "to": "0.0.0.0/0", "interface": "eth0", "mtu": 1500 }], "cni": { "mtu": 1400 },
        });
        value["trial"] = trial;
        value
    };
    assert_eq!(seen(&value(json!({ "before": 1500 }))).unwrap(), None, "a change would come from 9000");
    assert!(seen(&value(json!({ "refused": "links carry 9000" }))).unwrap().is_some());
    for wrong in [json!({ "before": 0 }), json!({ "refused": "" }), json!({ "later": 1 }), json!({})] {
        assert!(seen(&value(wrong.clone())).is_err(), "{wrong}");
    }
}

#[test]
fn a_node_is_judged_by_its_smallest_uplink_and_its_largest_route() {
    let link = |name: &str, role: &str, mtu: u32| json!({ "name": name, "role": role, "mtu": mtu });
    let route = |to: &str, interface: &str, mtu: Option<u32>| match mtu {
        Some(mtu) => json!({ "to": to, "interface": interface, "mtu": mtu }),
        None => json!({ "to": to, "interface": interface }),
    };
    let (bridge, card) = (link("br-ex", "uplink", 9000), link("eth0", "parent", 9100));
    let port = link("ovn-k8s-mp0", "management", 8900);
    let (any, near) = ("0.0.0.0/0", "10.0.0.0/8");
    type Row = (Vec<Value>, Vec<Value>, (u32, u32));
    let rows: Vec<Row> = vec![
        (vec![bridge.clone(), card.clone(), port.clone()], vec![], (9000, 9000)),
        (vec![bridge.clone(), card], vec![route(any, "br-ex", Some(1500))], (9000, 1500)),
        (
            vec![bridge.clone()],
            vec![route(any, "br-ex", Some(1500)), route(near, "br-ex", None)],
            (9000, 9000),
        ),
        (
            vec![bridge.clone()],
            vec![route(any, "br-ex", Some(1500)), route(near, "br-ex", Some(1400))],
            (9000, 1500),
        ),
        (
            vec![bridge.clone(), port],
            vec![route(any, "br-ex", Some(1500)), route(near, "ovn-k8s-mp0", None)],
            (9000, 1500),
        ),
        (vec![bridge, link("br-ex1", "uplink", 1500)], vec![route(any, "br-ex", Some(1400))], (1500, 1500)),
    ];
    for (interfaces, routes, (carries, sends)) in rows {
        let value = json!({ "version": 1, "interfaces": interfaces, "routes": routes, "cni": { "mtu": 8900, "routableMtu": 1400 }, "epoch": 3 });
        let observed = seen(&value).unwrap().unwrap();
        assert_eq!(observed.host, Envelope::spanning(mtu(carries), mtu(sends)), "{value}");
        assert_eq!(observed.network, Some(Envelope::spanning(mtu(8900), mtu(1400))));
        assert_eq!(observed.epoch, 3);
    }
}

#[test]
fn a_node_that_says_nothing_or_nonsense_is_not_observed() {
    assert_eq!(observed(None).unwrap(), None);
    assert_eq!(observed(Some(&BTreeMap::new())).unwrap(), None);
    let uplink = |mtu: u32| json!([{ "name": "eth0", "role": "uplink", "mtu": mtu }]);
    let quiet = seen(&json!({ "version": 1, "interfaces": uplink(1500), "routes": [] })).unwrap().unwrap();
    assert_eq!((quiet.network, quiet.epoch), (None, 0));
    for (value, said) in [
        (json!({ "version": 2 }), "annotation netferry.dev/mtu-observed: version 2"),
        (
            json!({ "version": 1, "interfaces": [], "routes": [] }),
            "annotation netferry.dev/mtu-observed names no uplink",
        ),
        (
            json!({ "version": 1, "interfaces": uplink(68), "routes": [] }),
            "annotation netferry.dev/mtu-observed: MTU 68 is not between",
        ),
        (
            json!({ "version": 1, "interfaces": uplink(1500), "routes": [], "cni": { "mtu": 70000 } }),
            "annotation netferry.dev/mtu-observed: MTU 70000 is not between",
        ),
    ] {
        let wrong = seen(&value).unwrap_err().to_string();
        assert!(wrong.starts_with(said), "{wrong}");
    }
}
