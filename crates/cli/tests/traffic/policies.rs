//! NetworkPolicy, cell by cell.

use std::path::Path;
use std::time::Duration;

use netferry_lab::policy_table::live::{LiveError, Table};
use netferry_lab::policy_table::{Door, FROM_OUTSIDE, Scenario, gather, raise, scenarios};

use crate::world::{PATIENCE, lab, on_runtime, turn};

/// From a policy in the API to every node's datapath, on a machine that does other things too.
const IN_FORCE: Duration = Duration::from_secs(90);

/// Of each thing a policy can say, one scenario; `make soak` sees to the others.
const CHOSEN: [&str; 10] = [
    "a policy that selects all pods and allows nothing isolates a whole namespace",
    "answers to what was let in are not asked again whether they may leave",
    "both selectors in one peer must fit",
    "expressions on namespaces and pods are joined by and",
    "a port is opened by the name the pod gives it",
    "a range opens nothing below it",
    "pods may reach what others call by a name",
    "a connection needs the leave of both sides",
    "a range is let in but for an exception",
    "a namespace is let in when it gets the label and kept out when it loses it",
];

#[test]
fn policies_open_and_close_every_cell_of_the_table_and_what_comes_from_outside() {
    let _turn = turn();
    let all = scenarios().unwrap();
    let scenario = |title: &str| {
        all.iter().find(|scenario| scenario.title == title).unwrap_or_else(|| panic!("no scenario {title:?}"))
    };
    on_runtime(async {
        let raised = raise(lab(), "policy-", PATIENCE).await;
        let table = raised.unwrap_or_else(|error| panic!("{}", error.chain()));
        for title in CHOSEN {
            run(&table, scenario(title)).await;
        }
        let doors = table.doors(lab()).await.unwrap_or_else(|error| panic!("{}", error.chain()));
        for (local, v6, seen) in (0..8).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0)) {
            let is = |door: &Door| (door.local, door.at.is_ipv6(), door.seen) == (local, v6, seen);
            assert!(doors.all.iter().any(is));
        }
        for (title, open) in FROM_OUTSIDE {
            run(&table, scenario(title)).await;
            let wrong = doors.until(open, IN_FORCE).await.unwrap_or_else(|error| panic!("{}", error.chain()));
            let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            assert!(
                wrong.is_empty(),
                "{title:?}, asked from outside, these are not as they should be: {wrong:#?}"
            );
        }
    });
}

/// Runs a scenario; what the nodes knew when it went wrong is kept.
async fn run(table: &Table, scenario: &Scenario) {
    let Err(error) = table.run(scenario, IN_FORCE).await else { return };
    let LiveError::Wrong { .. } = &error else { panic!("{error:?}") };
    let into = format!("policies-{}", std::process::id());
    let kept = gather(lab(), &Path::new(env!("CARGO_TARGET_TMPDIR")).join(into)).unwrap();
    panic!("{error}\nwhat the nodes knew is in {}", kept.display());
}
