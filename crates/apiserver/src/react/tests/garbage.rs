//! Owners and dependents.

use serde_json::{Value, json};

use super::{Cluster, MAPS, map, nobody, owner, owner_names};

/// An owner with a dependent that insists on going first, one that does not, and a dependent of the first.
async fn family(cluster: &Cluster) {
    let top = cluster.map("top", &[]).await;
    let child = cluster.map("child", &[owner(&top, true)]).await;
    cluster.map("easy", &[owner(&top, false)]).await;
    cluster.map("grandchild", &[owner(&child, true)]).await;
}

const FAMILY: [&str; 4] = ["top", "child", "easy", "grandchild"];

#[tokio::test]
async fn dependents_go_after_their_owner_all_the_way_down() {
    for how in ["", "Background", "Foreground"] {
        let cluster = Cluster::new();
        family(&cluster).await;
        cluster.delete(&map("top"), how).await;
        assert_eq!(cluster.maps(&FAMILY).await, Vec::<String>::new(), "{how:?}");
    }
}

#[tokio::test]
async fn orphaned_dependents_stay_and_name_their_owner_no_more() {
    let cluster = Cluster::new();
    family(&cluster).await;
    cluster.delete(&map("top"), "Orphan").await;
    assert_eq!(cluster.maps(&FAMILY).await, ["child", "easy", "grandchild"]);
    let child = cluster.get(&map("child")).await.expect("it stays");
    assert!(child["metadata"]["ownerReferences"].is_null(), "{child:#}");
    let grandchild = cluster.get(&map("grandchild")).await.expect("it stays");
    assert_eq!(owner_names(&grandchild), ["child"], "only the deleted owner is let go of");
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_waits_for_those_who_insist() {
    let cluster = Cluster::new();
    let top = cluster.map("top", &[]).await;
    let held = json!({"metadata": {
        "name": "held", "finalizers": ["example.com/hold"], "ownerReferences": [owner(&top, true)],
    }});
    cluster.create(MAPS, held).await;
    cluster.delete(&map("top"), "Foreground").await;
    let waiting = cluster.get(&map("top")).await.expect("it waits");
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let held = cluster.get(&map("held")).await.expect("its finalizer holds it");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "it is on its way");
    cluster.merge(&map("held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(cluster.maps(&["top", "held"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_does_not_wait_for_those_who_do_not_insist() {
    let cluster = Cluster::new();
    let top = cluster.map("top", &[]).await;
    let held = json!({"metadata": {
        "name": "held", "finalizers": ["example.com/hold"], "ownerReferences": [owner(&top, false)],
    }});
    cluster.create(MAPS, held).await;
    cluster.delete(&map("top"), "Foreground").await;
    assert_eq!(cluster.maps(&["top", "held"]).await, ["held"]);
    let held = cluster.get(&map("held")).await.expect("its finalizer holds it");
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "it follows its owner all the same");
}

#[tokio::test]
async fn an_object_created_with_an_owner_that_is_not_there_is_collected() {
    let cluster = Cluster::new();
    let gone = cluster.map("gone", &[]).await;
    cluster.delete(&map("gone"), "").await;
    let again = cluster.map("gone", &[]).await;
    // The same name, but not the same object.
    cluster.map("of-the-first", &[owner(&gone, false)]).await;
    cluster.map("of-the-second", &[owner(&again, false)]).await;
    cluster.map("of-nobody", &[nobody()]).await;
    assert_eq!(cluster.maps(&["of-the-first", "of-the-second", "of-nobody"]).await, ["of-the-second"]);
}

#[tokio::test]
async fn a_dependent_of_two_stays_until_both_have_gone() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.map("one", &[]).await, cluster.map("two", &[]).await);
    cluster.map("shared", &[owner(&one, true), owner(&two, true)]).await;
    // Not even in the foreground does the first take it along.
    cluster.delete(&map("one"), "Foreground").await;
    assert_eq!(cluster.maps(&["one", "shared"]).await, ["shared"]);
    let shared = cluster.get(&map("shared")).await.expect("it stays");
    assert_eq!(owner_names(&shared), ["two"], "the reference to the one that went is cut");
    cluster.delete(&map("two"), "").await;
    assert_eq!(cluster.maps(&["two", "shared"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn owners_that_wait_for_each_other_go_together() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.map("one", &[]).await, cluster.map("two", &[]).await);
    cluster.merge(&map("one"), json!({"metadata": {"ownerReferences": [owner(&two, true)]}})).await;
    cluster.merge(&map("two"), json!({"metadata": {"ownerReferences": [owner(&one, true)]}})).await;
    cluster.delete(&map("one"), "Foreground").await;
    assert_eq!(cluster.maps(&["one", "two"]).await, Vec::<String>::new());
}

#[tokio::test]
async fn owners_are_looked_for_in_the_dependents_own_namespace() {
    let cluster = Cluster::new();
    let here = cluster.map("here", &[]).await;
    let elsewhere = "/api/v1/namespaces/kube-public/configmaps";
    let crossed = json!({"metadata": {"name": "crossed", "ownerReferences": [owner(&here, false)]}});
    cluster.create(elsewhere, crossed).await;
    assert!(!cluster.there(&format!("{elsewhere}/crossed")).await, "an owner elsewhere is no owner");
    // Not even when one of that name is there: it is another object.
    cluster.create(elsewhere, json!({"metadata": {"name": "here"}})).await;
    let crossed = json!({"metadata": {"name": "crossed", "ownerReferences": [owner(&here, false)]}});
    cluster.create(elsewhere, crossed).await;
    assert!(!cluster.there(&format!("{elsewhere}/crossed")).await);
}

#[tokio::test]
async fn a_cluster_wide_owner_takes_dependents_of_every_namespace_along() {
    let cluster = Cluster::new();
    let node = cluster.create("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    cluster.map("of-node", &[owner(&node, false)]).await;
    let role = json!({
        "metadata": {"name": "of-node", "ownerReferences": [owner(&node, false)]}, "rules": [],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.create(roles, role).await;
    cluster.delete("/api/v1/nodes/n", "").await;
    assert!(!cluster.there(&map("of-node")).await);
    assert!(!cluster.there(&format!("{roles}/of-node")).await);
}

#[tokio::test]
async fn nothing_is_concluded_about_owners_that_cannot_be_looked_up() {
    let cluster = Cluster::new();
    let unknown = json!({
        "apiVersion": "nowhere.example.com/v1", "kind": "Nothing", "name": "x",
        "uid": "33333333-1111-1111-1111-111111111111",
    });
    cluster.map("of-a-kind-unknown", std::slice::from_ref(&unknown)).await;
    cluster.map("of-both", &[unknown, nobody()]).await;
    assert_eq!(cluster.maps(&["of-a-kind-unknown", "of-both"]).await.len(), 2);
    // A cluster-wide object cannot be owned by something in a namespace.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"metadata": {"name": "misled", "ownerReferences": [nobody()]}, "rules": []});
    cluster.create(roles, role).await;
    assert!(cluster.there(&format!("{roles}/misled")).await);
}

#[tokio::test]
async fn an_object_that_is_given_a_lost_owner_later_is_collected_then() {
    let cluster = Cluster::new();
    cluster.map("free", &[]).await;
    assert!(cluster.there(&map("free")).await);
    cluster.merge(&map("free"), json!({"metadata": {"ownerReferences": [nobody()]}})).await;
    assert!(!cluster.there(&map("free")).await);
}

#[tokio::test]
async fn a_thousand_dependents_go_with_their_owner() {
    let cluster = Cluster::new();
    let top = cluster.map("top", &[]).await;
    for nth in 0..1000 {
        cluster.map(&format!("child-{nth}"), &[owner(&top, true)]).await;
    }
    cluster.delete(&map("top"), "Foreground").await;
    let (_, left) = cluster.ask("GET", MAPS, None).await;
    let left: Vec<&Value> = left["items"].as_array().into_iter().flatten().collect();
    assert!(left.iter().all(|map| map["metadata"]["name"] == "kube-root-ca.crt"), "{}", left.len());
}
