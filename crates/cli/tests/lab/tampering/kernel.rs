//! What the kernel of a node has of ours, and how each of it is taken away or changed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Harm;
use super::observe::{Domain, State, addresses, values, without};

/// How everything of ours can be harmed: what is there and not on a node nothing of ours runs on.
pub(crate) fn harms(node: &State, bare: &State) -> Vec<Harm> {
    let mut harms = vec![];
    links(node, bare, &mut harms);
    // What the host has itself, on whatever link: host-init moves it, and whose it is does not change with that.
    let hosts: Vec<Value> =
        addresses(&bare[&Domain::Addresses].said).into_iter().map(|one| one["local"].clone()).collect();
    for address in addresses(&node[&Domain::Addresses].said) {
        // The kernel's own, that it makes for every link.
        let made = address["scope"] == "link" && address["family"] == "inet6";
        if !made && !hosts.contains(&address["local"]) {
            let (dev, local) = (word(&address["dev"]), word(&address["local"]));
            harms.push(Harm::new(
                format!("address of {dev} ({}) deleted", word(&address["family"])),
                format!("{local} deleted from {dev}"),
                Domain::Addresses,
                format!("ip address del {local}/{} dev {dev}", address["prefixlen"]),
            ));
        }
    }
    routes(node, bare, &mut harms);
    for neighbour in values(&node[&Domain::Neighbours].said) {
        let (dst, dev) = (word(&neighbour["dst"]), word(&neighbour["dev"]));
        let family = if dst.contains(':') { "-6" } else { "-4" };
        harms.push(Harm::new(
            format!("neighbour on {dev} ({family}) deleted"),
            format!("neighbour {dst} deleted"),
            Domain::Neighbours,
            format!("ip neighbour del {dst} dev {dev}"),
        ));
        harms.push(Harm::new(
            format!("neighbour on {dev} ({family}) changed"),
            format!("neighbour {dst} changed"),
            Domain::Neighbours,
            format!("ip neighbour change {dst} lladdr 02:00:00:00:00:01 dev {dev} nud permanent"),
        ));
    }
    for rule in values(&node[&Domain::Rules].said) {
        if !bare[&Domain::Rules].lines.contains(&rule.to_string()) {
            let family = if rule.to_string().contains(':') { "-6" } else { "-4" };
            harms.push(Harm::new(
                format!("policy rule to {} deleted", word(&rule["table"])),
                format!("rule {rule} deleted"),
                Domain::Rules,
                format!("ip {family} rule del priority {}", rule["priority"]),
            ));
        }
    }
    filter(node, bare, &mut harms);
    settings(node, bare, &mut harms);
    harms
}

pub(crate) fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn links(node: &State, bare: &State, harms: &mut Vec<Harm>) {
    let known: Vec<Value> =
        values(&bare[&Domain::Links].said).into_iter().map(|l| l["ifname"].clone()).collect();
    for link in values(&node[&Domain::Links].said) {
        let name = word(&link["ifname"]);
        // What every userspace datapath of a switch has, and nobody uses.
        if known.contains(&link["ifname"]) || name == "ovs-netdev" {
            continue;
        }
        let kind = word(&link["linkinfo"]["info_kind"]);
        let which = if kind == "veth" { "of a pod".to_owned() } else { name.clone() };
        let mut harm = |how: &str, command: String| {
            harms.push(Harm::new(
                format!("link {which} {how}"),
                format!("{name} {how}"),
                Domain::Links,
                command,
            ));
        };
        // None is deleted: those of a switch are the switch's (its ports are deleted as rows), and with that of a pod its
        // other end is gone too, which only a new pod has.
        if name != super::INTEGRATION_BRIDGE {
            harm("with another MTU", format!("ip link set {name} mtu 1300"));
        }
        if link["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP")) {
            harm("down", format!("ip link set {name} down"));
        }
    }
}

fn routes(node: &State, bare: &State, harms: &mut Vec<Harm>) {
    let anywhere = |route: &Value| without(route.clone(), &["flags", "expires", "used", "dev", "prefsrc"]);
    let hosts: Vec<Value> = values(&bare[&Domain::Routes].said).iter().map(anywhere).collect();
    for route in values(&node[&Domain::Routes].said) {
        let line = route.to_string();
        // Those the kernel makes come and go with addresses.
        if route["protocol"] == "kernel" || hosts.contains(&anywhere(&route)) {
            continue;
        }
        let (dst, dev) = (word(&route["dst"]), word(&route["dev"]));
        let family = if line.contains(':') && line.contains("::") { "-6" } else { "-4" };
        let table = route["table"].as_str().map_or(String::new(), |table| format!(" table {table}"));
        let via = if route["gateway"].is_null() { "" } else { " by a gateway" };
        let kind = route["type"].as_str().map_or(String::new(), |kind| format!("{kind} "));
        let out = if route["dev"].is_null() { String::new() } else { format!(" dev {dev}") };
        harms.push(Harm::new(
            format!(
                "{kind}route{table} ({family}, protocol {}){via} on {dev} deleted",
                word(&route["protocol"])
            ),
            format!("route to {dst} deleted"),
            Domain::Routes,
            format!("ip {family} route del {kind}{dst}{table}{out}"),
        ));
    }
}

fn filter(node: &State, bare: &State, harms: &mut Vec<Harm>) {
    let all: Value = serde_json::from_str(&node[&Domain::Filter].said).unwrap_or_default();
    let theirs: Value = serde_json::from_str(&bare[&Domain::Filter].said).unwrap_or_default();
    let tables = |all: &Value| -> Vec<String> {
        let objects = all["nftables"].as_array().cloned().unwrap_or_default();
        objects.iter().filter(|o| !o["table"].is_null()).map(|o| of_table(&o["table"])).collect()
    };
    let theirs = tables(&theirs);
    let mut harm = |kind: String, what: String, command: String| {
        harms.push(Harm::new(kind, what, Domain::Filter, format!("nft '{command}'")));
    };
    let mut turns: BTreeMap<String, u32> = BTreeMap::new();
    for object in all["nftables"].as_array().into_iter().flatten() {
        let Some((kind, object)) = object.as_object().and_then(|one| one.iter().next()) else { continue };
        let place = format!("{} {}", word(&object["family"]), word(&object["table"]));
        if kind == "metainfo" || theirs.contains(&of_table(object)) || theirs.contains(&place) {
            continue;
        }
        match kind.as_str() {
            "table" => {
                let table = of_table(object);
                harm(format!("nft table {table} deleted"), table.clone(), format!("delete table {table}"));
            }
            "chain" => {
                let name = word(&object["name"]);
                let what = format!("nft chain {place} {name}");
                harm(
                    format!("{what} deleted"),
                    what.clone(),
                    format!("flush chain {place} {name}; delete chain {place} {name}"),
                );
                harm(
                    format!("nft rule added to {place}"),
                    format!("rule added to {what}"),
                    format!("insert rule {place} {name} counter drop"),
                );
            }
            "rule" => {
                let chain = format!("{place} {}", word(&object["chain"]));
                let turn = turns.entry(chain.clone()).or_default();
                *turn += 1;
                harm(
                    format!("nft rule of {place} deleted"),
                    format!("rule {turn} of {chain} deleted"),
                    format!("delete rule {chain} handle {}", object["handle"]),
                );
            }
            "set" | "map" => {
                let name = word(&object["name"]);
                let what = format!("{kind} {name} of {place}");
                harm(
                    format!("nft {kind} of {place} emptied"),
                    what.clone(),
                    format!("flush {kind} {place} {name}"),
                );
            }
            _ => {}
        }
    }
}

fn of_table(object: &Value) -> String {
    format!("{} {}", word(&object["family"]), word(&object["name"]))
}

/// Settings with another value than on a node nothing of ours runs on; of links it does not have, than new ones get.
fn settings(node: &State, bare: &State, harms: &mut Vec<Harm>) {
    let read = |state: &State| -> BTreeMap<String, String> {
        let pairs = state[&Domain::Settings].lines.iter().filter_map(|line| line.split_once(':'));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let (now, before) = (read(node), read(bare));
    for (key, value) in &now {
        let parts: Vec<&str> = key.split('/').collect();
        let other = match (before.get(key), parts.iter().position(|part| *part == "conf")) {
            (Some(other), _) => other.clone(),
            (None, Some(at)) if parts.len() > at + 2 => {
                let mut default = parts.clone();
                default[at + 1] = "default";
                match before.get(&default.join("/")) {
                    Some(other) => other.clone(),
                    None => continue,
                }
            }
            (None, _) => continue,
        };
        // Of all links at once the kernel is told by one setting; of each it is kept for the link that leads to the pods.
        let follows_all =
            parts.last() == Some(&"forwarding") && !parts.contains(&"all") && !parts.contains(&"ovn-k8s-mp0");
        if follows_all {
            continue;
        }
        // A link's own MTU is the link's, and some of what it has follows from the link.
        let follows =
            ["mtu", "addr_gen_mode", "stable_secret", "base_reachable_time_ms", "tcp_mem", "udp_mem"];
        if *value != other && !parts.last().is_some_and(|last| follows.contains(last)) {
            harms.push(Harm::new(
                format!("setting {} changed", parts.last().unwrap_or(&"")),
                format!("{key} set from {value} to {other}"),
                Domain::Settings,
                format!("echo '{other}' > {key}"),
            ));
        }
    }
}
