//! A server that was killed between a change and its consequences draws them when it is started again.
//!
//! The data file is copied up to each line of the log: each copy is what a kill at that moment leaves behind.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::definitions::{DEFINITIONS, WIDGETS, definition};
use super::{Cluster, MAPS, map, owner};
use crate::Settings;

fn kept(path: &Path) -> Cluster {
    Cluster::with(Settings { data: Some(path.to_owned()), seed: Some(3), ..Settings::default() })
}

/// One server whose log is cut at every line written after `before`; gives the copies.
fn cuts(directory: &TempDir, log: &Path, before: u64) -> Vec<PathBuf> {
    let whole = std::fs::read(log).expect("the log");
    let before = usize::try_from(before).expect("a small file");
    let ends = whole.iter().enumerate().filter(|(at, byte)| **byte == b'\n' && *at >= before);
    ends.map(|(at, _)| {
        let copy = directory.path().join(format!("cut-{at}"));
        std::fs::write(&copy, &whole[..=at]).expect("a copy");
        copy
    })
    .collect()
}

fn length(log: &Path) -> u64 {
    std::fs::metadata(log).expect("the log").len()
}

/// Prepares with `before`, changes with `change`, and gives a server started from every moment after the change was
/// first logged.
async fn killed_everywhere(
    before: impl AsyncFnOnce(&Cluster),
    change: impl AsyncFnOnce(&Cluster),
) -> (TempDir, Vec<Cluster>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("log");
    let cluster = kept(&log);
    before(&cluster).await;
    let prepared = length(&log);
    change(&cluster).await;
    drop(cluster);
    let copies = cuts(&directory, &log, prepared);
    let clusters = copies.iter().map(|copy| kept(copy)).collect();
    (directory, clusters)
}

#[tokio::test]
async fn dependents_of_a_deleted_owner_are_collected_at_the_next_start() {
    for how in ["Background", "Foreground"] {
        let (_directory, clusters) = killed_everywhere(
            async |cluster| {
                let top = cluster.map("top", &[]).await;
                let child = cluster.map("child", &[owner(&top, true)]).await;
                cluster.map("grandchild", &[owner(&child, true)]).await;
                cluster.map("stranger", &[]).await;
            },
            async |cluster| {
                cluster.delete(&map("top"), how).await;
            },
        )
        .await;
        assert!(clusters.len() >= 3, "{} moments", clusters.len());
        for (nth, cluster) in clusters.iter().enumerate() {
            let left = cluster.maps(&["top", "child", "grandchild", "stranger"]).await;
            assert_eq!(left, ["stranger"], "{how}, killed after {nth}");
        }
    }
}

#[tokio::test]
async fn an_orphaning_deletion_is_finished_at_the_next_start() {
    let (_directory, clusters) = killed_everywhere(
        async |cluster| {
            let top = cluster.map("top", &[]).await;
            for name in ["one", "two"] {
                cluster.map(name, &[owner(&top, true)]).await;
            }
        },
        async |cluster| {
            cluster.delete(&map("top"), "Orphan").await;
        },
    )
    .await;
    assert!(clusters.len() >= 4);
    for cluster in &clusters {
        assert_eq!(cluster.maps(&["top", "one", "two"]).await, ["one", "two"]);
        for name in ["one", "two"] {
            let orphan = cluster.get(&map(name)).await.expect("it stays");
            assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan:#}");
        }
    }
}

#[tokio::test]
async fn a_namespace_that_was_going_is_gone_after_the_next_start() {
    let (_directory, clusters) = killed_everywhere(
        async |cluster| {
            cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "place"}})).await;
            for name in ["one", "two"] {
                let object = json!({"metadata": {"name": name}});
                cluster.create("/api/v1/namespaces/place/configmaps", object).await;
            }
        },
        async |cluster| {
            cluster.delete("/api/v1/namespaces/place", "").await;
        },
    )
    .await;
    assert!(clusters.len() >= 4);
    for cluster in &clusters {
        assert!(!cluster.there("/api/v1/namespaces/place").await);
        assert!(!cluster.there("/api/v1/namespaces/place/configmaps/one").await);
    }
}

#[tokio::test]
async fn a_new_namespace_has_its_service_account_after_the_next_start() {
    let (_directory, clusters) = killed_everywhere(
        async |_| {},
        async |cluster| {
            cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "place"}})).await;
        },
    )
    .await;
    assert!(clusters.len() >= 2);
    for cluster in &clusters {
        assert!(cluster.there("/api/v1/namespaces/place/serviceaccounts/default").await);
    }
}

#[tokio::test]
async fn a_definition_and_its_objects_are_served_again_or_gone_after_the_next_start() {
    let made = async |cluster: &Cluster| {
        cluster.create(DEFINITIONS, definition()).await;
    };
    let (_directory, clusters) = killed_everywhere(async |_| {}, made).await;
    for cluster in &clusters {
        let path = format!("{DEFINITIONS}/widgets.example.com");
        let definition = cluster.get(&path).await.expect("it was acknowledged or is on its way");
        let established = |c: &Value| c["type"] == "Established" && c["status"] == "True";
        let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(conditions.iter().any(established), "{definition:#}");
        assert_eq!(cluster.ask("GET", WIDGETS, None).await.0, 200);
    }
    let (_directory, clusters) = killed_everywhere(
        async |cluster| {
            made(cluster).await;
            for name in ["one", "two"] {
                let widget = json!({
                    "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
                });
                cluster.create(WIDGETS, widget).await;
            }
        },
        async |cluster| {
            cluster.delete(&format!("{DEFINITIONS}/widgets.example.com"), "").await;
        },
    )
    .await;
    assert!(clusters.len() >= 4);
    for cluster in &clusters {
        assert!(!cluster.there(&format!("{DEFINITIONS}/widgets.example.com")).await);
        assert_eq!(cluster.ask("GET", WIDGETS, None).await.0, 404);
    }
}

#[tokio::test]
async fn a_restart_changes_nothing_that_was_settled() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("log");
    let cluster = kept(&log);
    let top = cluster.map("top", &[]).await;
    cluster.map("child", &[owner(&top, true)]).await;
    cluster.create(DEFINITIONS, definition()).await;
    let (_, before) = cluster.ask("GET", MAPS, None).await;
    let revision = cluster.server.revision();
    drop(cluster);
    let again = kept(&log);
    assert_eq!(again.server.revision(), revision, "starting wrote something");
    assert_eq!(again.ask("GET", MAPS, None).await.1, before);
}
