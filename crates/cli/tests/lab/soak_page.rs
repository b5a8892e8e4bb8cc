//! The page `make soak` writes.

#[path = "../soak/goals.rs"]
mod goals;
#[path = "../soak/report.rs"]
mod report;

use std::time::Duration;

use goals::{Measured, goals};
use report::{Section, Setting, put};

const NAMES: [&str; 3] = ["first", "second", "third"];

fn section<'a>(name: &'a str, lines: &'a [String], problems: &'a [String]) -> Section<'a> {
    let setting = Setting::here();
    let command = format!("make soak SCENARIOS={name}");
    Section {
        name,
        shows: "Something holds.",
        command,
        setting,
        took: Duration::from_secs(90),
        lines,
        problems,
    }
}

#[test]
fn a_scenario_that_is_run_again_replaces_its_own_section_of_the_soak_page_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("soak.md");
    let read = || std::fs::read_to_string(&page).expect("the page");
    let lines = |text: &str| vec![text.to_owned()];

    put(&page, &NAMES, &section("third", &lines("3 things"), &[])).expect("written");
    put(&page, &NAMES, &section("first", &lines("1 thing"), &[])).expect("written");
    let both = read();
    let (first, third) = (both.find("## first").expect("one"), both.find("## third").expect("other"));
    assert!(first < third, "sections come in the order of the scenarios:\n{both}");
    assert!(both.contains("1 thing") && both.contains("3 things"), "{both}");
    assert!(!both.contains("**failed**"), "{both}");

    put(&page, &NAMES, &section("first", &lines("one thing"), &lines("it broke"))).expect("written");
    let again = read();
    assert!(again.contains("**failed**") && again.contains("- it broke"), "{again}");
    assert!(again.contains("one thing") && !again.contains("1 thing"), "{again}");
    assert_eq!(
        again[again.find("## third").expect("there")..],
        both[third..],
        "the other section is as it was"
    );
}

#[test]
fn of_a_hundred_nodes_the_soak_page_says_which_goals_were_held_and_which_missed() {
    let lab = |nodes, seconds, mebibytes: u64, busy| {
        let (took, busy) = (Duration::from_secs(seconds), Duration::from_secs(busy));
        Measured { nodes, took, memory: mebibytes << 20, busy }
    };
    assert_eq!(
        goals(&lab(25, 13, 1121, 24), &lab(100, 256, 6273, 494)),
        [
            "- 100 nodes ready within 120 s: 256.0 s (MISSED)",
            "- 100 nodes in 6144 MiB: 6273 MiB (MISSED)",
            "- memory per node with 100 nodes at most 1.5 times that with 25: 1.40 times (held)",
            "- processor per node with 100 nodes at most 1.5 times that with 25: 5.15 times (MISSED)",
        ]
    );
    let all = goals(&lab(25, 13, 1121, 24), &lab(100, 60, 4500, 100));
    assert!(all.iter().all(|goal| goal.ends_with("(held)")), "{all:?}");
}
