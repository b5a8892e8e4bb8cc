//! Cluster addresses and node ports: what a service asks for, and what it gets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde_json::{Value, json};

use super::super::access::{items, items_mut, number, present, text};
use super::{allocates_node_ports, has_node_ports, needs_health_check, node_ports, validate};
use crate::field::{FieldError, Path};
use crate::status::ApiError;

/// Where addresses and ports come from.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// One network per family the cluster has; the first one's family is the default.
    pub networks: Vec<IpNet>,
    /// Node ports.
    pub ports: RangeInclusive<u16>,
}

/// What the services that exist hold.
#[derive(Clone, Debug, Default)]
pub struct Allocated {
    /// Cluster addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Node ports, health check ports among them.
    pub ports: BTreeSet<u16>,
}

impl Allocated {
    /// What these services hold.
    pub fn of<'a>(services: impl IntoIterator<Item = &'a Value>) -> Allocated {
        let mut all = Allocated::default();
        for service in services {
            all.take(service);
        }
        all
    }

    /// And what one more holds.
    pub fn take(&mut self, service: &Value) {
        self.addresses.extend(held_addresses(service));
        self.ports.extend(held_ports(service));
    }

    /// Without what one of them held: nothing is held by two.
    pub fn give_back(&mut self, service: &Value) {
        for address in held_addresses(service) {
            self.addresses.remove(&address);
        }
        for port in held_ports(service) {
            self.ports.remove(&port);
        }
    }
}

fn held_addresses(service: &Value) -> impl Iterator<Item = IpAddr> {
    items(service, "/spec/clusterIPs").iter().filter_map(|address| address.as_str()?.parse().ok())
}

fn held_ports(service: &Value) -> impl Iterator<Item = u16> {
    let health = number(service, "/spec/healthCheckNodePort");
    let ports = node_ports(&service["spec"]).into_iter().chain([health]);
    ports.filter_map(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

impl Ranges {
    fn network(&self, family: &str) -> Option<&IpNet> {
        self.networks.iter().find(|n| family_of(&n.addr()) == family)
    }

    fn default_family(&self) -> &'static str {
        self.networks.first().map_or("IPv4", |n| family_of(&n.addr()))
    }
}

/// Settles the addresses and ports of a service about to be written, new or replacing `old`.
///
/// Runs after the defaults and before the service is prepared and validated. `used` is what exists, the old version
/// of this service included. Addresses and ports are taken from where the service's uid points into each range, past
/// the part that is kept for those who ask for a certain one: the same services get the same addresses, and an address
/// given up is not the next one taken, so that nobody mistakes a new service for the old one.
pub fn allocate_service(
    service: &mut Value,
    old: Option<&Value>,
    used: &Allocated,
    ranges: &Ranges,
) -> Result<(), ApiError> {
    if let Some(old) = old {
        keep_allocated(service, old);
    }
    normalise_addresses(service, old);
    let of = |field: &str| text(service, field).to_owned();
    let mut desk = Desk {
        used: used.clone(),
        ranges,
        name: of("/metadata/name"),
        lot: lot(&[&of("/metadata/uid"), &of("/metadata/namespace"), &of("/metadata/name")]),
    };
    let unchanged_preference = old.is_some_and(|old| prefers_the_same(service, old));
    if !unchanged_preference {
        desk.settle_families(service, old)?;
        desk.addresses(service, old)?;
    }
    desk.ports(service, old)
}

fn family_of(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn other(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}

fn needs_address(service: &Value) -> bool {
    text(service, "/spec/type") != "ExternalName"
}

fn addresses_of(service: &Value) -> Vec<String> {
    items(service, "/spec/clusterIPs").iter().filter_map(|a| a.as_str().map(str::to_owned)).collect()
}

fn families_of(service: &Value) -> Vec<String> {
    items(service, "/spec/ipFamilies").iter().filter_map(|f| f.as_str().map(str::to_owned)).collect()
}

/// A replacement that leaves out what was allocated keeps it.
fn keep_allocated(service: &mut Value, old: &Value) {
    if needs_address(service) && needs_address(old) {
        if text(service, "/spec/clusterIP").is_empty() && present(old, "/spec/clusterIP") {
            service["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
        }
        if addresses_of(service).is_empty() && present(old, "/spec/clusterIPs") {
            service["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
        }
    }
    if allocates_node_ports(&service["spec"]) && allocates_node_ports(&old["spec"]) {
        let before = node_ports(&old["spec"]);
        let kept: Vec<i64> =
            node_ports(&service["spec"]).into_iter().filter(|p| before.contains(p)).collect();
        for port in items_mut(service, "/spec/ports").iter_mut().filter(|p| number(p, "/nodePort") == 0) {
            let was = items(old, "/spec/ports").iter().rfind(|p| text(p, "/name") == text(port, "/name"));
            let node = was.map_or(0, |p| number(p, "/nodePort"));
            if node != 0 && !kept.contains(&node) {
                port["nodePort"] = json!(node);
            }
        }
    }
    if needs_health_check(&service["spec"])
        && needs_health_check(&old["spec"])
        && number(service, "/spec/healthCheckNodePort") == 0
        && present(old, "/spec/healthCheckNodePort")
    {
        service["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
}

/// `clusterIP` and `clusterIPs[0]` are one field with two names.
fn normalise_addresses(service: &mut Value, old: Option<&Value>) {
    let single = text(service, "/spec/clusterIP").to_owned();
    let Some(old) = old else {
        if !single.is_empty() && addresses_of(service).is_empty() {
            service["spec"]["clusterIPs"] = json!([single]);
        }
        return;
    };
    let same_list = addresses_of(service) == addresses_of(old);
    let was = text(old, "/spec/clusterIP");
    if was != single && same_list {
        if single.is_empty() {
            super::remove(&mut service["spec"], "clusterIPs");
        } else {
            service["spec"]["clusterIPs"] = json!([single]);
        }
    }
}

/// A service that prefers two families, and got one before the cluster had two, is left alone until it is changed.
fn prefers_the_same(service: &Value, old: &Value) -> bool {
    let prefers = |policy: &str| policy == "PreferDualStack";
    service["spec"]["type"] == old["spec"]["type"]
        && matches!(text(service, "/spec/type"), "ClusterIP" | "NodePort" | "LoadBalancer")
        && prefers(text(service, "/spec/ipFamilyPolicy"))
        && prefers(text(old, "/spec/ipFamilyPolicy"))
        && addresses_of(service) == addresses_of(old)
        && families_of(service) == families_of(old)
}

struct Desk<'a> {
    used: Allocated,
    ranges: &'a Ranges,
    name: String,
    /// Where to begin looking.
    lot: u64,
}

impl Desk<'_> {
    fn invalid(&self, errors: &[FieldError]) -> ApiError {
        ApiError::invalid("", "Service", &self.name, errors)
    }

    /// Decides `ipFamilyPolicy` and `ipFamilies`.
    fn settle_families(&self, service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        if !needs_address(service) {
            return Ok(());
        }
        let bare = text(service, "/spec/clusterIP") == "None"
            && super::super::access::entries(service, "/spec/selector").next().is_none();
        if !present(service, "/spec/ipFamilyPolicy") {
            let policy = match old.and_then(|o| o.pointer("/spec/ipFamilyPolicy")) {
                Some(policy) => policy.clone(),
                None if bare => json!("RequireDualStack"),
                None => json!("SingleStack"),
            };
            service["spec"]["ipFamilyPolicy"] = policy;
        }
        let errors = validate::addresses(service);
        if !errors.is_empty() {
            return Err(self.invalid(&errors));
        }
        let single = text(service, "/spec/ipFamilyPolicy") == "SingleStack";
        if let Some(old) = old {
            self.release_second(service, old, single)?;
        }
        let errors = self.family_errors(service, single);
        if !errors.is_empty() {
            return Err(self.invalid(&errors));
        }
        let mut families = families_of(service);
        for address in addresses_of(service).iter().skip(families.len()) {
            if let Ok(address) = address.parse::<IpAddr>() {
                families.push(family_of(&address).to_owned());
            }
        }
        if families.is_empty() {
            families.push(self.ranges.default_family().to_owned());
        }
        // Without a selector and an address nothing here depends on the families the cluster has.
        let dual = bare || self.ranges.networks.len() == 2;
        if bare {
            if families.len() < 2 && !single {
                families.push(other(&families[0]).to_owned());
            }
        } else {
            self.check_configured(service, &families)?;
            if !single && families.len() == 1 && dual {
                families.push(other(&families[0]).to_owned());
            }
        }
        service["spec"]["ipFamilies"] = json!(families);
        Ok(())
    }

    fn release_second(&self, service: &mut Value, old: &Value, single: bool) -> Result<(), ApiError> {
        let (mut addresses, mut families) = (addresses_of(service), families_of(service));
        if single {
            if addresses == addresses_of(old) && addresses.len() > 1 {
                addresses.truncate(1);
                service["spec"]["clusterIPs"] = json!(addresses);
            }
            if families == families_of(old) && families.len() > 1 {
                families.truncate(1);
                service["spec"]["ipFamilies"] = json!(families);
            }
            return Ok(());
        }
        let mut errors = Vec::new();
        let mut reduced = |is: &[String], was: &[String], what: &str| {
            if !is.is_empty() && is.len() < was.len() {
                errors.push(FieldError::invalid(
                    Path::new("spec.ipFamilyPolicy"),
                    &service["spec"]["ipFamilyPolicy"],
                    format!("must be 'SingleStack' to release the secondary {what}"),
                ));
            }
        };
        reduced(&addresses, &addresses_of(old), "cluster IP");
        reduced(&families, &families_of(old), "IP family");
        if errors.is_empty() { Ok(()) } else { Err(self.invalid(&errors)) }
    }

    fn family_errors(&self, service: &Value, single: bool) -> Vec<FieldError> {
        let (addresses, families) = (addresses_of(service), families_of(service));
        let mut errors = Vec::new();
        let mut too_many = |count: usize, what: &str| {
            if single && count == 2 {
                errors.push(FieldError::invalid(
                    Path::new("spec.ipFamilyPolicy"),
                    &service["spec"]["ipFamilyPolicy"],
                    format!(
                        "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                    ),
                ));
            }
        };
        too_many(addresses.len(), "cluster IPs");
        too_many(families.len(), "IP families");
        for (at, address) in addresses.iter().enumerate().skip(families.len()) {
            let Ok(parsed) = address.parse::<IpAddr>() else { break };
            let family = family_of(&parsed);
            if self.ranges.network(family).is_none() {
                errors.push(FieldError::invalid(
                    Path::new("spec.clusterIPs").index(at),
                    &json!(addresses),
                    format!("{family} is not configured on this cluster"),
                ));
            }
        }
        errors
    }

    fn check_configured(&self, service: &Value, families: &[String]) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        if text(service, "/spec/ipFamilyPolicy") == "RequireDualStack" && self.ranges.networks.len() < 2 {
            errors.push(FieldError::invalid(
                Path::new("spec.ipFamilyPolicy"),
                &service["spec"]["ipFamilyPolicy"],
                "this cluster is not configured for dual-stack services",
            ));
        }
        for (at, family) in families.iter().enumerate() {
            if self.ranges.network(family).is_none() {
                errors.push(FieldError::invalid(
                    Path::new("spec.ipFamilies").index(at),
                    &json!(family),
                    "not configured on this cluster",
                ));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(self.invalid(&errors)) }
    }

    /// Hands out the addresses the families call for and the service does not have yet.
    fn addresses(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        let mut addresses = addresses_of(service);
        let headless = |list: &[String]| list.first().is_some_and(|a| a == "None");
        let held = old.filter(|o| needs_address(o)).map(addresses_of).unwrap_or_default();
        if !needs_address(service) || headless(&addresses) || headless(&held) {
            return Ok(());
        }
        let families = families_of(service);
        for (at, family) in families.iter().enumerate() {
            let wanted = addresses.get(at).cloned().unwrap_or_default();
            // An address the service already holds is not asked for again; whether it may change is validation's.
            if held.get(at).is_some() {
                continue;
            }
            let address = if wanted.is_empty() {
                self.any_address(family)?.to_string()
            } else {
                self.this_address(&wanted, family, &addresses)?;
                wanted
            };
            if at < addresses.len() {
                addresses[at] = address;
            } else {
                addresses.push(address);
            }
        }
        if let Some(first) = addresses.first() {
            service["spec"]["clusterIP"] = json!(first);
        }
        service["spec"]["clusterIPs"] = json!(addresses);
        Ok(())
    }

    fn this_address(&mut self, wanted: &str, family: &str, all: &[String]) -> Result<(), ApiError> {
        let refuse = |why: &str| {
            let detail = format!("failed to allocate IP {wanted}: {why}");
            self.invalid(&[FieldError::invalid(Path::new("spec.clusterIPs"), &json!(all), detail)])
        };
        let address = wanted.parse::<IpAddr>().ok();
        let inside = |a: &IpAddr| self.ranges.network(family).is_some_and(|n| n.contains(a) && usable(n, a));
        let Some(address) = address.filter(inside) else {
            return Err(refuse("the provided network does not match the current range"));
        };
        if self.used.addresses.contains(&address) {
            return Err(refuse("provided IP is already allocated"));
        }
        self.used.addresses.insert(address);
        Ok(())
    }

    fn any_address(&mut self, family: &str) -> Result<IpAddr, ApiError> {
        let full = || ApiError::internal("failed to allocate a serviceIP: range is full");
        let network = self.ranges.network(family).ok_or_else(full)?;
        let size = 1_u128 << (network.max_prefix_len() - network.prefix_len()).min(64);
        // The lower part is left to those who ask for a certain address.
        let kept = band(size, 16, 256);
        let start = kept + u128::from(self.lot) % (size - kept).max(1);
        let free = (start..size)
            .chain(1..start)
            .filter_map(|offset| at(network, offset))
            .find(|address| usable(network, address) && !self.used.addresses.contains(address))
            .ok_or_else(full)?;
        self.used.addresses.insert(free);
        Ok(free)
    }

    /// Hands out node ports and the health check port.
    fn ports(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        let held: Vec<i64> = old.map(|o| node_ports(&o["spec"])).unwrap_or_default();
        if has_node_ports(&service["spec"]) {
            self.node_ports(service, old.is_some(), &held)?;
        }
        let had_health = old.is_some_and(|o| needs_health_check(&o["spec"]));
        if needs_health_check(&service["spec"]) && !had_health {
            let port = match number(service, "/spec/healthCheckNodePort") {
                0 => self.any_port().ok_or_else(|| {
                    ApiError::internal("failed to allocate a HealthCheck NodePort 0: range is full")
                })?,
                wanted => {
                    self.this_port(wanted).map_err(|why| {
                        ApiError::internal(format!(
                            "failed to allocate requested HealthCheck NodePort {wanted}: {why}"
                        ))
                    })?;
                    wanted
                }
            };
            service["spec"]["healthCheckNodePort"] = json!(port);
        }
        Ok(())
    }

    fn node_ports(&mut self, service: &mut Value, updating: bool, held: &[i64]) -> Result<(), ApiError> {
        let allocates = allocates_node_ports(&service["spec"]);
        let requested: Vec<(i64, i64)> = items(service, "/spec/ports")
            .iter()
            .map(|p| (number(p, "/port"), number(p, "/nodePort")))
            .collect();
        // Two protocols on one port share a node port when the service is made.
        let mut shared: Vec<(i64, i64)> = Vec::new();
        for at in 0..requested.len() {
            let (port, wanted) = requested[at];
            if wanted == 0 && !allocates {
                continue;
            }
            let twin = shared.iter().find(|(p, _)| !updating && *p == port).map(|(_, node)| *node);
            let sibling =
                requested.iter().find(|(p, node)| !updating && *p == port && *node != 0).map(|(_, n)| *n);
            let chosen = match (wanted, twin) {
                (0, Some(node)) => node,
                (wanted, Some(node)) if wanted == node => node,
                (wanted, twin) => {
                    let wanted = if twin.is_none() { sibling.unwrap_or(wanted) } else { wanted };
                    self.claim(wanted, held, at, &shared)?
                }
            };
            shared.push((port, chosen));
            items_mut(service, "/spec/ports")[at]["nodePort"] = json!(chosen);
        }
        Ok(())
    }

    fn claim(&mut self, wanted: i64, held: &[i64], at: usize, mine: &[(i64, i64)]) -> Result<i64, ApiError> {
        if wanted == 0 {
            let full = || ApiError::internal("failed to allocate a nodePort: range is full");
            return self.any_port().ok_or_else(full);
        }
        if held.contains(&wanted) || mine.iter().any(|(_, node)| *node == wanted) {
            return Ok(wanted);
        }
        self.this_port(wanted).map_err(|why| {
            let path = Path::new("spec.ports").index(at).child("nodePort");
            self.invalid(&[FieldError::invalid(path, &json!(wanted), why)])
        })?;
        Ok(wanted)
    }

    fn this_port(&mut self, wanted: i64) -> Result<(), String> {
        let range = &self.ranges.ports;
        let port = u16::try_from(wanted).ok().filter(|p| range.contains(p)).ok_or_else(|| {
            format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                range.start(),
                range.end()
            )
        })?;
        if self.used.ports.insert(port) {
            Ok(())
        } else {
            Err("provided port is already allocated".to_owned())
        }
    }

    fn any_port(&mut self) -> Option<i64> {
        let (first, last) = (*self.ranges.ports.start(), *self.ranges.ports.end());
        let size = u128::from(last.saturating_sub(first)) + 1;
        let kept = u16::try_from(band(size, 32, 128)).unwrap_or_default();
        let spread = u64::from(last - first).saturating_sub(u64::from(kept)) + 1;
        let drawn = u16::try_from(self.lot % spread).unwrap_or_default();
        let start = first.saturating_add(kept).saturating_add(drawn).min(last);
        let free = (start..=last).chain(first..start).find(|port| !self.used.ports.contains(port))?;
        self.used.ports.insert(free);
        Some(i64::from(free))
    }
}

/// A number that differs from service to service and is always the same for one (FNV-1a).
fn lot(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// How much of a range is kept for those who ask for a certain value.
fn band(size: u128, divisor: u128, most: u128) -> u128 {
    if size < 16 { 1 } else { (size / divisor).clamp(16, most) }
}

/// Neither the network's own address nor its broadcast address.
fn usable(network: &IpNet, address: &IpAddr) -> bool {
    *address != network.network() && (network.addr().is_ipv6() || *address != network.broadcast())
}

fn at(network: &IpNet, offset: u128) -> Option<IpAddr> {
    match network.network() {
        IpAddr::V4(base) => {
            u32::from(base).checked_add(u32::try_from(offset).ok()?).map(|a| IpAddr::V4(a.into()))
        }
        IpAddr::V6(base) => u128::from(base).checked_add(offset).map(|a| IpAddr::V6(a.into())),
    }
}

#[cfg(test)]
mod tests;
