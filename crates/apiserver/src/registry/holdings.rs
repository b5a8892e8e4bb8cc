//! What all Services hold, kept as they change: read anew for each write, ten thousand of them take ten minutes to make.

use crate::builtin::Allocated;
use crate::store::{Change, Table};

/// The addresses and ports that Services hold.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    all: Allocated,
    /// The last revision whose changes are in it; without one, none were read yet.
    until: Option<u64>,
}

impl Holdings {
    /// What is held now, in a store at `revision`.
    pub(crate) fn of(&mut self, services: &Table, revision: u64) -> &Allocated {
        let changes = self.until.replace(revision).and_then(|until| services.resume(until).ok());
        let Some(changes) = changes else {
            let all: Vec<_> = services.all().map(|stored| stored.object()).collect();
            self.all = Allocated::of(&all);
            return &self.all;
        };
        for event in changes {
            if let Some(before) = &event.before {
                self.all.give_back(&before.object());
            }
            if event.change != Change::Deleted {
                self.all.take(&event.object.object());
            }
        }
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::store::{Fields, Key, Store};

    /// What may happen before somebody asks again.
    #[derive(Clone, Debug)]
    enum Event {
        /// A Service is made or changed, to hold these of the few addresses and ports there are.
        Put { name: u8, address: Option<u8>, port: Option<u8>, health: Option<u8> },
        /// A Service goes.
        Delete(u8),
        /// Something else changes.
        Other,
        /// What happened so far is no longer told.
        Forget,
        /// Somebody asks.
        Look,
    }

    fn an_event() -> impl Strategy<Value = Event> {
        let name = 0..4_u8;
        let few = || proptest::option::of(0..6_u8);
        prop_oneof![
            6 => (name.clone(), few(), few(), few())
                .prop_map(|(name, address, port, health)| Event::Put { name, address, port, health }),
            2 => name.prop_map(Event::Delete),
            1 => Just(Event::Other),
            1 => Just(Event::Forget),
            3 => Just(Event::Look),
        ]
    }

    fn service(name: u8, address: Option<u8>, port: Option<u8>, health: Option<u8>) -> Value {
        let addresses = match address {
            Some(last) => json!([format!("10.96.0.{last}"), format!("fd00::{last}")]),
            None => json!(["None"]),
        };
        let ports = json!([{ "port": 80, "nodePort": port.map_or(0, |port| 30_000 + u16::from(port)) }]);
        json!({
            "metadata": { "namespace": "shop", "name": format!("s{name}"), "uid": format!("u{name}") },
            "spec": {
                "type": "LoadBalancer", "clusterIPs": addresses, "ports": ports,
                "healthCheckNodePort": health.map_or(0, |port| 31_000 + u16::from(port)),
            },
        })
    }

    fn listed(store: &Store) -> Allocated {
        let table = store.table("services");
        let services: Vec<Value> =
            table.into_iter().flat_map(|table| table.all()).map(|stored| stored.object()).collect();
        Allocated::of(&services)
    }

    proptest! {
        #[test]
        fn what_is_held_is_what_a_full_listing_would_give(
            events in proptest::collection::vec(an_event(), 1..60)
        ) {
            let (mut store, mut holdings) = (Store::in_memory(), Holdings::default());
            for event in events.into_iter().chain([Event::Look]) {
                match event {
                    Event::Put { name, address, port, health } => {
                        let wanted = service(name, address, port, health);
                        let key = Key::new("shop", &format!("s{name}"));
                        let mut others = listed(&store);
                        if let Some(now) = store.get("services", &key) {
                            others.give_back(&now.object());
                        }
                        let asks = Allocated::of([&wanted]);
                        // What another holds is refused before anything is written.
                        if others.addresses.is_disjoint(&asks.addresses) && others.ports.is_disjoint(&asks.ports) {
                            store.put("services", wanted, Fields::default()).unwrap();
                        }
                    }
                    Event::Delete(name) => {
                        store.delete("services", &Key::new("shop", &format!("s{name}"))).unwrap();
                    }
                    Event::Other => {
                        let pod = json!({ "metadata": { "namespace": "shop", "name": "p", "uid": "p" } });
                        store.put("pods", pod, Fields::default()).unwrap();
                    }
                    Event::Forget => store.forget_until(store.revision()),
                    Event::Look => {
                        let (revision, listed) = (store.revision(), listed(&store));
                        let held = holdings.of(store.table_mut("services"), revision);
                        prop_assert_eq!(&held.addresses, &listed.addresses);
                        prop_assert_eq!(&held.ports, &listed.ports);
                    }
                }
            }
        }
    }
}
