//! Visits every state a model can reach.
//!
//! Breadth first, so that what breaks is reported with one of the shortest ways there. States are remembered by a
//! 64-bit fingerprint: two states that share one by chance would hide a state, not invent one.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;

/// Something that goes from state to state.
pub(crate) trait Model {
    /// Where it is.
    type State: Clone + Eq + Hash;
    /// What can happen there.
    type Action: Clone + Debug;

    /// Where it begins.
    fn begin(&self) -> Self::State;
    /// What can happen in a state.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// Where that leads; an error if it breaks a promise on the way.
    fn step(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, String>;
    /// What must be true of a state in which these can happen.
    fn holds(&self, state: &Self::State, actions: &[Self::Action]) -> Result<(), String>;
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Report {
    /// Different states.
    pub(crate) states: usize,
    /// Ways between them.
    pub(crate) steps: usize,
    /// The first thing that broke, and the way there.
    pub(crate) broken: Option<(String, Vec<String>)>,
}

// Only whether something is in it is asked, never in which order.
#[expect(clippy::disallowed_types)]
type Seen = std::collections::HashSet<u64, std::hash::BuildHasherDefault<Straight>>;

/// A fingerprint needs no second hashing.
#[derive(Default)]
pub(crate) struct Straight(u64);

impl Hasher for Straight {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are kept")
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    // Half of the time went into the standard library's, which is made for what strangers send.
    FixedState::default().hash_one(state)
}

/// Visits every state, up to `limit`, or until something breaks.
pub(crate) fn explore<M: Model>(model: &M, limit: usize) -> Report {
    let mut seen = Seen::default();
    // For each state the one it was first reached from, and how.
    let mut way: Vec<(usize, Option<M::Action>)> = Vec::new();
    let mut queue = VecDeque::new();
    let begin = model.begin();
    seen.insert(fingerprint(&begin));
    way.push((0, None));
    let trace = |way: &[(usize, Option<M::Action>)], mut at: usize| {
        let mut steps = Vec::new();
        while let (from, Some(action)) = &way[at] {
            steps.push(format!("{action:?}"));
            at = *from;
        }
        steps.reverse();
        steps
    };
    queue.push_back((0, begin));
    let mut steps = 0;
    while let Some((at, state)) = queue.pop_front() {
        let actions = model.actions(&state);
        if let Err(broken) = model.holds(&state, &actions) {
            return Report { states: way.len(), steps, broken: Some((broken, trace(&way, at))) };
        }
        for action in actions {
            steps += 1;
            match model.step(&state, &action) {
                Err(broken) => {
                    let mut trace = trace(&way, at);
                    trace.push(format!("{action:?}"));
                    return Report { states: way.len(), steps, broken: Some((broken, trace)) };
                }
                Ok(next) if seen.insert(fingerprint(&next)) => {
                    way.push((at, Some(action)));
                    queue.push_back((way.len() - 1, next));
                    assert!(
                        way.len() <= limit,
                        "more than {limit} states: the model has grown beyond its time"
                    );
                }
                Ok(_) => {}
            }
        }
    }
    Report { states: way.len(), steps, broken: None }
}

/// Walks at random from the beginning, so that more can happen at once than every order of it could be visited in.
///
/// The same seed walks the same way. Returns how many steps it took.
pub(crate) fn walk<M: Model>(model: &M, seed: u64, most: usize) -> Result<usize, (String, Vec<String>)> {
    let mut state = model.begin();
    let mut way = Vec::new();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for taken in 0..most {
        let actions = model.actions(&state);
        model.holds(&state, &actions).map_err(|broken| (broken, way.clone()))?;
        if actions.is_empty() {
            return Ok(taken);
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let action = &actions[(random >> 16) as usize % actions.len()];
        way.push(format!("{action:?}"));
        state = model.step(&state, action).map_err(|broken| (broken, way.clone()))?;
    }
    Ok(most)
}
