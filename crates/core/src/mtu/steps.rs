//! In which order a kernel is told new sizes.

use ipnet::IpNet;

use crate::net::Family;
use crate::size::{Envelope, Mtu};

/// An interface that carries traffic between hosts, or one below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu: Mtu,
    /// How many interfaces it stands on, at most: 0 for a card, 1 for a VLAN or a bond of cards, 2 for a VLAN on a bond.
    pub height: u8,
    /// Whether other interfaces stand on it. Such an interface is raised but never lowered: others than ours may stand
    /// on it too, and carrying more than needed hurts nobody.
    pub shared: bool,
}

/// A route out of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Which one, in the words of whoever changes it.
    pub id: usize,
    /// Where it leads.
    pub to: IpNet,
    /// Through which interface.
    pub link: String,
    /// The MTU it has.
    pub mtu: Option<Mtu>,
    /// The MTU it has without us: somebody's own, smaller one is kept.
    pub own: Option<Mtu>,
}

/// One change of the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Gives a route an MTU, or takes it away.
    Route {
        /// Which.
        id: usize,
        /// What it lets out; nothing, as much as its interface.
        mtu: Option<Mtu>,
        /// Whether the kernel must leave it alone. An IPv6 route whose MTU equals that of its interface is taken
        /// along when the interface's changes: a pin would rise with the very interface it is there to hold back.
        /// A locked route ignores what routers report, so it is locked only while an interface changes.
        locked: bool,
    },
    /// Gives an interface an MTU.
    Link {
        /// Which.
        name: String,
        /// What it carries.
        mtu: Mtu,
    },
}

/// The steps that take interfaces and the routes out of them to an envelope.
///
/// First every route is held to what it lets out now or will let out later, whichever is less; then the interfaces
/// change, lower ones first when they grow and last when they shrink; then routes get what they shall have.
///
/// # Guarantees
///
/// Every size that the node held before and holds afterwards it holds at every instant in between: it never sends
/// more, never carries less. Steps that would change nothing are left out; done twice, the second time does nothing.
pub fn steps(links: &[Link], routes: &[Route], wanted: Envelope) -> Vec<Step> {
    let carries = |link: &Link| if link.shared { link.mtu.max(wanted.carries()) } else { wanted.carries() };
    let link_of = |route: &Route| links.iter().find(|link| link.name == route.link);
    let mut hold = Vec::new();
    let mut release = Vec::new();
    for route in routes {
        let Some(link) = link_of(route) else { continue };
        let shall = pinned(route.own, wanted);
        let lets_out = |mtu: Option<Mtu>, link: Mtu| mtu.map_or(link, |mtu| mtu.min(link));
        let meanwhile = lets_out(route.mtu, link.mtu).min(lets_out(shall, carries(link)));
        let moves = carries(link) != link.mtu;
        let locked = moves && Family::of_net(route.to) == Family::V6;
        if (moves || route.mtu != shall) && (route.mtu != Some(meanwhile) || locked) {
            hold.push(Step::Route { id: route.id, mtu: Some(meanwhile), locked });
        }
        let after_hold = if hold_covers(&hold, route.id) { Some(meanwhile) } else { route.mtu };
        if after_hold != shall || locked {
            release.push(Step::Route { id: route.id, mtu: shall, locked: false });
        }
    }
    let step = |link: &Link| Step::Link { name: link.name.clone(), mtu: carries(link) };
    let mut grow: Vec<&Link> = links.iter().filter(|link| carries(link) > link.mtu).collect();
    grow.sort_by_key(|link| link.height);
    let mut shrink: Vec<&Link> = links.iter().filter(|link| carries(link) < link.mtu).collect();
    shrink.sort_by_key(|link| std::cmp::Reverse(link.height));
    hold.into_iter().chain(grow.into_iter().chain(shrink).map(step)).chain(release).collect()
}

/// The MTU a route shall have that has `own` without us: also for one that appears later.
pub fn pinned(own: Option<Mtu>, wanted: Envelope) -> Option<Mtu> {
    match (own, wanted.pin()) {
        (Some(own), Some(pin)) => Some(own.min(pin)),
        (own, pin) => own.or(pin),
    }
}

fn hold_covers(hold: &[Step], route: usize) -> bool {
    hold.iter().any(|step| matches!(step, Step::Route { id, .. } if *id == route))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::mtu;

    /// As much of a kernel as matters, IPv6 routes that follow their interface included (seen on Linux 6.18).
    #[derive(Clone, Debug)]
    struct Kernel {
        links: Vec<Link>,
        routes: Vec<(Route, bool)>,
    }

    impl Kernel {
        fn apply(&mut self, step: &Step) {
            match step {
                Step::Route { id, mtu, locked } => {
                    let (route, lock) = self.routes.iter_mut().find(|(route, _)| route.id == *id).unwrap();
                    (route.mtu, *lock) = (*mtu, *locked);
                }
                Step::Link { name, mtu } => {
                    let link = self.links.iter_mut().find(|link| link.name == *name).unwrap();
                    let old = std::mem::replace(&mut link.mtu, *mtu);
                    for (route, locked) in &mut self.routes {
                        let follows =
                            route.link == *name && !*locked && Family::of_net(route.to) == Family::V6;
                        if follows && route.mtu.is_some_and(|pin| pin >= *mtu || pin == old) {
                            route.mtu = Some(*mtu);
                        }
                    }
                    // A VLAN cannot be larger than what it stands on; the kernel cuts it down.
                    let below = self.links.iter().filter(|l| l.shared).map(|l| l.mtu).min();
                    for link in self.links.iter_mut().filter(|link| !link.shared) {
                        link.mtu = link.mtu.min(below.unwrap_or(link.mtu));
                    }
                }
            }
        }

        fn plain(&self) -> Vec<Route> {
            self.routes.iter().map(|(route, _)| route.clone()).collect()
        }

        fn run(&mut self, wanted: Envelope) -> Vec<Step> {
            let steps = steps(&self.links, &self.plain(), wanted);
            for step in &steps {
                self.apply(step);
            }
            steps
        }

        fn holds(&self, size: Mtu) -> bool {
            self.links.iter().all(|link| size <= link.mtu)
                && self.routes.iter().all(|(route, _)| {
                    let link = self.links.iter().find(|link| link.name == route.link).unwrap();
                    route.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu)) <= size
                })
        }
    }

    fn kernel(at: Mtu, own: Option<Mtu>) -> Kernel {
        let link = |name: &str, height, shared| Link { name: name.into(), mtu: at, height, shared };
        let route = |id, to: &str, own| {
            let to = to.parse().unwrap();
            (Route { id, to, link: "eth0.5".into(), mtu: own, own }, false)
        };
        Kernel {
            links: vec![link("eth0.5", 1, false), link("eth0", 0, true)],
            routes: vec![
                route(0, "0.0.0.0/0", None),
                route(1, "::/0", None),
                route(2, "10.0.0.0/8", own),
                route(3, "fd00::/8", own),
            ],
        }
    }

    fn size() -> impl Strategy<Value = Mtu> {
        prop_oneof![Just(1280), Just(1400), Just(1500), Just(8900), Just(9000)].prop_map(mtu)
    }

    proptest! {
        #[test]
        fn what_is_held_before_and_after_is_held_at_every_instant_between(
            start in size(), own in proptest::option::of(size()), way in prop::collection::vec((size(), size()), 1..5),
        ) {
            let mut kernel = kernel(start, own);
            let mut before = Envelope::settled(start);
            for (a, b) in way {
                let wanted = Envelope::spanning(a, b);
                let steps = steps(&kernel.links, &kernel.plain(), wanted);
                let both: Vec<Mtu> = [before.sends(), before.carries(), a, b].into_iter()
                    .filter(|size| before.holds(*size) && wanted.holds(*size) && kernel.holds(*size)).collect();
                for step in &steps {
                    kernel.apply(step);
                    for size in &both {
                        prop_assert!(kernel.holds(*size), "{size} after {step:?} of {steps:?}");
                    }
                }
                let uplink = &kernel.links[0];
                prop_assert_eq!(uplink.mtu, wanted.carries());
                for (route, locked) in &kernel.routes {
                    prop_assert!(!locked, "{route:?} stays locked");
                    prop_assert_eq!(route.mtu, pinned(route.own, wanted));
                }
                prop_assert_eq!(kernel.run(wanted), vec![], "a second time there is nothing to do");
                before = wanted;
            }
        }
    }

    /// The order is the point: the same steps with interfaces first break the promise.
    #[test]
    fn interfaces_before_routes_would_send_too_much() {
        let mut kernel = kernel(mtu(1400), None);
        let mut steps = steps(&kernel.links, &kernel.plain(), Envelope::spanning(mtu(1400), mtu(8900)));
        steps.sort_by_key(|step| matches!(step, Step::Route { .. }));
        let broken = steps.iter().any(|step| {
            kernel.apply(step);
            !kernel.holds(mtu(1400))
        });
        assert!(broken);
    }

    #[test]
    fn an_unlocked_ipv6_pin_would_rise_with_its_interface() {
        let mut kernel = kernel(mtu(1400), None);
        for step in steps(&kernel.links, &kernel.plain(), Envelope::spanning(mtu(1400), mtu(8900))) {
            let unlocked = match step {
                Step::Route { id, mtu, .. } => Step::Route { id, mtu, locked: false },
                link @ Step::Link { .. } => link,
            };
            kernel.apply(&unlocked);
            if !kernel.holds(mtu(1400)) {
                return;
            }
        }
        panic!("the lock is not needed, so it should not be there");
    }

    #[test]
    fn phase_one_pins_routes_then_raises_lower_interfaces_first() {
        let kernel = kernel(mtu(1400), Some(mtu(1300)));
        let steps = steps(&kernel.links, &kernel.plain(), Envelope::spanning(mtu(1400), mtu(8900)));
        let shown: Vec<String> = steps
            .iter()
            .map(|step| match step {
                Step::Route { id, mtu, locked } => {
                    format!(
                        "{id}={}{}",
                        mtu.map_or("-".into(), |m| m.to_string()),
                        if *locked { "!" } else { "" }
                    )
                }
                Step::Link { name, mtu } => format!("{name}={mtu}"),
            })
            .collect();
        assert_eq!(shown.join(" "), "0=1400 1=1400! 3=1300! eth0=8900 eth0.5=8900 1=1400 3=1300");
    }

    #[test]
    fn what_stands_below_others_is_never_lowered() {
        let mut kernel = kernel(mtu(9000), None);
        kernel.run(Envelope::settled(mtu(1500)));
        let sizes: Vec<u32> = kernel.links.iter().map(|link| link.mtu.bytes()).collect();
        assert_eq!(sizes, [1500, 9000]);
    }
}
