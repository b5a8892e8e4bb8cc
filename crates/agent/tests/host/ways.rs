//! Ways of tunnels in a real switch that is told them.

use std::sync::Arc;

use netferry_agent::overlay::host::ways::Ways;
use netferry_agent::overlay::switch;
use netferry_core::overlay::zone::Datapath;

use crate::world::{Switch, name, namespace, run, until};

const BRIDGE: &str = "add-br br-ex -- set bridge br-ex datapath_type=netdev -- add-br br-int -- set bridge br-int \
    datapath_type=netdev -- add-port br-int t0 -- set interface t0 type=geneve options:remote_ip=flow options:key=flow";
const ADDRESS: &str = "ip addr add 192.0.2.2/24 dev br-ex; ip addr add 2001:db8::2/64 dev br-ex nodad; \
    ip link set br-ex up";

/// The ways through the bridge that the switch knows, until they are these.
async fn knows(switch: &Switch, ways: &[(&str, Option<&str>)]) {
    let ways: Vec<(String, Option<String>)> =
        ways.iter().map(|(to, router)| ((*to).to_owned(), router.map(str::to_owned))).collect();
    until(&format!("{ways:?}"), async || {
        let there = switch.control().await.ok()?.tunnel_routes().await.ok()?;
        let there = there.iter().filter(|route| route.told && route.link == "br-ex");
        let mut there: Vec<(String, Option<String>)> = there
            .map(|route| (route.to.to_string(), route.router.map(|router| router.to_string())))
            .collect();
        there.sort();
        (there == ways).then_some(())
    })
    .await;
}

/// The switch takes in what is sent to this address for its tunnels.
async fn listens(switch: &Switch, address: &str) {
    until("tunnels that end here", async || {
        let ports = switch.control().await.ok()?.command("tnl/ports/show", &["-v"]).await.ok()?;
        ports.contains(address).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_switch_is_told_the_kernels_ways_through_the_bridge_and_tunnels_end_there() {
    let host = Arc::new(namespace());
    let mut switch = Switch::start_with(&host, &["--disable-system-route"]).await;
    switch.vsctl(BRIDGE);
    run(&host, ADDRESS);
    let ways = Ways::new(Arc::clone(&host), switch.dir.path(), name("br-ex"));
    let keeping = tokio::spawn(async move { match ways.keep().await {} });
    let (v4, v6) = (("192.0.2.0/24", None), ("2001:db8::/64", None));
    knows(&switch, &[v4, v6]).await;
    listens(&switch, "192.0.2.2").await;
    assert!(!switch::process(switch.dir.path(), Datapath::Userspace).await.follows_routes);

    // They come, change and go as the kernel's do.
    run(&host, "ip route add default via 192.0.2.1; ip route add 10.9.0.0/16 via 192.0.2.7 metric 200");
    knows(&switch, &[("0.0.0.0/0", Some("192.0.2.1")), ("10.9.0.0/16", Some("192.0.2.7")), v4, v6]).await;
    run(&host, "ip route add 10.9.0.0/16 via 192.0.2.8 metric 100; ip route del default");
    knows(&switch, &[("10.9.0.0/16", Some("192.0.2.8")), v4, v6]).await;
    listens(&switch, "192.0.2.2").await;

    // By hand, which nothing tells: with the way the switch forgets where its tunnels end.
    switch.control().await.unwrap().forget_tunnel_route("192.0.2.0/24".parse().unwrap()).await.unwrap();
    knows(&switch, &[("10.9.0.0/16", Some("192.0.2.8")), v4, v6]).await;
    listens(&switch, "192.0.2.2").await;

    // An address in place of another, from which packets are sent from then on.
    run(
        &host,
        "ip addr add 192.0.2.3/24 dev br-ex; ip addr del 192.0.2.2/24 dev br-ex; \
        ip addr add 192.0.2.3/24 dev br-ex 2>/dev/null || true",
    );
    listens(&switch, "192.0.2.3").await;
    until("the new source", async || {
        let there = switch.control().await.ok()?.tunnel_routes().await.ok()?;
        let source = there.iter().find(|route| route.to.to_string() == "192.0.2.0/24")?.source?;
        (source.to_string() == "192.0.2.3").then_some(())
    })
    .await;

    // A new process knows nothing; the bridge is another link since.
    switch.kill_daemon();
    switch.start_daemon().await;
    until("the bridge", async || run(&host, "ip -o link").contains("br-ex").then_some(())).await;
    run(&host, ADDRESS);
    knows(&switch, &[v4, v6]).await;
    listens(&switch, "192.0.2.2").await;
    keeping.abort();
}

#[tokio::test]
async fn a_switch_that_reads_the_kernels_ways_is_told_none() {
    let host = Arc::new(namespace());
    let switch = Switch::start(&host).await;
    switch.vsctl(BRIDGE);
    run(&host, ADDRESS);
    until("it read them", async || {
        let there = switch.control().await.ok()?.tunnel_routes().await.ok()?;
        there.iter().any(|route| route.to.to_string() == "192.0.2.0/24").then_some(())
    })
    .await;
    assert!(switch::process(switch.dir.path(), Datapath::Userspace).await.follows_routes);
    let ways = Ways::new(Arc::clone(&host), switch.dir.path(), name("br-ex"));
    let keeping = tokio::spawn(async move { match ways.keep().await {} });
    // Telling would be done with once the switch has answered questions that were asked later.
    run(&host, "ip route add 10.9.0.0/16 via 192.0.2.7");
    until("the new one", async || {
        let there = switch.control().await.ok()?.tunnel_routes().await.ok()?;
        assert!(there.iter().all(|route| !route.told), "{there:?}");
        there.iter().any(|route| route.to.to_string() == "10.9.0.0/16").then_some(())
    })
    .await;
    keeping.abort();
}
