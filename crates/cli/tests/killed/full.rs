//! A full disk. The limit on the size of a file stands for it: it can be set and lifted from outside, without a
//! file system of our own, and a write fails in the same way, with part of it done.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;

/// A server whose files can be kept from growing; ends with the test.
struct Limited(Child);

impl Limited {
    fn start(dir: &Path) -> Limited {
        // Ignored signals stay ignored: a write past the limit fails, and does not end the process.
        let mut child = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; exec "$@""#, "sh", env!("CARGO_BIN_EXE_netferry")])
            .args(["apiserver", "--listen", "127.0.0.1:0", "--exit-with-parent"])
            .args(["--data", "data.log", "--tls-dir", "tls", "--kubeconfig-out", "kubeconfig"])
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert!(line.starts_with("serving "), "{line}");
        Limited(child)
    }

    /// Lets files grow to so many bytes from now on.
    fn allow(&self, bytes: &str) {
        let pid = self.0.id().to_string();
        let done =
            Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:unlimited")]).status();
        assert!(done.expect("prlimit, of util-linux, runs").success());
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn maps(dir: &Path) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).expect("the server wrote it");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Api::namespaced(Client::try_from(config.expect("it is usable")).expect("a client"), "default")
}

fn map(name: &str, content: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some([("content".to_owned(), content.to_owned())].into());
    map
}

async fn state(api: &Api<ConfigMap>) -> (Vec<ConfigMap>, Option<String>) {
    let list = api.list(&ListParams::default()).await.expect("reading needs no disk");
    (list.items, list.metadata.resource_version)
}

fn refused<T: std::fmt::Debug>(what: &str, answer: kube::Result<T>) {
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"), "{what}: {status:?}");
            assert!(status.message.contains("writing to the data file"), "{what}: {}", status.message);
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Everything a client may write.
async fn everything_is_refused(api: &Api<ConfigMap>) {
    refused("a create", api.create(&PostParams::default(), &map("another", "")).await);
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    refused("a patch", api.patch("one", &PatchParams::default(), &Patch::Merge(&patch)).await);
    let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}});
    refused("an apply", api.patch("applied", &PatchParams::apply("me"), &Patch::Apply(&apply)).await);
    let mut changed = api.get("one").await.expect("it is there");
    changed.data = None;
    refused("an update", api.replace("one", &PostParams::default(), &changed).await);
    refused("a delete", api.delete("one", &DeleteParams::default()).await.map(|_| ()));
}

#[tokio::test]
async fn a_full_disk_refuses_writes_changes_nothing_and_is_got_over() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let length = || std::fs::metadata(dir.path().join("data.log")).expect("the file").len();
    let server = Limited::start(dir.path());
    let api = maps(dir.path()).await;
    api.create(&PostParams::default(), &map("one", "x")).await.expect("there is space");
    let before = state(&api).await;
    let whole = length();
    // Not a byte fits, or a part of every line does.
    for spare in [0, 1, 60] {
        server.allow(&(whole + spare).to_string());
        everything_is_refused(&api).await;
        assert_eq!(state(&api).await, before, "what was refused has left no trace");
        assert_eq!(length(), whole, "no half line stays behind");
    }

    server.allow("unlimited");
    let after = api.create(&PostParams::default(), &map("after", "")).await.expect("there is space again");
    let revision = |object: &ConfigMap| object.resource_version().and_then(|text| text.parse::<u64>().ok());
    let listed = before.1.and_then(|text| text.parse::<u64>().ok()).expect("a revision");
    assert_eq!(revision(&after), Some(listed + 1), "refused writes have used up no revision");

    let told = state(&api).await;
    drop(server);
    let _server = Limited::start(dir.path());
    assert_eq!(state(&maps(dir.path()).await).await, told, "a restart finds what was acknowledged");
}

#[tokio::test]
async fn what_follows_from_a_write_is_made_up_for_when_there_is_space_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Limited::start(dir.path());
    let api = maps(dir.path()).await;
    let owner = api.create(&PostParams::default(), &map("owner", "")).await.expect("there is space");
    let mut owned = map("owned", "");
    owned.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "owner".to_owned(),
        uid: owner.metadata.uid.expect("a uid"),
        ..OwnerReference::default()
    }]);
    api.create(&PostParams::default(), &owned).await.expect("there is space");
    // The line that says that the owner is gone fits, and no other.
    let deletion =
        r#"{"op":"delete","revision":100,"table":"configmaps","namespace":"default","name":"owner"}"#;
    let length = std::fs::metadata(dir.path().join("data.log")).expect("the file").len();
    server.allow(&(length + deletion.len() as u64 + 10).to_string());
    api.delete("owner", &DeleteParams::default()).await.expect("a short line fits");
    assert!(api.get_opt("owned").await.expect("an answer").is_some(), "there was no space to delete it");

    server.allow("unlimited");
    api.create(&PostParams::default(), &map("after", "")).await.expect("there is space again");
    assert!(api.get_opt("owned").await.expect("an answer").is_none(), "its owner is gone");
}

#[test]
fn a_server_that_cannot_make_what_every_cluster_starts_with_does_not_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("prlimit")
        .args(["--fsize=300:unlimited", "sh", "-c", r#"trap "" XFSZ; exec "$@""#, "sh"])
        .args([env!("CARGO_BIN_EXE_netferry"), "apiserver", "--listen", "127.0.0.1:0", "--data", "data.log"])
        .current_dir(dir.path())
        .output()
        .expect("prlimit, of util-linux, runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("making what every cluster starts with: "), "{error}");
    assert!(error.contains("writing to the data file data.log"), "{error}");
}
