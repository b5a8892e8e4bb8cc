//! The packet filter of a [`HostPlan`](netferry_core::overlay::host::HostPlan) in the kernel's words.

use ipnet::IpNet;
use netferry_core::net::Family as CoreFamily;
use netferry_core::overlay::host::nft as plan;
use netferry_core::overlay::service::Entrance;
use netferry_core::port::Protocol;
use netferry_kernel::nft::{
    Chain, Compare, Ct, Data, Datatype, HookKind, HookPoint, Key, Meta, NatTo, Payload, Rule, Set, Source,
    Table, TableFamily, Value,
};
use netferry_kernel::{Family, IfName, Result};

/// The set of protocols that have ports.
const WITH_PORTS: &str = "with_ports";
const UDP: u8 = 17;
/// `IPS_DST_NAT`: the destination was replaced.
const REDIRECTED: u32 = 32;

/// The table, as nftables is told it.
pub fn table(plan: &plan::Table) -> Result<Table> {
    let mut table = Table::new(TableFamily::Inet, plan.name.clone());
    let with_ports = Protocol::ALL.map(|p| (Key::exact([Value::Protocol(p.number())]), Data::None));
    table = table.set(WITH_PORTS, Set::of([Datatype::Protocol]).with(with_ports));
    for (name, map) in &plan.maps {
        let leads_to = [address_type(map.family), Datatype::Port];
        let element = |(from, to): (&Entrance, &std::net::SocketAddr)| {
            (key(from), Data::Values(vec![to.ip().into(), Value::Port(to.port())]))
        };
        let set = Set::map(key_type(map.family, map.key), leads_to);
        table = table.set(name.clone(), set.with(map.elements.iter().map(element)));
    }
    for (name, set) in &plan.sets {
        let elements = set.elements.iter().map(|entrance| (key(entrance), Data::None));
        table = table.set(name.clone(), Set::of(key_type(set.family, set.key)).with(elements));
    }
    for (name, ranges) in &plan.ranges {
        let mut fields = key_type(ranges.family, plan::Key::AddressPort);
        fields.push(address_type(ranges.family));
        let element = |(entrance, net): &(Entrance, IpNet)| {
            let ends = [net.network(), net.broadcast()].map(|end| {
                let mut values = key(entrance).from;
                values.push(end.into());
                values
            });
            let [from, to] = ends;
            (Key::range(from, to), Data::None)
        };
        let set = Set::of(fields).with_intervals().with(ranges.elements.iter().map(element));
        table = table.set(name.clone(), set);
    }
    for (name, chain) in &plan.chains {
        let rules = chain.rules.iter().map(|rule| rule_of(rule, plan)).collect::<Result<_>>()?;
        let kind = if chain.nat { HookKind::Nat } else { HookKind::Filter };
        table = table.chain(name.clone(), Chain::at(kind, point(chain.hook), chain.priority, rules));
    }
    Ok(table)
}

/// Rules that stand in chains of others, so that they may look at nothing of our table.
pub fn rules(plan: &[plan::Rule]) -> Result<Vec<Rule>> {
    plan.iter().map(|rule| rule_of(rule, &plan::Table::default())).collect()
}

fn point(hook: plan::Hook) -> HookPoint {
    match hook {
        plan::Hook::Prerouting => HookPoint::Prerouting,
        plan::Hook::Output => HookPoint::Output,
        plan::Hook::Forward => HookPoint::Forward,
        plan::Hook::Postrouting => HookPoint::Postrouting,
    }
}

fn rule_of(from: &plan::Rule, table: &plan::Table) -> Result<Rule> {
    let rule = from.when.iter().try_fold(Rule::new(), |rule, when| condition(rule, when, table))?;
    Ok(match &from.then {
        plan::Then::Accept => rule.accept(),
        plan::Then::Drop => rule.drop(),
        plan::Then::Return => rule.back(),
        plan::Then::SourceTo(ip) => rule.snat(Family::of(*ip), NatTo::Address(Source::address(*ip))),
        plan::Then::Masquerade => rule.masquerade(),
        plan::Then::DestinationTo(ip) => rule.dnat(Family::of(*ip), NatTo::Address(Source::address(*ip))),
        plan::Then::DestinationBy(map) => {
            let family = table.maps.get(map).map_or(CoreFamily::V4, |map| map.family);
            let to = NatTo::MappedAddressPort { key: looked_at(table, map), map: map.clone() };
            rule.dnat(family_of(family), to)
        }
        plan::Then::MarkConnection(mark) => rule.set_ct_mark(Source::mark(*mark)),
        plan::Then::NoTrack => rule.notrack(),
    })
}

fn condition(rule: Rule, when: &plan::When, table: &plan::Table) -> Result<Rule> {
    Ok(match when {
        plan::When::In(link) => rule.iifname(&IfName::new(link.as_str())?),
        plan::When::Out(link) => rule.oifname(&IfName::new(link.as_str())?),
        plan::When::NotOut(link) => rule.oifname_is_not(&IfName::new(link.as_str())?),
        plan::When::From(net) => rule.from(*net),
        plan::When::FromHost => rule.from_this_host(),
        plan::When::ToHost => rule.to_this_host(),
        plan::When::Family(family) => rule.family(family_of(*family)),
        plan::When::HasPorts => rule.in_set([Source::Meta(Meta::L4Proto)], WITH_PORTS),
        plan::When::UdpTo(port) => rule.destination_port(UDP, *port),
        plan::When::Redirected => {
            let bits = Source::Bits {
                of: Box::new(Source::Ct(Ct::Status)),
                mask: REDIRECTED.to_ne_bytes().to_vec(),
                xor: vec![0; 4],
            };
            rule.matches(bits, Compare::NotEqual, [0; 4])
        }
        plan::When::ConnectionMark(mark) => rule.ct_mark(*mark, u32::MAX),
        plan::When::InSet(set) => rule.in_set(looked_at(table, set), set.clone()),
        plan::When::NotInSet(set) => rule.not_in_set(looked_at(table, set), set.clone()),
        plan::When::NotInRanges(name) => {
            let family = family_of(table.ranges.get(name).map_or(CoreFamily::V4, |ranges| ranges.family));
            let mut key = entrance_of(family);
            key.push(Source::Payload(Payload::source(family)));
            rule.not_in_set(key, name.clone())
        }
    })
}

/// What a map or set of the plan is asked with.
fn looked_at(table: &plan::Table, name: &str) -> Vec<Source> {
    let (family, key) = match (table.maps.get(name), table.sets.get(name)) {
        (Some(map), _) => (map.family, map.key),
        (None, Some(set)) => (set.family, set.key),
        (None, None) => (CoreFamily::V4, plan::Key::Port),
    };
    match key {
        plan::Key::Port => entrance_of(family_of(family)).split_off(1),
        plan::Key::AddressPort => entrance_of(family_of(family)),
    }
}

/// Address, protocol and port of where a packet goes.
fn entrance_of(family: Family) -> Vec<Source> {
    let address = Source::Payload(Payload::destination(family));
    vec![address, Source::Meta(Meta::L4Proto), Source::Payload(Payload::DESTINATION_PORT)]
}

fn key_type(family: CoreFamily, key: plan::Key) -> Vec<Datatype> {
    let port = [Datatype::Protocol, Datatype::Port];
    match key {
        plan::Key::Port => port.to_vec(),
        plan::Key::AddressPort => std::iter::once(address_type(family)).chain(port).collect(),
    }
}

fn key(entrance: &Entrance) -> Key {
    let port = [Value::Protocol(entrance.protocol.number()), Value::Port(entrance.port.number())];
    Key::exact(entrance.address.map(Value::from).into_iter().chain(port).collect::<Vec<_>>())
}

fn address_type(family: CoreFamily) -> Datatype {
    match family {
        CoreFamily::V4 => Datatype::V4,
        CoreFamily::V6 => Datatype::V6,
    }
}

fn family_of(family: CoreFamily) -> Family {
    match family {
        CoreFamily::V4 => Family::V4,
        CoreFamily::V6 => Family::V6,
    }
}
