//! From objects in the API to rows in the databases.

use std::sync::atomic::Ordering;

use netferry_testkit::wait::until;
use serde_json::json;

use crate::world::World;

/// An agent that runs for as long as this is kept.
pub(crate) struct Agent(tokio::task::JoinHandle<()>);

impl Agent {
    pub(crate) async fn start(world: &World, node: &str) -> Agent {
        Agent::start_with(world, world.config(node)).await
    }

    pub(crate) async fn start_with(world: &World, config: netferry_agent::Config) -> Agent {
        let running = netferry_agent::run_on(world.kernel(), config, world.remote_client().await);
        Agent(tokio::spawn(async move {
            if let Err(error) = running.await {
                panic!("the agent ended: {error:?}");
            }
        }))
    }

    /// Ends it at whatever it is doing.
    pub(crate) async fn end(self) {
        self.0.abort();
        let mut this = self;
        let _ = (&mut this.0).await;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Two nodes with a pod each, and the agent of the first has done what there is to do.
pub(crate) async fn two_nodes() -> (World, Agent) {
    let world = World::start().await;
    world.put_node(1).await;
    world.put_node(2).await;
    world.put_pod(1, "here", 5, json!({"app": "web"})).await;
    world.put_pod(2, "there", 5, json!({"app": "client"})).await;
    let agent = Agent::start(&world, "n1").await;
    settled(&world).await;
    (world, agent)
}

async fn settled(world: &World) {
    until("the other node's port bound", async || bound(world)).await;
    until("the pod's port", async || addresses(world, "default_here")).await;
}

/// The chassis the other node's port is bound to, if it is the right one.
pub(crate) fn bound(world: &World) -> Option<String> {
    let find = ["--bare", "--columns=chassis", "find", "port_binding", "logical_port=tstor-n2"];
    let bound = world.sbctl(&find).filter(|chassis| !chassis.is_empty())?;
    let find = ["--bare", "--columns=_uuid", "find", "chassis", "name=chassis-2"];
    world.sbctl(&find).filter(|chassis| *chassis == bound)
}

pub(crate) fn addresses(world: &World, port: &str) -> Option<String> {
    world.nbctl(&["lsp-get-addresses", port]).filter(|text| !text.is_empty())
}

fn acls(world: &World, group: &str) -> String {
    world.nbctl(&["--type=port-group", "acl-list", group]).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_pods_in_the_api_become_rows_of_the_zone() {
    let (world, _agent) = two_nodes().await;
    assert_eq!(addresses(&world, "default_here").unwrap(), "0a:58:0a:f4:01:05 10.244.1.5");
    assert_eq!(addresses(&world, "default_there"), None, "others' pods have no port here");
    let routes = world.nbctl(&["lr-route-list", "ovn_cluster_router"]).unwrap();
    assert!(routes.contains("10.244.2.0/24") && routes.contains("100.88.0.3"), "{routes}");
    assert_eq!(world.vsctl(&["get", "open", ".", "external_ids:system-id"]).unwrap(), "chassis-1");
    assert_eq!(world.vsctl(&["get", "interface", "ovn-k8s-mp0", "external_ids:iface-id"]).unwrap(), "k8s-n1");
    until("the management port", async || {
        world
            .vsctl(&["get", "interface", "ovn-k8s-mp0", "external_ids:ovn-installed"])
            .filter(|installed| installed.contains("true"))
    })
    .await;
    until("flows to be kept, once there are some", async || {
        world
            .vsctl(&["get", "open", ".", "external_ids:ovn-ofctrl-wait-before-clear"])
            .filter(|wait| wait.contains("8000"))
    })
    .await;
    until("the sign that pods can be started", async || world.paths().cni_config.exists().then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_agent_adopts_what_the_last_one_left_and_changes_no_row() {
    let (mut world, agent) = two_nodes().await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5", "10.244.2.5"]).await;
    until("the load balancer and who answers", async || {
        world.nbctl(&["lb-list"]).filter(|all| all.contains("10.244.1.5:8080,10.244.2.5:8080"))
    })
    .await;
    agent.end().await;
    let (before, rows) = (world.transactions(), world.rows());
    for _ in 0..3 {
        let agent = Agent::start(&world, "n1").await;
        // It has looked at everything when it answers to what came after its start.
        world.put_pod(1, "marker", 9, json!({})).await;
        until("it works", async || addresses(&world, "default_marker")).await;
        world.end_pod("marker").await;
        until("it works", async || addresses(&world, "default_marker").is_none().then_some(())).await;
        agent.end().await;
    }
    let made = world.transactions() - before;
    assert_eq!(made, 6, "one for each marker that came and went, none for a restart: {}", world.log());
    assert_eq!(world.rows(), rows);
    // One that cannot reach the API takes nothing away either.
    world.hang_up().await;
    let attempts = world.turn_away().await;
    let agent = Agent::start(&world, "n1").await;
    until("it asks the API again and again", async || match attempts.load(Ordering::SeqCst) {
        30.. => Ok(()),
        times => Err(format!("{times} attempts")),
    })
    .await;
    agent.end().await;
    assert_eq!(world.transactions() - before, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_policies_in_the_api_become_rows_and_go_with_their_objects() {
    let (world, _agent) = two_nodes().await;
    world.put_service("web", "10.96.0.10", &["10.244.1.5"]).await;
    let lb = |text: &'static str| move |all: &String| all.contains(text);
    until("the load balancer", async || world.nbctl(&["lb-list"]).filter(lb("10.244.1.5:8080"))).await;
    world.put_slice("web", &["10.244.1.5", "10.244.2.5"]).await;
    until("a second backend", async || {
        world.nbctl(&["lb-list"]).filter(lb("10.244.1.5:8080,10.244.2.5:8080"))
    })
    .await;
    let names = world.nbctl(&["--bare", "--columns=name", "list", "load_balancer"]).unwrap();
    assert!(names.contains("Service_default/web_TCP_cluster"), "{names}");
    world.put_service_of("SCTP", "signal", "10.96.0.11").await;
    world.put_slice_of("SCTP", "signal", &["10.244.1.5"]).await;
    until("a load balancer of SCTP that OVN accepts", async || {
        let find = ["--bare", "--columns=vips", "find", "load_balancer", "protocol=sctp"];
        let taken = world.sbctl(&find).filter(lb("10.244.1.5:8080"));
        taken.filter(lb("10.96.0.11:80"))
    })
    .await;
    world.delete("v1", "Service", "services", "default", "web").await;
    until("no load balancer", async || world.nbctl(&["lb-list"]).filter(|all| !all.contains("10.96.0.10")))
        .await;

    world
        .put(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "networkpolicies",
            json!({
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {
                    "podSelector": {"matchLabels": {"app": "web"}},
                    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}]}],
                },
            }),
        )
        .await;
    let set = until("the peers' addresses", async || {
        let all = world.nbctl(&["--bare", "--columns=addresses", "list", "address_set"])?;
        all.contains("10.244.2.5").then_some(all)
    })
    .await;
    assert!(!set.contains("10.244.1.5"), "{set}");
    let groups = world.nbctl(&["--bare", "--columns=name", "list", "port_group"]).unwrap();
    let rules: String = groups.split_whitespace().map(|group| acls(&world, group)).collect();
    assert!(rules.contains("drop") && rules.contains("allow-related"), "{rules}");
    // A pod that matches later is let in; one that does not any more is not.
    world.put_pod(2, "there", 5, json!({"app": "other"})).await;
    world.put_pod(2, "late", 7, json!({"app": "client"})).await;
    until("the other peer", async || {
        let all = world.nbctl(&["--bare", "--columns=addresses", "list", "address_set"])?;
        (all.contains("10.244.2.7") && !all.contains("10.244.2.5")).then_some(())
    })
    .await;
    world.delete("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "default", "web").await;
    until("no rules", async || {
        let groups = world.nbctl(&["--bare", "--columns=name", "list", "port_group"])?;
        (groups.split_whitespace().count() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_would_end_by_it_is_not_asked_for_translations_to_nothing() {
    let (world, _agent) = two_nodes().await;
    let refused = async || {
        let said = world.vsctl(&["--bare", "--columns=capabilities", "list", "datapath"])?;
        (said.contains("ct_zero_snat=false") && !said.contains("ct_zero_snat=true")).then_some(())
    };
    until("the capability taken back", refused).await;
    // A switch that is started again says what it can do anew.
    let rows = world.vsctl(&["--bare", "--columns=_uuid", "list", "datapath"]).expect("a datapath");
    for row in rows.split_whitespace() {
        world.vsctl(&["set", "datapath", row, "capabilities:ct_zero_snat=true"]).expect("written");
    }
    until("the capability taken back again", refused).await;
}

/// Two decisions cover one packet when the rules change under them: a switch that looks up what to correct by its
/// packet corrects one of them twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_does_not_follow_rules_that_are_no_more() {
    let (world, _agent) = two_nodes().await;
    // Only a correction or somebody's order takes a decision away.
    let bridge =
        ["--", "add-br", "odd", "--", "set", "bridge", "odd", "datapath_type=dummy", "fail-mode=secure"];
    world.vsctl(&[&["set", "open", ".", "other_config:max-idle=3600000"], &bridge[..]].concat()).unwrap();
    for port in ["in", "left", "right"] {
        world.vsctl(&["add-port", "odd", port, "--", "set", "interface", port, "type=dummy"]).unwrap();
    }
    let packet = |to: &str| {
        let packet = format!(
            "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x0800),\
             ipv4(src=192.0.2.1,dst={to},proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)"
        );
        world.appctl(&["netdev-dummy/receive", "in", &packet])
    };
    until("a port to send from", async || packet("10.7.0.1")).await;
    until("ports to send to", async || {
        world.ofctl("odd", "add-flow", "ip,nw_dst=10.9.0.0/16,actions=left,right")
    })
    .await;
    let rule = |rule: &str| {
        world.ofctl("odd", "del-flows", "ip,nw_dst=10.1.0.0/16").unwrap();
        world.ofctl("odd", "add-flow", rule).unwrap();
    };
    let sent = |to: &str, actions: &str| {
        packet(to)?;
        let all = world.appctl(&["dpctl/dump-flows", "--names", "dummy@ovs-dummy"])?;
        let mut covering = all.lines().filter(|line| line.contains("dst=10.1.")).peekable();
        covering.peek()?;
        covering.all(|line| line.ends_with(actions)).then_some(())
    };
    packet("10.9.0.1").unwrap();
    rule("ip,nw_dst=10.1.2.0/24,actions=right");
    until("a decision for few", async || sent("10.1.2.2", "actions:right")).await;
    rule("ip,nw_dst=10.1.0.0/16,actions=right,left");
    until("the decision corrected", async || sent("10.1.2.2", "actions:right,left")).await;
    until("a decision for many", async || sent("10.1.0.2", "actions:right,left")).await;
    rule("ip,nw_dst=10.1.0.0/16,actions=left");
    until("no decision of before", async || sent("10.1.2.2", "actions:left")).await;
}
