//! Pools and drains, measured.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

use netferry_core::name::NodeName;
use netferry_core::rollout::progress::Progress;
use netferry_core::rollout::status::PoolStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::metrics::{Series, Shared};

/// What the rollout measures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Shared<Inner>);

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pools: BTreeMap<String, Pool>,
    blocked: BTreeMap<NodeName, String>,
}

#[derive(Debug, Default)]
struct Pool {
    counts: [(&'static str, usize); 5],
    progress: BTreeMap<String, usize>,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Metrics {
        let metrics = Metrics::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self) {
        *self.inner() = Inner::default();
    }

    pub(crate) fn pool(&self, name: &str, status: &PoolStatus, nodes: impl Iterator<Item = Progress>) {
        let mut progress = BTreeMap::new();
        for one in nodes {
            *progress.entry(one.to_string()).or_default() += 1;
        }
        let counts = [
            ("total", status.machines),
            ("updated", status.updated),
            ("ready", status.ready),
            ("unavailable", status.unavailable),
            ("degraded", status.degraded),
        ];
        self.inner().pools.insert(name.to_owned(), Pool { counts, progress });
    }

    pub(crate) fn forget_pools<'a>(&self, kept: impl Iterator<Item = &'a str>) {
        let kept: Vec<&str> = kept.collect();
        self.inner().pools.retain(|name, _| kept.contains(&name.as_str()));
    }

    pub(crate) fn drains(&self, blocking: &BTreeMap<NodeName, String>) {
        self.inner().blocked.clone_from(blocking);
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let inner = self.inner();
        let mut out = Series(&mut encoder);
        let counts = inner.pools.iter().flat_map(|(name, pool)| {
            let labels = |count: &str| [("pool", name.clone()), ("count", count.to_owned())];
            pool.counts.iter().map(move |(count, number)| (labels(count), *number as u64))
        });
        let help = "Nodes of a pool, counted as its status counts them";
        out.gauge("netferry_pool_machines", help, counts)?;
        let progress = inner.pools.iter().flat_map(|(name, pool)| {
            let labels = |progress: &str| [("pool", name.clone()), ("progress", progress.to_owned())];
            pool.progress.iter().map(move |(progress, number)| (labels(progress), *number as u64))
        });
        out.gauge("netferry_pool_progress", "Nodes of a pool by their progress", progress)?;
        let blocked = inner.blocked.keys().map(|node| ([("node", node.to_string())], 1));
        out.gauge("netferry_drain_blocked", "1 for a node whose pods cannot be moved away now", blocked)
    }
}

#[cfg(test)]
mod tests {
    use netferry_core::rollout::pool::{MaxUnavailable, Node, Pool as CorePool};
    use netferry_core::rollout::status::{Hindered, status};

    use super::*;
    use crate::metrics::Metrics as All;

    fn lines(metrics: &All, of: &str) -> Vec<String> {
        let page = metrics.text().unwrap();
        page.lines().filter(|line| line.starts_with(of)).map(str::to_owned).collect()
    }

    fn pool(name: &str) -> CorePool {
        CorePool {
            name: name.to_owned(),
            nodes: None,
            configs: None,
            paused: false,
            max_unavailable: MaxUnavailable::default(),
            target: None,
            finished: None,
            taken: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn whatever_a_name_holds_a_scraper_can_read_the_page() {
        let metrics = All::default();
        let odd = "a\"b\\c\nd";
        let status = status::<Node>(&pool(odd), &[], Hindered::default());
        metrics.rollout.pool(odd, &status, [Progress::Waiting].into_iter());
        let shall = r#"netferry_pool_progress{pool="a\"b\\c\nd",progress="waiting"} 1"#;
        assert_eq!(lines(&metrics, "netferry_pool_progress"), [shall]);
        assert_eq!(lines(&metrics, "netferry_pool_machines").len(), 5);
        metrics.rollout.forget_pools(["another"].into_iter());
        assert_eq!(lines(&metrics, "netferry_pool_"), [""; 0]);
    }

    #[test]
    fn an_operator_that_stopped_leading_says_nothing_of_the_cluster() {
        let metrics = All::default();
        let leading = metrics.while_leading();
        let status = status::<Node>(&pool("worker"), &[], Hindered::default());
        metrics.rollout.pool("worker", &status, std::iter::empty());
        let node = NodeName::new("a").unwrap();
        metrics.rollout.drains(&BTreeMap::from([(node, "a pod is ending".to_owned())]));
        assert_eq!(lines(&metrics, "netferry_drain_blocked"), ["netferry_drain_blocked{node=\"a\"} 1"]);
        drop(leading);
        for cluster in ["netferry_pool_", "netferry_drain_"] {
            assert_eq!(lines(&metrics, cluster), [""; 0]);
        }
    }
}
