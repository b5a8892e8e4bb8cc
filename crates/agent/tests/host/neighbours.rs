//! Tunnel neighbours in a real switch.

use std::collections::BTreeMap;
use std::sync::Arc;

use netferry_agent::overlay::host::neighbours::{Peers, TunnelNeighbours};
use tokio::sync::watch;

use crate::world::{Switch, in_time, ip, namespace, until};

fn peers(list: &[(&str, &str)]) -> Peers {
    list.iter().map(|(address, mac)| (ip(address), mac.parse().unwrap())).collect::<BTreeMap<_, _>>()
}

async fn shown(switch: &Switch, address: &str, mac: &str) {
    until("the neighbour", async || {
        let control = switch.control().await.unwrap();
        let text = control.command("tnl/neigh/show", &[]).await.unwrap();
        text.lines().any(|line| line.starts_with(address) && line.contains(mac))
    })
    .await;
}

#[tokio::test]
async fn peers_are_known_before_they_are_used_and_again_after_the_switch_was_killed() {
    let host = Arc::new(namespace());
    let mut switch = Switch::start(&host).await;
    let neighbours = TunnelNeighbours::new(switch.dir.path(), "br-ex");
    let first = peers(&[("192.0.2.7", "02:00:00:00:00:07"), ("2001:db8::7", "02:00:00:00:00:07")]);
    neighbours.load(&first).await.unwrap();
    let text = switch.control().await.unwrap().command("tnl/neigh/show", &[]).await.unwrap();
    assert!(text.contains("192.0.2.7") && text.contains("2001:db8::7"), "{text}");

    let (sender, receiver) = watch::channel(first.clone());
    let keeping = tokio::spawn({
        let neighbours = neighbours.clone();
        async move { neighbours.keep(receiver).await }
    });
    sender.send(peers(&[("192.0.2.7", "02:00:00:00:00:08"), ("192.0.2.9", "02:00:00:00:00:09")])).unwrap();
    shown(&switch, "192.0.2.7", "02:00:00:00:00:08").await;
    shown(&switch, "192.0.2.9", "02:00:00:00:00:09").await;

    switch.kill_daemon();
    assert!(neighbours.load(&first).await.is_err(), "nobody is there to take them");
    switch.start_daemon().await;
    shown(&switch, "192.0.2.9", "02:00:00:00:00:09").await;
    let aging = switch.control().await.unwrap().command("tnl/neigh/aging", &[]).await.unwrap();
    assert!(aging.contains("3600"), "{aging}");

    drop(sender);
    in_time("the end", keeping).await.unwrap();
}
