//! What a node goes through when it is moved to another configuration, and when, by what its object in the API shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use netferry_api::annotation::Annotation;
use netferry_api::rollout::annotations::LastAppliedDrain;
use netferry_core::rollout::pool::Truth;
use netferry_lab::Lab;
use netferry_lab::paths::in_lab;
use netferry_translate::{machine::machine, mtu::observed};
use tokio::task::JoinHandle;

/// What is seen of a node on its way, in the order it is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Mark {
    Told,
    Cordoned,
    Drained,
    Asks,
    Booted,
    Ready,
    Observed,
    Done,
}

/// What a node is waited for, between one mark and the next.
const STEPS: [(Mark, &str); 7] = [
    (Mark::Cordoned, "told, until it is cordoned"),
    (Mark::Drained, "until it is drained"),
    (Mark::Asks, "until it has written what it boots by, and asks for its restart"),
    (Mark::Booted, "until its kubelet tells of another boot: what is measured pauses, `host-init`"),
    (Mark::Ready, "until its agent has made its network, and it is ready"),
    (Mark::Observed, "until it reports the sizes it runs"),
    (Mark::Done, "until it says that it is done, and the cordon is lifted"),
];

/// What is another once a node has moved.
#[derive(Clone, Debug)]
struct Known {
    boot: String,
    epoch: Option<u64>,
    drain: Option<String>,
}

impl Known {
    fn of(node: &Node) -> Known {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let runs = observed(Some(node.annotations())).ok().flatten();
        Known {
            boot: info.map(|info| info.boot_id.clone()).unwrap_or_default(),
            epoch: runs.map(|runs| runs.epoch),
            drain: node.annotations().get(LastAppliedDrain::KEY).cloned(),
        }
    }
}

/// One node's way to one configuration.
#[derive(Clone, Debug)]
struct Move {
    config: String,
    before: Known,
    seen: BTreeMap<Mark, Instant>,
}

/// The ways of every node, the last one that it is on; the first is where it was found, and has no beginning.
#[derive(Debug, Default)]
struct Diary(BTreeMap<String, Vec<Move>>);

impl Diary {
    fn see(&mut self, node: &Node, now: Instant) {
        let Ok(machine) = machine(node) else { return };
        let Some(config) = machine.node.desired.clone() else { return };
        let (known, moves) = (Known::of(node), self.0.entry(node.name_any()).or_default());
        if moves.last().is_none_or(|last| last.config != config) {
            let told = (!moves.is_empty()).then_some((Mark::Told, now));
            moves.push(Move { config, before: known.clone(), seen: told.into_iter().collect() });
        }
        let Some(Move { before, seen, .. }) = moves.last_mut() else { return };
        let booted = known.boot != before.boot;
        let node = &machine.node;
        for (mark, holds) in [
            (Mark::Cordoned, node.unschedulable),
            (Mark::Drained, node.unschedulable && known.drain != before.drain),
            (Mark::Booted, booted),
            (Mark::Ready, booted && node.ready == Some(Truth::True)),
            (Mark::Observed, booted && known.epoch != before.epoch),
            (Mark::Done, booted && node.is_done() && node.is_ready()),
        ] {
            if holds {
                seen.entry(mark).or_insert(now);
            }
        }
    }

    /// How long every node was waited for, by step; and how long the next one was after it was there.
    fn times(&self) -> Vec<(&'static str, Vec<Duration>)> {
        let whole = |one: &&Move| one.seen.len() == STEPS.len() + 1;
        let mut moves: Vec<&Move> = self.0.values().flatten().filter(whole).collect();
        moves.sort_by_key(|one| one.seen[&Mark::Told]);
        let step = |(mark, what): (Mark, &'static str)| {
            let waited = |one: &&Move| {
                // What comes before it in order may have been seen after it.
                let since = one.seen.range(..mark).map(|(_, at)| *at).max()?;
                Some(one.seen[&mark].saturating_duration_since(since))
            };
            (what, moves.iter().filter_map(waited).collect())
        };
        let mut times: Vec<(&str, Vec<Duration>)> = STEPS.into_iter().map(step).collect();
        let same_phase = moves.windows(2).filter(|pair| pair[0].config == pair[1].config);
        let next =
            |pair: &[&Move]| pair[1].seen[&Mark::Told].saturating_duration_since(pair[0].seen[&Mark::Done]);
        times.push(("until the next node is told", same_phase.map(next).collect()));
        times
    }
}

/// Looks at every node until it is dropped.
#[derive(Debug)]
pub(crate) struct Moves {
    diary: Arc<Mutex<Diary>>,
    task: JoinHandle<()>,
}

impl Drop for Moves {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Moves {
    pub(crate) async fn follow(lab: &Lab) -> anyhow::Result<Moves> {
        let nodes = Api::<Node>::all(in_lab::client(&lab.state().kubeconfig()).await?);
        let diary = Arc::new(Mutex::new(Diary::default()));
        let kept = diary.clone();
        let task = tokio::spawn(async move {
            loop {
                // A watch ends now and then; what was missed meanwhile is in the next list.
                _ = look(&nodes, &kept).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Ok(Moves { diary, task })
    }

    /// A node asks for its restart, and gets it.
    pub(crate) fn asks(&self, node: &str) {
        let mut diary = self.diary.lock().expect("nobody panicked");
        if let Some(last) = diary.0.get_mut(node).and_then(|moves| moves.last_mut()) {
            last.seen.entry(Mark::Asks).or_insert_with(Instant::now);
        }
    }

    /// How long every node was waited for, by step.
    pub(crate) fn times(&self) -> Vec<(&'static str, Vec<Duration>)> {
        self.diary.lock().expect("nobody panicked").times()
    }
}

async fn look(nodes: &Api<Node>, diary: &Mutex<Diary>) -> kube::Result<()> {
    let see = |node: &Node| diary.lock().expect("nobody panicked").see(node, Instant::now());
    let list = nodes.list(&ListParams::default()).await?;
    list.items.iter().for_each(see);
    let since = list.metadata.resource_version.unwrap_or_default();
    let mut events = std::pin::pin!(nodes.watch(&WatchParams::default(), &since).await?);
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(node) | WatchEvent::Modified(node) = event {
            see(&node);
        }
    }
    Ok(())
}
