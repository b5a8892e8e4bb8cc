//! Links of pods, on the host.

use std::sync::Arc;

use netferry_agent::overlay::pods::links;
use netferry_kernel::link::Link;
use netferry_testkit::wait::until;

use crate::world::{Wire, name, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_link_that_somebody_switched_off_or_made_small_is_put_right_and_others_are_left() {
    let Wire { host, .. } = Wire::new();
    for link in ["pod-1", "pod-2", "other"] {
        run(
            &host,
            &format!("ip link add {link} mtu 9000 type veth peer name {link}p; ip link set {link} up"),
        );
    }
    let ours = |link: &str| run(&host, &format!("ip link set {link} alias netferry-pod:default/{link}"));
    ours("pod-1");
    // It was changed while nobody looked.
    ours("pod-2");
    run(&host, "ip link set pod-2 down");
    let host = Arc::new(host);
    let keeper = tokio::spawn(links::keep(Arc::clone(&host)));

    let as_made = |link: &'static str| {
        let host = Arc::clone(&host);
        async move || is(&host, link).is_some_and(|link| link.up && link.mtu == 9000)
    };
    until("the link that was off", as_made("pod-2")).await;
    run(&host, "ip link set other mtu 1300; ip link set other down; ip link set pod-1 mtu 1300");
    until("the link that was small", as_made("pod-1")).await;
    run(&host, "ip link set pod-1 down");
    until("the link that was switched off", as_made("pod-1")).await;
    let other = is(&host, "other").unwrap();
    assert!(!other.up && other.mtu == 1300, "{other:?}");
    run(&host, "ip link del pod-1; ip link set pod-2 mtu 1400");
    until("another one, after one is gone", as_made("pod-2")).await;
    keeper.abort();
}

fn is(host: &netferry_kernel::Kernel, link: &str) -> Option<Link> {
    host.links().named(&name(link)).unwrap()
}
