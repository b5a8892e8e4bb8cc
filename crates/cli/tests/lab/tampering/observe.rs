//! What there is on a node, as lines that are the same whenever the thing is.

use std::collections::{BTreeMap, BTreeSet};

use netferry_lab::Lab;
use serde_json::{Map, Value};

use super::rows::Dump;

/// A part of a node that is looked at by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain {
    Switch,
    Northbound,
    Southbound,
    Links,
    Addresses,
    Routes,
    Rules,
    Neighbours,
    Filter,
    Settings,
}

impl Domain {
    pub(crate) const ALL: [Domain; 10] = [
        Domain::Switch,
        Domain::Northbound,
        Domain::Southbound,
        Domain::Links,
        Domain::Addresses,
        Domain::Routes,
        Domain::Rules,
        Domain::Neighbours,
        Domain::Filter,
        Domain::Settings,
    ];

    /// What a node has that nothing of ours runs on.
    pub(crate) fn of_the_kernel() -> Vec<Domain> {
        Domain::ALL.into_iter().filter(|domain| domain.database().is_none()).collect()
    }

    /// Of a database: where it is, how it is called, and its journal.
    pub(crate) fn database(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Domain::Switch => {
                Some(("unix:/run/openvswitch/db.sock", "Open_vSwitch", "/etc/openvswitch/conf.db"))
            }
            Domain::Northbound => {
                Some(("unix:/run/ovn/ovnnb_db.sock", "OVN_Northbound", "/var/lib/ovn/ovnnb_db.db"))
            }
            Domain::Southbound => {
                Some(("unix:/run/ovn/ovnsb_db.sock", "OVN_Southbound", "/var/lib/ovn/ovnsb_db.db"))
            }
            Domain::Links
            | Domain::Addresses
            | Domain::Routes
            | Domain::Rules
            | Domain::Neighbours
            | Domain::Filter
            | Domain::Settings => None,
        }
    }

    fn command(self) -> String {
        match self {
            Domain::Switch | Domain::Northbound | Domain::Southbound => {
                let (socket, name, _) = self.database().expect("a database");
                format!("ovsdb-client -f json dump {socket} {name}")
            }
            Domain::Links => "ip -d -j link show".into(),
            Domain::Addresses => "ip -j address show".into(),
            Domain::Routes => "ip -j -4 route show table all && ip -j -6 route show table all".into(),
            Domain::Rules => "ip -j -4 rule show && ip -j -6 rule show".into(),
            Domain::Neighbours => "ip -j neighbour show nud permanent".into(),
            Domain::Filter => "nft -j list ruleset".into(),
            Domain::Settings => "{ grep -rs . /proc/sys/net/ipv4 /proc/sys/net/ipv6 || true; }".into(),
        }
    }

    fn lines(self, said: &str) -> BTreeSet<String> {
        let text = |value: Value| value.to_string();
        match self {
            Domain::Northbound => Dump::read(said).lines(false),
            Domain::Switch | Domain::Southbound => Dump::read(said).lines(true),
            Domain::Links => values(said).into_iter().map(link).map(text).collect(),
            Domain::Addresses => addresses(said).into_iter().map(text).collect(),
            Domain::Routes | Domain::Rules | Domain::Neighbours => values(said)
                .into_iter()
                .filter(|one| !made_up(&one["dst"]))
                .map(|one| text(without(one, &["flags", "expires", "used"])))
                .collect(),
            Domain::Filter => filter(said).into_iter().map(text).collect(),
            Domain::Settings => said.lines().filter(|line| lasting(line)).map(str::to_owned).collect(),
        }
    }
}

/// Whether a setting is anybody's to keep. Those of a pod's link are given once, before anything can pass it; and when
/// forwarding is switched on the kernel stops listening to redirects, whoever had said what.
fn lasting(line: &str) -> bool {
    let of_a_pod = |part: &str| part.len() == 15 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    !line.split('/').any(of_a_pod) && !line.contains("/accept_redirects:")
}

/// What was seen of one domain: as it was said, and as lines to compare.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) said: String,
    pub(crate) lines: BTreeSet<String>,
}

/// What was seen of a node.
pub(crate) type State = BTreeMap<Domain, Seen>;

/// Looks at some domains, at once; nothing if one cannot be looked at, as a database whose server is being replaced.
pub(crate) fn look(lab: &Lab, node: &str, domains: &[Domain]) -> Option<State> {
    let scripts: Vec<String> =
        domains.iter().map(|domain| format!("{} || exit 1", domain.command())).collect();
    let output = lab.exec(node, "sh", &["-c", &scripts.join("; echo; echo @@@; ")]).ok()?;
    if !output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let each = domains.iter().zip(said.split("\n@@@\n"));
    Some(
        each.map(|(domain, said)| (*domain, Seen { lines: domain.lines(said), said: said.to_owned() }))
            .collect(),
    )
}

/// The values of JSON arrays, one array after the other.
pub(crate) fn values(said: &str) -> Vec<Value> {
    let arrays = serde_json::Deserializer::from_str(said).into_iter::<Vec<Value>>();
    arrays.flatten().flatten().collect()
}

pub(crate) fn without(value: Value, keys: &[&str]) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(key, _)| !keys.contains(&key.as_str()))
            .map(|(key, value)| (key, without(value, keys)))
            .collect::<Map<String, Value>>()
            .into(),
        Value::Array(all) => all.into_iter().map(|one| without(one, keys)).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

fn link(value: Value) -> Value {
    let up = value["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP"));
    // Nobody sends to the integration bridge itself: the switch makes its address up, and gives it the size of the
    // smallest of its ports whenever one of them changes.
    let of_the_switch = value["ifname"] == super::INTEGRATION_BRIDGE;
    let theirs = |value: &Value| if of_the_switch { Value::Null } else { value.clone() };
    let (mtu, mac) = (theirs(&value["mtu"]), theirs(&value["address"]));
    serde_json::json!([value["ifname"], mtu, mac, up, value["linkinfo"]["info_kind"]])
}

/// An address the kernel makes up for a link as it comes up, of whatever hardware address that has at the moment.
fn made_up(address: &Value) -> bool {
    address.as_str().is_some_and(|address| address.starts_with("fe80::") && !address.contains('/'))
}

pub(crate) fn addresses(said: &str) -> Vec<Value> {
    let of = |link: Value| {
        let name = link["ifname"].clone();
        let all = link["addr_info"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|address| !made_up(&address["local"])).map(move |address| {
            // An address that is made anew is doubtful for a moment.
            let mut one = without(address, &["valid_life_time", "preferred_life_time", "tentative"]);
            one["dev"] = name.clone();
            one
        })
    };
    values(said).into_iter().flat_map(of).collect()
}

/// Tables, chains, rules in their order, sets, and their elements one by one.
pub(crate) fn filter(said: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(said).unwrap_or_default();
    let mut lines = vec![];
    let mut order: BTreeMap<String, u32> = BTreeMap::new();
    for object in all["nftables"].as_array().into_iter().flatten() {
        let Some((kind, object)) = object.as_object().and_then(|one| one.iter().next()) else { continue };
        let mut object = object.clone();
        let place = format!("{} {} {}", object["family"], object["table"], object["chain"]);
        match kind.as_str() {
            "metainfo" => continue,
            "rule" => {
                let turn = order.entry(place).or_default();
                *turn += 1;
                object["turn"] = (*turn).into();
            }
            "set" | "map" => {
                for element in object["elem"].as_array().cloned().unwrap_or_default() {
                    lines.push(
                        serde_json::json!({"element": {"family": object["family"], "table": object["table"],
                        "set": object["name"], "elem": element}}),
                    );
                }
                object = without(object, &["elem"]);
            }
            _ => {}
        }
        lines.push(serde_json::json!({kind: without(object, &["handle"])}));
    }
    lines
}
