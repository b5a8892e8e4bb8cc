use std::collections::BTreeSet;
use std::net::IpAddr;

use super::scenario::{Answered, To};
use super::*;

#[test]
fn scenarios_can_be_read_and_none_stands_in_the_way_of_another() {
    let scenarios = scenarios().unwrap();
    let mut titles = BTreeSet::new();
    let (mut pods, mut services) = (BTreeSet::new(), BTreeSet::new());
    for scenario in &scenarios {
        assert!(titles.insert(&scenario.title), "{}", scenario.title);
        let of_steps = scenario.steps.iter().flat_map(|step| step.start.keys());
        for pod in scenario.pods.keys().chain(of_steps) {
            assert!(pods.insert(pod), "{}: pod {pod} is another's", scenario.title);
        }
        let of_steps = scenario.steps.iter().flat_map(|step| step.services.keys());
        for service in scenario.services.keys().chain(of_steps).collect::<BTreeSet<_>>() {
            assert!(services.insert(service), "{}: Service {service} is another's", scenario.title);
        }
        let asks = scenario.all_asks().count();
        assert!(asks + scenario.held.len() > 0, "{}: it asks nothing", scenario.title);
    }
}

#[test]
fn whoever_is_to_answer_is_there() {
    let usual = ["one", "two", "daemon-1", "daemon-2"];
    for scenario in scenarios().unwrap() {
        let own: BTreeSet<&String> =
            scenario.pods.keys().chain(scenario.steps.iter().flat_map(|step| step.start.keys())).collect();
        let held = scenario.steps.iter().filter_map(|step| step.held.as_ref());
        for answer in scenario.all_asks().map(|ask| &ask.answer).chain(held) {
            if let Answered::By(names) = answer {
                for name in names {
                    let known = usual.contains(&name.as_str()) || own.contains(name);
                    assert!(known, "{}: {name} is nobody", scenario.title);
                }
            }
        }
        for ask in scenario.all_asks() {
            let named = |name: &str| ["node-1", "node-2", "node-3"].contains(&name);
            assert!(!matches!(&ask.to, To::Node(name) if !named(name)), "{}: {:?}", scenario.title, ask.to);
        }
    }
}

#[test]
fn an_outside_address_arrives_at_the_node_its_prefix_says() {
    for (address, node) in [
        ("203.0.113.1", Some(0)),
        ("203.0.113.64", Some(1)),
        ("203.0.113.130", Some(2)),
        ("203.0.113.200", None),
        ("2001:db8:ee:1::1", Some(0)),
        ("2001:db8:ee:3::9", Some(2)),
        ("2001:db8:51::2", None),
    ] {
        assert_eq!(arrives_at(address.parse::<IpAddr>().unwrap()), node, "{address}");
    }
}
