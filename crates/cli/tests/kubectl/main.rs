//! An ordinary kubectl cannot tell `netferry apiserver` from a real one.
//!
//! `stories/*.txt` are what one types. Each is told to both servers; what kubectl prints, to both outputs, and how it
//! ends must be the same (but for ages, uids and the like). `objects/*.yaml` hold one object of every kind.

#[path = "../common/mod.rs"]
mod common;
mod kinds;
mod normal;
mod servers;
mod story;
mod watches;

use story::tell;

#[test]
fn every_kind_takes_the_everyday_commands_as_on_a_real_server() {
    tell("everyday", servers::Kubectl::Pinned);
}

#[test]
fn an_older_kubectl_is_answered_as_by_a_real_server() {
    tell("everyday", servers::Kubectl::OfTheMachine);
}

#[test]
fn the_commands_of_the_migration_document_work_as_printed() {
    tell("migration", servers::Kubectl::Pinned);
}

#[test]
fn a_drain_asks_budgets_and_leaves_daemons() {
    tell("drain", servers::Kubectl::Pinned);
}

#[test]
fn conditions_can_be_waited_for_on_every_kind_that_has_them() {
    tell("conditions", servers::Kubectl::Pinned);
}

#[test]
fn patches_and_applies_touch_what_they_own() {
    tell("owners", servers::Kubectl::Pinned);
}

#[test]
fn mistakes_are_told_in_the_same_words() {
    tell("mistakes", servers::Kubectl::Pinned);
}

#[test]
fn objects_made_without_a_manifest_are_the_same() {
    tell("making", servers::Kubectl::Pinned);
}

#[test]
fn every_kind_can_be_explained() {
    tell("explain", servers::Kubectl::Pinned);
}
