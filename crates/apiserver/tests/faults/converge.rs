//! A controller that mirrors ConfigMaps, under faults drawn by lot.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use netferry_apiserver::faults::{Calls, Fault};
use netferry_apiserver::status::ApiError;
use netferry_apiserver::{ApiServer, Settings};
use serde_json::json;
use tokio::time::sleep;

use super::support::{config_map, in_process, opened, value_of};

const SOURCES: usize = 12;
const ROUNDS: u64 = 60;

/// A small generator: what matters is that a seed that fails can be run again.
struct Lots(u64);

impl Lots {
    fn draw(&mut self, below: u64) -> u64 {
        // Constants of a 64-bit linear congruential generator; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn arm_something(server: &ApiServer, lots: &mut Lots) {
    let revision = server.revision();
    let broken = ApiError::internal("drawn by lot");
    let (verb, fault) = match lots.draw(10) {
        0 => ("patch", Fault::Refuse(broken)),
        1 => ("patch", Fault::Conflict),
        2 => ("patch", Fault::LoseAnswer(broken)),
        3 => ("watch", Fault::RepeatEvent),
        4 => ("watch", Fault::CutWatch),
        5 => ("list", Fault::Stale(revision.saturating_sub(lots.draw(20)))),
        6 => ("list", Fault::Refuse(broken)),
        7 => ("watch", Fault::DropEvent),
        8 => ("watch", Fault::ExpireWatch),
        _ => ("watch", Fault::Refuse(broken)),
    };
    let (skip, times) = (lots.draw(3) as u32, 1 + lots.draw(3) as u32);
    let calls =
        Calls { verb: verb.to_owned(), resource: "configmaps".to_owned(), skip, times, ..Calls::default() };
    server.faults().arm(calls, fault);
}

async fn mirror(source: Arc<ConfigMap>, api: Arc<Api<ConfigMap>>) -> Result<Action, kube::Error> {
    if source.labels().get("role").is_none_or(|role| role != "source") {
        return Ok(Action::await_change());
    }
    let copy = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("copy-{}", source.name_any()), "labels": {"role": "copy"},
            "ownerReferences": [source.controller_owner_ref(&()).expect("a stored object has a uid")],
        },
        "data": {"value": value_of(&source)},
    });
    let name = format!("copy-{}", source.name_any());
    api.patch(&name, &PatchParams::apply("mirror").force(), &Patch::Apply(&copy)).await?;
    Ok(Action::requeue(Duration::from_secs(600)))
}

fn source(nth: usize, value: u64) -> ConfigMap {
    let mut map = config_map(&format!("s{nth}"), &value.to_string());
    map.metadata.labels = Some([("role".to_owned(), "source".to_owned())].into());
    map
}

/// Values by name, of the objects with this role.
async fn values(api: &Api<ConfigMap>, role: &str) -> Vec<(String, String)> {
    let list = api.list(&ListParams::default().labels(&format!("role={role}"))).await.expect("a list");
    list.items.iter().map(|map| (map.name_any(), value_of(map).to_owned())).collect()
}

pub(crate) async fn in_spite_of_a_schedule_drawn_from(seed: u64) {
    let origin = "2026-03-01T00:00:00Z".parse().expect("a time");
    let server = opened(Settings { seed: Some(seed), origin: Some(origin), ..Settings::default() });
    // The world outside creates, replaces and deletes; the controller applies, lists and watches. Faults are aimed at
    // the latter.
    let api: Api<ConfigMap> = Api::default_namespaced(in_process(&server));
    // A controller that believes in an owner that is gone writes a copy that is collected at once, hears of it and
    // writes it again. Collection takes no time here, so the controller must.
    let config = kube::runtime::controller::Config::default().debounce(Duration::from_secs(1));
    let controller = tokio::spawn(
        Controller::new(api.clone(), watcher::Config::default().labels("role=source"))
            .owns(api.clone(), watcher::Config::default().labels("role=copy"))
            .with_config(config)
            .run(mirror, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(api.clone()))
            .for_each(|_| async {}),
    );
    let mut lots = Lots(seed);
    for nth in 0..SOURCES {
        api.create(&PostParams::default(), &source(nth, 0)).await.expect("a create");
    }
    for round in 0..ROUNDS {
        arm_something(&server, &mut lots);
        let chosen = lots.draw(SOURCES as u64) as usize;
        let name = format!("s{chosen}");
        match lots.draw(6) {
            0 => {
                // It may be gone from the round before.
                let _ = api.delete(&name, &DeleteParams::default()).await;
            }
            1 => {
                let _ = api.delete(&format!("copy-{name}"), &DeleteParams::default()).await;
            }
            _ => {
                if api.replace(&name, &PostParams::default(), &source(chosen, round)).await.is_err() {
                    api.create(&PostParams::default(), &source(chosen, round)).await.expect("a create");
                }
            }
        }
        sleep(Duration::from_millis(lots.draw(4000))).await;
    }
    server.faults().clear();
    // No watch can know of an event that was dropped; a list does. Expired positions make every client list again.
    let watches =
        Calls { verb: "watch".to_owned(), resource: "configmaps".to_owned(), times: 6, ..Calls::default() };
    server.faults().arm(watches, Fault::ExpireWatch);
    // Long enough for every watch to end, every retry and a resync, in virtual time.
    sleep(Duration::from_secs(3600)).await;
    let expected: Vec<(String, String)> = values(&api, "source")
        .await
        .into_iter()
        .map(|(name, value)| (format!("copy-{name}"), value))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(values(&api, "copy").await, expected, "seed {seed}");
    controller.abort();
}
