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
