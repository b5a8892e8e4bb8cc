//! What all Services hold, kept as they change: read anew for each write, ten thousand of them take ten minutes to make.

use crate::builtin::Allocated;
use crate::store::{Change, Table};

/// The addresses and ports that Services hold.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    all: Allocated,
    /// The last revision whose changes are in it; without one, none were read yet.
    until: Option<u64>,
}

impl Holdings {
    /// What is held now, in a store at `revision`.
    pub(crate) fn of(&mut self, services: &Table, revision: u64) -> &Allocated {
        let changes = self.until.replace(revision).and_then(|until| services.resume(until).ok());
        let Some(changes) = changes else {
            let all: Vec<_> = services.all().map(|stored| stored.object()).collect();
            self.all = Allocated::of(&all);
            return &self.all;
        };
        for event in changes {
            if let Some(before) = &event.before {
                self.all.give_back(&before.object());
            }
            if event.change != Change::Deleted {
                self.all.take(&event.object.object());
            }
        }
        &self.all
    }
}
