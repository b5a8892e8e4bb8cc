//! Together with OVN's own daemons.

use crate::daemons::{Daemon, NORTHBOUND, SOUTHBOUND, Server, VSWITCH, in_time, need};
use netferry_ovs::tables::northbound::{
    Acl, AddressSet, GatewayChassis, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalSwitch, LogicalSwitchPort, Nat, PortGroup, StaticMacBinding,
};
use netferry_ovs::tables::southbound::{Chassis, DatapathBinding, Encap, PortBinding};
use netferry_ovs::unixctl::Control;
use netferry_ovs::{Client, Desired, Owner, Ref, RowKey, Spec, Wanted, diff};
use std::process::Command;

fn owner() -> Owner {
    Owner::new("netferry-test", "yes", "netferry-id").with_whole_table("Static_MAC_Binding")
}

async fn settle(client: &Client, desired: &Desired) -> usize {
    let operations = in_time("settling", client.settle(desired, &owner(), "a test")).await.unwrap();
    let again = diff(desired, &client.snapshot(), &owner()).unwrap();
    assert!(again.is_empty(), "the server does not show what was wanted: {:#?}", again.operations());
    operations
}

fn northbound() -> Spec {
    Spec::new("OVN_Northbound")
        .table::<LogicalSwitch>()
        .table::<LogicalSwitchPort>()
        .table::<LogicalRouter>()
        .table::<LogicalRouterPort>()
        .table::<GatewayChassis>()
        .table::<Nat>()
        .table::<Acl>()
        .table::<PortGroup>()
        .table::<AddressSet>()
        .table::<LoadBalancer>()
        .table::<LoadBalancerGroup>()
        .table::<StaticMacBinding>()
}

fn port(name: &str) -> Wanted {
    let row = LogicalSwitchPort {
        name: name.into(),
        addresses: [format!("0a:58:0a:80:00:{:02x} 10.128.0.{}", name.len(), name.len())].into(),
        ..Default::default()
    };
    Wanted::own(&row).under::<LogicalSwitch>("node", &LogicalSwitch::ports())
}

fn topology(pods: &[&str]) -> Desired {
    let router = LogicalRouter { name: "router".into(), ..Default::default() };
    let router_port = LogicalRouterPort {
        name: "rtos-node".into(),
        mac: "0a:58:0a:80:00:01".into(),
        networks: ["10.128.0.1/24".to_owned()].into(),
        gateway_chassis: [Ref::key::<GatewayChassis>("rtos-node-c")].into(),
        ..Default::default()
    };
    let chassis = GatewayChassis {
        name: "rtos-node-c".into(),
        chassis_name: "c".into(),
        priority: 1,
        ..Default::default()
    };
    let switch = LogicalSwitch {
        name: "node".into(),
        load_balancer_group: [Ref::key::<LoadBalancerGroup>("group")].into(),
        other_config: [("subnet".to_owned(), "10.128.0.0/24".to_owned())].into(),
        ..Default::default()
    };
    let balancer = LoadBalancer {
        name: "lb".into(),
        protocol: Some("tcp".into()),
        vips: [("172.30.0.1:443".to_owned(), "10.128.0.9:6443".to_owned())].into(),
        ..Default::default()
    };
    let group =
        LoadBalancerGroup { name: "group".into(), load_balancer: [Ref::key::<LoadBalancer>("lb")].into() };
    let acl = Acl {
        priority: 1001,
        direction: "to-lport".into(),
        matches: "ip4.src == $a1 && outport == @pods".into(),
        action: "allow-related".into(),
        ..Default::default()
    };
    let members = PortGroup {
        name: "pods".into(),
        ports: pods.iter().map(|p| Ref::key::<LogicalSwitchPort>(*p)).collect(),
        acls: [Ref::key::<Acl>("allow")].into(),
        ..Default::default()
    };
    let addresses =
        AddressSet { name: "a1".into(), addresses: ["10.128.0.7".to_owned()].into(), ..Default::default() };
    let nat = Nat {
        kind: "snat".into(),
        external_ip: "10.128.0.2".into(),
        logical_ip: "10.128.0.0/24".into(),
        allowed_ext_ips: Some(Ref::key::<AddressSet>("a1")),
        ..Default::default()
    };
    let neighbour = StaticMacBinding {
        logical_port: "rtos-node".into(),
        ip: "10.128.0.2".into(),
        mac: "0a:58:0a:80:00:02".into(),
        override_dynamic_mac: true,
    };
    let mut desired: Desired = pods.iter().map(|p| port(p)).collect();
    desired.extend([
        Wanted::own(&router),
        Wanted::own(&router_port).under::<LogicalRouter>("router", &LogicalRouter::ports()),
        Wanted::own(&chassis),
        Wanted::own(&switch),
        Wanted::own(&balancer),
        Wanted::own(&group),
        Wanted::own_as("allow", &acl),
        Wanted::own(&members),
        Wanted::own(&addresses),
        Wanted::own_as("snat", &nat).under::<LogicalRouter>("router", &LogicalRouter::nat()),
        Wanted::own(&neighbour),
    ]);
    desired
}

#[tokio::test]
async fn a_real_server_takes_every_difference_and_then_shows_none() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(northbound()).await;
    assert!(settle(&client, &topology(&["a", "bb"])).await > 0);
    // One pod more: its row, its place in the switch, its place in the port group.
    assert_eq!(settle(&client, &topology(&["a", "bb", "ccc"])).await, 3);
    // One less: out of the switch; the port group lets go of it by itself.
    assert_eq!(settle(&client, &topology(&["a", "ccc"])).await, 1);
    settle(
        &client,
        &Desired::new().with(Wanted::own(&LoadBalancerGroup { name: "group".into(), ..Default::default() })),
    )
    .await;
    let rows: usize = client.snapshot().tables().map(netferry_ovs::TableCopy::len).sum();
    assert_eq!(rows, 1, "only what cannot be marked stays");
}

#[tokio::test]
async fn tasks_that_settle_at_once_make_each_row_once() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(northbound()).await;
    let each = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.settle(&topology(&["a", "bb"]), &owner(), "a test").await.unwrap() })
    });
    let mut operations = Vec::new();
    for task in each.collect::<Vec<_>>() {
        operations.push(in_time("settling", task).await.unwrap());
    }
    assert_eq!(operations.iter().filter(|n| **n > 0).count(), 1, "{operations:?}");
    assert_eq!(client.snapshot().table("Logical_Switch").unwrap().len(), 1);
}

#[tokio::test]
async fn one_pod_among_many_rows_is_added_and_removed_as_a_part() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(northbound().indexed_by_id("netferry-id")).await;
    settle(&client, &topology(&["a", "bb"])).await;
    let group = Wanted::share::<PortGroup>("pods")
        .set(&PortGroup::ports(), &[Ref::key::<LogicalSwitchPort>("ccc")].into());
    let pod = Desired::new().with(port("ccc")).with(group);
    assert_eq!(client.settle_part(&pod, &[], &owner(), "add").await.unwrap(), 3);
    assert_eq!(client.settle_part(&pod, &[], &owner(), "again").await.unwrap(), 0);
    assert_eq!(settle(&client, &topology(&["a", "bb", "ccc"])).await, 0, "the parts make the whole");
    let gone = [RowKey::new("Logical_Switch_Port", "ccc")];
    assert_eq!(client.settle_part(&Desired::new(), &gone, &owner(), "remove").await.unwrap(), 1);
    assert_eq!(settle(&client, &topology(&["a", "bb"])).await, 0);
}

#[tokio::test]
async fn two_writers_of_one_switch_do_not_get_in_each_others_way() {
    let server = Server::start(NORTHBOUND);
    let (first, second) = (server.client(northbound()).await, server.client(northbound()).await);
    settle(&first, &topology(&["a"])).await;
    second.until(|now| now.named::<LogicalSwitch>("node").unwrap()).await;
    // The other's transaction is made before ours is carried out, and carried out after.
    let other = Owner::new("other", "yes", "other-id");
    let desired = Desired::new().with(port("theirs"));
    let late = diff(&desired, &second.snapshot(), &other).unwrap();
    settle(&first, &topology(&["a", "bb"])).await;
    second.transact(&late).await.unwrap();
    first.until(|now| now.named::<LogicalSwitchPort>("theirs").unwrap()).await;
    let node = first.snapshot().named::<LogicalSwitch>("node").unwrap().unwrap();
    assert_eq!(node.ports.len(), 3);
    assert_eq!(settle(&first, &topology(&["a", "bb"])).await, 0, "the other's port is none of our business");
}

#[tokio::test]
async fn remote_chassis_and_their_tunnel_ends_come_and_go_together() {
    let server = Server::start(SOUTHBOUND);
    let spec = || Spec::new("OVN_Southbound").table::<Chassis>().table::<Encap>();
    let client = server.client(spec()).await;
    let chassis = |ip: &str| {
        let encap =
            Encap { kind: "geneve".into(), ip: ip.into(), chassis_name: "n2".into(), ..Default::default() };
        let chassis = Chassis {
            name: "n2".into(),
            hostname: "n2".into(),
            encaps: [Ref::key::<Encap>(format!("geneve {ip}"))].into(),
            other_config: [("is-remote".to_owned(), "true".to_owned())].into(),
            ..Default::default()
        };
        Desired::new().with(Wanted::own(&chassis)).with(Wanted::own(&encap))
    };
    settle(&client, &chassis("10.0.0.2")).await;
    // A node whose address changed: the old tunnel end goes although it cannot carry a mark.
    assert_eq!(settle(&client, &chassis("10.0.0.3")).await, 2);
    let encaps = client.snapshot().all::<Encap>().unwrap();
    assert_eq!((encaps.len(), encaps[0].ip.as_str()), (1, "10.0.0.3"));
    settle(&client, &Desired::new()).await;
    assert!(client.snapshot().all::<Encap>().unwrap().is_empty());
}

#[tokio::test]
async fn ports_written_northbound_are_bound_southbound_by_northd() {
    need("/usr/bin/ovn-northd");
    let (north, south) = (Server::start(NORTHBOUND), Server::start(SOUTHBOUND));
    let arguments = [
        format!("--ovnnb-db={}", north.remote()),
        format!("--ovnsb-db={}", south.remote()),
        format!("--unixctl={}", north.path("northd.ctl").display()),
        "--no-chdir".to_owned(),
    ];
    let _northd = Daemon::start("ovn-northd", &arguments);
    let nb = north.client(northbound()).await;
    let sb =
        south.client(Spec::new("OVN_Southbound").table::<PortBinding>().table::<DatapathBinding>()).await;
    settle(&nb, &topology(&["a", "bb"])).await;
    let bound = |name: &'static str| {
        sb.until(move |now| {
            now.find::<PortBinding, _>(&PortBinding::logical_port(), &name.to_owned()).unwrap().pop()
        })
    };
    let (a, bb) = (in_time("binding a", bound("a")).await, in_time("binding bb", bound("bb")).await);
    assert_eq!(a.datapath, bb.datapath);
    let datapath = sb.snapshot().get::<DatapathBinding>(a.datapath.uuid().unwrap()).unwrap().unwrap();
    assert_eq!(datapath.external_ids["name"], "node");

    settle(&nb, &topology(&["bb"])).await;
    in_time(
        "unbinding a",
        sb.until(|now| {
            now.find::<PortBinding, _>(&PortBinding::logical_port(), &"a".to_owned())
                .unwrap()
                .is_empty()
                .then_some(())
        }),
    )
    .await;

    let control = Control::find(north.dir.path(), "northd").await.unwrap();
    assert!(control.version().await.unwrap().starts_with("ovn-northd "));
    control.exit(&[]).await.unwrap();
    assert!(Control::find(north.dir.path(), "northd").await.is_err(), "it has ended");
}

#[tokio::test]
async fn a_port_on_the_switch_is_ours_while_the_bridge_and_the_settings_are_shared() {
    use netferry_ovs::tables::vswitch::{Bridge, Interface, OpenVSwitch, Port};
    let server = Server::start(VSWITCH);
    let spec = Spec::new("Open_vSwitch")
        .table::<OpenVSwitch>()
        .table::<Bridge>()
        .table::<Port>()
        .table::<Interface>();
    let client = server.client(spec).await;
    let vsctl = |arguments: &[&str]| {
        let database = format!("--db={}", server.remote());
        let done = Command::new("ovs-vsctl").args(["--no-wait", &database]).args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let root = Desired::new().with(Wanted::ensure::<OpenVSwitch>("").put("external_ids", "system-id", "n1"));
    settle(&client, &root).await;
    vsctl(&["add-br", "br-int", "--", "set", "open", ".", "external-ids:others=1"]);
    in_time("the bridge", client.until(|now| now.named::<Bridge>("br-int").unwrap())).await;

    let wanted = |mtu: i64| {
        let interface = Interface {
            name: "mp0".into(),
            kind: "internal".into(),
            mtu_request: Some(mtu),
            external_ids: [("iface-id".to_owned(), "k8s-n1".to_owned())].into(),
            ..Default::default()
        };
        let port = Port { name: "mp0".into(), ..Default::default() };
        Desired::new()
            .with(Wanted::share::<OpenVSwitch>("").put("external_ids", "system-id", "n1"))
            .with(Wanted::own(&interface).under::<Port>("mp0", &Port::interfaces()))
            .with(Wanted::own(&port).under::<Bridge>("br-int", &Bridge::ports()))
    };
    settle(&client, &wanted(1400)).await;
    assert_eq!(vsctl(&["list-ports", "br-int"]), "mp0");
    vsctl(&["set", "interface", "mp0", "external-ids:ovn-installed=true"]);
    let installed = |now: &netferry_ovs::Snapshot| {
        let interface = now.named::<Interface>("mp0").unwrap()?;
        interface.external_ids.contains_key("ovn-installed").then_some(())
    };
    in_time("what ovn-controller writes", client.until(installed)).await;
    assert_eq!(settle(&client, &wanted(1400)).await, 0);
    assert_eq!(settle(&client, &wanted(1300)).await, 1);
    assert_eq!(vsctl(&["get", "interface", "mp0", "mtu_request"]), "1300");

    settle(&client, &Desired::new()).await;
    assert_eq!(vsctl(&["list-ports", "br-int"]), "");
    assert_eq!(vsctl(&["get", "open", ".", "external-ids"]), "{others=\"1\", system-id=n1}");
}
