//! `--probe-underlay`: links of all nodes carry more for a moment, and it is seen what gets through.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use netferry_api::annotation::Annotation as _;
use netferry_api::mtu::{MtuObserved, MtuTrial, TrialObserved};
use netferry_core::mtu::preflight::Finding;
use netferry_core::mtu::record::Ends;
use netferry_core::mtu::trial::{Answer, Asked, LONGEST, Outcome, outcome};
use netferry_core::name::NodeName;
use netferry_core::size::Mtu;
use netferry_translate::probe;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::seen::answer;
use super::watch::EVERY;
use crate::exit::Failure;
use crate::line::Line;

/// How long a trial may take: a node tries a few others a second, and a way that is too narrow is measured.
const TIME: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1));
/// How long links may take to be as they were.
const GIVING_BACK: Duration = Duration::from_secs(60);

/// Tries whether packets as large as hosts shall have get from each of these nodes to each other one; what speaks
/// against the change. However it ends, links are given back what they had.
pub(super) async fn probe(
    client: &Client,
    host: &Ends,
    nodes: impl IntoIterator<Item = NodeName>,
) -> Result<Vec<Finding>, Failure> {
    let trial = Trial { api: Api::all(client.clone()), size: host.to, nodes: nodes.into_iter().collect() };
    // What is carried today is tried all the time, and a node alone has nobody to try.
    if host.to <= host.from || trial.nodes.len() < 2 {
        return Ok(Vec::new());
    }
    let found = tokio::select! {
        found = trial.run() => found,
        _ = tokio::signal::ctrl_c() => Err(Failure::Failed(anyhow!("interrupted; nothing was changed"))),
    };
    let back = trial.give_back().await;
    let findings = found?;
    back?;
    Ok(findings)
}

struct Trial {
    api: Api<Node>,
    size: Mtu,
    nodes: BTreeSet<NodeName>,
}

impl Trial {
    async fn run(&self) -> Result<Vec<Finding>, Failure> {
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let time = TIME.0.saturating_add(TIME.1.saturating_mul(nodes)).min(LONGEST - GIVING_BACK);
        // Should nobody be there to take it back, nodes end it themselves.
        let until = Timestamp::now() + time + GIVING_BACK;
        let ask = MtuTrial { host: self.size.bytes(), until }.to_string();
        for node in &self.nodes {
            self.ask(node, Some(&ask)).await?;
        }
        let (began, mut line) = (Instant::now(), Line::new());
        let (mut known_findings, mut since) = (Vec::new(), began);
        loop {
            let asked = self.look().await?;
            let outcome = outcome(self.size, &asked);
            if outcome.findings != known_findings {
                (known_findings, since) = (outcome.findings.clone(), Instant::now());
            }
            let (known, all) = (asked.len() - outcome.waits_for.len(), asked.len());
            let said =
                format!("trying whether packets of {} get through: {known} of {all} nodes know", self.size);
            line.show_since(&said, began.elapsed().as_secs_f64());
            if outcome.is_final(since.elapsed()) || began.elapsed() >= time {
                line.clear();
                let Outcome { waits_for, mut findings, over, complete: _ } = outcome;
                if !over {
                    findings.extend(
                        waits_for.into_iter().map(|node| Finding::Unproven { node, size: self.size }),
                    );
                }
                return Ok(findings);
            }
            sleep(EVERY).await;
        }
    }

    /// Takes the ask back from every node, and waits until links are as they were.
    async fn give_back(&self) -> Result<(), Failure> {
        for node in &self.nodes {
            self.ask(node, None).await?;
        }
        let began = Instant::now();
        let mut line = Line::new();
        loop {
            let carries =
                |(name, asked): (NodeName, Asked)| (asked.answer == Answer::Carries).then_some(name);
            let left: Vec<String> =
                self.look().await?.into_iter().filter_map(carries).map(|n| n.to_string()).collect();
            if left.is_empty() {
                line.clear();
                return Ok(());
            }
            if began.elapsed() >= GIVING_BACK {
                line.clear();
                return Err(Failure::TimedOut(anyhow!(
                    "links of {} still carry {}: they send no more than before, and give it back by themselves; is the \
                     agent there running?",
                    left.join(", "),
                    self.size
                )));
            }
            line.show_since(
                &format!("{} nodes give their links back what they had", left.len()),
                began.elapsed().as_secs_f64(),
            );
            sleep(EVERY).await;
        }
    }

    async fn ask(&self, node: &NodeName, ask: Option<&str>) -> Result<(), Failure> {
        let patch = json!({ "metadata": { "annotations": { MtuTrial::KEY: ask } } });
        let asked = async {
            match self.api.patch_metadata(node.as_str(), &PatchParams::default(), &Patch::Merge(&patch)).await
            {
                // One that is gone carries nothing.
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                answered => answered.map(drop),
            }
        };
        answer(&format!("annotating node {node}"), asked).await
    }

    /// What the nodes say.
    async fn look(&self) -> Result<BTreeMap<NodeName, Asked>, Failure> {
        let nodes = answer("listing nodes", self.api.list(&ListParams::default())).await?;
        let asked = |node: &Node| {
            let name = NodeName::new(node.name_any()).ok().filter(|name| self.nodes.contains(name))?;
            // What cannot be read was not said.
            let observed = MtuObserved::read(node.annotations()).ok().flatten();
            let answer = match observed.as_ref().and_then(MtuObserved::trial) {
                None => Answer::None,
                Some(TrialObserved::Before(_)) => Answer::Carries,
                Some(TrialObserved::Refused(why)) => Answer::Refused(why.clone()),
            };
            let report = probe::report(node.metadata.annotations.as_ref()).ok().flatten();
            Some((name, Asked { uid: node.uid().unwrap_or_default(), answer, report }))
        };
        Ok(nodes.iter().filter_map(asked).collect())
    }
}
