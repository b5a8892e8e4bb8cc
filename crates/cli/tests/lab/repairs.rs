//! What is deleted or changed by hand comes back.

use std::collections::BTreeSet;

use crate::bench::PATIENCE;
use crate::tampering::{Ground, Outcome};

#[test]
fn one_thing_of_every_kind_that_is_deleted_or_changed_by_hand_comes_back_as_it_was() {
    let ground = Ground::new();
    let mut kinds = BTreeSet::new();
    let mut repaired = 0;
    for harm in ground.harms() {
        if !kinds.insert(harm.kind.clone()) {
            continue;
        }
        match ground.suffer(&harm, PATIENCE) {
            Outcome::Repaired(_) => repaired += 1,
            // A row that others must have goes with them, as their kind shows; and not every value can be written.
            Outcome::Refused(why) => {
                assert!(!harm.is_loss() || why.contains("violation"), "{}: {why}", harm.what);
            }
            Outcome::Gone => panic!("{} is not there any more: what came before took it along", harm.what),
            Outcome::Left(what) => panic!("{}: after {PATIENCE:?} {what}", harm.what),
        }
    }
    // Rows of three databases and what they say, links, addresses, routes, neighbours, tables, chains, rules, sets,
    // settings.
    assert!(repaired >= 60, "only {repaired} kinds of harm were found to do: {kinds:#?}");
}
