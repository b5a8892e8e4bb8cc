//! The real control plane starts, answers and goes.

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use netferry_testkit::{Https, RealControlPlane, assets};

#[tokio::test(flavor = "multi_thread")]
async fn a_real_control_plane_starts_answers_and_leaves_nothing_behind() {
    let assets = assets().unwrap_or_else(|missing| panic!("{missing}"));
    let plane = RealControlPlane::start(&assets).await.expect("it starts");
    let https =
        Https::new(plane.address(), plane.ca(), Some(plane.client_identity())).expect("usable certificates");
    let request = Request::get("/version").body(Bytes::new()).expect("valid parts");
    let answer = https.send(request).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let version: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(version["major"], "1");

    let processes = plane.processes();
    assert_eq!(processes.len(), 3, "{processes:?}");
    let directory = plane.kubeconfig().parent().expect("in a directory").to_owned();
    drop(plane);
    for (name, pid) in processes {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{name} outlived its owner");
    }
    assert!(!directory.exists(), "{} outlived its owner", directory.display());
}
