//! What workloads go through. Those that take a [`Crew`] are told to the real controllers too.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use netferry_apiserver::faults::{Calls, Fault};
use netferry_apiserver::status::ApiError;
use serde_json::json;

use super::crew::{Crew, is_ready};

/// What a story leaves to be compared: the same words from both sets of controllers.
pub(crate) type Told = Vec<String>;

/// A Deployment comes, grows, shrinks, gets a new template, and loses a pod.
pub(crate) async fn a_deployment_through_its_life(crew: &Crew) -> Told {
    let mut told = Told::new();
    let _nodes = [crew.node("a").await, crew.node("b").await, crew.node("c").await];
    // Who binds pods may hear of a node late, and cannot spread over nodes it has not heard of.
    for name in ["a", "b", "c"] {
        let spec = json!({
            "containers": [{"name": "c", "image": "one"}], "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": name},
        });
        let app = format!("first-on-{name}");
        crew.apply::<Pod>(json!({"metadata": {"name": app, "labels": {"app": app}}, "spec": spec})).await;
        crew.until_ready(&app, 1).await;
    }
    crew.deploy("web", 6, "one", json!({})).await;
    crew.serve("web", json!({})).await;
    crew.until_ready("web", 6).await;
    told.push(format!("spread {:?}", crew.spread("web").await));
    crew.until("six endpoints", async || (crew.endpoints("web").await.len() == 6).then_some(())).await;
    told.extend(crew.endpoints("web").await);

    crew.deploy("web", 3, "one", json!({})).await;
    crew.until_ready("web", 3).await;
    // Which three stay is not told: the real controller ranks pods of equally full nodes by the second they got ready.
    told.push(format!("shrunk to {}", crew.spread("web").await.values().sum::<usize>()));
    crew.until("three endpoints", async || (crew.endpoints("web").await.len() == 3).then_some(())).await;

    crew.deploy("web", 3, "two", json!({})).await;
    crew.until("the rollout is complete", async || {
        let deployment = crew.deployment("web").await;
        let status = deployment.status.unwrap_or_default();
        if status.observed_generation != deployment.metadata.generation {
            return None;
        }
        let progressing =
            status.conditions.unwrap_or_default().into_iter().find(|one| one.type_ == "Progressing");
        let done = progressing.is_some_and(|one| one.reason.as_deref() == Some("NewReplicaSetAvailable"));
        (done && status.updated_replicas == Some(3) && status.replicas == Some(3)).then_some(())
    })
    .await;
    let status = crew.deployment("web").await.status.unwrap_or_default();
    told.push(format!(
        "rolled out: {:?} of {:?} ready, {:?} available, {:?} unavailable, generation {:?}",
        status.ready_replicas,
        status.replicas,
        status.available_replicas,
        status.unavailable_replicas,
        status.observed_generation
    ));
    let mut sets: Vec<String> = crew
        .of::<ReplicaSet>()
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items
        .iter()
        .map(|set| {
            let revision = set.annotations().get("deployment.kubernetes.io/revision").cloned();
            let replicas = set.spec.clone().unwrap_or_default().replicas;
            format!("revision {} asks for {replicas:?}", revision.unwrap_or_default())
        })
        .collect();
    sets.sort();
    told.extend(sets);

    let pods = crew.pods("web").await;
    crew.delete_pod(&pods[0].name_any()).await;
    crew.until("the lost one is replaced", async || {
        let now = crew.pods("web").await;
        let others = now.iter().all(|pod| pod.uid() != pods[0].uid());
        (others && now.len() == 3 && now.iter().all(is_ready)).then_some(())
    })
    .await;
    told
}

/// A DaemonSet follows the nodes.
pub(crate) async fn daemons_follow_the_nodes(crew: &Crew) -> Told {
    let mut told = Told::new();
    let _a = crew.node("a").await;
    let _b = crew
        .node_with("b", json!({"taints": [{"key": "role", "value": "db", "effect": "NoSchedule"}]}))
        .await;
    let daemon = |tolerations: serde_json::Value| {
        json!({
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "c", "image": "one"}], "tolerations": tolerations,
                        "terminationGracePeriodSeconds": 0},
                },
            },
        })
    };
    crew.apply::<DaemonSet>(daemon(json!([]))).await;
    crew.until_ready("agent", 1).await;
    told.push(format!("one tolerates nothing: {:?}", crew.spread("agent").await));
    crew.apply::<DaemonSet>(daemon(json!([{"key": "role", "operator": "Exists"}]))).await;
    crew.until("both nodes have one of the new template", async || {
        let status = crew.daemon_set("agent").await.status.unwrap_or_default();
        (status.updated_number_scheduled == Some(2) && status.number_ready == 2).then_some(())
    })
    .await;
    told.push(format!("one tolerates the role: {:?}", crew.spread("agent").await));
    let _c = crew.node_with("c", json!({"unschedulable": true})).await;
    crew.until_ready("agent", 3).await;
    told.push(format!("a cordoned node gets one too: {:?}", crew.spread("agent").await));
    let status = crew
        .until("the status has counted", async || {
            let status = crew.daemon_set("agent").await.status.unwrap_or_default();
            (status.number_ready == 3 && status.number_available == Some(3)).then_some(status)
        })
        .await;
    told.push(format!(
        "status {} {} {} {:?} {:?}",
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_misscheduled,
        status.updated_number_scheduled,
        status.number_unavailable
    ));
    told
}

/// Nodes that are cordoned, tainted or not asked for are passed over.
pub(crate) async fn pods_go_where_they_may(crew: &Crew) -> Told {
    let mut told = Told::new();
    let _a = crew.node("a").await;
    let _b = crew.node_with("b", json!({"unschedulable": true})).await;
    let _c = crew
        .node_with("c", json!({"taints": [{"key": "role", "value": "db", "effect": "NoSchedule"}]}))
        .await;
    let template = |spec: serde_json::Value| {
        let mut whole =
            json!({"containers": [{"name": "c", "image": "one"}], "terminationGracePeriodSeconds": 0});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        whole
    };
    let tolerating = json!([{"key": "role", "operator": "Exists"}]);
    for (name, spec) in [
        ("plain", json!({})),
        ("tolerant", json!({"tolerations": tolerating, "nodeSelector": {"kubernetes.io/hostname": "c"}})),
        ("cordoned", json!({"nodeSelector": {"kubernetes.io/hostname": "b"}})),
        ("named", json!({"nodeName": "b"})),
    ] {
        crew.apply::<Pod>(
            json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": template(spec)}),
        )
        .await;
    }
    for name in ["plain", "tolerant", "named"] {
        crew.until_ready(name, 1).await;
        told.push(format!("{name}: {:?}", crew.spread(name).await));
    }
    let reason = crew
        .until("the one for the cordoned node says why it waits", async || {
            let pod = crew.of::<Pod>().get("cordoned").await.ok()?;
            let conditions = pod.status?.conditions?;
            conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?.reason
        })
        .await;
    told.push(format!("cordoned: {reason}"));
    let patch = json!({"spec": {"unschedulable": false}});
    crew.nodes().patch("b", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("an uncordon");
    crew.until_ready("cordoned", 1).await;
    told.push(format!("uncordoned: {:?}", crew.spread("cordoned").await));
    told
}

/// A pod that ends still serves, until it is gone; a Service may publish who is not ready.
pub(crate) async fn endpoints_say_who_serves(crew: &Crew) -> Told {
    let mut told = Told::new();
    let _a = crew.node("a").await;
    let pod = |name: &str, more: serde_json::Value| {
        json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "annotations": more, "finalizers": ["example.com/held"]},
            "spec": {"containers": [{"name": "c", "image": "one", "ports": [{"name": "http", "containerPort": 8080}]}]},
        })
    };
    crew.apply::<Pod>(pod("one", json!({}))).await;
    crew.serve("web", json!({})).await;
    crew.until("one endpoint", async || (crew.endpoints("web").await.len() == 1).then_some(())).await;
    crew.delete_pod("one").await;
    let ending = crew
        .until("it says that it ends", async || {
            let said = crew.endpoints("web").await;
            said.iter().any(|one| one.contains("terminating=true")).then_some(said)
        })
        .await;
    told.extend(ending);
    let release = json!({"metadata": {"finalizers": null}});
    let api = crew.of::<Pod>();
    api.patch("one", &PatchParams::default(), &Patch::Merge(&release)).await.expect("a release");
    crew.until("it is gone from the endpoints", async || {
        crew.endpoints("web").await.is_empty().then_some(())
    })
    .await;
    told.push("gone".into());
    told
}

#[tokio::test(start_paused = true)]
async fn a_deployment_lives_on_our_controllers() {
    let told = a_deployment_through_its_life(&Crew::embedded().await).await;
    assert_eq!(told[0], r#"spread {"a": 2, "b": 2, "c": 2}"#);
    assert_eq!(told[1], "IPv4 web/TCP/8080 ready=true serving=true terminating=false on a for Pod");
}

#[tokio::test(start_paused = true)]
async fn daemons_live_on_our_controllers() {
    daemons_follow_the_nodes(&Crew::embedded().await).await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_by_our_scheduler() {
    pods_go_where_they_may(&Crew::embedded().await).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_written_by_our_controllers() {
    endpoints_say_who_serves(&Crew::embedded().await).await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_never_has_fewer_ready_or_more_pods_than_allowed() {
    let crew = Crew::embedded().await;
    let _nodes = [crew.node("a").await, crew.node("b").await];
    let strategy =
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}});
    crew.deploy("web", 10, "one", strategy.clone()).await;
    crew.until_ready("web", 10).await;
    crew.deploy("web", 10, "two", strategy).await;
    crew.until("all are of the second", async || {
        let pods = crew.pods("web").await;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        assert!(ready >= 9, "{ready} ready");
        assert!(pods.len() <= 12, "{} pods", pods.len());
        let image = |pod: &Pod| pod.spec.clone().unwrap_or_default().containers[0].image.clone();
        (pods.len() == 10 && pods.iter().all(|pod| image(pod).as_deref() == Some("two"))).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_falls_silent_is_not_ready_and_its_endpoints_serve_nobody_until_it_speaks() {
    let crew = Crew::embedded().await;
    let _a = crew.node("a").await;
    let b = crew.node("b").await;
    crew.deploy("web", 4, "one", json!({})).await;
    crew.serve("web", json!({})).await;
    crew.until_ready("web", 4).await;
    let ready = |said: &[String]| said.iter().filter(|one| one.contains("ready=true")).count();
    drop(b);
    let since = tokio::time::Instant::now();
    crew.until("only the living serve", async || (ready(&crew.endpoints("web").await) == 2).then_some(()))
        .await;
    let waited = since.elapsed();
    assert!(waited >= Duration::from_secs(35) && waited <= Duration::from_secs(50), "{waited:?}");
    let node: Node = crew.nodes().get("b").await.expect("the node");
    let conditions = node.status.unwrap_or_default().conditions.unwrap_or_default();
    assert!(conditions.iter().any(|one| one.type_ == "Ready" && one.status == "Unknown"), "{conditions:?}");
    let taints: Vec<String> = node
        .spec
        .unwrap_or_default()
        .taints
        .unwrap_or_default()
        .into_iter()
        .map(|t| t.key + ":" + &t.effect)
        .collect();
    assert_eq!(
        taints,
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    crew.deploy("late", 2, "one", json!({})).await;
    crew.until_ready("late", 2).await;
    assert_eq!(crew.spread("late").await, BTreeMap::from([("a".to_owned(), 2)]), "nobody is sent there");
    // Five minutes later its pods are replaced elsewhere.
    crew.until("four serve again", async || (ready(&crew.endpoints("web").await) == 4).then_some(())).await;
    assert!(since.elapsed() >= Duration::from_secs(300));
    let _b = crew.revive("b").await;
    crew.until("it is trusted again", async || {
        let node = crew.nodes().get("b").await.ok()?;
        node.spec.unwrap_or_default().taints.unwrap_or_default().is_empty().then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_for_good_are_removed() {
    let crew = Crew::embedded().await;
    let (_a, b) = (crew.node("a").await, crew.node("b").await);
    crew.deploy("web", 4, "one", json!({})).await;
    crew.until_ready("web", 4).await;
    drop(b);
    crew.nodes().delete("b", &DeleteParams::default()).await.expect("a deletion");
    crew.until("all are on the one that is left", async || {
        (crew.spread("web").await == BTreeMap::from([("a".to_owned(), 4)])).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_api_that_refuses_forgets_and_hangs_up_is_got_over() {
    for seed in 0..4_u32 {
        let crew = Crew::embedded().await;
        let faults = crew.server.as_ref().expect("an embedded server").faults();
        let broken = || ApiError::internal("drawn by lot");
        for (n, (verb, resource, fault)) in [
            ("create", "pods", Fault::LoseAnswer(broken())),
            ("create", "pods", Fault::Refuse(broken())),
            ("create", "replicasets", Fault::LoseAnswer(broken())),
            ("create", "endpointslices", Fault::LoseAnswer(broken())),
            ("create", "pods/binding", Fault::Refuse(broken())),
            ("patch", "replicasets", Fault::Conflict),
            ("delete", "pods", Fault::LoseAnswer(broken())),
            ("watch", "pods", Fault::CutWatch),
            ("watch", "pods", Fault::ExpireWatch),
        ]
        .into_iter()
        .enumerate()
        {
            let skip = (seed * 7 + u32::try_from(n).expect("few")) % 4;
            let calls =
                Calls { verb: verb.into(), resource: resource.into(), skip, times: 2, ..Calls::default() };
            faults.arm(calls, fault);
        }
        let _nodes = [crew.node("a").await, crew.node("b").await];
        crew.deploy("web", 8, "one", json!({})).await;
        crew.serve("web", json!({})).await;
        crew.until_ready("web", 8).await;
        crew.deploy("web", 4, "two", json!({})).await;
        crew.until_ready("web", 4).await;
        crew.until("four endpoints", async || (crew.endpoints("web").await.len() == 4).then_some(())).await;
    }
}

/// Counted, not timed: what one change costs must not grow with what else is there.
#[tokio::test(start_paused = true)]
async fn two_thousand_pods_on_a_hundred_nodes_are_placed_and_one_more_costs_a_handful_of_writes() {
    let crew = Crew::embedded().await;
    let mut alive = Vec::new();
    for n in 0..100 {
        alive.push(crew.node(&format!("n{n:03}")).await);
    }
    for n in 0..40 {
        crew.deploy(&format!("d{n}"), 50, "one", json!({})).await;
        crew.serve(&format!("d{n}"), json!({})).await;
    }
    for n in 0..40 {
        crew.until_ready(&format!("d{n}"), 50).await;
    }
    let list = crew.of::<Pod>().list(&ListParams::default()).await.expect("a list");
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &list.items {
        *by_node.entry(pod.spec.clone().unwrap_or_default().node_name.unwrap_or_default()).or_default() += 1;
    }
    assert!(by_node.values().all(|count| (15..=25).contains(count)), "{by_node:?}");
    let server = crew.server.as_ref().expect("an embedded server");
    // Only leases are renewed now.
    tokio::time::sleep(Duration::from_secs(20)).await;
    alive.clear();
    let before = server.revision();
    crew.deploy("d0", 51, "one", json!({})).await;
    crew.until_ready("d0", 51).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let writes = server.revision() - before;
    assert!(writes <= 16, "{writes} writes for one pod more");
}
