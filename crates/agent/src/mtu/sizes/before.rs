//! What routes had before we touched them: afterwards nobody can tell what was somebody's own.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ipnet::IpNet;
use netferry_kernel::route::{Route, RouteMtu};
use serde::{Deserialize, Serialize};

use super::{Result, SizeError};
use crate::kept;

/// The file's name in our run directory.
const FILE: &str = "routes.json";

/// What routes had before we touched them, for as long as the host is up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before(BTreeMap<(u32, IpNet, u32), Option<RouteMtu>>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BeforeOne {
    table: u32,
    to: IpNet,
    metric: u32,
    mtu: Option<u32>,
    locked: bool,
}

impl Before {
    /// Remembers what a route has, unless something is remembered.
    fn note(&mut self, route: &Route) {
        self.0.entry(key(route)).or_insert(route.mtu);
    }

    /// What a route had.
    pub(super) fn of(&self, route: &Route) -> Option<RouteMtu> {
        self.0.get(&key(route)).copied().flatten()
    }

    fn read(run: &Path) -> io::Result<Before> {
        let all: Vec<BeforeOne> = kept::read(run, FILE)?.unwrap_or_default();
        let one = |one: BeforeOne| {
            let mtu = one.mtu.map(|bytes| RouteMtu { bytes, locked: one.locked });
            ((one.table, one.to, one.metric), mtu)
        };
        Ok(Before(all.into_iter().map(one).collect()))
    }

    fn write(&self, run: &Path) -> io::Result<()> {
        let one = |((table, to, metric), mtu): (&(u32, IpNet, u32), &Option<RouteMtu>)| BeforeOne {
            table: *table,
            to: *to,
            metric: *metric,
            mtu: mtu.map(|mtu| mtu.bytes),
            locked: mtu.is_some_and(|mtu| mtu.locked),
        };
        kept::write(run, FILE, &self.0.iter().map(one).collect::<Vec<_>>())
    }
}

/// Remembers on disk what routes have, before anything is touched: afterwards nobody can tell what was somebody's own.
/// Answers all that is remembered.
pub(super) fn note<'r>(run: &Path, routes: impl IntoIterator<Item = &'r Route>) -> Result<Before> {
    let record = |source| SizeError::Record { file: run.join(FILE), source };
    let known = Before::read(run).map_err(record)?;
    let mut all = known.clone();
    for route in routes {
        all.note(route);
    }
    if all != known {
        all.write(run).map_err(record)?;
    }
    Ok(all)
}

fn key(route: &Route) -> (u32, IpNet, u32) {
    (route.table, route.to, route.metric)
}
