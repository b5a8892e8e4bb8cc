use super::Becomes::{Printed, Refused, Same};
use super::check;
use netferry_api::{egressip, hostnet, migration, mtu, overlay, rollout};

mod pod_network {
    use super::*;
    use netferry_api::annotation::Annotation;
    use overlay::annotations::*;
    use std::collections::BTreeMap;

    #[test]
    fn node_subnets_are_read_in_both_forms_and_written_in_the_newer() {
        check::<NodeSubnets>(&[
            (r#"{"default":["10.244.1.0/24"]}"#, Same),
            (r#"{"default":["10.128.0.0/24","fd01:0:0:1::/64"]}"#, Same),
            (r#"{"default":"10.244.1.0/24"}"#, Printed(r#"{"default":["10.244.1.0/24"]}"#)),
            (r#"{"default":["10.244.1.7/24"]}"#, Printed(r#"{"default":["10.244.1.0/24"]}"#)),
            (r#"{"blue":["10.2.0.0/24"],"default":["10.1.0.0/24"]}"#, Same),
            (r#"{}"#, Same),
            (r#"{"default":[]}"#, Refused(r#"network "default" has no subnet"#)),
            (r#"{"default":["10.244.1.0"]}"#, Refused(r#"network "default": "10.244.1.0" is not a network"#)),
            (r#"{"default":["10.244.01.0/24"]}"#, Refused("10.244.01.0/24")),
            (r#"{"default":["10.244.1.0/33"]}"#, Refused("10.244.1.0/33")),
            (r#"{"default":7}"#, Refused("is not the JSON it should be")),
            (r#"["10.244.1.0/24"]"#, Refused("is not the JSON it should be")),
            ("10.244.1.0/24", Refused("is not the JSON it should be")),
            ("", Refused("EOF")),
        ]);
    }

    #[test]
    fn numbers_are_decimal_and_nothing_else() {
        check::<NodeId>(&[
            ("0", Same),
            ("4294967295", Same),
            ("4294967296", Refused("4294967296")),
            ("-1", Refused("-1")),
            ("+1", Refused("+1")),
            ("01", Refused("01")),
            (" 1", Refused(" 1")),
            ("", Refused("not a decimal number")),
        ]);
        check::<NetworkIds>(&[
            (r#"{"default":"0"}"#, Same),
            (r#"{"blue":"2","default":"0"}"#, Same),
            (r#"{"default":"x"}"#, Refused(r#"network "default": "x""#)),
            (r#"{"default":0}"#, Refused("expected a string")),
        ]);
    }

    #[test]
    fn what_a_zone_runs_with_has_a_subnet_and_one_of_a_family_at_most() {
        check::<OverlayRunning>(&[
            (r#"{"id":2,"subnets":["10.244.1.0/24"]}"#, Same),
            (r#"{"id":2,"subnets":["10.244.1.0/24","fd01:0:0:1::/64"]}"#, Same),
            (
                r#"{"id":2,"subnets":["fd01:0:0:1::/64","10.244.1.0/24"]}"#,
                Printed(r#"{"id":2,"subnets":["10.244.1.0/24","fd01:0:0:1::/64"]}"#),
            ),
            (r#"{"id":2,"subnets":[]}"#, Refused("there must be one")),
            (r#"{"id":2,"subnets":["10.1.0.0/24","10.2.0.0/24"]}"#, Refused("at most one of each family")),
            (r#"{"id":-2,"subnets":["10.1.0.0/24"]}"#, Refused("is not the JSON it should be")),
            (r#"{"id":2,"subnets":["10.1.0.0/24"],"x":1}"#, Refused("unknown field `x`")),
        ]);
    }

    #[test]
    fn a_pair_of_addresses_has_at_least_one() {
        check::<PrimaryIfAddr>(&[
            (r#"{"ipv4":"172.18.0.3/16"}"#, Same),
            (r#"{"ipv6":"fd00::12/64"}"#, Same),
            (r#"{"ipv4":"192.168.126.12/24","ipv6":"fd00::12/64"}"#, Same),
            (r#"{"ipv4":"192.168.126.12/24","ipv6":""}"#, Printed(r#"{"ipv4":"192.168.126.12/24"}"#)),
            (r#"{"ipv6":"FD00:0:0::12/64"}"#, Printed(r#"{"ipv6":"fd00::12/64"}"#)),
            (r#"{"ipv4":"172.18.0.3/16","ipv5":"x"}"#, Printed(r#"{"ipv4":"172.18.0.3/16"}"#)),
            (r#"{}"#, Refused("neither")),
            (r#"{"ipv4":"","ipv6":""}"#, Refused("neither")),
            (
                r#"{"ipv4":"172.18.0.3"}"#,
                Refused("ipv4: \"172.18.0.3\" is not an address with prefix length"),
            ),
            (r#"{"ipv4":"fd00::12/64"}"#, Refused("ipv4: fd00::12/64 is IPv6")),
            (r#"{"ipv6":"10.0.0.1/8"}"#, Refused("ipv6: 10.0.0.1/8 is IPv4")),
        ]);
        check::<TransitSwitchPortIfAddr>(&[(r#"{"ipv4":"100.88.0.2/16","ipv6":"fd97::2/64"}"#, Same)]);
        check::<MasqueradeSubnet>(&[(r#"{"ipv4":"169.254.169.0/29"}"#, Same)]);
    }

    #[test]
    fn join_addresses_are_found_under_the_newer_and_the_older_key() {
        check::<GatewayRouterLrpIfAddrs>(&[
            (r#"{"default":{"ipv4":"100.64.0.2/16"}}"#, Same),
            (r#"{"default":{}}"#, Refused(r#"network "default": holds neither"#)),
        ]);
        check::<GatewayRouterLrpIfAddr>(&[(r#"{"ipv4":"100.64.0.2/16"}"#, Same)]);

        let newer = (
            "k8s.ovn.org/node-gateway-router-lrp-ifaddrs".to_owned(),
            r#"{"default":{"ipv4":"100.64.0.2/16"}}"#.to_owned(),
        );
        let older = (
            "k8s.ovn.org/node-gateway-router-lrp-ifaddr".to_owned(),
            r#"{"ipv4":"100.64.0.9/16"}"#.to_owned(),
        );
        let find = |entries: Vec<(String, String)>| {
            GatewayRouterLrpIfAddrs::default_network(&BTreeMap::from_iter(entries))
                .expect("legal")
                .and_then(|pair| pair.ipv4())
                .map(|net| net.to_string())
        };
        assert_eq!(find(vec![newer.clone(), older.clone()]).as_deref(), Some("100.64.0.2/16"));
        assert_eq!(find(vec![older]).as_deref(), Some("100.64.0.9/16"));
        assert_eq!(find(vec![]), None);
        let (key, value) = GatewayRouterLrpIfAddrs::parse(&newer.1).expect("legal").entry();
        assert_eq!((key, value), newer);
    }

    #[test]
    fn names_of_zones_and_chassis_say_something() {
        check::<ZoneName>(&[("global", Same), ("", Refused("is empty"))]);
        check::<ChassisId>(&[("0f3c…", Same), ("", Refused("is empty"))]);
        check::<RemoteZoneMigrated>(&[("worker-1", Same), ("", Refused("is empty"))]);
    }

    #[test]
    fn host_addresses_are_sorted_as_text_and_each_there_once() {
        check::<HostCidrs>(&[
            (r#"["10.10.10.3/24","192.168.126.12/24"]"#, Same),
            (r#"["9.0.0.1/8","10.0.0.1/8"]"#, Printed(r#"["10.0.0.1/8","9.0.0.1/8"]"#)),
            (r#"["10.0.0.1/8","10.0.0.1/8"]"#, Printed(r#"["10.0.0.1/8"]"#)),
            (r#"[]"#, Same),
            (r#"["10.0.0.1"]"#, Refused(r#""10.0.0.1" is not an address with prefix length"#)),
            (r#"{"default":[]}"#, Refused("is not the JSON it should be")),
        ]);
        check::<HostAddresses>(&[
            (r#"["192.168.126.12","fd00::12"]"#, Same),
            (r#"["192.168.126.12/24"]"#, Refused("is not an address")),
        ]);
    }

    #[test]
    fn a_gateway_is_written_as_others_read_it() {
        let one = r#"{"default":{"mode":"local","interface-id":"br-ex_n1","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/16"],"ip-address":"172.18.0.3/16","next-hops":["172.18.0.1"],"next-hop":"172.18.0.1","node-port-enable":"true","vlan-id":"0"}}"#;
        let two = r#"{"default":{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_n1","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/16","fc00::3/64"],"next-hops":["172.18.0.1","fc00::1"],"node-port-enable":"false"}}"#;
        let singular = r#"{"default":{"mode":"local","interface-id":"br-ex_n1","mac-address":"02:42:ac:12:00:03","ip-address":"172.18.0.3/16","next-hop":"172.18.0.1","node-port-enable":"true","vlan-id":"0"}}"#;
        check::<L3GatewayConfig>(&[
            (r#"{"default":{"mode":""}}"#, Same),
            (one, Same),
            (two, Same),
            (
                singular,
                Printed(
                    r#"{"default":{"mode":"local","interface-id":"br-ex_n1","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/16"],"ip-address":"172.18.0.3/16","next-hops":["172.18.0.1"],"next-hop":"172.18.0.1","node-port-enable":"true","vlan-id":"0"}}"#,
                ),
            ),
            (r#"{"default":{"mode":"global"}}"#, Refused(r#"network "default": mode "global""#)),
            (r#"{"default":{"mode":"local"}}"#, Refused("without interface-id")),
            (r#"{"default":{"mode":"local","interface-id":"x"}}"#, Refused("mac-address")),
            (
                r#"{"default":{"mode":"local","interface-id":"x","mac-address":"02:42:ac:12:00:03","vlan-id":"4096"}}"#,
                Refused("vlan-id: \"4096\" is not between 0 and 4095"),
            ),
            (
                r#"{"default":{"mode":"local","interface-id":"x","mac-address":"02:42:ac:12:00:03","node-port-enable":"yes"}}"#,
                Refused("node-port-enable"),
            ),
            (
                r#"{"default":{"mode":"local","interface-id":"x","mac-address":"02:42:ac:12:00:03","ip-addresses":["10.0.0.1/8"],"ip-address":"10.0.0.2/8"}}"#,
                Refused("ip-address is \"10.0.0.2/8\" but ip-addresses says"),
            ),
        ]);
    }

    #[test]
    fn management_ports_have_hardware_addresses() {
        check::<ManagementPortMacs>(&[
            (r#"{"default":"0a:58:0a:f4:01:02"}"#, Same),
            (r#"{"default":"0A:58:0A:F4:01:02"}"#, Printed(r#"{"default":"0a:58:0a:f4:01:02"}"#)),
            (r#"{"default":"0a:58:0a:f4:01"}"#, Refused("six pairs")),
            (r#"{"default":"0a:58:0a:f4:01:02:03"}"#, Refused("six pairs")),
            (r#"{"default":"0a:58:0a:f4:1:2"}"#, Refused("six pairs")),
            (r#"{"default":"0a58.0af4.0102"}"#, Refused("six pairs")),
            (r#"{"default":"+a:58:0a:f4:01:02"}"#, Refused("six pairs")),
        ]);
    }

    #[test]
    fn gateway_mtu_support_is_denied_or_not_mentioned() {
        check::<GatewayMtuSupport>(&[
            ("false", Same),
            ("true", Refused("leaving it out")),
            ("", Refused("leaving it out")),
        ]);
    }

    #[test]
    fn a_pod_s_addresses_are_written_as_others_read_them() {
        let full = r#"{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"],"routes":[{"dest":"10.244.0.0/16","nextHop":"10.244.1.1"},{"dest":"10.96.0.0/16","nextHop":"10.244.1.1"},{"dest":"169.254.169.5/32","nextHop":"10.244.1.1"},{"dest":"100.64.0.0/16","nextHop":"10.244.1.1"}],"ip_address":"10.244.1.5/24","gateway_ip":"10.244.1.1","role":"primary"}}"#;
        let dual = r#"{"default":{"ip_addresses":["10.244.1.5/24","fd01::5/64"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1","fd01::1"]}}"#;
        let old = r#"{"default":{"mac_address":"0a:58:0a:f4:01:05","ip_address":"10.244.1.5/24","gateway_ip":"10.244.1.1"}}"#;
        check::<PodNetworks>(&[
            (full, Same),
            (dual, Same),
            (r#"{"default":{"ip_addresses":null,"mac_address":"0a:58:0a:f4:01:05"}}"#, Same),
            (
                old,
                Printed(
                    r#"{"default":{"ip_addresses":["10.244.1.5/24"],"mac_address":"0a:58:0a:f4:01:05","gateway_ips":["10.244.1.1"],"ip_address":"10.244.1.5/24","gateway_ip":"10.244.1.1"}}"#,
                ),
            ),
            (
                r#"{"default":{"ip_addresses":["10.244.1.5/24"],"ip_address":"10.244.1.6/24","mac_address":"0a:58:0a:f4:01:05"}}"#,
                Refused(r#"network "default": ip_address is "10.244.1.6/24" but ip_addresses says"#),
            ),
            (
                r#"{"default":{"ip_addresses":[],"gateway_ips":["10.244.1.1"],"gateway_ip":"10.244.1.2","mac_address":"0a:58:0a:f4:01:05"}}"#,
                Refused("gateway_ip is"),
            ),
            (
                r#"{"default":{"mac_address":"0a:58:0a:f4:01:05","routes":[{"dest":"0.0.0.0/0","nextHop":"10.244.1.1"}]}}"#,
                Refused("0.0.0.0/0 is a default route, which belongs in gateway_ips"),
            ),
            (
                r#"{"default":{"mac_address":"0a:58:0a:f4:01:05","routes":[{"dest":"10.0.0.0/8","nextHop":"fd01::1"}]}}"#,
                Refused("of the other family"),
            ),
            (
                r#"{"default":{"mac_address":"0a:58:0a:f4:01:05","routes":[{"dest":"10.0.0.0"}]}}"#,
                Refused("routes: dest"),
            ),
            (r#"{"default":{"ip_addresses":["10.244.1.5/24"]}}"#, Refused("mac_address")),
            (
                r#"{"default":{"ip_addresses":["10.244.1.5"],"mac_address":"0a:58:0a:f4:01:05"}}"#,
                Refused("ip_addresses: "),
            ),
        ]);
    }

    #[test]
    fn a_default_route_given_to_a_pod_becomes_its_gateway() {
        let pod = PodNetwork::new("0a:58:0a:f4:01:05".parse().expect("legal")).with_routes(vec![
            PodRoute {
                dest: "0.0.0.0/0".parse().expect("legal"),
                next_hop: Some("10.244.1.1".parse().expect("legal")),
            },
            PodRoute { dest: "10.96.0.0/16".parse().expect("legal"), next_hop: None },
        ]);
        assert_eq!(pod.gateways().len(), 1);
        assert_eq!(pod.routes().len(), 1);
    }

    #[test]
    fn policies_and_namespaces_are_annotated_strictly() {
        check::<AclLogging>(&[
            (r#"{"deny":"alert","allow":"notice"}"#, Same),
            (r#"{"allow":"debug"}"#, Same),
            (r#"{}"#, Same),
            (r#"{"deny":"","allow":"info"}"#, Printed(r#"{"allow":"info"}"#)),
            (r#"{"deny":"shout"}"#, Refused(r#"deny: "shout""#)),
            ("alert", Refused("is not the JSON it should be")),
        ]);
        check::<MulticastEnabled>(&[
            ("true", Same),
            ("false", Same),
            ("True", Refused("True")),
            ("", Refused("neither")),
        ]);
        check::<AclStateless>(&[("true", Same), ("1", Refused("neither"))]);
    }
}

#[test]
fn the_older_plugin_s_annotations_are_understood() {
    use overlay::sdn_annotations::*;
    check::<NodeUid>(&[("7a5f0e9c-0000-4000-8000-000000000001", Same), ("", Refused("is empty"))]);
    check::<AssignSubnet>(&[("true", Same), ("yes", Refused("neither"))]);
    check::<FixedVnidHost>(&[
        ("0", Same),
        ("16777215", Same),
        ("16777216", Refused("above")),
        ("x", Refused("decimal")),
    ]);
    check::<NetNamespaceMulticast>(&[("true", Same), ("", Refused("neither"))]);
    check::<AssignMacvlan>(&[("", Same), ("true", Same)]);
}

#[test]
fn a_change_of_plugin_is_asked_for_and_remembered() {
    use migration::annotations::*;
    check::<NetworkTypeMigration>(&[("", Same), ("anything", Same)]);
    check::<HybridOverlayNodeSubnet>(&[
        ("10.128.2.0/23", Same),
        ("10.128.2.9/23", Printed("10.128.2.0/23")),
        ("10.128.2.0", Refused("not a network")),
    ]);
    check::<HybridOverlayDrMac>(&[("0a:58:0a:80:02:03", Same), ("none", Refused("six pairs"))]);
    check::<HybridOverlayDrIp>(&[("10.128.2.3", Same), ("10.128.2.3/23", Refused("not an address"))]);
    check::<SdnToOvnMigration>(&[
        (r#"{"EgressCIDRs":["192.168.111.192/26"]}"#, Same),
        (r#"{"EgressCIDRs":[]}"#, Same),
        (r#"{}"#, Printed(r#"{"EgressCIDRs":[]}"#)),
        (r#"{"EgressCIDRs":["192.168.111.192"]}"#, Refused("EgressCIDRs")),
    ]);
}

#[test]
fn egress_addresses_are_marked_and_counted() {
    use egressip::annotations::*;
    check::<EgressIpMark>(&[
        ("50000", Same),
        ("54999", Same),
        ("49999", Refused("not between 50000 and 54999")),
        ("55000", Refused("not between")),
        ("0xc350", Refused("decimal")),
    ]);
    check::<EgressIpOwnerRef>(&[("egressip-prod", Same), ("", Refused("is empty"))]);
    check::<SecondaryHostEgressIps>(&[
        (r#"["10.10.10.100"]"#, Same),
        (r#"["10.10.10.200","10.10.10.100"]"#, Same),
        (r#"["10.10.10.100/24"]"#, Refused("is not an address")),
        (r#""10.10.10.100""#, Refused("is not the JSON it should be")),
    ]);
    check::<BridgeEgressIps>(&[(r#"["172.18.0.33","fc00::33"]"#, Same)]);
    check::<EgressIpConfig>(&[
        (
            r#"[{"interface":"eth0","ifaddr":{"ipv4":"10.0.128.0/18","ipv6":"fc00::/64"},"capacity":{"ipv4":14,"ipv6":15,"ip":10}}]"#,
            Same,
        ),
        (r#"[{"interface":"eth0","ifaddr":{"ipv4":"10.0.128.0/18"},"capacity":{"ip":0}}]"#, Same),
        (
            r#"[{"interface":"eth0","ifaddr":{},"capacity":{}}]"#,
            Refused(r#"interface "eth0": ifaddr: holds neither"#),
        ),
        (r#"[{"interface":"eth0","ifaddr":{"ipv4":"10.0.128.0/18"}}]"#, Refused("capacity")),
        (
            r#"[{"interface":"eth0","ifaddr":{"ipv4":"10.0.128.0/18"},"capacity":{"ip":-1}}]"#,
            Refused("is not the JSON"),
        ),
    ]);
}

#[test]
fn an_address_the_cloud_allows_none_of_is_not_one_without_limit() {
    use egressip::annotations::EgressIpConfig;
    use netferry_api::annotation::Annotation;
    let parsed = EgressIpConfig::parse(
        r#"[{"interface":"eth0","ifaddr":{"ipv4":"10.0.128.0/18"},"capacity":{"ip":0}}]"#,
    );
    let capacity = parsed.expect("legal").first().expect("one").capacity;
    assert_eq!((capacity.ip, capacity.ipv4), (Some(0), None));
}

#[test]
fn controller_and_node_understand_each_other() {
    use rollout::annotations::*;
    check::<CurrentConfig>(&[("rendered-worker-0a1b", Same), ("", Refused("is empty"))]);
    check::<DesiredConfig>(&[("rendered-worker-0a1b", Same), ("", Refused("is empty"))]);
    check::<CurrentImage>(&[("quay.example/os@sha256:1", Same), ("", Refused("is empty"))]);
    check::<DesiredImage>(&[("quay.example/os@sha256:1", Same), ("", Refused("is empty"))]);
    check::<NodeState>(&[
        ("Done", Same),
        ("Working", Same),
        ("Degraded", Same),
        ("Unreconcilable", Same),
        ("Rebooting", Same),
        ("done", Refused("\"done\" is not Done")),
        ("", Refused("is not Done")),
    ]);
    check::<DesiredDrain>(&[
        ("drain-rendered-worker-0a1b", Same),
        ("uncordon-rendered-worker-0a1b", Same),
        ("drain-", Refused("names no configuration")),
        ("drain", Refused("neither drain-")),
        ("evict-rendered-worker-0a1b", Refused("neither drain-")),
        ("", Refused("neither drain-")),
    ]);
    check::<LastAppliedDrain>(&[("uncordon-a-b", Same), ("x", Refused("neither drain-"))]);
    check::<PostConfigAction>(&[("Rebooting", Same), ("", Same)]);
    check::<ControlPlaneTopology>(&[("HighlyAvailable", Same), ("", Refused("is empty"))]);
    check::<Ssh>(&[("accessed", Same), ("", Refused("is empty"))]);
    check::<GeneratedByControllerVersion>(&[("0.1.0", Same), ("", Refused("is empty"))]);
    check::<Reason>(&[("", Same), ("could not write /etc/x", Same)]);
}

#[test]
fn a_reason_is_cut_at_two_thousand_bytes_and_never_inside_a_character() {
    use rollout::annotations::Reason;
    assert_eq!(Reason::new(&"x".repeat(5000)).get().len(), 2000);
    let cut = Reason::new(&format!("{}é", "x".repeat(1999)));
    assert_eq!(cut.get(), "x".repeat(1999));
}

#[test]
fn a_refresh_of_a_node_s_state_is_asked_for_by_any_label_value() {
    use hostnet::annotations::*;
    check::<ForceRefresh>(&[
        ("1767323045000000000", Same),
        ("now", Same),
        ("", Same),
        ("right now", Refused("label value")),
    ]);
    check::<WebhookMutatingTimestamp>(&[("1767323045000000000", Same), ("soon", Refused("decimal"))]);
    assert_eq!(ForceRefresh::at(17).to_string(), "17");
}

#[test]
fn what_a_rollout_writes_beside_is_strict() {
    check::<mtu::annotations::MtuUnattended>(&[
        ("true", Same),
        ("false", Same),
        ("yes", Refused("is neither")),
    ]);
    check::<mtu::annotations::MtuPaused>(&[("true", Same), ("false", Same), ("", Refused("is neither"))]);
    check::<mtu::annotations::MtuOnLoss>(&[
        ("pause", Same),
        ("reverse", Same),
        ("Reverse", Refused("is neither pause nor reverse")),
    ]);
    check::<mtu::MtuProbes>(&[
        (r#"{"epoch":3}"#, Same),
        (r#"{"epoch":3,"roll":"00ff00ff00ff00ff","widths":{"hosts-ipv4":9000,"pods-ipv4":8900}}"#, Same),
        (r#"{"epoch":3,"widths":{"hosts":9000}}"#, Refused("not one of")),
        (r#"{"epoch":3,"narrow":[{"to":"b","way":"hosts-ipv4","tried":9000,"passes":1500}]}"#, Same),
        (r#"{"epoch":3,"losses":[{"to":"b","way":"pods-ipv6","lost":4,"of":20}],"more":2}"#, Same),
        (r#"{"epoch":3,"roll":"ff"}"#, Refused("16 hexadecimal digits")),
        (
            r#"{"epoch":3,"narrow":[{"to":"b","way":"hosts","tried":9000,"passes":1500}]}"#,
            Refused("not one of"),
        ),
        (
            r#"{"epoch":3,"narrow":[{"to":"b","way":"hosts-ipv4","tried":1500,"passes":1500}]}"#,
            Refused("not narrow"),
        ),
        (r#"{"epoch":3,"losses":[{"to":"","way":"pods-ipv6","lost":4,"of":20}]}"#, Refused("no node")),
        (r#"{"epoch":3,"losses":[{"to":"b","way":"pods-ipv6","lost":5,"of":4}]}"#, Refused("5 of 4")),
        (r#"{"epoch":3,"size":1}"#, Refused("is not the JSON it should be")),
        (r#"{}"#, Refused("is not the JSON it should be")),
    ]);
    check::<mtu::MtuTrial>(&[
        (r#"{"host":9000,"until":"2026-11-16T05:00:00Z"}"#, Same),
        (r#"{"host":0,"until":"2026-11-16T05:00:00Z"}"#, Refused("host is 0")),
        (r#"{"host":9000,"until":"soon"}"#, Refused("is not the JSON it should be")),
        (r#"{"host":9000}"#, Refused("is not the JSON it should be")),
        (
            r#"{"host":9000,"until":"2026-11-16T05:00:00Z","pods":8900}"#,
            Refused("is not the JSON it should be"),
        ),
    ]);
    check::<rollout::Epochs>(&[
        ("{}", Same),
        (r#"{"egressip":0,"mtu":17}"#, Same),
        (r#"{"mtu":-1}"#, Refused("is not the JSON it should be")),
        (r#"{"":1}"#, Refused("the name of a capability is empty")),
        ("17", Refused("is not the JSON it should be")),
    ]);
    check::<rollout::annotations::CordonedFor>(&[("rendered-worker-1", Same), ("", Refused("is empty"))]);
    check::<rollout::annotations::Taken>(&[
        ("{}", Same),
        (r#"{"a":"uid-1","b":"uid-2"}"#, Same),
        (r#"{"a":""}"#, Refused("is none")),
        (r#"["a"]"#, Refused("is not the JSON it should be")),
    ]);
}

#[test]
fn observed_sizes_are_strict_and_printed_in_one_order() {
    let full = r#"{"version":1,"interfaces":[{"name":"br-ex","role":"uplink","mtu":9100},{"name":"eno1","role":"parent","mtu":9100,"nic":{"min":68,"max":9216}},{"name":"ovn-k8s-mp0","role":"management","mtu":9000}],"routes":[{"to":"0.0.0.0/0","interface":"br-ex","mtu":1500},{"to":"10.128.0.0/14","interface":"ovn-k8s-mp0","mtu":1400},{"to":"::/0","interface":"br-ex"}],"cni":{"mtu":9000,"routableMtu":1400}}"#;
    let shuffled = r#"{"cni":{"routableMtu":1400,"mtu":9000},"routes":[{"to":"::/0","interface":"br-ex"},{"mtu":1400,"to":"10.128.3.4/14","interface":"ovn-k8s-mp0"},{"to":"0.0.0.0/0","interface":"br-ex","mtu":1500}],"interfaces":[{"name":"ovn-k8s-mp0","role":"management","mtu":9000},{"name":"eno1","role":"parent","mtu":9100,"nic":{"min":68,"max":9216}},{"name":"br-ex","role":"uplink","mtu":9100}],"version":1}"#;
    check::<mtu::MtuObserved>(&[
        (full, Same),
        (
            shuffled,
            Printed(
                r#"{"version":1,"interfaces":[{"name":"br-ex","role":"uplink","mtu":9100},{"name":"eno1","role":"parent","mtu":9100,"nic":{"min":68,"max":9216}},{"name":"ovn-k8s-mp0","role":"management","mtu":9000}],"routes":[{"to":"0.0.0.0/0","interface":"br-ex","mtu":1500},{"to":"10.128.0.0/14","interface":"ovn-k8s-mp0","mtu":1400},{"to":"::/0","interface":"br-ex"}],"cni":{"mtu":9000,"routableMtu":1400}}"#,
            ),
        ),
        (r#"{"version":1,"interfaces":[],"routes":[]}"#, Same),
        (r#"{"version":1,"interfaces":[],"routes":[],"epoch":3}"#, Same),
        (r#"{"version":1,"interfaces":[],"routes":[],"epoch":-3}"#, Refused("invalid value")),
        (r#"{"version":1,"interfaces":[],"routes":[],"fixed":{"growth":"nobody describes eth0"}}"#, Same),
        (
            r#"{"version":1,"interfaces":[],"routes":[],"fixed":{}}"#,
            Printed(r#"{"version":1,"interfaces":[],"routes":[]}"#),
        ),
        (
            r#"{"version":1,"interfaces":[],"routes":[],"fixed":{"shrink":"no"}}"#,
            Refused("unknown field `shrink`"),
        ),
        (
            r#"{"version":2,"interfaces":[],"routes":[],"more":1}"#,
            Refused("version 2 is not the version 1 this program understands"),
        ),
        (r#"{"interfaces":[],"routes":[]}"#, Refused("missing field `version`")),
        (r#"{"version":1,"interfaces":[]}"#, Refused("missing field `routes`")),
        (r#"{"version":1,"interfaces":[],"routes":[],"more":1}"#, Refused("unknown field `more`")),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":1500,"speed":1}],"routes":[]}"#,
            Refused("unknown field `speed`"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"spare","mtu":1500}],"routes":[]}"#,
            Refused("unknown variant `spare`"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":0}],"routes":[]}"#,
            Refused("eth0 has MTU 0"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":-1}],"routes":[]}"#,
            Refused("invalid value"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"sixteen-letters-","role":"uplink","mtu":1500}],"routes":[]}"#,
            Refused("cannot be the name of an interface"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"a/b","role":"uplink","mtu":1500}],"routes":[]}"#,
            Refused("cannot be the name"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":1500},{"name":"eth0","role":"parent","mtu":1500}],"routes":[]}"#,
            Refused("eth0 is there twice"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":1500,"nic":{"min":9000,"max":68}}],"routes":[]}"#,
            Refused("least MTU 9000 is above its most, 68"),
        ),
        (
            r#"{"version":1,"interfaces":[],"routes":[{"to":"0.0.0.0/0","interface":"eth0"}]}"#,
            Refused("\"eth0\", which is not among the interfaces"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":1500}],"routes":[{"to":"0.0.0.0/0","interface":"eth0"},{"to":"0.0.0.0/0","interface":"eth0","mtu":1400}]}"#,
            Refused("is there twice"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":1500}],"routes":[{"to":"0.0.0.0/0","interface":"eth0","mtu":0}]}"#,
            Refused("has MTU 0"),
        ),
        (
            r#"{"version":1,"interfaces":[{"name":"eth0","role":"uplink","mtu":1500}],"routes":[{"to":"10.0.010.0/24","interface":"eth0"}]}"#,
            Refused("10.0.010.0/24"),
        ),
        (r#"{"version":1,"interfaces":[],"routes":[],"cni":{"mtu":0}}"#, Refused("cni has MTU 0")),
    ]);
}
