//! Our tables, remembered for as long as nobody else touches the ruleset.
//!
//! Reading ten thousand elements to change one costs a thousand times the change. The generation says whether what
//! was read is still what is there; it goes up by one with every transaction, so that after one of ours the copy can
//! follow without reading. Anybody else's transaction, of whatever table, and the next call reads again.

use super::{Change, Changes, Nft, Ruleset, Table, diff};
use crate::error::{Error, Result};
use crate::mark::Mark;
use crate::objects::Objects;

/// How often to plan again when somebody else was faster.
const PATIENCE: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Copy {
    mark: Mark,
    known: Option<Ruleset>,
    readings: u64,
}

impl Copy {
    /// Of the tables with this mark; nothing is read yet.
    pub fn new(mark: Mark) -> Copy {
        Copy { mark, known: None, readings: 0 }
    }

    /// How often the tables were read whole.
    pub fn readings(&self) -> u64 {
        self.readings
    }

    /// A transaction that made this generation touched none of our tables. Whoever follows the ruleset's changes knows,
    /// and then somebody else's transaction costs nothing.
    pub fn unaffected(&mut self, generation: u32) {
        if let Some(known) = &mut self.known
            && after(known.generation) == generation
        {
            known.generation = generation;
        }
    }

    /// As [`Objects::converge`]. Asks for the generation, and reads the tables only if it is not the expected one.
    pub fn converge(&mut self, nft: &Nft<'_>, want: &[Table]) -> Result<Changes> {
        let mut tries = 0;
        loop {
            let have = self.current(nft)?;
            let changes = diff(want, &have, &self.mark);
            match nft.apply(&changes) {
                Ok(()) => {
                    self.known = if changes.is_empty() { Some(have) } else { followed(have, &changes) };
                    return Ok(changes);
                }
                Err(Error::Stale { .. }) if tries < PATIENCE => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn current(&mut self, nft: &Nft<'_>) -> Result<Ruleset> {
        if let Some(known) = self.known.take()
            && nft.generation()? == known.generation
        {
            return Ok(known);
        }
        self.readings += 1;
        nft.observe_named(&self.mark.nft_table)
    }
}

/// What is there after our own transaction. Only elements can be followed: new rules have numbers that only the
/// kernel knows.
fn followed(mut ruleset: Ruleset, changes: &Changes) -> Option<Ruleset> {
    for step in &changes.steps {
        let (Change::DelElements { table, name, set } | Change::AddElements { table, name, set }) = step
        else {
            return None;
        };
        let there = ruleset.tables.iter_mut().find(|t| t.family == table.family && t.name == table.name)?;
        let elements = &mut there.sets.get_mut(name)?.elements;
        if matches!(step, Change::AddElements { .. }) {
            elements.extend(set.elements.clone());
        } else {
            set.elements.keys().for_each(|key| drop(elements.remove(key)));
        }
    }
    ruleset.generation = after(ruleset.generation);
    Some(ruleset)
}

/// Zero means "any" in a transaction's header, so the kernel leaves it out.
fn after(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}
