//! What a candidate does next, from what it has seen of the lease and when. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// What a lease says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Its resource version: the precondition of the next write.
    pub(crate) version: String,
    /// Who holds it; nobody after it was released.
    pub(crate) holder: Option<String>,
    /// How often it has changed hands.
    pub(crate) transitions: u32,
    /// How long it is its holder's without a sign of life.
    pub(crate) duration: Duration,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// There is no lease: make one.
    Create,
    /// The lease is free or forfeited: write oneself in, if it is still as it was seen.
    Take(Record),
    /// Somebody holds it. It is not theirs any longer at that moment, unless something is seen of them before.
    Wait(Instant),
}

/// What one candidate has seen.
///
/// Whether a lease has run out is judged by this process's own clock, from the moment a change of the lease was seen.
/// The times written in it are somebody else's clock and say nothing here: only that they change is a sign of life.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    lease: Option<(Option<Record>, Instant)>,
}

impl Seen {
    /// Takes note of what the lease says now.
    pub(crate) fn note(&mut self, record: Option<Record>, now: Instant) {
        match &self.lease {
            Some((same, _)) if *same == record => {}
            Some(_) | None => self.lease = Some((record, now)),
        }
    }

    /// What follows. Nothing does before the lease was looked at.
    pub(crate) fn next(&self) -> Option<Step> {
        let (record, since) = self.lease.as_ref()?;
        Some(match record {
            None => Step::Create,
            Some(record) if record.holder.is_none() => Step::Take(record.clone()),
            Some(record) => Step::Wait(*since + record.duration),
        })
    }

    /// What follows at this moment: a wait that is over is a lease to be taken.
    pub(crate) fn due(&self, now: Instant) -> Option<Step> {
        match (self.next()?, &self.lease) {
            (Step::Wait(until), Some((Some(record), _))) if now >= until => Some(Step::Take(record.clone())),
            (step, _) => Some(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: &str, holder: Option<&str>) -> Option<Record> {
        let holder = holder.map(str::to_owned);
        Some(Record { version: version.into(), holder, transitions: 3, duration: Duration::from_secs(15) })
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn nothing_is_decided_before_the_lease_was_looked_at() {
        assert_eq!(Seen::default().due(Instant::now()), None);
    }

    #[test]
    fn a_lease_that_is_not_there_is_made_and_a_released_one_taken_at_once() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        seen.note(None, now);
        assert_eq!(seen.due(now), Some(Step::Create));
        seen.note(record("1", None), now);
        assert_eq!(seen.due(now), Some(Step::Take(record("1", None).unwrap())));
    }

    #[test]
    fn a_lease_is_forfeited_only_after_its_whole_length_without_a_change() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.note(record("1", Some("other")), start);
        seen.note(record("1", Some("other")), start + seconds(10));
        assert_eq!(seen.due(start + seconds(14)), Some(Step::Wait(start + seconds(15))));
        assert_eq!(
            seen.due(start + seconds(15)),
            Some(Step::Take(record("1", Some("other")).unwrap())),
            "seeing the same again is no sign of life"
        );
    }

    #[test]
    fn every_change_of_a_lease_begins_the_wait_anew() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.note(record("1", Some("other")), start);
        seen.note(record("2", Some("other")), start + seconds(14));
        assert_eq!(seen.due(start + seconds(28)), Some(Step::Wait(start + seconds(29))));
    }
}
