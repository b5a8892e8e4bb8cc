//! A kube controller over five thousand objects, the same code on the embedded server and on the real one.

#[path = "controller/crew.rs"]
mod crew;
mod support;

use netferry_apiserver::Settings;
use netferry_testkit::RealControlPlane;

/// How many objects the controller looks after.
const MANY: usize = 5000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_over_5000_objects_works_in_process() {
    let server = support::opened(Settings::default());
    crew::put_to_work(support::in_process(&server), MANY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_over_5000_objects_works_over_tls() {
    let served = support::Served::start(Settings::default()).await;
    crew::put_to_work(served.client().await, MANY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_over_5000_objects_works_on_the_real_server() {
    let assets = netferry_testkit::assets().unwrap_or_else(|missing| panic!("{missing}"));
    let plane = RealControlPlane::start(&assets).await.unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig()).expect("the kubeconfig it wrote");
    crew::put_to_work(support::by_kubeconfig(&kubeconfig).await, MANY).await;
}
