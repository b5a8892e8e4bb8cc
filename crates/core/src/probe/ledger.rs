//! What trials on the ways to other nodes came to.
//!
//! A trial is two questions at once: a small one, which says whether anybody is there, and a large one. If only the small
//! one is answered, many times in a row, the way is too narrow, and the next trials find out how wide it is. If
//! neither is, the other node may be away: nothing is said of it before it was silent for long.
//!
//! A way that is too narrow turns a change around, one that loses packets only stops it. So what is lost by chance must
//! not be taken for the first, however long a change lasts and however many ways there are: as long as no more is lost
//! than is allowed, that does not happen once in a million trials.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Loss, Narrow, Way};
use crate::name::NodeName;
use crate::size::Mtu;

/// So many large packets in a row are not lost by chance on a way that took them before. It is asked for as long as a
/// change lasts, some hundred times a second in a large cluster.
const MISSES: u8 = 10;
/// On a way that never took one: this is asked once for each way and size, and a way that is too narrow is to be known
/// before a second node is taken to a size nobody can use.
const FIRST_MISSES: u8 = 5;
/// In the search for a way's width a size is tried again before it is given up.
const SEARCH_MISSES: u8 = 2;
/// Of so many trials losses are counted.
const WINDOW: u32 = 20;
/// More losses than this share of a hundred are too many.
const ALLOWED: u32 = 10;
/// From so many trials on there is a share at all.
const ENOUGH: u32 = 10;
/// Somebody who should be there may be silent for so long: a machine that lost its power is missed only then.
const SILENCE: Duration = Duration::from_secs(60);

/// What is to be tried on a way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aim {
    /// What both ends carry.
    pub size: Mtu,
    /// What usual packets have now; where a search begins.
    pub usual: Mtu,
}

/// What was answered of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answers {
    /// The small question.
    pub small: bool,
    /// The large one.
    pub large: bool,
}

/// The trials on all ways of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    ways: BTreeMap<(NodeName, Way), Track>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Track {
    aim: Aim,
    state: State,
    /// The last trials that anybody answered, one bit each: whether something was lost.
    recent: u32,
    counted: u32,
    /// Since when nobody answers, and how often.
    silent: Option<(Duration, u32)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Large packets got through last; or were lost so often since.
    Wide { tried: bool, misses: u8 },
    /// They do not. `low` gets through, `high` does not.
    Search { low: Mtu, high: Mtu, misses: u8, first: bool },
    /// They do not, and this is the most that does.
    Narrow(Mtu),
}

impl Ledger {
    /// The size to try next on a way. A way whose ends carry something else than before begins anew.
    pub fn next(&mut self, to: &NodeName, way: Way, aim: Aim) -> Mtu {
        let fresh = Track {
            aim,
            state: State::Wide { tried: false, misses: 0 },
            recent: 0,
            counted: 0,
            silent: None,
        };
        let track = self.ways.entry((to.clone(), way)).or_insert_with(|| fresh.clone());
        if track.aim != aim {
            *track = fresh;
        }
        track.next()
    }

    /// Enters a trial of this size.
    pub fn enter(&mut self, to: &NodeName, way: Way, size: Mtu, answers: Answers, now: Duration) {
        // What was tried on a way that is another one by now says nothing.
        if let Some(track) = self.ways.get_mut(&(to.clone(), way)).filter(|track| track.next() == size) {
            track.enter(way, answers, now);
        }
    }

    /// Forgets all ways but these.
    pub fn retain(&mut self, keep: impl Fn(&NodeName, Way) -> bool) {
        self.ways.retain(|(to, way), _| keep(to, *way));
    }

    /// The most that gets through on a way where this is aimed at; nothing as long as that is not known, and it should be
    /// tried soon.
    pub fn width(&self, to: &NodeName, way: Way, aim: Aim) -> Option<Mtu> {
        self.ways.get(&(to.clone(), way)).filter(|track| track.aim == aim)?.width()
    }

    /// Whether there is a way of which nothing can be said yet, but soon.
    pub fn is_open(&self) -> bool {
        let open = |track: &Track| track.width().or(track.at_least()).is_none();
        self.ways.values().any(|track| open(track) && (track.searches() || track.silent.is_none()))
    }

    /// Ways that are too narrow. One whose width is still looked for is told as soon as it is known to take what is usual:
    /// that is enough to stop a change.
    pub fn narrow(&self) -> impl Iterator<Item = Narrow> {
        self.ways.iter().filter_map(|((to, way), track)| {
            let passes = match track.state {
                State::Narrow(passes) => passes,
                State::Search { .. } => track.at_least()?,
                State::Wide { .. } => return None,
            };
            Some(Narrow { to: to.clone(), way: *way, tried: track.aim.size, passes })
        })
    }

    /// Ways on which more is lost than is allowed.
    pub fn losses(&self, now: Duration) -> impl Iterator<Item = Loss> {
        self.ways.iter().filter_map(move |((to, way), track)| {
            let (lost, of) = track.loss(now)?;
            Some(Loss { to: to.clone(), way: *way, lost, of })
        })
    }
}

impl Track {
    fn next(&self) -> Mtu {
        match self.state {
            State::Wide { .. } | State::Narrow(_) => self.aim.size,
            State::Search { low, high, first, .. } => {
                let usual = self.aim.usual;
                if first && low < usual && usual < high { usual } else { between(low, high) }
            }
        }
    }

    fn searches(&self) -> bool {
        matches!(self.state, State::Search { .. })
    }

    fn width(&self) -> Option<Mtu> {
        match self.state {
            State::Wide { tried, .. } => tried.then_some(self.aim.size),
            State::Search { .. } => None,
            State::Narrow(passes) => Some(passes),
        }
    }

    /// In a search: what is usual, if that is known to get through. Not all that is known by now, which would be news
    /// with every trial.
    fn at_least(&self) -> Option<Mtu> {
        match self.state {
            State::Search { low, first: false, .. } => (low >= self.aim.usual).then_some(self.aim.usual),
            State::Search { first: true, .. } | State::Wide { .. } | State::Narrow(_) => None,
        }
    }

    fn enter(&mut self, way: Way, answers: Answers, now: Duration) {
        if !answers.small && !answers.large {
            let (since, times) = self.silent.unwrap_or((now, 0));
            self.silent = Some((since, times.saturating_add(1)));
            return;
        }
        self.silent = None;
        let size = self.next();
        if !self.searches() {
            let lost = !(answers.small && answers.large);
            self.recent = (self.recent << 1 | u32::from(lost)) & ((1 << WINDOW) - 1);
            self.counted = (self.counted + 1).min(WINDOW);
        }
        self.state = match (self.state, answers.large) {
            (State::Wide { .. } | State::Narrow(_), true) => State::Wide { tried: true, misses: 0 },
            (State::Wide { tried, misses }, false)
                if misses + 1 >= if tried { MISSES } else { FIRST_MISSES } && self.aim.size > way.floor() =>
            {
                State::Search { low: way.floor(), high: self.aim.size, misses: 0, first: true }
            }
            (State::Wide { tried, misses }, false) => State::Wide { tried, misses: misses.saturating_add(1) },
            (State::Search { high, .. }, true) => State::Search { low: size, high, misses: 0, first: false },
            (State::Search { low, .. }, false) if self.state.misses() + 1 >= SEARCH_MISSES => {
                State::Search { low, high: size, misses: 0, first: false }
            }
            (State::Search { low, high, misses, first }, false) => {
                State::Search { low, high, misses: misses + 1, first }
            }
            (narrow @ State::Narrow(_), false) => narrow,
        };
        if let State::Search { low, high, .. } = self.state
            && high.bytes() - low.bytes() <= 1
        {
            self.state = State::Narrow(low);
        }
    }

    fn loss(&self, now: Duration) -> Option<(u32, u32)> {
        if let Some((since, times)) = self.silent {
            return (now.saturating_sub(since) >= SILENCE).then_some((times, times));
        }
        let lost = self.recent.count_ones();
        // A way that is too narrow is told as that.
        let wide = matches!(self.state, State::Wide { .. });
        (wide && self.counted >= ENOUGH && lost * 100 > self.counted * ALLOWED)
            .then_some((lost, self.counted))
    }
}

impl State {
    fn misses(self) -> u8 {
        match self {
            State::Wide { misses, .. } | State::Search { misses, .. } => misses,
            State::Narrow(_) => 0,
        }
    }
}

fn between(low: Mtu, high: Mtu) -> Mtu {
    Mtu::new(u32::midpoint(low.bytes(), high.bytes())).unwrap_or(low)
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
