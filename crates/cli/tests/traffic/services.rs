//! Services, feature by feature.

use std::time::Duration;

use netferry_lab::service_table::{raise, scenarios};

use crate::world::{PATIENCE, lab, on_runtime, turn};

/// From a change in the API to every node's datapath, on a machine that does other things too.
const IN_FORCE: Duration = Duration::from_secs(120);
/// Two processors have enough to do with so many.
const AT_ONCE: usize = 4;

#[test]
fn services_are_answered_from_everywhere_by_whom_they_should_be_and_no_request_is_lost() {
    let _turn = turn();
    let scenarios = scenarios().unwrap();
    let told = on_runtime(async {
        let table =
            raise(lab(), "services", PATIENCE).await.unwrap_or_else(|error| panic!("{}", error.chain()));
        let told = table.run_all(&scenarios, AT_ONCE, IN_FORCE).await;
        table.lower().await.unwrap_or_else(|error| panic!("{}", error.chain()));
        told
    });
    assert_eq!(told.len(), scenarios.len(), "a cluster of both families can show all of them");
    let wrong: Vec<String> =
        told.iter().filter_map(|(_, result)| Some(result.as_ref().err()?.to_string())).collect();
    assert!(wrong.is_empty(), "{} of {} scenarios:\n{}", wrong.len(), told.len(), wrong.join("\n"));
    let requests: u64 = told.iter().filter_map(|(_, result)| Some(result.as_ref().ok()?.requests)).sum();
    assert!(requests > 100, "only {requests} requests were made while backends came and went");
}
