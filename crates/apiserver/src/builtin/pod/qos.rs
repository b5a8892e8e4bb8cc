//! The quality of service a pod's requests and limits earn it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::access::{entries, items};
use super::super::quantity::Quantity;

/// Only these decide.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn class(spec: &Value) -> &'static str {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    if spec.get("resources").is_some_and(|r| r.is_object()) {
        add(&mut requests, spec, "/resources/requests");
        add(&mut limits, spec, "/resources/limits");
        guaranteed = limits.is_empty() || limits.len() == COUNTED.len();
    } else {
        for container in items(spec, "/containers").iter().chain(items(spec, "/initContainers")) {
            add(&mut requests, container, "/resources/requests");
            guaranteed &= add(&mut limits, container, "/resources/limits") == COUNTED.len();
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds up the positive amounts of a list; how many of them there were.
fn add<'a>(sums: &mut BTreeMap<&'a str, i128>, holder: &'a Value, list: &str) -> usize {
    let mut found = 0;
    for (name, amount) in entries(holder, list).filter(|(name, _)| COUNTED.contains(name)) {
        let amount = amount.as_str().and_then(Quantity::parse).map_or(0, |q| q.nano());
        if amount > 0 {
            *sums.entry(name).or_default() += amount;
            found += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::class;
    use serde_json::json;

    #[test]
    fn equal_requests_and_limits_on_every_container_are_guaranteed() {
        let full =
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}});
        let table = [
            (json!({"containers": [{"resources": full}]}), "Guaranteed"),
            (json!({"containers": [{"resources": full}, {"resources": {}}]}), "Burstable"),
            (json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]}), "Burstable"),
            (
                json!({"containers": [{"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}]}),
                "Burstable",
            ),
            (json!({"containers": [{"resources": {}}]}), "BestEffort"),
            (
                json!({"containers": [{"resources": {"requests": {"ephemeral-storage": "1Gi"}}}]}),
                "BestEffort",
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(class(&spec), expected, "{spec}");
        }
    }
}
