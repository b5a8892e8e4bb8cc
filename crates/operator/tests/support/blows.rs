//! What ends on a machine, at one of the steps that machines make.

use std::collections::BTreeMap;

/// What can end on a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    /// The agent: what it was about to write may have arrived or not, and what it had in mind is gone. Pods go on.
    Agent,
    /// `host-init`, between two things it does at boot. It is run again.
    HostInit,
    /// Everything but the disk.
    Power,
}

/// How often agents and boots came to a point at which they could end, and at which of them one does.
#[derive(Default)]
pub(crate) struct Steps {
    made: BTreeMap<Part, usize>,
    ends: Option<(Part, usize)>,
}

impl Steps {
    /// Counts from nothing; at this step this part ends.
    pub(crate) fn ending(ends: Option<(Part, usize)>) -> Steps {
        Steps { made: BTreeMap::new(), ends }
    }

    /// This part of some machine ends so many steps from now.
    pub(crate) fn end_after(&mut self, part: Part, steps: usize) {
        self.ends = Some((part, self.made(part) + steps));
    }

    /// How many there were so far at which this part could have ended.
    pub(crate) fn made(&self, part: Part) -> usize {
        self.made.get(&part).copied().unwrap_or_default()
    }

    /// Whether what was to end has.
    pub(crate) fn over(&self) -> bool {
        self.ends.is_none()
    }

    /// One more step at which either of these could end; the one that does.
    pub(crate) fn make(&mut self, parts: [Part; 2]) -> Option<Part> {
        let mut hit = None;
        for part in parts {
            let count = self.made.entry(part).or_default();
            if self.ends == Some((part, *count)) {
                hit = Some(part);
            }
            *count += 1;
        }
        if hit.is_some() {
            self.ends = None;
        }
        hit
    }
}
