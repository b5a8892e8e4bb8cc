//! From objects in the API to rows in the databases.

use serde_json::json;

use crate::world::{World, until};

/// An agent that runs for as long as this is kept.
struct Agent(tokio::task::JoinHandle<()>);

impl Agent {
    fn start(world: &World, node: &str) -> Agent {
        let running = netferry_agent::run(world.config(node), world.client.clone());
        Agent(tokio::spawn(async move {
            if let Err(error) = running.await {
                panic!("the agent ended: {error:?}");
            }
        }))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_pods_in_the_api_become_rows_of_the_zone() {
    let world = World::start().await;
    world.put_node(1).await;
    world.put_node(2).await;
    world.put_pod(1, "here", 5, json!({})).await;
    world.put_pod(2, "there", 5, json!({})).await;
    let _agent = Agent::start(&world, "n1");
    let port = until("the pod's port", || {
        world.nbctl(&["lsp-get-addresses", "default_here"]).filter(|text| !text.is_empty())
    })
    .await;
    assert_eq!(port, "0a:58:0a:f4:01:05 10.244.1.5");
    assert!(world.nbctl(&["lsp-get-addresses", "default_there"]).is_none(), "others' pods have no port here");
    let routes = world.nbctl(&["lr-route-list", "ovn_cluster_router"]).unwrap();
    assert!(routes.contains("10.244.2.0/24") && routes.contains("100.88.0.3"), "{routes}");
    assert_eq!(world.vsctl(&["get", "open", ".", "external_ids:system-id"]).unwrap(), "chassis-1");
    assert_eq!(world.vsctl(&["get", "interface", "ovn-k8s-mp0", "external_ids:iface-id"]).unwrap(), "k8s-n1");
    let bound = until("the other node's port", || {
        world
            .sbctl(&["--bare", "--columns=chassis", "find", "port_binding", "logical_port=tstor-n2"])
            .filter(|chassis| !chassis.is_empty())
    })
    .await;
    let chassis = world.sbctl(&["--bare", "--columns=_uuid", "find", "chassis", "name=chassis-2"]).unwrap();
    assert_eq!(bound, chassis);
    until("the management port", || {
        world
            .vsctl(&["get", "interface", "ovn-k8s-mp0", "external_ids:ovn-installed"])
            .filter(|installed| installed.contains("true"))
    })
    .await;
}
