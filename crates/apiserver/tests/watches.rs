//! Hundreds of watches on one TLS listener, one of whose clients stops reading.

#[path = "watches/stalled.rs"]
mod stalled;
mod support;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, future};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use netferry_apiserver::Settings;
use tokio::time::timeout;

use support::{Served, config_map, value_of};

/// How long a stage may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Follows a watch until the object named `last` is added; gives what it saw, as `change name value`.
async fn follow(api: Api<ConfigMap>, from: String, last: &'static str) -> Vec<String> {
    let mut events = api.watch(&WatchParams::default(), &from).await.expect("a watch").boxed();
    let mut seen = Vec::new();
    loop {
        let event = events.try_next().await.expect("an event").expect("the watch goes on");
        let (change, map) = match event {
            WatchEvent::Added(map) => ("added", map),
            WatchEvent::Modified(map) => ("modified", map),
            WatchEvent::Deleted(map) => ("deleted", map),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        let name = support::name_of(&map).to_owned();
        seen.push(format!("{change} {name} {}", value_of(&map)));
        if name == last {
            return seen;
        }
    }
}

/// Creates, changes and deletes objects; gives what a watch should tell.
async fn write_story(api: &Api<ConfigMap>, rounds: usize) -> Vec<String> {
    let mut told = Vec::new();
    for round in 0..rounds {
        let name = format!("story-{}", round % 5);
        let value = format!("{round}");
        let change = match round / 5 {
            0 => {
                api.create(&PostParams::default(), &config_map(&name, &value)).await.expect("a create");
                format!("added {name} {value}")
            }
            chapter if chapter + 1 < rounds / 5 => {
                api.replace(&name, &PostParams::default(), &config_map(&name, &value))
                    .await
                    .expect("an update");
                format!("modified {name} {value}")
            }
            _ => {
                let before = api.get(&name).await.expect("the object");
                api.delete(&name, &kube::api::DeleteParams::default()).await.expect("a deletion");
                format!("deleted {name} {}", value_of(&before))
            }
        };
        told.push(change);
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_watches_on_one_listener_see_every_event_once_and_in_order() {
    let served = Served::start(Settings::default()).await;
    let client = served.client().await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let from = api.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
    let from = from.expect("a revision");

    // Half of them are there before the first change, the others come while changes are being made and start from
    // the same past: to each of them the story must read the same.
    let watch = |_| tokio::spawn(follow(api.clone(), from.clone(), "the-end"));
    let early: Vec<_> = (0..250).map(watch).collect();
    let story = write_story(&api, 20).await;
    let late: Vec<_> = (0..250).map(watch).collect();
    let mut story = [story, write_story(&api, 20).await].concat();
    api.create(&PostParams::default(), &config_map("the-end", "")).await.expect("a create");
    story.push("added the-end ".to_owned());

    let all = timeout(PATIENCE, future::join_all(early.into_iter().chain(late))).await.expect("in time");
    assert_eq!(all.len(), 500);
    for seen in all {
        assert_eq!(seen.expect("no watch panicked"), story);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_stops_reading_delays_nobody_and_is_ended() {
    let patience = Duration::from_secs(3);
    let served = Arc::new(Served::start(Settings { stalled_after: patience, ..Settings::default() }).await);
    for protocol in [stalled::Protocol::Http1, stalled::Protocol::Http2] {
        stalled::a_stalled_client_delays_nobody_and_is_ended(&served, protocol, PATIENCE).await;
    }
}

#[tokio::test]
async fn a_watch_that_falls_behind_the_history_is_told_so() {
    let server = support::opened(Settings::default());
    let api: Api<ConfigMap> = Api::default_namespaced(support::in_process(&server));
    let mut events = api.watch(&WatchParams::default(), "0").await.expect("a watch").boxed();
    let total = netferry_apiserver::store::HISTORY + 100;
    for nth in 0..total {
        let map = config_map("busy", &nth.to_string());
        match nth {
            0 => api.create(&PostParams::default(), &map).await,
            _ => api.replace("busy", &PostParams::default(), &map).await,
        }
        .expect("a write");
    }
    let mut seen = 0;
    let expired = loop {
        match events.try_next().await.expect("an event").expect("told before it ends") {
            WatchEvent::Error(status) => break status,
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => seen += 1,
        }
    };
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"), "{expired:?}");
    assert!(seen < 100, "{seen} changes had been made ready for a client that was not reading");
    assert!(events.try_next().await.expect("an end").is_none(), "the watch ends after the refusal");
}
