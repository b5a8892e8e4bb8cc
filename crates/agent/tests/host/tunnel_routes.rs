//! Routes that tunnels have for themselves, in a real kernel.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use netferry_agent::overlay::host::{tunnel_routes, withdraw};
use netferry_kernel::Kernel;
use tokio::task::JoinHandle;

use crate::world::{Wire, ip, run, until};

/// Nothing is found by it in these tests: everything is told.
const NEVER: Duration = Duration::from_secs(3600);

fn keep(host: &Arc<Kernel>) -> JoinHandle<()> {
    let host = Arc::clone(host);
    tokio::spawn(async move { match tunnel_routes::keep(host, NEVER).await {} })
}

/// Where the kernel sends what it wraps for an address.
fn way(host: &Kernel, to: &str) -> String {
    let family = if to.contains(':') { "-6" } else { "-4" };
    run(host, &format!("ip {family} route get {to} ipproto udp dport 6081"))
}

/// Sends a datagram of so many bytes, which is not to be divided.
fn send(host: &Kernel, to: &str, bytes: usize) {
    let to = ip(to);
    let any = if to.is_ipv4() { ip("0.0.0.0") } else { ip("::") };
    let socket = host.namespace().run(|| UdpSocket::bind((any, 0))).unwrap().unwrap();
    // What was said of an earlier one is told as an error of this.
    let _ = socket.send_to(&vec![0; bytes], (to, 9));
}

async fn until_way(host: &Kernel, to: &str, part: &str) {
    let part = format!(" {part} ");
    until(&format!("{to}{part}"), async || {
        let way = way(host, to);
        if way.contains(" table 6081 ") && way.contains(&part) { Ok(()) } else { Err(way) }
    })
    .await;
}

#[tokio::test]
async fn what_a_host_learned_of_the_way_to_a_node_makes_its_tunnels_no_smaller() {
    let Wire { host, peer } = Wire::new();
    // A node whose pods take less than its wire carries.
    run(&host, "ip addr add 172.30.1.1/16 dev eth0; ip addr add fd00:30::1/64 dev eth0 nodad");
    run(&host, "ip route add 10.244.0.0/16 via 172.30.1.2; ip route add fd00:244::/48 via fd00:30::2");
    run(
        &peer,
        "ip addr add 172.30.1.2/16 dev wire; ip addr add fd00:30::2/64 dev wire nodad; \
        ip link add pods mtu 1400 type veth peer name far; ip link set pods up; ip link set far up; \
        ip addr add 10.244.0.1/16 dev pods; ip addr add fd00:244::1/48 dev pods nodad; \
        echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
    );
    let keeping = keep(&host);
    for (to, via) in [("10.244.0.9", "via 172.30.1.2"), ("fd00:244::9", "via fd00:30::2")] {
        until_way(&host, to, via).await;
        until(&format!("a note of the way to {to}"), async || {
            send(&host, to, 1440);
            let learned = run(&host, &format!("ip route get {to}"));
            if learned.contains("mtu 1400") { Ok(()) } else { Err(learned) }
        })
        .await;
        let way = way(&host, to);
        assert!(way.contains(" table 6081 ") && !way.contains("mtu"), "{way}");
    }
    keeping.abort();
}

#[tokio::test]
async fn tunnels_follow_the_routes_of_the_host_and_what_others_take_away_is_put_back() {
    let Wire { host, peer: _peer } = Wire::new();
    let keeping = keep(&host);
    run(&host, "ip addr add 172.30.1.1/16 dev eth0; ip addr add fd00:30::1/64 dev eth0 nodad");
    until_way(&host, "172.30.1.2", "dev eth0").await;
    until_way(&host, "fd00:30::2", "dev eth0").await;
    run(&host, "ip route add default via 172.30.0.1 mtu 1400");
    until_way(&host, "192.0.2.9", "via 172.30.0.1").await;
    assert!(!run(&host, "ip route show table 6081").contains("mtu"));
    run(&host, "ip route replace default via 172.30.0.2; ip route add 192.0.2.0/24 via 172.30.0.3");
    until_way(&host, "198.51.100.9", "via 172.30.0.2").await;
    until_way(&host, "192.0.2.9", "via 172.30.0.3").await;
    run(&host, "ip route del 192.0.2.0/24");
    until_way(&host, "192.0.2.9", "via 172.30.0.2").await;

    // What else goes there goes by the host's own.
    assert!(!run(&host, "ip route get 192.0.2.9 ipproto udp dport 6082").contains("table"));

    run(&host, "ip rule del pref 32765");
    until_way(&host, "192.0.2.9", "via 172.30.0.2").await;
    run(&host, "ip route flush table 6081");
    until_way(&host, "192.0.2.9", "via 172.30.0.2").await;

    // A link that comes back, and what its routes spoke from.
    run(&host, "ip link set eth0 down; ip link set eth0 up; ip route add default via 172.30.0.2");
    until_way(&host, "192.0.2.9", "via 172.30.0.2").await;
    run(&host, "ip addr add 172.31.1.1/16 dev eth0; ip addr del 172.30.1.1/16 dev eth0");
    until_way(&host, "172.31.1.2", "src 172.31.1.1").await;
    until("no way from an address that is gone", async || {
        let left = run(&host, "ip route show table 6081");
        if left.contains("172.30.0.0/16") { Err(left) } else { Ok(()) }
    })
    .await;
    keeping.abort();
}

#[tokio::test]
async fn a_host_that_is_left_has_no_routes_of_tunnels() {
    let Wire { host, peer: _peer } = Wire::new();
    let all = || run(&host, "ip rule; ip -6 rule; ip route show table all; ip -6 route show table all");
    run(&host, "ip addr add 172.30.1.1/16 dev eth0; ip rule add pref 77 lookup 77");
    run(&host, "ip route add 192.0.2.0/24 dev eth0 table 77");
    let before = all();
    let keeping = keep(&host);
    until_way(&host, "172.30.1.2", "dev eth0").await;
    keeping.abort();
    let _ = keeping.await;
    withdraw(&host, tempfile::tempdir().unwrap().path()).unwrap();
    assert_eq!(all(), before);
}
