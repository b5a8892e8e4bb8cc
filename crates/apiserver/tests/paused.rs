//! The embedded server and kube's own machinery on one thread of virtual time.

mod support;

use std::future::Ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::Either;
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};
use netferry_apiserver::{ApiServer, Settings};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tower::Service;

use support::{config_map, in_process, name_of, opened, value_of};

const HOUR: Duration = Duration::from_secs(3600);

/// A server whose every answer depends on nothing but what it is asked.
fn repeatable(seed: u64) -> ApiServer {
    let origin = "2026-03-01T00:00:00Z".parse().expect("a time");
    opened(Settings { seed: Some(seed), origin: Some(origin), ..Settings::default() })
}

/// A transport that writes down what was asked.
#[derive(Clone)]
struct Noted {
    router: axum::Router,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Service<Request<kube::client::Body>> for Noted {
    type Response = Response<axum::body::Body>;
    type Error = std::convert::Infallible;
    type Future = Either<
        <axum::Router as Service<Request<kube::client::Body>>>::Future,
        Ready<Result<Self::Response, Self::Error>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<kube::client::Body>>::poll_ready(&mut self.router, cx)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let asked = format!("{} {}", request.method(), request.uri());
        self.requests.lock().expect("nobody panicked").push(asked);
        Either::Left(self.router.call(request))
    }
}

fn noted(server: &ApiServer) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    (Client::new(Noted { router: server.router(), requests: requests.clone() }, "default"), requests)
}

#[tokio::test(start_paused = true)]
async fn events_a_virtual_hour_apart_reach_a_watcher_in_no_time() {
    let began = std::time::Instant::now();
    let server = repeatable(1);
    let api: Api<ConfigMap> = Api::default_namespaced(in_process(&server));
    let writer = tokio::spawn({
        let api = api.clone();
        async move {
            for nth in 0..24 {
                sleep(HOUR).await;
                let map = config_map(&format!("hour-{nth}"), "");
                api.create(&PostParams::default(), &map).await.expect("a create");
            }
        }
    });
    let start = Instant::now();
    let mut seen = Vec::new();
    let mut events = watcher(api, watcher::Config::default()).applied_objects().boxed();
    while seen.len() < 24 {
        let map = events.try_next().await.expect("no error").expect("it goes on");
        seen.push((name_of(&map).to_owned(), start.elapsed().as_secs() / 3600));
    }
    writer.await.expect("the writer");
    let expected: Vec<(String, u64)> = (0..24).map(|nth| (format!("hour-{nth}"), nth + 1)).collect();
    assert_eq!(seen, expected, "each event arrives in the hour it was made");
    assert!(began.elapsed() < Duration::from_secs(20), "a virtual day took {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_watcher_asks_again_when_its_watch_ends_and_not_more_often() {
    let server = repeatable(1);
    let (client, requests) = noted(&server);
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = watcher(api, watcher::Config::default()).default_backoff().touched_objects().boxed();
    let waited = timeout(24 * HOUR, events.next()).await;
    assert!(waited.is_err(), "nothing happened, yet {waited:?}");
    let requests = requests.lock().expect("nobody panicked");
    let (watches, others): (Vec<_>, Vec<_>) = requests.iter().partition(|asked| asked.contains("watch=true"));
    // A watch lasts 290 seconds.
    let once_each = 24 * 3600 / 290;
    assert!((once_each - 1..=once_each + 2).contains(&watches.len()), "{} watches", watches.len());
    assert_eq!(others.len(), 1, "bookmarks keep the position fresh, so it lists once: {others:?}");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_once_a_minute_and_before_the_end() {
    let server = repeatable(1);
    let api: Api<ConfigMap> = Api::default_namespaced(in_process(&server));
    let other: Api<k8s_openapi::api::core::v1::Node> = Api::all(in_process(&server));
    let from = api.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
    let start = Instant::now();
    let params = WatchParams::default().timeout(200);
    let mut events = api.watch(&params, &from.expect("a revision")).await.expect("a watch").boxed();
    // Changes elsewhere: only bookmarks can tell this watch that time has passed.
    tokio::spawn(async move {
        for nth in 0.. {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{nth}")}});
            let node = serde_json::from_value(node).expect("a node");
            other.create(&PostParams::default(), &node).await.expect("a node");
            sleep(Duration::from_secs(7)).await;
        }
    });
    let mut heard = Vec::new();
    let mut revisions = Vec::new();
    while let Some(event) = events.try_next().await.expect("no error") {
        match event {
            WatchEvent::Bookmark(mark) => {
                heard.push(start.elapsed().as_secs());
                revisions.push(mark.metadata.resource_version.parse::<u64>().expect("a number"));
            }
            other @ (WatchEvent::Added(_)
            | WatchEvent::Modified(_)
            | WatchEvent::Deleted(_)
            | WatchEvent::Error(_)) => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, [60, 120, 180, 198], "at these seconds");
    assert_eq!(start.elapsed().as_secs(), 200, "the watch ends when it was asked to");
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_watch_has_its_bookmarks_and_its_end_all_the_same() {
    let server = repeatable(1);
    let api: Api<ConfigMap> = Api::default_namespaced(in_process(&server));
    let writer = api.clone();
    tokio::spawn(async move {
        for nth in 0.. {
            let name = format!("tick-{nth}");
            writer.create(&PostParams::default(), &config_map(&name, "")).await.expect("a create");
            sleep(Duration::from_millis(500)).await;
        }
    });
    let start = Instant::now();
    let mut events = api.watch(&WatchParams::default().timeout(150), "0").await.expect("a watch").boxed();
    let (mut bookmarks, mut last) = (0, 0);
    while let Some(event) = events.try_next().await.expect("no error") {
        let revision = match event {
            WatchEvent::Added(map) => map.resource_version().unwrap_or_default(),
            WatchEvent::Bookmark(mark) => {
                bookmarks += 1;
                mark.metadata.resource_version
            }
            other @ (WatchEvent::Modified(_) | WatchEvent::Deleted(_) | WatchEvent::Error(_)) => {
                panic!("{other:?}")
            }
        };
        let revision: u64 = revision.parse().expect("a number");
        // A bookmark ahead of an event it covers would lose that event for whoever resumes there.
        assert!(revision >= last, "{revision} after {last}");
        last = revision;
    }
    assert_eq!(bookmarks, 3, "after one minute, after two, and before the end");
    assert!((150..152).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reflector_whose_position_expired_lists_again_and_forgets_what_went_meanwhile() {
    let server = repeatable(1);
    let (client, requests) = noted(&server);
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["stays", "goes"] {
        api.create(&PostParams::default(), &config_map(name, "")).await.expect("a create");
    }
    let (reader, writer) = store();
    let watched = watcher(api.clone(), watcher::Config::default());
    let mut events = reflector(writer, watched).default_backoff().boxed();
    let mut until_listed =
        async || while !matches!(events.next().await, Some(Ok(watcher::Event::InitDone))) {};
    until_listed().await;
    assert_eq!(reader.len(), 2);
    // Nobody polls the reflector while this happens: its position is lost.
    api.delete("goes", &DeleteParams::default()).await.expect("a deletion");
    server.forget_history();
    api.create(&PostParams::default(), &config_map("comes", "")).await.expect("a create");
    until_listed().await;
    api.create(&PostParams::default(), &config_map("after", "")).await.expect("a create");
    while !matches!(events.next().await, Some(Ok(watcher::Event::Apply(map))) if name_of(&map) == "after") {}
    let mut names: Vec<String> = reader.state().iter().map(|map| map.name_any()).collect();
    names.sort();
    assert_eq!(names, ["after", "comes", "stays"]);
    assert!(reader.get(&ObjectRef::new("goes").within("default")).is_none());
    let requests = requests.lock().expect("nobody panicked");
    let lists = requests.iter().filter(|asked| asked.starts_with("GET") && !asked.contains("watch=true"));
    assert_eq!(lists.count(), 2, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_begins_with_everything_and_says_where_it_ends() {
    let server = repeatable(1);
    let (client, requests) = noted(&server);
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for nth in 0..40 {
        api.create(&PostParams::default(), &config_map(&format!("old-{nth:02}"), ""))
            .await
            .expect("a create");
    }
    let mut events = watcher(api.clone(), watcher::Config::default().streaming_lists()).boxed();
    let mut initial = Vec::new();
    assert!(matches!(events.try_next().await, Ok(Some(watcher::Event::Init))));
    loop {
        match events.try_next().await.expect("no error").expect("it goes on") {
            watcher::Event::InitApply(map) => initial.push(name_of(&map).to_owned()),
            watcher::Event::InitDone => break,
            other @ (watcher::Event::Init | watcher::Event::Apply(_) | watcher::Event::Delete(_)) => {
                panic!("{other:?}")
            }
        }
    }
    let expected: Vec<String> = (0..40).map(|nth| format!("old-{nth:02}")).collect();
    assert_eq!(initial, expected);
    api.create(&PostParams::default(), &config_map("new", "")).await.expect("a create");
    match events.try_next().await {
        Ok(Some(watcher::Event::Apply(map))) => assert_eq!(name_of(&map), "new"),
        other => panic!("{other:?}"),
    }
    let requests = requests.lock().expect("nobody panicked");
    assert!(requests.iter().all(|asked| !asked.starts_with("GET") || asked.contains("watch=true")));
}

/// A day in the life of a server: writers, a controller and a raw watch of everything that happens. Gives every byte
/// the watch was sent.
async fn a_day(seed: u64) -> Vec<u8> {
    let server = repeatable(seed);
    let client = in_process(&server);
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let reconciled = Arc::new(AtomicUsize::new(0));
    let controller = tokio::spawn(
        Controller::new(api.clone(), watcher::Config::default())
            .run(
                |map: Arc<ConfigMap>, context: Arc<(Api<ConfigMap>, Arc<AtomicUsize>)>| async move {
                    let (api, reconciled) = &*context;
                    if map.annotations().contains_key("seen") {
                        return Ok(Action::requeue(HOUR));
                    }
                    let nth = reconciled.fetch_add(1, Ordering::SeqCst);
                    let patch = json!({"metadata": {"annotations": {"seen": nth.to_string()}}});
                    api.patch(&map.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
                    Ok::<_, kube::Error>(Action::requeue(HOUR))
                },
                |_, _, _| Action::requeue(Duration::from_secs(1)),
                Arc::new((api.clone(), reconciled.clone())),
            )
            .for_each(|_| async {}),
    );
    let writers: Vec<_> = (1..=3_u64)
        .map(|writer| {
            let api = api.clone();
            tokio::spawn(async move {
                for nth in 0..8 {
                    sleep(Duration::from_secs(writer * 977)).await;
                    let mut map = config_map("", &format!("{writer} {nth}"));
                    map.metadata.name = None;
                    map.metadata.generate_name = Some(format!("by-{writer}-"));
                    let made = api.create(&PostParams::default(), &map).await.expect("a create");
                    if nth % 3 == 2 {
                        sleep(Duration::from_secs(60)).await;
                        api.delete(&made.name_any(), &DeleteParams::default()).await.expect("a deletion");
                    }
                }
            })
        })
        .collect();
    let request = Request::get("/api/v1/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=86400")
        .body(axum::body::Body::empty())
        .expect("a request");
    let answer = server.router().call(request).await.expect("an answer");
    let mut bytes = Vec::new();
    let mut stream = answer.into_body().into_data_stream();
    while let Some(frame) = stream.try_next().await.expect("a frame") {
        bytes.extend_from_slice(&frame);
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    controller.abort();
    assert_eq!(reconciled.load(Ordering::SeqCst), 24, "the controller saw to all of them");
    bytes
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_the_same_bytes_twice_and_another_seed_gives_others() {
    let (one, again, other) = (a_day(7).await, a_day(7).await, a_day(8).await);
    assert!(one.len() > 20_000, "{} bytes are no day", one.len());
    let difference = one.iter().zip(&again).position(|(a, b)| a != b);
    let around = |bytes: &[u8], at: usize| {
        String::from_utf8_lossy(&bytes[at.saturating_sub(200)..(at + 200).min(bytes.len())]).into_owned()
    };
    if let Some(at) = difference {
        panic!("at byte {at}:\n{}\n--- or ---\n{}", around(&one, at), around(&again, at));
    }
    assert_eq!(one.len(), again.len());
    assert_ne!(one, other, "the seed decides uids and generated names");
    let text = String::from_utf8(one).expect("text");
    let times: Vec<&str> = text.matches("2026-03-01T").collect();
    assert!(!times.is_empty(), "timestamps are the virtual clock's");
}

#[tokio::test(start_paused = true)]
async fn a_value_written_after_a_virtual_wait_carries_the_virtual_time() {
    let server = repeatable(1);
    let api: Api<ConfigMap> = Api::default_namespaced(in_process(&server));
    sleep(26 * HOUR).await;
    let made = api.create(&PostParams::default(), &config_map("late", "x")).await.expect("a create");
    assert_eq!(value_of(&made), "x");
    let stamp = made.creation_timestamp().expect("a timestamp").0.to_string();
    assert_eq!(stamp, "2026-03-02T02:00:00Z");
}
