//! A cache out of JSON, for tests.

use std::collections::BTreeSet;

use kube::runtime::watcher::Event;
use serde_json::Value;

use super::cache::{Cache, Seen};

/// A cache that holds these objects, by kind.
pub(crate) fn cache(objects: Vec<(&str, Value)>) -> Cache {
    let (mut cache, mut dirty) = (Cache::default(), BTreeSet::new());
    for (kind, object) in objects {
        put(&mut cache, kind, object, &mut dirty);
    }
    cache
}

/// Puts an object in, as a watch would.
pub(crate) fn put(cache: &mut Cache, kind: &str, object: Value, dirty: &mut BTreeSet<super::Item>) {
    let read = "an object of its kind";
    let seen = match kind {
        "Pod" => Seen::Pod(Box::new(Event::Apply(serde_json::from_value(object).expect(read)))),
        "Node" => Seen::Node(Box::new(Event::Apply(serde_json::from_value(object).expect(read)))),
        "Lease" => Seen::Lease(Event::Apply(serde_json::from_value(object).expect(read))),
        "ReplicaSet" => Seen::ReplicaSet(Box::new(Event::Apply(serde_json::from_value(object).expect(read)))),
        "Deployment" => Seen::Deployment(Box::new(Event::Apply(serde_json::from_value(object).expect(read)))),
        "DaemonSet" => Seen::DaemonSet(Box::new(Event::Apply(serde_json::from_value(object).expect(read)))),
        "Service" => Seen::Service(Box::new(Event::Apply(serde_json::from_value(object).expect(read)))),
        "EndpointSlice" => Seen::EndpointSlice(Event::Apply(serde_json::from_value(object).expect(read))),
        other => panic!("{other} is not watched"),
    };
    cache.see(seen, dirty);
}

/// A merge patch.
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}
