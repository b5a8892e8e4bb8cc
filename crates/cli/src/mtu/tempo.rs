//! How much longer a change takes, by how long restarts took so far.

use std::collections::BTreeSet;
use std::time::Duration;

use netferry_core::mtu::outline::{Pace, left, rounds};
use netferry_core::mtu::record::Record;
use netferry_core::name::NodeName;
use tokio::time::Instant;

/// What a restart is taken to last before one was seen, as a plan does.
const USUAL: Duration = Duration::from_secs(120);

/// How long a round of restarts takes, as far as was seen.
pub(super) struct Tempo {
    restart: Duration,
    phase: Option<Phase>,
}

/// A phase since it was first seen.
struct Phase {
    epoch: u64,
    since: Instant,
    /// The nodes that were there already.
    before: BTreeSet<String>,
    done: usize,
}

impl Tempo {
    pub(super) fn new() -> Tempo {
        Tempo { restart: USUAL, phase: None }
    }

    /// How much longer it takes, if a change is under way; `there` are the nodes that are where they are told to be.
    pub(super) fn left(
        &mut self,
        now: Instant,
        record: &Record,
        there: &BTreeSet<String>,
        pools: &[Pace],
    ) -> Option<Duration> {
        let change = record.change.as_ref()?;
        if self.phase.as_ref().is_none_or(|phase| phase.epoch != record.epoch) {
            let before = there.clone();
            self.phase = Some(Phase { epoch: record.epoch, since: now, before, done: 0 });
        }
        let is_there = |name: &NodeName| there.contains(name.as_str());
        if let Some(phase) = &mut self.phase {
            let done = rounds(pools, |name| is_there(name) && !phase.before.contains(name.as_str()));
            if done > phase.done {
                phase.done = done;
                let rounds = u32::try_from(done).unwrap_or(u32::MAX);
                self.restart = now.duration_since(phase.since) / rounds;
            }
        }
        Some(left(change, is_there, pools, self.restart))
    }
}

/// How long that is, in words.
pub(super) fn about(left: Duration) -> String {
    match left.as_secs() {
        0..60 => "less than a minute left".into(),
        seconds => format!("about {} min left", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use netferry_core::mtu::record::{Change, Ends, Stage};
    use netferry_core::size::Mtu;

    use super::*;

    fn record(epoch: u64, stage: Stage) -> Record {
        let ends = |from, to| Ends { from: Mtu::new(from).unwrap(), to: Mtu::new(to).unwrap() };
        let change = Change { network: ends(1400, 8900), host: ends(1500, 9000), stage, back: false };
        Record { epoch, change: Some(change), ..Record::settled(Mtu::new(1400).unwrap()) }
    }

    #[test]
    fn what_is_left_is_reckoned_by_the_restarts_that_were_seen() {
        let names = ["a", "b", "c"].map(|name| NodeName::new(name).unwrap());
        let pools = [Pace { nodes: names.into(), at_once: 1 }];
        let began = Instant::now();
        let mut tempo = Tempo::new();
        let mut left = |after: u64, epoch, stage, there: &[&str]| {
            let there = there.iter().map(|name| (*name).to_owned()).collect();
            let now = began + Duration::from_secs(after);
            tempo.left(now, &record(epoch, stage), &there, &pools).map(about).unwrap()
        };
        let one = Stage::Spreading { finish: false };
        assert_eq!(left(0, 1, one, &[]), "about 12 min left", "nothing was seen yet");
        assert_eq!(left(30, 1, one, &["a"]), "about 3 min left", "two more, and all once again");
        assert_eq!(left(90, 1, one, &["a", "b"]), "about 3 min left", "the second took longer");
        assert_eq!(left(120, 1, one, &["a", "b", "c"]), "about 2 min left");
        assert_eq!(left(121, 2, Stage::Settling, &[]), "about 2 min left");
        assert_eq!(left(200, 2, Stage::Settling, &["a", "b", "c"]), "less than a minute left");
    }

    #[test]
    fn nodes_that_were_there_before_say_nothing_of_how_long_it_takes() {
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let pools = [Pace { nodes: names.into(), at_once: 1 }];
        let there = BTreeSet::from(["a".to_owned()]);
        let mut tempo = Tempo::new();
        let now = Instant::now();
        let settling = record(2, Stage::Settling);
        assert_eq!(tempo.left(now, &settling, &there, &pools), Some(USUAL));
        assert_eq!(tempo.left(now, &Record::settled(settling.mtu), &there, &pools), None);
    }
}
