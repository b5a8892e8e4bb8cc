//! What is deleted by hand comes back.

use std::collections::BTreeSet;

use crate::bench::PATIENCE;
use crate::tampering::{Ground, Harm, Outcome};

#[test]
fn one_thing_of_every_kind_that_is_deleted_by_hand_comes_back_as_it_was() {
    let ground = Ground::new();
    let mut kinds = BTreeSet::new();
    let mut repaired = 0;
    for harm in ground.harms().into_iter().filter(Harm::is_loss) {
        if !kinds.insert(harm.kind.clone()) {
            continue;
        }
        match ground.suffer(&harm, PATIENCE) {
            Outcome::Repaired(_) => repaired += 1,
            // A row that others must have goes with them, as their kind shows.
            Outcome::Refused(why) => assert!(why.contains("violation"), "{}: {why}", harm.what),
            Outcome::Gone => panic!("{} is not there any more: what came before took it along", harm.what),
            Outcome::Left(what) => panic!("{}: after {PATIENCE:?} {what}", harm.what),
        }
    }
    // Rows of three databases, addresses, routes, neighbours, tables, chains, rules, sets, settings.
    assert!(repaired >= 30, "only {repaired} kinds of things were found to delete: {kinds:#?}");
}
