//! Faults, armed in process and seen by a kube client exactly as armed.

#[path = "faults/converge.rs"]
mod converge;
mod support;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Error, ResourceExt};
use netferry_apiserver::faults::{Calls, Fault};
use netferry_apiserver::status::ApiError;
use netferry_apiserver::{ApiServer, Settings};
use serde_json::json;

use support::{config_map, in_process, opened, value_of};

fn calls(verb: &str, resource: &str, name: &str) -> Calls {
    Calls { verb: verb.to_owned(), resource: resource.to_owned(), name: name.to_owned(), skip: 0, times: 1 }
}

fn rig() -> (ApiServer, Api<ConfigMap>) {
    let server = opened(Settings::default());
    let api = Api::default_namespaced(in_process(&server));
    (server, api)
}

/// The code and reason a client was refused with.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

async fn stored(api: &Api<ConfigMap>, name: &str) -> Option<String> {
    api.get_opt(name).await.expect("an answer").map(|map| value_of(&map).to_owned())
}

#[tokio::test]
async fn a_refused_call_changes_nothing_and_the_next_one_passes() {
    let (server, api) = rig();
    let post = PostParams::default();
    api.create(&post, &config_map("a", "old")).await.expect("a create");
    let new = config_map("a", "new");
    let merge = json!({"data": {"value": "new"}});
    let error = || Fault::Refuse(ApiError::internal("the disk is on fire"));
    // Every verb that changes something.
    for verb in ["create", "update", "patch", "delete", "deletecollection"] {
        // A new object has no name in its request's path.
        let name = if matches!(verb, "create" | "deletecollection") { "" } else { "a" };
        server.faults().arm(calls(verb, "configmaps", name), error());
        let met = match verb {
            "create" => refused(api.create(&post, &config_map("b", "")).await),
            "update" => refused(api.replace("a", &post, &new).await),
            "patch" => refused(api.patch("a", &PatchParams::default(), &Patch::Merge(&merge)).await),
            "delete" => refused(api.delete("a", &DeleteParams::default()).await),
            _ => refused(api.delete_collection(&DeleteParams::default(), &ListParams::default()).await),
        };
        assert_eq!(met, (500, "InternalError".to_owned()), "{verb}");
        assert_eq!(stored(&api, "a").await.as_deref(), Some("old"), "{verb}");
        assert_eq!(stored(&api, "b").await, None, "{verb}");
    }
    // All are spent: nothing stands in the way any more.
    api.create(&post, &config_map("b", "")).await.expect("a create");
    api.replace("a", &post, &new).await.expect("an update");
    api.patch("a", &PatchParams::default(), &Patch::Merge(&merge)).await.expect("a patch");
    api.delete("a", &DeleteParams::default()).await.expect("a deletion");
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("a deletion of all");
}

#[tokio::test]
async fn reads_and_watches_are_refused_too() {
    let (server, api) = rig();
    api.create(&PostParams::default(), &config_map("a", "x")).await.expect("a create");
    for verb in ["get", "list", "watch"] {
        let name = if verb == "get" { "a" } else { "" };
        let code = http::StatusCode::SERVICE_UNAVAILABLE;
        let busy = ApiError { code, reason: "ServiceUnavailable", ..ApiError::internal("not now") };
        server.faults().arm(calls(verb, "configmaps", name), Fault::Refuse(busy));
        let met = match verb {
            "get" => refused(api.get("a").await),
            "list" => refused(api.list(&ListParams::default()).await),
            _ => refused(api.watch(&WatchParams::default(), "0").await.map(|_| ())),
        };
        assert_eq!(met.0, 503, "{verb}");
    }
    api.get("a").await.expect("the object");
}

#[tokio::test]
async fn a_fault_hits_the_calls_it_counts_and_no_others() {
    let (server, api) = rig();
    let post = PostParams::default();
    for name in ["a", "b"] {
        api.create(&post, &config_map(name, "0")).await.expect("a create");
    }
    let chosen = Calls { skip: 1, times: 2, ..calls("update", "configmaps", "a") };
    server.faults().arm(chosen, Fault::Conflict);
    let mut met = Vec::new();
    for nth in 0..5 {
        // Not counted: another object, another verb.
        api.replace("b", &post, &config_map("b", &nth.to_string())).await.expect("an update");
        api.get("a").await.expect("the object");
        met.push(api.replace("a", &post, &config_map("a", &nth.to_string())).await.is_ok());
    }
    assert_eq!(met, [true, false, false, true, true]);
}

#[tokio::test]
async fn a_conflict_reads_as_one_somebody_else_caused() {
    let (server, api) = rig();
    let post = PostParams::default();
    let first = api.create(&post, &config_map("a", "0")).await.expect("a create");
    server.faults().arm(calls("update", "configmaps", "a"), Fault::Conflict);
    let forged = api.replace("a", &post, &config_map("a", "1")).await;
    // The same as a conflict that is one.
    api.replace("a", &post, &config_map("a", "2")).await.expect("an update");
    let mut stale = config_map("a", "3");
    stale.metadata.resource_version = first.metadata.resource_version;
    let true_one = api.replace("a", &post, &stale).await;
    match (forged, true_one) {
        (Err(Error::Api(forged)), Err(Error::Api(true_one))) => {
            assert_eq!(serde_json::json!(forged), serde_json::json!(true_one));
            assert_eq!((forged.code, forged.reason.as_str()), (409, "Conflict"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stored(&api, "a").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_lost_answer_hides_a_write_that_happened() {
    let (server, api) = rig();
    let post = PostParams::default();
    let lost = || Fault::LoseAnswer(ApiError::internal("connection reset"));
    server.faults().arm(calls("create", "configmaps", ""), lost());
    assert_eq!(refused(api.create(&post, &config_map("a", "1")).await).0, 500);
    assert_eq!(stored(&api, "a").await.as_deref(), Some("1"), "it was created all the same");
    assert_eq!(refused(api.create(&post, &config_map("a", "1")).await).1, "AlreadyExists");
    server.faults().arm(calls("delete", "configmaps", "a"), lost());
    assert_eq!(refused(api.delete("a", &DeleteParams::default()).await).0, 500);
    assert_eq!(stored(&api, "a").await, None, "it was deleted all the same");
}

#[tokio::test]
async fn a_stale_read_shows_the_past_and_only_to_whom_it_was_meant() {
    let (server, api) = rig();
    let post = PostParams::default();
    api.create(&post, &config_map("a", "old")).await.expect("a create");
    let past = server.revision();
    api.replace("a", &post, &config_map("a", "new")).await.expect("an update");
    api.create(&post, &config_map("b", "later")).await.expect("a create");

    let id = server.faults().arm(Calls { times: 0, ..calls("get", "configmaps", "") }, Fault::Stale(past));
    let shown = api.get("a").await.expect("the object");
    assert_eq!((value_of(&shown), shown.resource_version()), ("old", Some(past.to_string())));
    assert_eq!(stored(&api, "b").await, None, "it did not exist then");
    assert_eq!(api.list(&ListParams::default()).await.expect("a list").items.len(), 2, "lists are current");
    // Who writes from what he read there is told.
    let mut from_the_past = config_map("a", "newest");
    from_the_past.metadata.resource_version = shown.resource_version();
    assert_eq!(refused(api.replace("a", &post, &from_the_past).await).0, 409);
    server.faults().disarm(id);
    assert_eq!(stored(&api, "a").await.as_deref(), Some("new"));

    server.faults().arm(calls("list", "configmaps", ""), Fault::Stale(past));
    let list = api.list(&ListParams::default()).await.expect("a list");
    assert_eq!(list.metadata.resource_version, Some(past.to_string()));
    let values: Vec<&str> = list.items.iter().map(value_of).collect();
    assert_eq!(values, ["old"]);
    // A watch from a stale list catches up.
    let mut events = api.watch(&WatchParams::default(), &past.to_string()).await.expect("a watch").boxed();
    for expected in ["new", "later"] {
        match events.try_next().await.expect("no error") {
            Some(WatchEvent::Modified(map) | WatchEvent::Added(map)) => assert_eq!(value_of(&map), expected),
            other => panic!("{other:?}"),
        }
    }
}

/// Opens a watch, makes the changes `1` to `last` of one object, and gives the values the watch told of, until its end
/// or the last of them.
async fn told(api: &Api<ConfigMap>, last: usize) -> Vec<usize> {
    let post = PostParams::default();
    let from = api.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
    let from = from.expect("a revision");
    let mut events = api.watch(&WatchParams::default(), &from).await.expect("a watch").boxed();
    for nth in 1..=last {
        api.replace("a", &post, &config_map("a", &nth.to_string())).await.expect("an update");
    }
    let mut values = Vec::new();
    while values.last() != Some(&last) {
        match events.try_next().await.expect("no error") {
            Some(WatchEvent::Modified(map)) => values.push(value_of(&map).parse().expect("a number")),
            None => break,
            other => panic!("{other:?}"),
        }
    }
    values
}

#[tokio::test]
async fn events_are_dropped_repeated_and_cut_off_as_armed() {
    let table: [(&str, Fault, u32, u32, &[usize]); 6] = [
        ("dropped", Fault::DropEvent, 1, 2, &[1, 4, 5]),
        ("repeated", Fault::RepeatEvent, 1, 1, &[1, 2, 2, 3, 4, 5]),
        ("cut after the first", Fault::CutWatch, 0, 1, &[1]),
        ("cut after the third", Fault::CutWatch, 2, 1, &[1, 2, 3]),
        ("meant for something else", Fault::Conflict, 0, 0, &[1, 2, 3, 4, 5]),
        ("never reached", Fault::DropEvent, 9, 1, &[1, 2, 3, 4, 5]),
    ];
    for (what, fault, skip, times, expected) in table {
        let (server, api) = rig();
        api.create(&PostParams::default(), &config_map("a", "0")).await.expect("a create");
        let verb = if fault == Fault::Conflict { "delete" } else { "watch" };
        let id = server.faults().arm(Calls { skip, times, ..calls(verb, "configmaps", "a") }, fault);
        assert_eq!(told(&api, 5).await, expected, "{what}");
        server.faults().disarm(id);
        assert_eq!(told(&api, 5).await, [1, 2, 3, 4, 5], "{what}, disarmed");
    }
}

#[tokio::test]
async fn a_fault_for_one_object_leaves_the_events_of_others_alone() {
    let (server, api) = rig();
    for name in ["a", "b"] {
        server.faults().arm(calls("watch", "configmaps", name), Fault::DropEvent);
    }
    let from = server.revision().to_string();
    let mut events =
        api.watch(&WatchParams::default().labels("mine=yes"), &from).await.expect("a watch").boxed();
    let mine = |name: &str| {
        let mut map = config_map(name, "");
        map.metadata.labels = Some([("mine".to_owned(), "yes".to_owned())].into());
        map
    };
    // Not selected, so no event that could be dropped.
    api.create(&PostParams::default(), &config_map("a", "")).await.expect("a create");
    for name in ["b", "c", "d"] {
        api.create(&PostParams::default(), &mine(name)).await.expect("a create");
    }
    api.replace("a", &PostParams::default(), &mine("a")).await.expect("an update");
    api.create(&PostParams::default(), &mine("e")).await.expect("a create");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "e") {
        match events.try_next().await.expect("no error") {
            Some(WatchEvent::Added(map)) => seen.push(map.name_any()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_told_so_in_its_first_event() {
    let (server, api) = rig();
    api.create(&PostParams::default(), &config_map("a", "")).await.expect("a create");
    let from = server.revision().to_string();
    server.faults().arm(Calls { skip: 1, ..calls("watch", "configmaps", "") }, Fault::ExpireWatch);
    let mut met = Vec::new();
    for _ in 0..3 {
        let params = WatchParams::default().timeout(1);
        let mut events = api.watch(&params, &from).await.expect("a watch").boxed();
        met.push(match events.try_next().await.expect("no error") {
            Some(WatchEvent::Error(status)) => Some(status.code),
            // Bookmarks, then the end it was opened with.
            _ => None,
        });
    }
    assert_eq!(met, [None, Some(410), None]);
}

#[tokio::test]
async fn a_part_of_a_resource_is_chosen_apart_from_the_whole() {
    let server = opened(Settings::default());
    let api: Api<Node> = Api::all(in_process(&server));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    api.create(&PostParams::default(), &serde_json::from_value(node).expect("a node")).await.expect("a node");
    let spec = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let params = PatchParams::default();
    server.faults().arm(calls("patch", "nodes/status", "n"), Fault::Conflict);
    api.patch("n", &params, &spec).await.expect("the whole is not meant");
    assert_eq!(refused(api.patch_status("n", &params, &status).await).0, 409);
    api.patch_status("n", &params, &status).await.expect("spent");
    server.faults().arm(calls("patch", "nodes", "n"), Fault::Conflict);
    api.patch_status("n", &params, &status).await.expect("the part is not meant");
    assert_eq!(refused(api.patch("n", &params, &spec).await).0, 409);
}

#[tokio::test]
async fn clearing_takes_back_everything_that_is_armed() {
    let (server, api) = rig();
    for verb in ["create", "get", "list", "watch"] {
        server.faults().arm(Calls { times: 0, ..calls(verb, "", "") }, Fault::Conflict);
    }
    assert_eq!(refused(api.list(&ListParams::default()).await).0, 409);
    server.faults().clear();
    api.create(&PostParams::default(), &config_map("a", "")).await.expect("a create");
    api.list(&ListParams::default()).await.expect("a list");
}

#[tokio::test(start_paused = true)]
async fn a_controller_converges_in_spite_of_everything() {
    for seed in 0..8 {
        converge::in_spite_of_a_schedule_drawn_from(seed).await;
    }
}
