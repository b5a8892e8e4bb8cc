//! The one shape of everything here: observe, diff, apply.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::mark::Mark;

/// A kind of kernel object on one host.
pub trait Objects {
    /// What is to be there.
    type Want: ?Sized;
    /// What is there.
    type State;
    /// The difference.
    type Changes;

    /// Reads what is there, of every owner.
    fn observe(&self) -> Result<Self::State>;

    /// What must be done so that `want` is there and nothing else that carries `mark`. Pure.
    fn diff(want: &Self::Want, have: &Self::State, mark: &Mark) -> Self::Changes;

    /// Does it.
    fn apply(&self, changes: &Self::Changes) -> Result<()>;

    /// Observe, diff, apply; answers what was done.
    fn converge(&self, want: &Self::Want, mark: &Mark) -> Result<Self::Changes> {
        let changes = Self::diff(want, &self.observe()?, mark);
        self.apply(&changes)?;
        Ok(changes)
    }
}

/// An object that stands alone: found by a key, marked by a field.
pub trait Object: Clone + PartialEq + std::fmt::Debug {
    /// What the kernel tells two of them apart by.
    type Key: Ord + Clone + std::fmt::Debug;

    /// See [`Object::Key`].
    fn key(&self) -> Self::Key;

    /// The same, carrying our mark and as the kernel will report it.
    fn stamped(&self, mark: &Mark) -> Self;

    /// Does it carry our mark?
    fn is_ours(&self, mark: &Mark) -> bool;

    /// Is what is there, under the same key, as good as what is wanted? Fields the kernel keeps for itself do not
    /// count.
    fn satisfied_by(&self, have: &Self) -> bool;

    /// Can `have` be turned into this without removing it first?
    fn replaces(&self, have: &Self) -> bool;

    /// May it be replaced although it is not ours? Only what the kernel learned by itself may.
    fn yields(&self) -> bool {
        false
    }
}

/// What to do, in this order: remove, replace, add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes<T> {
    /// To be taken away; all of these carry our mark.
    pub remove: Vec<T>,
    /// To be changed in place: what is there, what shall be.
    pub replace: Vec<(T, T)>,
    /// To be made.
    pub add: Vec<T>,
    /// Wanted, but somebody else's object is in the way. Left alone; the caller reports it.
    pub conflicts: Vec<Conflict<T>>,
}

/// Something of ours that cannot be, because of something that is not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict<T> {
    /// What was wanted.
    pub want: T,
    /// What is in the way.
    pub have: T,
}

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        Changes { remove: vec![], replace: vec![], add: vec![], conflicts: vec![] }
    }
}

impl<T> Changes<T> {
    /// Is there nothing to do? Conflicts are nothing that can be done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many changes.
    pub fn len(&self) -> usize {
        self.remove.len() + self.replace.len() + self.add.len()
    }
}

/// The difference between what is wanted and what is there.
///
/// # Guarantees
///
/// Nothing without our mark is removed, nor replaced unless it [yields](Object::yields). Applied to `have`, the
/// changes give every wanted object that has no conflict, all foreign ones, and nothing else.
/// `diff(want, want)` is empty. Of two wanted objects with one key the last counts.
pub fn diff<T: Object>(want: &[T], have: &[T], mark: &Mark) -> Changes<T> {
    let mut there: BTreeMap<T::Key, Vec<&T>> = BTreeMap::new();
    for object in have {
        there.entry(object.key()).or_default().push(object);
    }
    let wanted: BTreeMap<T::Key, T> =
        want.iter().map(|w| w.stamped(mark)).map(|stamped| (stamped.key(), stamped)).collect();

    let mut changes = Changes::default();
    for (key, want) in &wanted {
        let mut same_key = there.remove(key).unwrap_or_default();
        let pick = same_key
            .iter()
            .position(|h| h.is_ours(mark) && want.satisfied_by(h))
            .or_else(|| same_key.iter().position(|h| h.is_ours(mark) && want.replaces(h)))
            .or_else(|| same_key.iter().position(|h| h.is_ours(mark)))
            .or((!same_key.is_empty()).then_some(0));
        match pick.map(|i| same_key.remove(i)) {
            None => changes.add.push(want.clone()),
            Some(have) if have.is_ours(mark) && want.satisfied_by(have) => {}
            Some(have) if (have.is_ours(mark) || have.yields()) && want.replaces(have) => {
                changes.replace.push((have.clone(), want.clone()));
            }
            Some(have) if have.is_ours(mark) => {
                changes.remove.push(have.clone());
                changes.add.push(want.clone());
            }
            Some(have) => changes.conflicts.push(Conflict { want: want.clone(), have: have.clone() }),
        }
        changes.remove.extend(same_key.into_iter().filter(|h| h.is_ours(mark)).cloned());
    }
    let unwanted = there.into_values().flatten().filter(|h| h.is_ours(mark));
    changes.remove.extend(unwanted.cloned());
    changes
}

#[cfg(test)]
mod tests;
