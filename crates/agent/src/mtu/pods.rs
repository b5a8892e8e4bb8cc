//! What the pods of this node run at, as the kernel has it. Pure.
//!
//! A pod's own end is inside the pod and the pod's own. What the cluster relies on is on the host: the link that joins the
//! host to the pods, our routes over it, and the pods' links at the switch.

use std::collections::BTreeSet;

use netferry_core::overlay::names;
use netferry_core::size::{Envelope, Mtu};
use netferry_kernel::link::Link;
use netferry_kernel::route::Route;

use crate::mtu::sizes;
use crate::ownership;

/// What pods run at; nothing while the way to them is not there. What links carry is what the smallest of them does, what
/// routes let out is what the one that lets out most does.
///
/// Routes of others hold nothing back and need not; nor does ours that leads straight onto the link, to pods of this very
/// node.
pub(super) fn look(links: &[Link], routes: &[Route]) -> Option<Envelope> {
    let management = links.iter().find(|link| link.name.as_str() == names::MANAGEMENT_LINK)?;
    let of_pods = links.iter().filter(|link| ownership::pod_links().owns_alias(link.alias.as_deref()));
    let carries = of_pods.map(|link| link.mtu).fold(management.mtu, u32::min);
    let through = BTreeSet::from([management.index]);
    let ours = |route: &&Route| {
        route.protocol == ownership::host().protocol
            && route.hops.iter().any(|hop| hop.gateway.is_some())
            && sizes::leads_out(route, &through)
    };
    let lets_out = |route: &Route| route.mtu.map_or(management.mtu, |mtu| mtu.bytes);
    let sends = routes.iter().filter(ours).map(lets_out).max()?;
    let carries = Mtu::new(carries).ok()?;
    Some(Envelope::spanning(carries, Mtu::new(sends).ok()?.min(carries)))
}

#[cfg(test)]
mod tests {
    use netferry_kernel::route::Hop;

    use super::*;
    use crate::fixtures;

    fn link(index: u32, called: &str, mtu: u32) -> Link {
        Link { mtu, ..fixtures::link(index, called) }
    }

    fn of_pod(index: u32, mtu: u32) -> Link {
        let alias = Some("netferry-pod:shop/web".to_owned());
        Link { alias, ..link(index, &format!("pod{index}"), mtu) }
    }

    fn route(to: &str, link: u32, mtu: Option<u32>) -> Route {
        let route = Route::new(to.parse().unwrap(), vec![Hop::via(link, "10.244.1.1".parse().unwrap())]);
        let route = Route { protocol: ownership::host().protocol, ..route };
        mtu.map_or(route.clone(), |mtu| route.mtu(mtu))
    }

    #[test]
    fn pods_run_at_what_the_smallest_link_carries_and_the_largest_route_lets_out() {
        let management = || link(4, names::MANAGEMENT_LINK, 8900);
        let own = Route { hops: vec![Hop::on(4)], ..route("10.244.1.0/24", 4, None) };
        let held =
            || vec![route("10.244.0.0/16", 4, Some(1400)), route("10.96.0.0/16", 4, Some(1400)), own.clone()];
        let free = || vec![route("10.244.0.0/16", 4, None), route("10.96.0.0/16", 4, Some(8900))];
        type Row = (&'static str, Vec<Link>, Vec<Route>, Option<&'static str>);
        #[rustfmt::skip]
        let rows: Vec<Row> = vec![
            ("phase one", vec![management(), of_pod(7, 9000)], held(), Some("8900 (routes 1400)")),
            ("settled", vec![management(), of_pod(7, 9000)], free(), Some("8900")),
            ("no pod yet", vec![management()], free(), Some("8900")),
            ("no link yet", vec![of_pod(7, 9000)], free(), None),
            ("no route yet", vec![management()], vec![own.clone()], None),
            ("a link that was made small", vec![link(4, names::MANAGEMENT_LINK, 1400)], free(), Some("1400")),
            ("a pod's link that was made small", vec![management(), of_pod(7, 9000), of_pod(8, 1300)], free(), Some("1300")),
            ("a link of somebody else", vec![management(), link(8, "veth8", 1300)], free(), Some("8900")),
            ("a route that was let go", vec![management()], vec![route("10.244.0.0/16", 4, None), route("10.96.0.0/16", 4, Some(1400))], Some("8900")),
            ("a route that lets out more than there is", vec![management()], vec![route("10.244.0.0/16", 4, Some(9000))], Some("8900")),
            ("a route over another link", vec![management(), link(3, "eth0", 1500)], vec![route("10.244.0.0/16", 3, None)], None),
        ];
        for (what, links, routes, expected) in rows {
            assert_eq!(look(&links, &routes).map(|pods| pods.to_string()).as_deref(), expected, "{what}");
        }
    }
}
