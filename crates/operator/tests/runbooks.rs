//! Whoever reads a condition or an Event finds in the guide what it means and what to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::overlay::annotations::MTU_TOO_SMALL_TAINT;
use netferry_api::overlay::conditions::{DegradedReason, OperatorConditionType};
use netferry_api::rollout::annotations::UPDATE_IN_PROGRESS_TAINT;
use netferry_api::rollout::conditions::{PoolConditionType, RolloutEvent};
use netferry_core::mtu::plan::Why;

/// Where conditions and Events are worded.
const SOURCES: [&str; 7] = [
    "core/src/mtu/status.rs",
    "core/src/mtu/check/refusal.rs",
    "core/src/rollout/status.rs",
    "operator/src/mtu",
    "operator/src/report",
    "operator/src/rollout",
    "agent/src/mtu/fit.rs",
];

/// Words there that are kinds, values, or what was being done.
const NOT_TOLD: [&str; 14] = [
    "ChangeMTU",
    "DrainNode",
    "False",
    "MachineConfig",
    "MachineConfigPool",
    "Network",
    "Node",
    "ReadNode",
    "ReadPool",
    "Report",
    "SelectConfigs",
    "SelectNodes",
    "TellNode",
    "True",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn guide() -> String {
    let pages = ["machine", "mtu", "operator", "rollout"];
    let read = |page| fs::read_to_string(crates().join(format!("../docs/guide/{page}.md"))).expect("a page");
    pages.map(read).concat()
}

/// The text of a file, or of all in a directory, without tests.
fn source(path: &Path) -> String {
    let tested = |text: String| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    if path.is_file() {
        return tested(fs::read_to_string(path).expect("a source"));
    }
    let files = fs::read_dir(path).expect("a directory").map(|file| file.expect("an entry").path());
    files.map(|file| source(&file)).collect()
}

/// The literals of a text that are a word such as reasons are.
fn words(text: &str) -> BTreeSet<String> {
    let is_word = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.contains(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_alphabetic())
    };
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>();
    code.join("\n").split('"').filter(is_word).map(str::to_owned).collect()
}

#[test]
fn everything_that_is_told_in_one_word_has_an_entry_in_the_guide() {
    let mut told: BTreeSet<String> =
        SOURCES.iter().flat_map(|at| words(&source(&crates().join(at)))).collect();
    told.retain(|word| !NOT_TOLD.contains(&word.as_str()));
    assert!(told.contains("AwaitingFinish") && told.contains("PoolUnusable"), "{told:?}");
    told.extend(OperatorConditionType::ALL.iter().map(ToString::to_string));
    told.extend(MtuConditionType::ALL.iter().map(ToString::to_string));
    told.extend(PoolConditionType::ALL.iter().map(ToString::to_string));
    // Nobody sends these yet.
    let later = [RolloutEvent::ConfigDriftDetected, RolloutEvent::Reboot, RolloutEvent::NodeDone];
    told.extend(RolloutEvent::ALL.iter().filter(|one| !later.contains(one)).map(ToString::to_string));
    let later = [DegradedReason::MtuProbeFailed, DegradedReason::NetworkTypeMigrationFailed];
    told.extend(DegradedReason::ALL.iter().filter(|one| !later.contains(one)).map(ToString::to_string));
    told.extend([MTU_TOO_SMALL_TAINT, UPDATE_IN_PROGRESS_TAINT].map(str::to_owned));
    let guide = guide();
    let missing: Vec<&String> = told.iter().filter(|word| !guide.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "not in the guide: {missing:?}");
}

#[test]
fn whyever_a_node_is_missing_the_guide_says_what_to_do() {
    let guide = guide();
    for why in [Why::NoPool, Why::Silent, Why::NotDone, Why::Behind, Why::NoPods] {
        assert!(guide.contains(&format!("`{why}`")), "{why}");
    }
    for why in ["`runs pods at N`", "`runs its uplink at N`"] {
        assert!(guide.contains(why), "{why}");
    }
}
