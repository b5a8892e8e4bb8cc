//! What nodes report that matters to a change of MTU.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use kube::{Resource, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::{MtuObserved, MtuProbes};
use netferry_api::overlay::annotations::NodeSubnets;
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::equipment::{Equipment, Equipped};
use netferry_core::mtu::plan::{NodeFacts, Observed};
use netferry_core::mtu::probe::judge::{Probes, judge};
use netferry_core::mtu::record::Record;
use netferry_core::name::NodeName;
use netferry_core::probe::Report;
use netferry_core::size::Envelope;
use netferry_translate::{machine_config, mtu as wire, pool as pools, probe};

use crate::report::EventNote;
use crate::rollout::{ClusterSnapshot, SeenNode};

/// The annotations of nodes that are read here.
pub(super) const ANNOTATIONS: [&str; 3] = [MtuObserved::KEY, MtuProbes::KEY, NodeSubnets::KEY];

type Texts = [Option<String>; 3];

/// The reports of one node.
#[derive(Debug)]
struct NodeReports {
    texts: Texts,
    observed: Option<Observed>,
    equipment: Equipment,
    probes: Option<Report>,
    /// What cannot be understood.
    malformed: Vec<String>,
}

/// Reads reports, each once for every text that nodes write.
#[derive(Debug, Default)]
pub(super) struct ReportReader(Mutex<BTreeMap<NodeName, Arc<NodeReports>>>);

/// The reports of all nodes that take part.
pub(super) struct Reports<'a> {
    snapshot: &'a ClusterSnapshot,
    nodes: Vec<(&'a SeenNode, Arc<NodeReports>)>,
}

impl ReportReader {
    /// Reads the reports of a snapshot's nodes.
    pub(super) fn read<'a>(&self, snapshot: &'a ClusterSnapshot) -> Reports<'a> {
        // A poisoned map is as good as any: it only saves reading again.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| snapshot.nodes.iter().any(|seen| seen.machine.node.name == *name));
        let nodes = snapshot.participants().map(|seen| {
            let texts = ANNOTATIONS.map(|key| seen.object.annotations().get(key).cloned());
            let name = &seen.machine.node.name;
            let reports = match known.get(name).filter(|reports| reports.texts == texts) {
                Some(reports) => Arc::clone(reports),
                None => {
                    let reports = Arc::new(NodeReports::of(seen, texts));
                    known.insert(name.clone(), Arc::clone(&reports));
                    reports
                }
            };
            (seen, reports)
        });
        Reports { snapshot, nodes: nodes.collect() }
    }
}

impl NodeReports {
    fn of(seen: &SeenNode, texts: Texts) -> NodeReports {
        let annotations = seen.object.metadata.annotations.as_ref();
        let mut malformed = Vec::new();
        let mut note =
            |problem: &dyn Display| malformed.push(format!("node {}: {problem}", seen.object.name_any()));
        let observed = wire::observed(annotations).unwrap_or_else(|problem| {
            note(&problem);
            None
        });
        let probes = probe::report(annotations).unwrap_or_else(|problem| {
            note(&problem);
            None
        });
        NodeReports { texts, observed, equipment: wire::equipment(annotations), probes, malformed }
    }
}

impl Reports<'_> {
    /// Returns true if any node has a place in the network: its pods run at what is published.
    pub(super) fn is_running(&self) -> bool {
        let has_place = |seen: &SeenNode| seen.object.annotations().contains_key(NodeSubnets::KEY);
        self.snapshot.nodes.iter().any(has_place)
    }

    /// The sizes that pods report to run at.
    pub(super) fn pods(&self) -> impl Iterator<Item = Envelope> {
        self.nodes.iter().filter_map(|(_, reports)| reports.observed?.network)
    }

    /// What decides about nodes.
    pub(super) fn facts(&self) -> BTreeMap<NodeName, NodeFacts> {
        let snapshot = self.snapshot;
        let targets: BTreeMap<&str, Option<&String>> =
            snapshot.pools.iter().map(|seen| (seen.pool.name.as_str(), seen.pool.target.as_ref())).collect();
        let epoch =
            |name: &String| machine_config::epochs(&snapshot.configs.get(name)?.metadata).ok()?.get(SOURCE);
        let all_pools = snapshot.only_pools();
        let of = |(seen, reports): &(&SeenNode, Arc<NodeReports>)| {
            let node = &seen.machine.node;
            let target = seen.pool.as_deref().and_then(|pool| targets.get(pool).copied().flatten());
            let facts = wire::facts(&seen.machine, reports.observed, target, epoch);
            let unclaimed = seen.pool.is_none() && pools::unclaimed(&all_pools, &node.labels);
            (node.name.clone(), NodeFacts { unclaimed, ..facts })
        };
        self.nodes.iter().map(of).collect()
    }

    /// The abilities of hosts.
    pub(super) fn equipped(&self) -> Equipped {
        let of = |(seen, reports): &(&SeenNode, Arc<NodeReports>)| {
            (seen.machine.node.name.clone(), reports.equipment.clone())
        };
        self.nodes.iter().map(of).collect()
    }

    /// What the nodes' probes mean for a change.
    pub(super) fn probes(&self, record: &Record) -> Probes {
        if record.change.is_none() {
            return Probes::default();
        }
        let node = |seen: &SeenNode| (seen.machine.node.name.clone(), seen.machine.node.uid.clone());
        let nodes = self.nodes.iter().map(|(seen, _)| node(seen)).collect();
        let report = |(seen, reports): &(&SeenNode, Arc<NodeReports>)| {
            Some((seen.machine.node.name.clone(), reports.probes.clone()?))
        };
        judge(record, &nodes, &self.nodes.iter().filter_map(report).collect())
    }

    /// Reports that cannot be understood.
    pub(super) fn problems(&self) -> Vec<EventNote> {
        let of = |(seen, reports): &(&SeenNode, Arc<NodeReports>)| {
            let about = seen.object.object_ref(&());
            let note = move |text: &String| {
                EventNote::warning(about.clone(), "ReadNode", "NodeAnnotationUnusable", text)
            };
            reports.malformed.iter().map(note).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(of).collect()
    }

    /// Nodes that no pool selects: they are assigned no configuration, and a change waits for them.
    pub(super) fn unclaimed(&self) -> Vec<EventNote> {
        let note = |seen: &SeenNode| {
            let name = &seen.machine.node.name;
            let note = format!(
                "no MachineConfigPool selects node {name}: it is not told the cluster's MTU, and the change waits for it; \
                 give it a label that one selects"
            );
            EventNote::warning(seen.reference(), "SelectNodes", "NoPool", note)
        };
        self.snapshot.unclaimed().map(note).collect()
    }
}
