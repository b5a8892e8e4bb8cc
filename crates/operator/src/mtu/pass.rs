//! The part of a change of MTU in every pass of the rollout.

use jiff::Timestamp;
use kube::Resource;
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::rollout::annotations::ROLE_LABEL;
use netferry_core::mtu::check::{Fleet, unserved};
use netferry_core::mtu::file;
use netferry_core::mtu::plan::hosts;
use netferry_core::mtu::record::Record;
use netferry_core::mtu::status::refused;
use netferry_core::overlay::topology::Mode;
use netferry_core::rollout::choose::Hold;
use netferry_core::rollout::pool::WORKER;
use netferry_translate::served::Served;
use netferry_translate::{mtu as wire, networks};
use tracing::info;

use super::evaluate::{
    ClusterState, InitialRecord, condition_update, deployed, evaluate, initial_record, published,
    record_lost_condition,
};
use super::metrics::Metrics;
use super::nodes::{ReportReader, Reports};
use super::record::{Applied, applied, store};
use super::status;
use crate::capability::{Contribution, Pass};
use crate::report::EventNote;
use crate::round::RoundError;

/// Decides and makes at most one step of a change; renders the MachineConfigs of what is applied.
pub(super) async fn contribute(
    pass: Pass<'_>,
    reader: &ReportReader,
    metrics: &Metrics,
) -> Result<Contribution, RoundError> {
    // After the nodes were read: a node that is not among them joined later than those among them reported, and so reads
    // a record at least as new as the one they are done with.
    let applied = applied(pass.context).await?;
    let reports = reader.read(pass.snapshot);
    if pass.served == Served::BySdn {
        return Ok(refuse_unserved(pass, &applied, &reports, metrics));
    }
    let running = reports.is_running();
    let (record, version, since) = match applied {
        Applied::Is { record, version, since } => (record, Some(version), since),
        Applied::Unreadable(wrong) => return Ok(report_unreadable_record(pass, &reports, wrong)),
        Applied::Nothing => {
            let configs = pass.snapshot.configs.values().map(AsRef::as_ref);
            let asked = networks::wanted_mtu(&pass.network.spec, networks::deployed_mode(pass.config)).ok();
            match initial_record(deployed(pass.config, asked, reports.pods()), running, configs) {
                InitialRecord::NotYet => {
                    return Ok(Contribution { problems: reports.problems(), ..Contribution::default() });
                }
                InitialRecord::Lost(wrong) => return Ok(report_unreadable_record(pass, &reports, wrong)),
                // It is stored with the first change.
                InitialRecord::Record(record) => (record, None, None),
            }
        }
    };
    let wrote = Contribution { wrote: true, ..Contribution::default() };
    let (writer, network) = (&pass.context.writer, pass.network);
    if version.is_some() && !running && record.change.is_none() {
        // No node runs it any more, so none has to be taken anywhere: the record follows what is published.
        if let Some(mtu) = published(pass.config).filter(|mtu| *mtu != record.mtu) {
            let next = Record { epoch: record.epoch + 1, mtu, ..record };
            store(pass.context, network, version.as_deref(), &next).await?;
            return Ok(wrote);
        }
    }
    let (facts, equipped, probes) = (reports.facts(), reports.equipped(), reports.probes(&record));
    let state = ClusterState { nodes: &facts, equipped: &equipped, probes: &probes };
    let Some(outcome) = evaluate(&record, network, networks::deployed_mode(pass.config), &state) else {
        return Ok(Contribution { stops: true, ..Contribution::default() });
    };
    let decision = &outcome.decision;
    metrics.decided(&record, decision, &facts, since, Timestamp::now());
    if decision.record != record {
        store(pass.context, network, version.as_deref(), &decision.record).await?;
        let about = network.object_ref(&());
        let events = decision.events.iter().map(|event| {
            info!(epoch = decision.record.epoch, "{event}");
            EventNote::news(about.clone(), "ChangeMTU", event.reason(), event.to_string())
        });
        return Ok(Contribution { events: events.collect(), ..wrote });
    }
    if let Some(edit) = &decision.edit {
        status::edit(writer, network, edit).await?;
        // By the next pass the change is on its way back, and its cause would not be reported.
        let events = outcome.packet_loss_event(network).into_iter().collect();
        return Ok(Contribution { events, ..wrote });
    }
    if decision.forget {
        status::forget(writer, network).await?;
        return Ok(wrote);
    }
    if version.is_some() && running {
        status::publish(pass, &record).await?;
    }
    let mut problems = reports.problems();
    problems.extend(outcome.problem_notes(network));
    if record.change.is_some() {
        problems.extend(reports.unclaimed());
    }
    // A cluster whose MTU was never changed is left as it is, also when a change was refused.
    let configs = version.is_some().then(|| {
        let (roles, without) = pass.snapshot.roles();
        problems.extend(without.map(pool_without_mtu));
        roles.iter().map(|role| file::machine_config(role, &record.rendering())).collect()
    });
    Ok(Contribution {
        configs,
        hold: outcome.held.clone().map(Hold::Taking),
        conditions: outcome.conditions_to_write(network, version.is_some()),
        problems,
        ..Contribution::default()
    })
}

fn pool_without_mtu(seen: &crate::rollout::SeenPool) -> EventNote {
    let name = &seen.pool.name;
    let note = format!(
        "MachineConfigPool {name} selects neither MachineConfigs with the label {ROLE_LABEL}={WORKER} nor with \
         {ROLE_LABEL}={name}; its nodes are not told the cluster's MTU"
    );
    EventNote::warning(seen.object.object_ref(&()), "SelectConfigs", "PoolWithoutMTU", note)
}

/// Nothing can be decided until an administrator puts the record back.
fn report_unreadable_record(pass: Pass<'_>, reports: &Reports<'_>, wrong: String) -> Contribution {
    let mut problems = reports.problems();
    let conditions = vec![record_lost_condition(&wrong)];
    problems.push(EventNote::warning(pass.network.object_ref(&()), "ChangeMTU", "MTURecordLost", wrong));
    Contribution { conditions, problems, stops: true, ..Contribution::default() }
}

/// The older plugin runs: a change of its MTU is checked like ours, and refused.
fn refuse_unserved(
    pass: Pass<'_>,
    applied: &Applied,
    reports: &Reports<'_>,
    metrics: &Metrics,
) -> Contribution {
    let network = pass.network;
    let Some(cluster) = wire::cluster(&network.spec, Mode::default()) else { return Contribution::default() };
    let record = match applied {
        Applied::Is { record, .. } => Some(*record),
        Applied::Nothing | Applied::Unreadable(_) => published(pass.config).map(Record::settled),
    };
    let (hosts, equipped) = (hosts(&reports.facts()), reports.equipped());
    let fleet = Fleet { hosts: &hosts, equipped: &equipped };
    let refusals = unserved(&cluster, record.as_ref(), fleet, &wire::asked(&network.spec));
    metrics.refused(&refusals);
    let mut there = network.status.iter().flat_map(|status| &status.conditions);
    let reported = there.any(|one| one.type_ == MtuConditionType::Refused.as_str());
    let condition = (!refusals.is_empty() || reported).then(|| condition_update(&refused(&refusals)));
    let note = |refusal: &netferry_core::mtu::check::Refusal| {
        EventNote::warning(network.object_ref(&()), "ChangeMTU", refusal.reason(), refusal.to_string())
    };
    let problems = refusals.iter().map(note).collect();
    Contribution { conditions: condition.into_iter().collect(), problems, ..Contribution::default() }
}
