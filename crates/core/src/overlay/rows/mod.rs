//! What a zone must hold, as data: one struct per table, references by key.
//!
//! A child names its parent, never the other way round, so that the rows of one pod, Service or policy are complete
//! by themselves and the rows of a zone are the union of them all. Whoever writes them to a database turns the
//! references into the columns that hold them there.

use std::collections::BTreeMap;

mod nb;
mod other;
#[cfg(test)]
mod tests;
mod union;
pub use nb::*;
pub use other::*;
pub use union::{Change, RowName, Union};

/// A row: its table and what identifies it there.
pub trait Row: Clone + PartialEq + std::hash::Hash {
    /// The table, as its database calls it.
    const TABLE: &'static str;

    /// What no other row of the table has.
    fn key(&self) -> String;
}

/// The rows of one table by key.
pub type Table<T> = BTreeMap<String, T>;

/// Two parts of a zone want different things of one row.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("two parts of the zone want a different {table} {key}")]
pub struct Clash {
    /// The table.
    pub table: &'static str,
    /// The row.
    pub key: String,
}

macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident: $row:ty),* $(,)?) => {
        /// Rows of a zone, or of a part of one.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Rows {
            $($(#[$doc])* pub $field: Table<$row>,)*
        }

        $(impl InTable for $row {
            fn table(rows: &mut Rows) -> &mut Table<$row> {
                &mut rows.$field
            }
        })*

        impl Rows {
            /// How many there are.
            pub fn len(&self) -> usize {
                0 $(+ self.$field.len())*
            }

            /// Adds the rows of another part. The same row twice is one row; two different ones under one key are
            /// refused, because one of the parts would be undone.
            pub fn join(&mut self, other: Rows) -> Result<(), Clash> {
                $(merge(&mut self.$field, other.$field)?;)*
                Ok(())
            }

            /// Puts the rows of another part over these, in place of what was there under their keys.
            fn overwrite(&mut self, other: Rows) {
                $(self.$field.extend(other.$field);)*
            }

            fn remove(&mut self, table: &str, key: &str) {
                $(if table == <$row>::TABLE {
                    self.$field.remove(key);
                })*
            }

            /// Whether there is such a row.
            pub fn contains(&self, table: &str, key: &str) -> bool {
                $(if table == <$row>::TABLE {
                    return self.$field.contains_key(key);
                })*
                false
            }

            /// Those of these rows that there are.
            pub fn pick<'n>(&self, names: impl IntoIterator<Item = &'n RowName>) -> Rows {
                let mut picked = Rows::default();
                for (table, key) in names {
                    $(if *table == <$row>::TABLE
                        && let Some(row) = self.$field.get(key)
                    {
                        picked.$field.insert(key.clone(), row.clone());
                    })*
                }
                picked
            }

            /// The names of all rows, table by table.
            pub fn names_by_table(&self) -> Vec<Vec<RowName>> {
                vec![$(self.$field.keys().map(|key| (<$row>::TABLE, key.clone())).collect(),)*]
            }

            fn visit<P: Ord>(self, turn: &mut union::Turn<'_, P>) -> Result<(), Clash> {
                $(for (key, row) in self.$field {
                    turn.see(key, row)?;
                })*
                Ok(())
            }
        }
    };
}

/// Which table of [`Rows`] a row goes to.
pub trait InTable: Row + Sized {
    /// The table.
    fn table(rows: &mut Rows) -> &mut Table<Self>;
}

tables! {
    /// The zone's name.
    globals: NbGlobal,
    /// Logical switches.
    switches: LogicalSwitch,
    /// Ports of logical switches.
    switch_ports: LogicalSwitchPort,
    /// Logical routers.
    routers: LogicalRouter,
    /// Ports of logical routers.
    router_ports: LogicalRouterPort,
    /// Which chassis a router's port is bound to.
    gateway_chassis: GatewayChassis,
    /// Static routes.
    static_routes: StaticRoute,
    /// Routing policies.
    router_policies: RouterPolicy,
    /// Address translation of routers.
    nats: Nat,
    /// Load balancers.
    load_balancers: LoadBalancer,
    /// Groups of load balancers.
    load_balancer_groups: LoadBalancerGroup,
    /// Access control.
    acls: Acl,
    /// Groups of ports.
    port_groups: PortGroup,
    /// Sets of addresses.
    address_sets: AddressSet,
    /// Other nodes' switches, in the southbound database.
    remote_chassis: RemoteChassis,
    /// Ports of other nodes, bound by us in the southbound database.
    remote_bindings: RemoteBinding,
    /// Settings of the local switch.
    switch_settings: SwitchSettings,
    /// Ports of the local switch that are ours from the start.
    interfaces: Interface,
}

impl Rows {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one row in place of what was there under its key.
    pub fn put<T: InTable>(&mut self, row: T) {
        T::table(self).insert(row.key(), row);
    }

    /// Adds one row, in the manner of a sentence.
    #[must_use]
    pub fn with<T: InTable>(mut self, row: T) -> Rows {
        self.put(row);
        self
    }
}

fn merge<T: Row>(into: &mut Table<T>, from: Table<T>) -> Result<(), Clash> {
    for (key, row) in from {
        match into.get(&key) {
            Some(there) if *there != row => return Err(Clash { table: T::TABLE, key }),
            Some(_) => {}
            None => {
                into.insert(key, row);
            }
        }
    }
    Ok(())
}
