//! What the operator measures: its own work here, a capability's in the capability's folder.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::{mtu, rollout};

/// What the operator measures. Cheap to clone; all clones are one. Nothing is static: a simulation runs several operators in
/// one process.
#[derive(Clone, Debug)]
pub struct Metrics {
    process: Arc<Process>,
    pub(crate) rollout: rollout::Metrics,
    pub(crate) mtu: mtu::Metrics,
    registry: Arc<Registry>,
}

#[derive(Debug, Default)]
struct Process {
    leading: AtomicBool,
    passes: AtomicU64,
    failed: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::default();
        let process = Arc::new(Process::default());
        registry.register_collector(Box::new(Arc::clone(&process)));
        let rollout = rollout::Metrics::register(&mut registry);
        let mtu = mtu::Metrics::register(&mut registry);
        Metrics { process, rollout, mtu, registry: Arc::new(registry) }
    }
}

impl Metrics {
    /// Reports that this process leads, until the guard is dropped. What was measured of the cluster is forgotten then: the
    /// next leader knows better.
    pub(crate) fn while_leading(&self) -> impl Drop + use<> {
        self.process.leading.store(true, Ordering::Relaxed);
        Leading(self.clone())
    }

    pub(crate) fn count_pass(&self) {
        self.process.passes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failed_pass(&self) {
        self.process.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// All metrics, as OpenMetrics text.
    ///
    /// # Errors
    /// If a metric cannot be written as text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry).map(|()| text)
    }
}

struct Leading(Metrics);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.process.leading.store(false, Ordering::Relaxed);
        self.0.rollout.forget();
        self.0.mtu.forget();
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Series(&mut encoder);
        let leading = u64::from(self.leading.load(Ordering::Relaxed));
        out.gauge("netferry_operator_leading", "Whether this process acts; others wait", [([], leading)])?;
        let (passes, failed) = (self.passes.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed));
        out.counter("netferry_operator_passes", "Passes over the cluster", [([], passes)])?;
        let help = "Passes that failed and are made again";
        out.counter("netferry_operator_failed_passes", help, [([], failed)])
    }
}

/// Writes metrics with all their series. A metric without series is left out.
pub(crate) struct Series<'e, 'd>(pub(crate) &'e mut DescriptorEncoder<'d>);

impl Series<'_, '_> {
    pub(crate) fn gauge<const L: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = ([(&'static str, String); L], u64)>,
    ) -> fmt::Result {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            match L {
                0 => metric.encode_gauge(&value)?,
                _ => metric.encode_family(&labels)?.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    pub(crate) fn counter<const L: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = ([(&'static str, String); L], u64)>,
    ) -> fmt::Result {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            match L {
                0 => metric.encode_counter::<NoLabelSet, u64, f64>(&value, None)?,
                _ => metric.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)?,
            }
        }
        Ok(())
    }
}

/// A value that is measured and forgotten.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_that_stopped_leading_keeps_its_counts() {
        let metrics = Metrics::default();
        let leading = metrics.while_leading();
        metrics.count_pass();
        metrics.count_failed_pass();
        assert!(metrics.text().unwrap().contains("\nnetferry_operator_leading 1\n"));
        drop(leading);
        let text = metrics.text().unwrap();
        let own: Vec<&str> = text.lines().filter(|line| line.starts_with("netferry_operator_")).collect();
        assert_eq!(
            own,
            [
                "netferry_operator_leading 0",
                "netferry_operator_passes_total 1",
                "netferry_operator_failed_passes_total 1",
            ]
        );
    }
}
