//! The packet filter.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::nft::{Chain, Hook, Key, Map, Ranges, Rule, Set, Table, Then, When};
use crate::net::Family;
use crate::overlay::names::MANAGEMENT_LINK;
use crate::overlay::service::{Entrance, Forward};
use crate::overlay::topology::ServiceSource;
use crate::overlay::zone::Zone;
use crate::port::Port;

/// The name of our table; everything in it is ours.
pub const TABLE: &str = "netferry";
/// The mark of a connection whose backend lives in the host's own network.
pub const HOST_BACKED_MARK: u32 = 0x0017_45ed;

/// Where tunnels end.
pub const GENEVE_PORT: u16 = 6081;

impl Zone<'_> {
    pub(super) fn filter(&self, forward: Forward) -> Table {
        let mut table = Table { name: TABLE.to_owned(), ..Table::default() };
        let families = self.networks.families();
        let mut prerouting = Vec::new();
        let mut output = Vec::new();
        let mut postrouting = Vec::new();
        let mut guards = Vec::new();
        for family in families {
            // Only what other hosts send is bound to this node's backends; the host itself speaks from inside.
            for (group, elements) in [("local", &forward.local), ("any", &forward.any)] {
                for (key, to_host) in [(Key::Port, true), (Key::AddressPort, false)] {
                    let name = name_of(group, key, *family);
                    table.maps.insert(name.clone(), map_of(elements, key, *family));
                    let mut when = vec![When::Family(*family), When::HasPorts];
                    if to_host {
                        when.push(When::ToHost);
                    }
                    let rule = Rule { when, then: Then::DestinationBy(name) };
                    if group == "any" {
                        output.push(rule.clone());
                    }
                    prerouting.push(rule);
                }
            }
            postrouting.extend(self.sources(*family));
            guards.extend(guard(&forward, *family, &mut table));
        }
        match self.topology.way_out.service_source {
            ServiceSource::Join => {
                for family in families {
                    let kept = forward.local.iter().map(|(entrance, to)| Entrance {
                        address: Some(to.ip()),
                        port: Port::new(to.port().into()).unwrap_or(entrance.port),
                        ..*entrance
                    });
                    let name = name_of("kept", Key::AddressPort, *family);
                    table.sets.insert(name, set_of(&kept.collect(), Key::AddressPort, *family));
                }
            }
            ServiceSource::KeepUnlessHostBacked => {
                for family in families.iter().rev() {
                    for key in [Key::Port, Key::AddressPort] {
                        let name = name_of("host_backed", key, *family);
                        let rule = mark_rule(&name, key, *family);
                        table.sets.insert(name, set_of(&forward.host_backed, key, *family));
                        prerouting.insert(0, rule.clone());
                        output.insert(0, rule);
                    }
                }
                for family in families {
                    let name = name_of("processes", Key::AddressPort, *family);
                    table.sets.insert(name.clone(), set_of(&forward.processes, Key::AddressPort, *family));
                    prerouting.extend(self.processes(*family, name));
                }
            }
        }
        let mut chain = |name: &str, hook, priority, nat, rules: Vec<Rule>| {
            if !rules.is_empty() {
                table.chains.insert(name.to_owned(), Chain { hook, priority, nat, rules });
            }
        };
        // Before destinations are replaced: afterwards nobody knows which address was asked.
        chain("guard", Hook::Prerouting, -150, false, guards);
        chain("prerouting", Hook::Prerouting, -100, true, prerouting);
        chain("output", Hook::Output, -100, true, output);
        chain("forward", Hook::Forward, 0, false, no_loops());
        chain("postrouting", Hook::Postrouting, 100, true, postrouting);
        let untracked = if self.topology.way_out.tunnels { vec![geneve_untracked()] } else { vec![] };
        chain("raw_prerouting", Hook::Prerouting, -300, false, untracked.clone());
        chain("raw_output", Hook::Output, -300, false, untracked);
        table
    }

    /// A process of the host goes on answering for its Service when the uplink took the address with it that the
    /// Service names: what comes out of the overlay for it is led to the management port's address.
    fn processes(&self, family: Family, set: String) -> Vec<Rule> {
        let Some(own) = self.node.assignment.management().get(family) else { return vec![] };
        let when = |more| {
            let mut when = vec![When::In(MANAGEMENT_LINK.to_owned()), When::Family(family), When::HasPorts];
            when.push(more);
            when
        };
        vec![
            Rule { when: when(When::ToHost), then: Then::Return },
            Rule { when: when(When::InSet(set)), then: Then::DestinationTo(own) },
        ]
    }

    /// Whose address a packet that leaves carries.
    fn sources(&self, family: Family) -> Vec<Rule> {
        let place = &self.node.assignment;
        let out = || When::Out(MANAGEMENT_LINK.to_owned());
        let (Some(subnet), Some(own), Some(join)) =
            (place.subnets().get(family), place.management().get(family), place.join().get(family))
        else {
            return vec![];
        };
        let rule = |when, then| Rule { when, then };
        let of_host = [
            rule(vec![out(), When::From(own.into())], Then::Return),
            rule(vec![out(), When::Family(family), When::FromHost], Then::SourceTo(own)),
        ];
        // A pod that went through the host must get its answer through the host too.
        let of_pods = rule(vec![out(), When::Redirected, When::From(subnet)], Then::SourceTo(join));
        let mut rules: Vec<Rule> = match self.topology.way_out.service_source {
            ServiceSource::Join => {
                let kept = name_of("kept", Key::AddressPort, family);
                let all = vec![out(), When::Redirected, When::Family(family), When::NotInSet(kept)];
                [rule(all, Then::SourceTo(join)), of_pods].into_iter().chain(of_host).collect()
            }
            // The host first: what it sends to a Service comes from `.2`, which every policy admits, and nothing else
            // may.
            ServiceSource::KeepUnlessHostBacked => {
                let marked = vec![out(), When::Family(family), When::ConnectionMark(HOST_BACKED_MARK)];
                of_host.into_iter().chain([rule(marked, Then::SourceTo(join)), of_pods]).collect()
            }
        };
        rules
            .push(rule(vec![When::NotOut(MANAGEMENT_LINK.to_owned()), When::From(subnet)], Then::Masquerade));
        rules
    }
}

/// A pod that speaks to an address of the overlay nobody has is sent to the host by the router and back by the host,
/// and so on until the packet dies of age.
fn no_loops() -> Vec<Rule> {
    let both = || vec![When::In(MANAGEMENT_LINK.to_owned()), When::Out(MANAGEMENT_LINK.to_owned())];
    let mut redirected = both();
    redirected.push(When::Redirected);
    vec![Rule { when: redirected, then: Then::Accept }, Rule { when: both(), then: Then::Drop }]
}

/// What the host forwards for the overlay: out of it and into it. Who may reach whom is decided inside.
pub(super) fn admitted() -> Vec<Rule> {
    let link = || MANAGEMENT_LINK.to_owned();
    let pass = |when| Rule { when: vec![when], then: Then::Accept };
    vec![pass(When::In(link())), pass(When::Out(link()))]
}

/// Keeps those out of a load balancer's addresses whom their Services do not name.
fn guard(forward: &Forward, family: Family, table: &mut Table) -> Option<Rule> {
    let of_family = || forward.guarded.iter().filter(|(entrance, _)| entrance.family == family);
    of_family().next()?;
    let (guarded, admitted) =
        (name_of("guarded", Key::AddressPort, family), name_of("admitted", Key::AddressPort, family));
    let entrances = of_family().map(|(entrance, _)| *entrance).collect();
    table.sets.insert(guarded.clone(), Set { family, key: Key::AddressPort, elements: entrances });
    let elements =
        of_family().flat_map(|(entrance, nets)| nets.iter().map(|net| (*entrance, *net))).collect();
    table.ranges.insert(admitted.clone(), Ranges { family, elements });
    let when = vec![When::Family(family), When::HasPorts, When::InSet(guarded), When::NotInRanges(admitted)];
    Some(Rule { when, then: Then::Drop })
}

fn geneve_untracked() -> Rule {
    Rule { when: vec![When::UdpTo(GENEVE_PORT)], then: Then::NoTrack }
}

fn mark_rule(set: &str, key: Key, family: Family) -> Rule {
    let mut when = vec![When::Family(family), When::HasPorts];
    if key == Key::Port {
        when.push(When::ToHost);
    }
    when.push(When::InSet(set.to_owned()));
    Rule { when, then: Then::MarkConnection(HOST_BACKED_MARK) }
}

/// Which map or set of the table an entrance is an element of.
pub(super) fn name_of(group: &str, key: Key, family: Family) -> String {
    let key = match key {
        Key::Port => "nodeports",
        Key::AddressPort => "addresses",
    };
    let family = match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    };
    format!("{group}_{key}_{family}")
}

fn belongs(entrance: &Entrance, key: Key, family: Family) -> bool {
    let by = if entrance.address.is_some() { Key::AddressPort } else { Key::Port };
    entrance.family == family && by == key
}

fn map_of(all: &BTreeMap<Entrance, SocketAddr>, key: Key, family: Family) -> Map {
    let elements = all.iter().filter(|(entrance, _)| belongs(entrance, key, family));
    Map { family, key, elements: elements.map(|(entrance, to)| (*entrance, *to)).collect() }
}

fn set_of(all: &BTreeSet<Entrance>, key: Key, family: Family) -> Set {
    let elements = all.iter().filter(|entrance| belongs(entrance, key, family)).copied().collect();
    Set { family, key, elements }
}
