use std::sync::atomic::{AtomicU32, Ordering};

use kube::client::Body;
use serde_json::json;

use super::*;

/// An API that says this many times that it is busy, and then does as it is asked.
fn busy(times: u32, asked: &Arc<AtomicU32>) -> kube::Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let now = asked.fetch_add(1, Ordering::SeqCst);
        async move {
            let code = [429, 503, 504][now as usize % 3];
            let (code, body) = match now < times {
                true => {
                    (code, json!({ "kind": "Status", "status": "Failure", "code": code, "message": "busy" }))
                }
                false => (200, json!({ "metadata": { "name": "web" } })),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, std::io::Error>(http::Response::builder().status(code).body(body).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

async fn annotated(times: u32) -> (Result<(), NotAnnotated>, u32) {
    let asked = Arc::new(AtomicU32::new(0));
    let (pods, _follow) = ApiPods::new(busy(times, &asked), &NodeName::new("n1").unwrap());
    let pod =
        serde_json::from_value(json!({ "metadata": { "name": "web", "namespace": "shop", "uid": "u" } }));
    let done = pods.annotate(&pod.unwrap(), &PodNetworks::default()).await;
    (done, asked.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_attached_though_the_api_is_busy_for_a_moment_and_not_for_ever() {
    let (done, asked) = annotated(3).await;
    done.unwrap();
    assert_eq!(asked, 4);
    let (done, asked) = annotated(u32::MAX).await;
    assert!(!done.unwrap_err().gone, "the pod is there");
    assert!(asked > 3, "asked {asked} times");
}

fn pod(name: &str, annotation: Option<&PodNetworks>, phase: &str) -> Pod {
    let annotations: BTreeMap<String, String> =
        annotation.map(|networks| networks.entry()).into_iter().collect();
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "annotations": annotations },
        "status": { "phase": phase },
    });
    serde_json::from_value(pod).unwrap()
}

fn networks(address: &str) -> PodNetworks {
    let text = json!({ "default": { "ip_addresses": [format!("{address}/24")], "mac_address": "0a:58:0a:f4:01:05" } });
    PodNetworks::read(&[(PodNetworks::KEY.to_owned(), text.to_string())].into()).unwrap().unwrap()
}

#[tokio::test]
async fn an_address_that_was_written_is_free_again_when_its_pod_has_ended_or_is_gone() {
    let (pods, _follow) = ApiPods::new(busy(0, &Arc::default()), &NodeName::new("n1").unwrap());
    let mut listing = Listing::default();
    let mut take = |events: Vec<watcher::Event<Pod>>| {
        events.into_iter().for_each(|event| pods.take(event, &mut listing));
    };
    take(vec![watcher::Event::Init, watcher::Event::InitDone]);
    for (name, address) in [("job", "10.244.1.5"), ("lost", "10.244.1.6"), ("late", "10.244.1.7")] {
        take(vec![watcher::Event::Apply(pod(name, None, "Pending"))]);
        pods.annotate(&pod(name, None, "Pending"), &networks(address)).await.unwrap();
    }
    let taken = async || pods.addresses("").await.iter().map(IpAddr::to_string).collect::<Vec<_>>();
    assert_eq!(taken().await, ["10.244.1.5", "10.244.1.6", "10.244.1.7"]);

    take(vec![watcher::Event::Apply(pod("job", Some(&networks("10.244.1.5")), "Running"))]);
    assert_eq!(taken().await, ["10.244.1.5", "10.244.1.6", "10.244.1.7"]);
    take(vec![watcher::Event::Apply(pod("job", Some(&networks("10.244.1.5")), "Succeeded"))]);
    assert_eq!(taken().await, ["10.244.1.6", "10.244.1.7"]);

    // The watch broke, and one of them was deleted meanwhile. The other was annotated after it was listed.
    take(vec![watcher::Event::Init, watcher::Event::InitApply(pod("late", None, "Pending"))]);
    pods.annotate(&pod("new", None, "Pending"), &networks("10.244.1.8")).await.unwrap();
    take(vec![watcher::Event::InitDone]);
    assert_eq!(taken().await, ["10.244.1.7", "10.244.1.8"]);
}
