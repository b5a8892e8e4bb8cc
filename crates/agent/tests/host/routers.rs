//! Routers that tell of themselves while a change lasts: their routes are held at what the change lets out, and stay the
//! kernel's own.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use netferry_agent::host_init::{prepare, undo};
use netferry_agent::mtu::sizes;
use netferry_core::size::{Envelope, Mtu};
use netferry_kernel::address::{Address, Lifetime};
use netferry_kernel::route::Route;
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{Family, Kernel, Objects};
use rustix::net::sockopt::{self, Ipv6PathMtuDiscovery};
use rustix::net::{self, AddressFamily, SendFlags, SocketType, ipproto};

use crate::init::options;
use crate::world::{Switch, Wire, name, run, until};

const OUTSIDE: &str = "2001:db8:ffff::1";
const ON_THE_WIRE: &str = "2001:db8:30::99";
const PREFIX: &str = "2001:db8:30::/64";
/// The scope of addresses that every link makes for itself.
const OF_THE_WIRE: u8 = 253;
/// Of an IPv6 datagram.
const HEADERS: usize = 48;

fn envelope(a: u32, b: u32) -> Envelope {
    Envelope::spanning(Mtu::new(a).unwrap(), Mtu::new(b).unwrap())
}

/// What a router says of itself.
#[derive(Clone, Copy)]
struct Says {
    /// For how long packets may be given to it, in seconds.
    lifetime: u16,
    /// How large they may be.
    mtu: Option<u32>,
}

impl Says {
    /// RFC 4861, 4.2, without the checksum, which the kernel writes.
    fn message(self) -> Vec<u8> {
        let Says { lifetime, mtu } = self;
        let mut message = vec![134, 0, 0, 0, 64, 0];
        message.extend(lifetime.to_be_bytes());
        message.extend([0; 8]);
        if let Some(mtu) = mtu {
            message.extend([5, 1, 0, 0]);
            message.extend(mtu.to_be_bytes());
        }
        // A network on the wire, of which nobody makes an address.
        message.extend([3, 4, 64, 0x80]);
        for seconds in [u32::from(lifetime) + 600, 600, 0] {
            message.extend(seconds.to_be_bytes());
        }
        let prefix: ipnet::Ipv6Net = PREFIX.parse().unwrap();
        message.extend(prefix.network().octets());
        message
    }

    /// Says it to everybody on the wire.
    fn on(self, router: &Kernel) {
        let link = router.links().named(&name("wire")).unwrap().unwrap().index;
        let everybody: Ipv6Addr = "ff02::1".parse().unwrap();
        let to = SocketAddr::V6(SocketAddrV6::new(everybody, 0, 0, link));
        let sent = router.namespace().run(|| -> std::io::Result<usize> {
            let socket = net::socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6))?;
            // With less it is ignored: it may have come from further away.
            sockopt::set_ipv6_multicast_hops(&socket, 255)?;
            Ok(net::sendto(&socket, &self.message(), SendFlags::empty(), &to)?)
        });
        sent.unwrap().unwrap();
    }
}

fn routes(kernel: &Kernel, to: &str) -> Vec<Route> {
    routes_over(kernel, "eth0", to)
}

fn routes_over(kernel: &Kernel, link: &str, to: &str) -> Vec<Route> {
    let to: ipnet::IpNet = to.parse().unwrap();
    let link = kernel.links().named(&name(link)).unwrap().unwrap().index;
    let on_it = |route: &Route| route.hops.iter().any(|hop| hop.link == Some(link));
    kernel.routes().observe().unwrap().into_iter().filter(|route| route.to == to && on_it(route)).collect()
}

/// Says it, once, for what was said before may be heard late, and waits until the kernel has taken it over: its default
/// route ends when the router said.
async fn heard(wire: &Wire, says: Says) {
    says.on(&wire.peer);
    until(&format!("an advertisement for {} s", says.lifetime), async || {
        let routes = routes(&wire.host, "::/0");
        let until = |route: &Route| match route.lifetime {
            Lifetime::Seconds(left) => left <= says.lifetime.into() && left + 200 > says.lifetime.into(),
            Lifetime::Forever => false,
        };
        let there = if says.lifetime == 0 { routes.is_empty() } else { routes.iter().any(until) };
        if there { Ok(()) } else { Err(format!("{routes:?}")) }
    })
    .await;
}

/// Is a packet of this size let out to an address, uncut?
fn lets_out(kernel: &Kernel, to: &str, size: usize) -> bool {
    let sent = kernel.namespace().run(|| -> std::io::Result<usize> {
        let socket = std::net::UdpSocket::bind("[::]:0")?;
        sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?;
        socket.connect((to.parse::<Ipv6Addr>().unwrap(), 9))?;
        socket.send(&vec![0; size - HEADERS])
    });
    match sent.unwrap() {
        Ok(_) => true,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => false,
        Err(error) => panic!("sending {size} bytes to {to}: {error}"),
    }
}

#[track_caller]
fn assert_lets_out(kernel: &Kernel, most: usize) {
    for to in [OUTSIDE, ON_THE_WIRE] {
        assert!(lets_out(kernel, to, most), "{most} to {to}: {}", run(kernel, "ip -6 route"));
        assert!(!lets_out(kernel, to, most + 1), "more than {most} to {to}: {}", run(kernel, "ip -6 route"));
    }
}

/// A host that listens to routers, with an address of its own.
async fn listening() -> Wire {
    let wire = Wire::new();
    run(&wire.host, "ip addr add fd00:172:30::2/64 dev eth0 nodad");
    run(&wire.peer, "ip link set wire mtu 9000");
    set(&wire.host, Key::accept_ra(&Of::Link(name("eth0"))), "1");
    // Asked for its hardware address, it says whether it is a router; if not, the host forgets its routes.
    set(&wire.peer, Key::forwarding(Family::V6, &Of::Link(name("wire"))), "1");
    // A router without one is not believed.
    until("the router has an address of its own", async || {
        let addresses = wire.peer.addresses().observe().unwrap();
        let ready = |a: &Address| a.net.addr().is_ipv6() && a.scope == OF_THE_WIRE && !a.status.tentative;
        if addresses.iter().any(ready) { Ok(()) } else { Err(format!("{addresses:?}")) }
    })
    .await;
    wire
}

fn set(kernel: &Kernel, key: Key, value: &str) {
    kernel.sysctls().converge_keys(&[(key, value.to_owned())].into()).unwrap();
}

#[tokio::test]
async fn a_route_that_a_router_advertises_during_a_change_is_held_and_let_go_when_it_ends() {
    let wire = listening().await;
    let directory = tempfile::tempdir().unwrap();
    let take = |wanted| sizes::run(&wire.host, &[&name("eth0")], wanted, directory.path()).unwrap();
    take(envelope(1500, 9000));
    let keep = sizes::keep(
        Arc::clone(&wire.host),
        vec![name("eth0")],
        envelope(1500, 9000),
        directory.path().into(),
    );
    let keeping = tokio::spawn(keep);

    assert_eq!(routes(&wire.host, "::/0"), [], "no router has said anything yet");
    heard(&wire, Says { lifetime: 1800, mtu: None }).await;
    assert_lets_out(&wire.host, 1500);
    // A router that says how large packets may be, by which the kernel would let them out.
    heard(&wire, Says { lifetime: 4000, mtu: Some(9000) }).await;
    assert_lets_out(&wire.host, 1500);
    let ends = |route: &Route| matches!(route.lifetime, Lifetime::Seconds(_));
    let prefix = routes(&wire.host, PREFIX);
    assert!(prefix.len() == 1 && prefix.iter().all(ends), "it ends when the router said: {prefix:?}");
    // The kernel knows its own again: a router that leaves takes its route along, and one that comes back brings it.
    heard(&wire, Says { lifetime: 0, mtu: None }).await;
    heard(&wire, Says { lifetime: 8000, mtu: Some(9000) }).await;
    assert_lets_out(&wire.host, 1500);
    assert_eq!(routes(&wire.host, "::/0").len(), 1);

    keeping.abort();
    let _ = keeping.await;
    take(envelope(9000, 9000));
    assert_lets_out(&wire.host, 9000);
    // And routers are listened to again.
    heard(&wire, Says { lifetime: 2500, mtu: Some(1400) }).await;
    until("what the router says counts", async || !lets_out(&wire.host, ON_THE_WIRE, 1401)).await;
    assert_lets_out(&wire.host, 1400);
}

/// Hears what hosts ask of routers.
struct Ear(std::os::fd::OwnedFd);

impl Ear {
    fn open(router: &Kernel) -> Ear {
        let opened = router.namespace().run(|| {
            let flags = net::SocketFlags::NONBLOCK | net::SocketFlags::CLOEXEC;
            net::socket_with(AddressFamily::INET6, SocketType::RAW, flags, Some(ipproto::ICMPV6))
        });
        Ear(opened.unwrap().unwrap())
    }

    /// Waits until somebody asks.
    async fn asked(&self) {
        let heard = || -> Option<u8> {
            let mut message = [0; 1500];
            let (length, _) = net::recv(&self.0, &mut message, net::RecvFlags::empty()).ok()?;
            message[..length].first().copied()
        };
        let mut others = Vec::new();
        until("somebody asks for routers", async || {
            while let Some(kind) = heard() {
                if kind == 133 {
                    return Ok(());
                }
                others.push(kind);
            }
            Err(format!("{others:?}"))
        })
        .await;
    }
}

#[tokio::test]
async fn a_route_that_came_with_a_larger_size_than_is_let_out_is_forgotten_and_asked_for_again() {
    let wire = listening().await;
    let directory = tempfile::tempdir().unwrap();
    // Only a size that is not the interface's own comes with the route.
    heard(&wire, Says { lifetime: 1800, mtu: Some(1480) }).await;
    assert_lets_out(&wire.host, 1480);
    let ear = Ear::open(&wire.peer);
    sizes::run(&wire.host, &[&name("eth0")], envelope(1500, 1380), directory.path()).unwrap();
    assert_eq!(routes(&wire.host, "::/0"), [], "packets of 1480 would still be let out");
    ear.asked().await;
    heard(&wire, Says { lifetime: 4000, mtu: Some(1480) }).await;
    assert_lets_out(&wire.host, 1380);
}

#[tokio::test]
async fn a_route_that_a_network_service_made_of_an_advertisement_is_held_and_still_ends() {
    let wire = listening().await;
    set(&wire.host, Key::accept_ra(&Of::Link(name("eth0"))), "0");
    run(&wire.host, "ip link set eth0 mtu 9000");
    let directory = tempfile::tempdir().unwrap();
    let take = |wanted| sizes::run(&wire.host, &[&name("eth0")], wanted, directory.path()).unwrap();
    let shown = || {
        let routes = routes(&wire.host, "::/0");
        let [route] = routes.as_slice() else { return Err(format!("{routes:?}")) };
        Ok((route.mtu.map(|mtu| mtu.bytes), matches!(route.lifetime, Lifetime::Seconds(_)), route.protocol))
    };
    run(&wire.host, "ip -6 route add default via fe80::1 dev eth0 proto ra metric 100 expires 600 mtu 8000");
    take(envelope(1500, 9000));
    assert_eq!(shown(), Ok((Some(1500), true, 9)));
    take(envelope(9000, 9000));
    assert_eq!(shown(), Ok((Some(8000), true, 9)), "as it was");
    run(&wire.host, "ip -6 route replace default via fe80::1 dev eth0 proto ra metric 100 expires 600");
    take(envelope(1500, 9000));
    assert_eq!(shown(), Ok((None, true, 9)), "held by its interface");
    assert!(!lets_out(&wire.host, OUTSIDE, 1501));
}

#[tokio::test]
async fn a_route_that_a_network_service_made_of_an_advertisement_moves_to_the_bridge_and_still_ends() {
    let wire = listening().await;
    set(&wire.host, Key::accept_ra(&Of::Link(name("eth0"))), "0");
    run(&wire.host, "ip -6 route add default via fe80::1 dev eth0 proto ra metric 100 expires 600");
    let switch = Switch::start(&wire.host).await;
    prepare(&wire.host, &options(&switch), |_| ()).await.unwrap();
    assert_eq!(routes(&wire.host, "::/0"), []);
    let moved = routes_over(&wire.host, "br-ex", "::/0");
    let [route] = moved.as_slice() else { panic!("{moved:?}") };
    assert!(route.protocol == 9 && matches!(route.lifetime, Lifetime::Seconds(1..=600)), "{route:?}");
}

#[tokio::test]
async fn an_uplink_that_is_the_hosts_own_again_asks_routers_to_tell_of_themselves() {
    let wire = listening().await;
    heard(&wire, Says { lifetime: 1800, mtu: None }).await;
    let switch = Switch::start(&wire.host).await;
    let options = options(&switch);
    prepare(&wire.host, &options, |_| ()).await.unwrap();
    // A link that has heard of a router asks no more.
    until("the bridge learns of the router", async || {
        Says { lifetime: 1800, mtu: None }.on(&wire.peer);
        let routes = routes_over(&wire.host, "br-ex", "::/0");
        if routes.is_empty() { Err(run(&wire.host, "ip -6 route")) } else { Ok(()) }
    })
    .await;
    let ear = Ear::open(&wire.peer);
    undo(&wire.host, &options, |_| ()).await.unwrap();
    ear.asked().await;
    heard(&wire, Says { lifetime: 4000, mtu: None }).await;
}
