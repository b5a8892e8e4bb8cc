//! The decision of one pass, and the record of a cluster that has none.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Resource, ResourceExt};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::{ConfigNetwork, OperatorNetwork};
use netferry_api::rollout::MachineConfig;
use netferry_core::mtu::SOURCE;
use netferry_core::mtu::equipment::Equipped;
use netferry_core::mtu::file::{HostFile, PATH};
use netferry_core::mtu::plan::{Decision, Facts, NodeFacts, Rollout, decide};
use netferry_core::mtu::probe::judge::Probes;
use netferry_core::mtu::record::Record;
use netferry_core::mtu::status::{self, Condition, ConditionKind};
use netferry_core::name::NodeName;
use netferry_core::overlay::topology;
use netferry_core::size::{Envelope, Mtu};
use netferry_translate::{machine_config, mtu as wire};

use crate::report::{ConditionUpdate, EventNote};

/// What a pass of the MTU's part found out.
pub(crate) struct Outcome {
    /// What was decided.
    pub(crate) decision: Decision,
    /// Why no further node may be taken, if none may.
    pub(crate) held: Option<String>,
    /// Conditions for the operator's `Network`.
    pub(crate) conditions: Vec<ConditionUpdate>,
    /// Malformed input that is reported, by reason.
    pub(crate) problems: BTreeSet<(&'static str, String)>,
}

impl Outcome {
    /// What is worth an Event.
    pub(crate) fn problem_notes(&self, network: &OperatorNetwork) -> Vec<EventNote> {
        let refusals = self.decision.refusals.iter().map(|refusal| (refusal.reason(), refusal.to_string()));
        let all = refusals.chain(self.problems.iter().cloned());
        let about = network.object_ref(&());
        let refused = all.map(|(reason, note)| EventNote::warning(about.clone(), "ChangeMTU", reason, note));
        refused.chain(self.packet_loss_event(network)).collect()
    }

    /// Between which nodes packets are lost, if that stops the change.
    pub(crate) fn packet_loss_event(&self, network: &OperatorNetwork) -> Option<EventNote> {
        let Rollout::Losing(troubles) = &self.decision.rollout else { return None };
        let about = network.object_ref(&());
        Some(EventNote::warning(about, "ChangeMTU", "PacketsLost", status::lost(troubles)))
    }

    /// The conditions that are worth writing. A cluster in which no change was ever accepted (`applied` is false) is left
    /// as it is, but for what is refused or cannot be understood, and for what was said of it before.
    pub(crate) fn conditions_to_write(
        &self,
        network: &OperatorNetwork,
        applied: bool,
    ) -> Vec<ConditionUpdate> {
        let there = network.status.iter().flat_map(|status| &status.conditions);
        let said: Vec<&str> = there.map(|one| one.type_.as_str()).collect();
        let news = |kind: &str| match MtuConditionType::named(kind) {
            Some(MtuConditionType::Refused) => !self.decision.refusals.is_empty(),
            Some(MtuConditionType::Held) => !self.problems.is_empty(),
            Some(MtuConditionType::InProgress) | None => false,
        };
        let worth = |one: &&ConditionUpdate| applied || said.contains(&one.kind) || news(one.kind);
        self.conditions.iter().filter(worth).cloned().collect()
    }
}

/// What nodes say.
pub(crate) struct ClusterState<'a> {
    /// Of what they run.
    pub(crate) nodes: &'a BTreeMap<NodeName, NodeFacts>,
    /// Of what hosts are able to do.
    pub(crate) equipped: &'a Equipped,
    /// Of the ways between them.
    pub(crate) probes: &'a Probes,
}

/// Decides, for a network that is deployed for so many nodes.
pub(crate) fn evaluate(
    record: &Record,
    network: &OperatorNetwork,
    deployed: topology::Mode,
    seen: &ClusterState<'_>,
) -> Option<Outcome> {
    let cluster = wire::cluster(&network.spec, deployed)?;
    let mut problems = BTreeSet::new();
    let mode = match wire::mode(network.metadata.annotations.as_ref()) {
        Ok(mode) => mode,
        Err((careful, wrong)) => {
            problems.insert(("MTUAnnotationUnusable", wrong.to_string()));
            careful
        }
    };
    let asked = wire::asked(&network.spec);
    let ClusterState { nodes, equipped, probes } = *seen;
    let decision = decide(record, &Facts { cluster, asked, mode, nodes, equipped, probes });
    let mut conditions: Vec<ConditionUpdate> = decision.conditions.iter().map(condition_update).collect();
    let held_condition =
        conditions.iter_mut().find(|condition| condition.kind == MtuConditionType::Held.as_str());
    if let (Some(condition), Some((reason, said))) = (held_condition, problems.first()) {
        (condition.status, condition.reason) = (true, (*reason).to_owned());
        condition.message = format!("{said}; a change of MTU takes no further node until it is mended");
    }
    let held = match &decision.rollout {
        Rollout::Go => None,
        Rollout::Paused if !problems.is_empty() => {
            Some("an annotation of the operator's Network cannot be read".to_owned())
        }
        Rollout::Paused => Some("the change of MTU is paused".to_owned()),
        Rollout::Losing(_) => Some("packets are lost between nodes".to_owned()),
    };
    Some(Outcome { decision, held, conditions, problems })
}

/// As it is written.
pub(crate) fn condition_update(condition: &Condition) -> ConditionUpdate {
    let kind = match condition.kind {
        ConditionKind::InProgress => MtuConditionType::InProgress,
        ConditionKind::Held => MtuConditionType::Held,
        ConditionKind::Refused => MtuConditionType::Refused,
    };
    ConditionUpdate {
        kind: kind.as_str(),
        status: condition.holds,
        reason: condition.reason.to_owned(),
        message: condition.message.clone(),
    }
}

/// The condition if the applied record is unreadable: no node is assigned anything until it is restored.
pub(crate) fn record_lost_condition(message: &str) -> ConditionUpdate {
    ConditionUpdate {
        kind: MtuConditionType::Held.as_str(),
        status: true,
        reason: "RecordLost".to_owned(),
        message: format!("{message}; nothing is told to nodes until it is put back"),
    }
}

/// The first record of a cluster, once a node runs its network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InitialRecord {
    /// It is too early.
    NotYet,
    /// This.
    Record(Record),
    /// It was lost: a MachineConfig carries a change, and no record describes it.
    Lost(String),
}

/// What the first record is, where there is none and this is deployed.
pub(crate) fn initial_record<'a>(
    deployed: Option<Mtu>,
    running: bool,
    configs: impl IntoIterator<Item = &'a MachineConfig>,
) -> InitialRecord {
    let Some(mtu) = deployed.filter(|_| running) else { return InitialRecord::NotYet };
    let mut newest = None;
    for config in configs {
        let Ok(read) = machine_config::machine_config(config) else { continue };
        let Some(file) = read.spec.files.iter().find(|file| file.path == PATH) else { continue };
        let file = HostFile::parse(&String::from_utf8_lossy(&file.contents)).ok();
        let Some(file) = file.filter(|file| !file.changes_hosts()) else {
            let name = config.name_any();
            return InitialRecord::Lost(format!(
                "what is applied is gone, but MachineConfig {name} tells nodes of a change"
            ));
        };
        newest = newest.max(Some((read.epochs.get(SOURCE).unwrap_or(0), file.others)));
    }
    // Nodes never go back to a lower one.
    let (epoch, hosts) = newest.map_or((0, None), |(newest, others)| (newest + 1, others));
    InitialRecord::Record(Record { epoch, hosts, ..Record::settled(mtu) })
}

/// The MTU that is published.
pub(crate) fn published(config: Option<&ConfigNetwork>) -> Option<Mtu> {
    let status = config?.status.as_ref()?;
    Mtu::new(status.cluster_network_mtu?).ok()
}

/// The MTU that is deployed where no change is under way: the published one, unless all pods that anybody says something of
/// run at what is asked for. Then somebody wrote the published one by hand, and newcomers would take it for what runs.
///
/// A change moves nodes only after it was published: whatever became of nodes since `config` was read, who publishes
/// something over that very version of it is refused.
pub(crate) fn deployed(
    config: Option<&ConfigNetwork>,
    asked: Option<Mtu>,
    pods: impl IntoIterator<Item = Envelope>,
) -> Option<Mtu> {
    let published = published(config)?;
    let changing = config.and_then(|config| config.status.as_ref()?.migration.as_ref()).is_some();
    let Some(asked) = asked.filter(|_| !changing) else { return Some(published) };
    let mut pods = pods.into_iter().peekable();
    let run = pods.peek().is_some() && pods.all(|pods| pods == Envelope::settled(asked));
    Some(if run { asked } else { published })
}

#[cfg(test)]
mod tests {
    use netferry_core::mtu::file;
    use netferry_core::mtu::record::{Change, Ends, Stage};
    use serde_json::json;

    use super::*;

    fn mtu(bytes: u32) -> Mtu {
        Mtu::new(bytes).unwrap()
    }

    fn config(mtu: u32) -> ConfigNetwork {
        let mut config = ConfigNetwork::new("cluster", Default::default());
        config.status = Some(serde_json::from_value(json!({ "clusterNetworkMTU": mtu })).unwrap());
        config
    }

    fn ours(record: &Record) -> MachineConfig {
        let ours = file::machine_config("worker", &record.rendering());
        let mut object = MachineConfig::new(&ours.name, machine_config::printed(&ours.spec));
        object.metadata.annotations = Some([machine_config::printed_epochs(&ours.epochs)].into());
        object
    }

    #[test]
    fn the_first_record_says_what_runs_and_is_newer_than_all_that_was_told() {
        let settled = |epoch| Record { epoch, ..Record::settled(mtu(1400)) };
        assert_eq!(initial_record(None, true, []), InitialRecord::NotYet);
        assert_eq!(initial_record(Some(mtu(1400)), false, []), InitialRecord::NotYet);
        assert_eq!(initial_record(Some(mtu(1400)), true, []), InitialRecord::Record(settled(0)));
        assert_eq!(
            initial_record(Some(mtu(1400)), true, [&ours(&settled(6))]),
            InitialRecord::Record(settled(7))
        );
        // Where hosts were left is in what nodes were told last, too.
        let left = |epoch, at| Record { hosts: Some(mtu(at)), ..settled(epoch) };
        let told = [ours(&left(4, 9000)), ours(&left(6, 1500)), ours(&settled(2))];
        assert_eq!(initial_record(Some(mtu(1400)), true, &told), InitialRecord::Record(left(7, 1500)));
    }

    #[test]
    fn an_mtu_that_was_published_by_hand_is_not_taken_for_what_runs() {
        let settled = |at| Envelope::settled(mtu(at));
        let (edited, asked) = (config(9000), Some(mtu(1400)));
        let found = |asked, pods: &[Envelope]| deployed(Some(&edited), asked, pods.iter().copied());
        assert_eq!(found(asked, &[settled(1400), settled(1400)]), asked);
        // Nobody says anything; they differ; they are on their way; what is asked for is something else, or cannot be.
        let published = Some(mtu(9000));
        assert_eq!(found(asked, &[]), published);
        assert_eq!(found(asked, &[settled(1400), settled(9000)]), published);
        assert_eq!(found(asked, &[Envelope::spanning(mtu(1400), mtu(9000))]), published);
        assert_eq!(found(Some(mtu(1300)), &[settled(1400)]), published);
        assert_eq!(found(None, &[settled(1400)]), published);
        let mut changing = config(9000);
        changing.status.as_mut().unwrap().migration = Some(Default::default());
        assert_eq!(deployed(Some(&changing), asked, [settled(1400)]), published);
        assert_eq!(deployed(None, asked, [settled(1400)]), None, "nothing is published yet");
    }

    #[test]
    fn a_record_that_was_lost_in_the_middle_of_a_change_is_not_made_up() {
        let ends = |from, to| Ends { from: mtu(from), to: mtu(to) };
        for stage in [Stage::Spreading { finish: false }, Stage::Settling, Stage::Returning] {
            let change = Change { network: ends(1400, 8900), host: ends(1500, 9000), stage, back: false };
            let record = Record { epoch: 3, change: Some(change), ..Record::settled(mtu(1400)) };
            let found = initial_record(Some(mtu(8900)), true, [&ours(&record)]);
            assert!(matches!(found, InitialRecord::Lost(said) if said.contains("98-worker-netferry-mtu")));
        }
    }
}
