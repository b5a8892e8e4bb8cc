use axum::body::{Body, to_bytes};
use axum::http::Request;
use netferry_apiserver::{ApiServer, Settings};
use netferry_testkit::wait::in_time;
use tower::ServiceExt;

use super::*;

async fn asked(client: &Client, metrics: &Metrics, path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = router(client.clone(), metrics.clone()).oneshot(request).await.unwrap();
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, kind.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
}

/// An API that answers so.
fn answering<A>(answer: impl Fn() -> A + Send + Sync + 'static) -> Client
where
    A: Future<Output = Result<http::Response<kube::client::Body>, std::io::Error>> + Send + 'static,
{
    Client::new(tower::service_fn(move |_: http::Request<kube::client::Body>| answer()), "default")
}

#[tokio::test]
async fn an_operator_that_reaches_the_api_is_ready_and_says_what_it_measures() {
    let server = ApiServer::open(Settings::default()).unwrap();
    let (client, metrics) = (Client::new(server.router(), "default"), Metrics::default());
    metrics.count_pass();
    assert_eq!(asked(&client, &metrics, "/healthz").await.0, StatusCode::OK);
    assert_eq!(asked(&client, &metrics, "/readyz").await.0, StatusCode::OK);
    let (status, kind, page) = asked(&client, &metrics, "/metrics").await;
    assert_eq!((status, kind.as_str()), (StatusCode::OK, OPENMETRICS));
    assert!(page.contains("\nnetferry_operator_passes_total 1\n"), "{page}");
    assert_eq!(asked(&client, &metrics, "/else").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_the_api_lives_and_is_not_ready_and_says_why() {
    let metrics = Metrics::default();
    let refuses = answering(|| async { Err(std::io::ErrorKind::ConnectionRefused.into()) });
    let silent = answering(std::future::pending);
    for (client, why) in [(refuses, "connection refused"), (silent, "the API does not answer")] {
        assert_eq!(asked(&client, &metrics, "/healthz").await.0, StatusCode::OK);
        let (status, _, said) = in_time("an answer", asked(&client, &metrics, "/readyz")).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_taken_is_waited_for() {
    let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = held.local_addr().unwrap();
    let client = answering(std::future::pending);
    let serving = tokio::spawn(serve(address, client, Metrics::default()));
    // One attempt fails while somebody holds it.
    tokio::time::sleep(AGAIN / 2).await;
    drop(held);
    netferry_testkit::wait::until("somebody answers", async || {
        tokio::net::TcpStream::connect(address).await.map_err(|error| error.to_string())
    })
    .await;
    assert!(!serving.is_finished());
    serving.abort();
}
