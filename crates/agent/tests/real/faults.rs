//! What the zone does when things around it break.

use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Client};
use netferry_apiserver::faults::{Calls, Fault};
use netferry_apiserver::{ApiServer, Settings};
use netferry_testkit::wait::until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::world::World;
use crate::zone::{Agent, addresses, bound, two_nodes};

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_deleted_by_hand_comes_back() {
    let (world, _agent) = two_nodes().await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5"]).await;
    until("the load balancer", async || {
        world.nbctl(&["lb-list"]).filter(|all| all.contains("10.244.1.5:8080"))
    })
    .await;
    let rows = world.rows();
    let by_hand: [&[&str]; 9] = [
        &["lsp-del", "default_here"],
        &["lrp-del", "rtots-n1"],
        &["lr-route-del", "ovn_cluster_router", "10.244.2.0/24"],
        &["lsp-set-addresses", "default_here", "0a:00:00:00:00:01 10.9.9.9"],
        &["--all", "destroy", "load_balancer"],
        &["clear", "load_balancer_group", "clusterLBGroup", "load_balancer"],
        &["pg-del", "clusterPortGroup"],
        &["ls-del", "n1"],
        &["lr-del", "ovn_cluster_router"],
    ];
    for hand in by_hand {
        world.nbctl(hand).unwrap_or_else(|| panic!("{hand:?} is done"));
        until(&format!("repair of {hand:?}"), async || (world.rows() == rows).then_some(())).await;
    }
    until("a member of the group", async || {
        world
            .nbctl(&["get", "load_balancer_group", "clusterLBGroup", "load_balancer"])
            .filter(|all| all.len() > 2)
    })
    .await;
    world.sbctl(&["chassis-del", "chassis-2"]).expect("done");
    until("the other node's chassis and binding", async || bound(&world)).await;
    world.sbctl(&["lsp-unbind", "tstor-n2"]).expect("done");
    until("the other node's binding", async || bound(&world)).await;
    world.vsctl(&["del-port", "br-int", "ovn-k8s-mp0"]).expect("done");
    until("the management port", async || world.vsctl(&["get", "interface", "ovn-k8s-mp0", "mtu_request"]))
        .await;
    world.vsctl(&["remove", "open", ".", "external_ids", "ovn-remote"]).expect("done");
    until("the switch's settings", async || world.vsctl(&["get", "open", ".", "external_ids:ovn-remote"]))
        .await;
}

/// Rows that list others are compared without them: neither one that is missing there nor one too many may stay unseen.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_refers_to_something_else_by_hand_does_so_no_more() {
    let (world, _agent) = two_nodes().await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5"]).await;
    let door = json!({
        "metadata": {"name": "door", "namespace": "default"},
        "spec": {"type": "NodePort", "clusterIP": "10.96.0.11", "ports": [{"port": 80, "nodePort": 30080}]},
    });
    world.put("v1", "Service", "services", door).await;
    let (web, door) = ("Service_default/web_TCP_cluster", "Service_default/door_TCP_node_switch_n1");
    let find = |table: &'static str, name: &'static str| {
        let world = &world;
        until(name, async move || world.uuid(table, name))
    };
    let (web, door) = (find("load_balancer", web).await, find("load_balancer", door).await);
    let here = find("logical_switch_port", "default_here").await;
    world.nbctl(&["lb-add", "theirs", "192.0.2.1:80", "192.0.2.2:80"]).expect("done");
    world.nbctl(&["ls-add", "theirs"]).expect("done");
    let theirs = find("load_balancer", "theirs").await;
    let before = world.references();
    let there = |from: &str, to: &str| before.contains(&(from.to_owned(), to.to_owned()));
    assert!(there("load_balancer_group clusterLBGroup load_balancer", "Service_default/web_TCP_cluster"));
    assert!(there("logical_switch n1 load_balancer", "Service_default/door_TCP_node_switch_n1"));
    assert!(there("logical_switch n1 ports", "default_here"));
    assert!(there("port_group clusterPortGroup ports", "k8s-n1"));
    let ungrouped =
        "clear logical_switch n1 load_balancer_group -- destroy load_balancer_group clusterLBGroup";
    let by_hand = [
        format!("remove load_balancer_group clusterLBGroup load_balancer {web}"),
        format!("remove logical_switch n1 load_balancer {door}"),
        format!("add load_balancer_group clusterSwitchLBGroup load_balancer {web}"),
        format!("add load_balancer_group clusterLBGroup load_balancer {theirs}"),
        format!("add logical_switch n1 load_balancer {web}"),
        format!("add logical_switch theirs ports {here}"),
        "clear logical_switch n1 load_balancer_group".to_owned(),
        "clear port_group clusterPortGroup ports".to_owned(),
        "create load_balancer_group name=stray".to_owned(),
        ungrouped.to_owned(),
        "ls-del n1".to_owned(),
    ];
    let rows = world.rows();
    for hand in by_hand {
        world.nbctl(&hand.split(' ').collect::<Vec<_>>()).unwrap_or_else(|| panic!("{hand} is done"));
        until(&format!("repair of {hand}"), async || {
            let now = world.references();
            let differ: Vec<_> = before.symmetric_difference(&now).collect();
            if differ.is_empty() && world.rows() == rows { Ok(()) } else { Err(format!("{differ:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_ours_that_nobody_wants_goes_and_one_of_others_stays() {
    let (world, _agent) = two_nodes().await;
    world.nbctl(&["ls-add", "theirs"]).expect("done");
    world
        .nbctl(&["create", "address_set", "name=stray", "external_ids:netferry.dev/owner=overlay"])
        .expect("done");
    until("the stray is gone", async || {
        let all = world.nbctl(&["--bare", "--columns=name", "list", "address_set"])?;
        (!all.contains("stray")).then_some(())
    })
    .await;
    // One that has lost the name it is known by.
    let nameless = "create nat type=snat external_ip=192.0.2.1 logical_ip=192.0.2.2 external_ids:netferry.dev/owner=overlay";
    let arguments = ["--id=@stray"].into_iter().chain(nameless.split(' '));
    let arguments = arguments.chain(["--", "add", "logical_router", "ovn_cluster_router", "nat", "@stray"]);
    world.nbctl(&arguments.collect::<Vec<_>>()).expect("done");
    until("the nameless one is gone", async || {
        let all = world.nbctl(&["--bare", "--columns=external_ip", "list", "nat"])?;
        (!all.contains("192.0.2.1")).then_some(())
    })
    .await;
    assert!(world.nbctl(&["ls-list"]).unwrap().contains("theirs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_daemons_come_back_and_a_wiped_database_is_filled_again() {
    let (world, _agent) = two_nodes().await;
    let rows = world.rows();
    for daemon in ["ovnnb_db", "ovnsb_db", "ovn-northd", "ovn-controller"] {
        let pid = world.pid(daemon).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        until(daemon, async || world.pid(daemon).filter(|now| *now != pid)).await;
    }
    world.put_pod(1, "after", 8, json!({})).await;
    until("a pod after all that", async || addresses(&world, "default_after")).await;
    world.end_pod("after").await;
    until("as before", async || (world.rows() == rows).then_some(())).await;

    for (database, file) in [("ovnnb_db", "ovnnb_db.db"), ("ovnsb_db", "ovnsb_db.db")] {
        let pid = world.pid(database).expect("a pid");
        std::fs::remove_file(world.paths().ovn_data.join(file)).expect("it is there");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        until("the rows", async || (world.pid(database) != Some(pid) && world.rows() == rows).then_some(()))
            .await;
        until("the other node's binding", async || bound(&world)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_gone_or_has_lost_its_memory_takes_nothing_away() {
    let (mut world, _agent) = two_nodes().await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5"]).await;
    until("the load balancer", async || {
        world.nbctl(&["lb-list"]).filter(|all| all.contains("10.244.1.5:8080"))
    })
    .await;
    let (rows, before) = (world.rows(), world.transactions());
    world.hang_up().await;
    let forgetful = ApiServer::open(Settings::default()).expect("a server in memory");
    // Every watch is told that it is too old and lists again.
    for kind in KINDS {
        let calls = Calls { resource: kind.to_owned(), times: 1, ..Calls::default() };
        forgetful.faults().arm(calls, Fault::ExpireWatch);
    }
    let asked = Asked::of(&forgetful);
    world.listen_as(forgetful).await;
    asked.for_everything().await;
    assert_eq!(world.rows(), rows);
    assert_eq!(world.transactions(), before);
    world.hang_up().await;
    // What happened meanwhile is seen once the API is back.
    world.delete("v1", "Service", "services", "default", "web").await;
    world.delete("v1", "Node", "nodes", "", "n2").await;
    world.put_pod(1, "new", 8, json!({})).await;
    world.listen().await;
    until("what is new", async || addresses(&world, "default_new")).await;
    until("what is gone", async || world.nbctl(&["lb-list"]).filter(|all| !all.contains("10.96.0.10"))).await;
    until("who is gone", async || {
        let routes = world.nbctl(&["lr-route-list", "ovn_cluster_router"])?;
        (!routes.contains("10.244.2.0/24")).then_some(())
    })
    .await;
    assert!(addresses(&world, "default_here").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_starts_beside_an_api_without_its_node_takes_nothing_away() {
    let (mut world, agent) = two_nodes().await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5"]).await;
    until("the load balancer", async || {
        world.nbctl(&["lb-list"]).filter(|all| all.contains("10.244.1.5:8080"))
    })
    .await;
    agent.end().await;
    let (rows, before) = (world.rows(), world.transactions());
    world.hang_up().await;
    // Another cluster's: it has a node, and not this one.
    let others = ApiServer::open(Settings::default()).expect("a server in memory");
    let node = json!({"metadata": {"name": "n7", "annotations": crate::objects::node_annotations(7)}});
    let node: Node = serde_json::from_value(node).expect("a node");
    let nodes = Api::all(Client::new(others.router(), "default"));
    nodes.create(&PostParams::default(), &node).await.expect("it is made");
    let asked = Asked::of(&others);
    world.listen_as(others).await;
    let _agent = Agent::start(&world, "n1").await;
    asked.for_everything().await;
    assert_eq!(world.rows(), rows);
    assert_eq!(world.transactions(), before);
    // It hears of its own cluster again, and does what there is to do.
    world.hang_up().await;
    world.put_pod(1, "new", 8, json!({})).await;
    world.listen().await;
    until("what is new", async || addresses(&world, "default_new")).await;
    let balancers = world.nbctl(&["lb-list"]).expect("a list");
    assert!(balancers.contains("10.244.1.5:8080"), "{balancers}");
    let routes = world.nbctl(&["lr-route-list", "ovn_cluster_router"]).expect("a list");
    assert!(routes.contains("10.244.2.0/24") && !routes.contains("10.244.7.0/24"), "{routes}");
    assert_eq!(world.transactions() - before, 1, "the new pod, and nothing taken away and put back");
}

/// What the zone follows from.
const KINDS: [&str; 6] = ["nodes", "pods", "services", "endpointslices", "networkpolicies", "namespaces"];

/// How often an API that does not know this node was asked.
struct Asked {
    server: ApiServer,
    calls: Vec<(&'static str, u64, u32)>,
}

impl Asked {
    fn of(server: &ApiServer) -> Asked {
        let count = |verb: &str, resource: &str| {
            let (verb, resource) = (verb.to_owned(), resource.to_owned());
            let calls = Calls { verb, resource, skip: u32::MAX, ..Calls::default() };
            server.faults().arm(calls, Fault::Conflict)
        };
        let lists = KINDS.map(|kind| (kind, count("list", kind), 1));
        // Whoever misses this node asks for it more than once.
        let calls = lists.into_iter().chain([("this node", count("get", "nodes"), 2 * KINDS.len() as u32)]);
        Asked { calls: calls.collect(), server: server.clone() }
    }

    async fn for_everything(&self) {
        until("every kind asked for", async || {
            self.calls.iter().all(|(_, id, times)| self.server.faults().met(*id) >= *times)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mangled_object_is_left_as_it_was_and_the_rest_goes_on() {
    let world = World::start().await;
    world.put_node(1).await;
    world.put_node(2).await;
    let mut broken = crate::objects::node_annotations(3);
    broken["k8s.ovn.org/node-subnets"] = json!("{");
    world.put("v1", "Node", "nodes", json!({"metadata": {"name": "n3", "annotations": broken}})).await;
    // The place of another node.
    world
        .put(
            "v1",
            "Node",
            "nodes",
            json!({"metadata": {"name": "n4", "annotations": crate::objects::node_annotations(2)}}),
        )
        .await;
    let _agent = Agent::start(&world, "n1").await;
    until("the other node", async || bound(&world)).await;
    let ports = world.nbctl(&["lsp-list", "transit_switch"]).unwrap();
    assert!(!ports.contains("tstor-n3") && !ports.contains("tstor-n4"), "{ports}");
    let mut mangled = crate::objects::node_annotations(2);
    mangled["k8s.ovn.org/node-id"] = json!("two");
    world.put("v1", "Node", "nodes", json!({"metadata": {"name": "n2", "annotations": mangled}})).await;
    world.put_pod(1, "after", 8, json!({})).await;
    until("what came after", async || addresses(&world, "default_after")).await;
    assert!(bound(&world).is_some(), "a slip of somebody's hand cuts nobody off");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_written_holds_up_no_other() {
    let (world, _agent) = two_nodes().await;
    // Somebody else's port has the name the next pod's port is to have.
    world.nbctl(&["ls-add", "theirs", "--", "lsp-add", "theirs", "default_blocked"]).expect("done");
    world.put_pod(1, "blocked", 7, json!({})).await;
    world.put_pod(1, "after", 8, json!({})).await;
    until("the pod after it", async || addresses(&world, "default_after")).await;
    assert_eq!(world.nbctl(&["lsp-list", "theirs"]).unwrap().lines().count(), 1, "theirs is untouched");
    world.nbctl(&["ls-del", "theirs"]).expect("done");
    world.put_pod(1, "blocked", 9, json!({})).await;
    until("the pod once its name is free", async || addresses(&world, "default_blocked")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_the_server_refuses_holds_up_no_other() {
    let world = World::start().await;
    let schemas = world.paths().data.join("schemas");
    std::fs::create_dir_all(&schemas).unwrap();
    let packaged = world.paths().ovn_schemas;
    std::fs::copy(packaged.join("ovn-sb.ovsschema"), schemas.join("ovn-sb.ovsschema")).unwrap();
    let northbound = std::fs::read_to_string(packaged.join("ovn-nb.ovsschema")).unwrap();
    let (before, ports) = northbound.split_once(r#""Logical_Switch_Port": {"#).unwrap();
    let short = r#""name": {"type": {"key": {"type": "string", "maxLength": 20}}}"#;
    let ports = ports.replacen(r#""name": {"type": "string"}"#, short, 1);
    let stricter = format!(r#"{before}"Logical_Switch_Port": {{{ports}"#);
    std::fs::write(schemas.join("ovn-nb.ovsschema"), stricter).unwrap();

    world.put_node(1).await;
    world.put_node(2).await;
    world.put_pod(1, "a-name-too-long-for-this-server", 5, json!({})).await;
    world.put_pod(1, "short", 6, json!({})).await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5"]).await;
    let mut config = world.config("n1");
    config.paths.ovn_schemas = schemas;
    let _agent = Agent::start_with(&world, config).await;
    until("the other pod", async || addresses(&world, "default_short")).await;
    until("the other node", async || bound(&world)).await;
    until("a Service", async || world.nbctl(&["lb-list"]).filter(|all| all.contains("10.244.1.5:8080")))
        .await;
    world.put_pod(1, "later", 7, json!({})).await;
    until("a pod that comes later", async || addresses(&world, "default_later")).await;
    assert_eq!(addresses(&world, "default_a-name-too-long-for-this-server"), None);
}
