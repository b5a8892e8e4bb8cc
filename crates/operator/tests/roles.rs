//! The operator on a real API server, under exactly the role that `deploy/` gives it.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::{NetworkTopology, TopologyMode};
use netferry_api::overlay::{ConfigNetwork, ConfigNetworkSpec, OperatorNetwork, SINGLETON};
use netferry_api::rollout::MachineConfigPool;
use netferry_operator::lead::Timing;
use netferry_testkit::wait::{PATIENCE, until};
use netferry_testkit::{RealControlPlane, assets};
use serde_json::json;
use tower::Layer;

use support::chance::Chance;
use support::fleet::Fleet;
use support::machine::Pace;

const ACCOUNT: &str = "system:serviceaccount:netferry:netferry-operator";

const NODES: [&str; 2] = ["a", "b"];

/// A call, in the words of a role: verb, group, resource, and the name where one is given.
type Use = (String, String, String, String);

/// Writes down what was asked and what was refused.
#[derive(Clone, Default)]
struct Ledger {
    uses: Arc<Mutex<BTreeSet<Use>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl<S> Layer<S> for Ledger {
    type Service = Noted<S>;

    fn layer(&self, inner: S) -> Noted<S> {
        Noted { inner, ledger: self.clone() }
    }
}

#[derive(Clone)]
struct Noted<S> {
    inner: S,
    ledger: Ledger,
}

impl<S, B, C> tower::Service<http::Request<B>> for Noted<S>
where
    S: tower::Service<http::Request<B>, Response = http::Response<C>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = futures::future::BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let asked = format!("{} {}", request.method(), request.uri());
        let used =
            read(request.method().as_str(), request.uri().path(), request.uri().query().unwrap_or_default());
        self.ledger.uses.lock().expect("nobody panicked").insert(used);
        let (answer, refused) = (self.inner.call(request), self.ledger.refused.clone());
        Box::pin(async move {
            let answer = answer.await?;
            if matches!(answer.status().as_u16(), 401 | 403) {
                refused.lock().expect("nobody panicked").push(asked);
            }
            Ok(answer)
        })
    }
}

/// What an authoriser sees in a request.
fn read(method: &str, path: &str, query: &str) -> Use {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts[..] {
        ["api", _, ref rest @ ..] => (String::new(), rest),
        ["apis", group, _, ref rest @ ..] => (group.to_owned(), rest),
        _ => (path.to_owned(), &[][..]),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        other => other,
    };
    let (resource, mut name) = match rest {
        [resource] => ((*resource).to_owned(), String::new()),
        [resource, name] => ((*resource).to_owned(), (*name).to_owned()),
        [resource, name, sub] => (format!("{resource}/{sub}"), (*name).to_owned()),
        _ => (rest.join("/"), String::new()),
    };
    let watching = query.split('&').any(|pair| pair == "watch=true");
    let verb = match (method, name.is_empty()) {
        ("GET", _) if watching => "watch",
        ("GET", true) => "list",
        ("GET", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        (other, _) => other,
    };
    // A list of the one object with a name counts as asking for that name.
    if let Some((_, one)) = query.split_once("fieldSelector=metadata.name%3D") {
        name = one.split('&').next().unwrap_or_default().to_owned();
    }
    (verb.to_owned(), group, resource, name)
}

async fn config(plane: &RealControlPlane) -> Config {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a usable kubeconfig")
}

/// A client with the operator's own rights.
async fn as_operator(plane: &RealControlPlane, ledger: &Ledger) -> Client {
    let mut config = config(plane).await;
    // As `netferry operator` has it.
    config.default_retry = false;
    config.auth_info.impersonate = Some(ACCOUNT.into());
    config.auth_info.impersonate_groups =
        Some(vec!["system:serviceaccounts".into(), "system:authenticated".into()]);
    ClientBuilder::try_from(config).expect("a client").with_layer(ledger).build()
}

async fn join(client: &Client, name: &str, annotations: serde_json::Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": name, "annotations": annotations}});
    let node = serde_json::from_value(node).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("a node");
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "172.30.0.2"}]}});
    let patch = Patch::Merge(&status);
    nodes.patch_status(name, &PatchParams::default(), &patch).await.expect("an address");
}

async fn placed(client: &Client, nodes: usize) {
    let api: Api<Node> = Api::all(client.clone());
    until(&format!("{nodes} nodes have their places"), async || {
        let list = api.list(&ListParams::default()).await.ok()?;
        let placed =
            list.items.iter().filter(|node| node.annotations().contains_key("k8s.ovn.org/node-subnets"));
        let whole = |node: &&Node| {
            node.annotations().get("k8s.ovn.org/node-id").is_some_and(|id| id.parse::<u16>().is_ok())
        };
        (placed.filter(whole).count() == nodes).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_works_under_exactly_its_role_and_uses_all_of_it() {
    let assets = assets().expect("the real programs");
    let plane = RealControlPlane::start(&assets).await.expect("a control plane");
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let applied = Command::new(assets.join("kubectl"))
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .args(["apply", "--server-side", "-k"])
        .arg(&deploy)
        .output()
        .expect("kubectl runs");
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let admin = Client::try_from(config(&plane).await).expect("a client");
    let ledger = Ledger::default();
    let operator = as_operator(&plane, &ledger).await;
    let settings = netferry_operator::Settings {
        namespace: "netferry".into(),
        identity: "tested".into(),
        timing: Timing::of(Duration::from_secs(15)).expect("a timing"),
        overlay: netferry_operator::overlay::Settings::default(),
        rollout: netferry_operator::rollout::Settings::default(),
        listen: None,
    };
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(netferry_operator::run(operator, settings, async {
        let _ = stopped.await;
    }));

    let network = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
        "spec": {
            "clusterNetwork": [{"cidr": "10.244.0.0/16", "hostPrefix": 24}],
            "serviceNetwork": ["10.96.0.0/16"],
        },
    });
    let network: OperatorNetwork = serde_json::from_value(network).expect("a network");
    let networks: Api<OperatorNetwork> = Api::all(admin.clone());
    // Somebody left one that speaks of another kind of network, so that there is something to put right; and then to
    // make, because it is taken away.
    let configs: Api<ConfigNetwork> = Api::all(admin.clone());
    let mut left = ConfigNetwork::new(SINGLETON, ConfigNetworkSpec::default());
    left.annotations_mut().extend([NetworkTopology::from(TopologyMode::SingleNode).entry()]);
    until("the definition is served", async || configs.create(&PostParams::default(), &left).await.ok())
        .await;
    until("the definition is served", async || networks.create(&PostParams::default(), &network).await.ok())
        .await;
    until("it is said for how many nodes the network is", async || {
        let said = NetworkTopology::read(configs.get(SINGLETON).await.ok()?.annotations()).ok().flatten()?;
        (*said.get() == TopologyMode::MultiNode).then_some(())
    })
    .await;
    configs.delete(SINGLETON, &DeleteParams::default()).await.expect("a deletion");
    // Two: an only node is not drained.
    for name in NODES {
        join(&admin, name, json!({})).await;
    }
    placed(&admin, NODES.len()).await;
    let wanted = rules(&admin).await;
    let unused = |used: &BTreeSet<Use>| -> Vec<Use> {
        wanted.iter().filter(|want| !used.iter().any(|one| covers(want, one))).cloned().collect()
    };
    let nodes: Api<Node> = Api::all(admin.clone());
    // A machine behind each node, so that there is a change of MTU to go through: with pods that have to leave, one of
    // them kept by a budget at first.
    let mut fleet = Fleet::new(admin.clone(), 1);
    for name in NODES {
        fleet.plug_in(name, 1500, Chance::new(1), Pace { step: (1, 50), boot: (100, 300), ..Pace::USUAL });
    }
    let pods = kept_pods(&admin).await;
    let change = json!({
        "metadata": {"annotations": {"netferry.dev/mtu-unattended": "true"}},
        "spec": {"migration": {"mtu": {"network": {"from": 1400, "to": 1300}, "machine": {"to": 1500}}}},
    });
    until("the MTU is observed", async || {
        let all = nodes.list(&ListParams::default()).await.ok()?;
        let said = |node: &Node| node.annotations().contains_key("netferry.dev/mtu-observed");
        all.iter().all(said).then_some(())
    })
    .await;
    networks.patch("cluster", &PatchParams::default(), &Patch::Merge(&change)).await.expect("a change");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(admin.clone(), "default");
    let pools: Api<MachineConfigPool> = Api::all(admin.clone());
    let named = async || {
        let said = pools.get("worker").await.ok()?.status?.conditions;
        said.iter().any(|one| one.message.contains("PodDisruptionBudget default/keep")).then_some(())
    };
    until("the budget is named", named).await;
    budgets.delete("keep", &DeleteParams::default()).await.expect("a deletion");
    let began = Instant::now();
    loop {
        let left = unused(&ledger.uses.lock().expect("nobody panicked"));
        if left.is_empty() {
            break;
        }
        assert!(began.elapsed() < 3 * PATIENCE, "allowed and never used: {left:#?}");
        // The same mistake again and again: its Event is counted up.
        let scribble = json!({"metadata": {"annotations": {"k8s.ovn.org/node-id": "x"}}});
        nodes.patch("a", &PatchParams::default(), &Patch::Merge(&scribble)).await.expect("a patch");
        placed(&admin, NODES.len()).await;
        // What a kubelet would do with pods that are to end.
        for pod in pods.list(&ListParams::default()).await.expect("a list") {
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                let _ = pods.delete(&pod.name_any(), &now).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let _ = stop.send(());
    running.await.expect("it ends in peace");
    assert_eq!(*ledger.refused.lock().expect("nobody panicked"), Vec::<String>::new(), "refused");
}

/// A pod on the node, kept by a budget.
async fn kept_pods(admin: &Client) -> Api<Pod> {
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    let pod = json!({
        "metadata": {"name": "kept", "labels": {"app": "kept"}},
        "spec": {
            "nodeName": "a", "containers": [{"name": "c", "image": "none"}],
            "tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": false,
        },
    });
    let pod = serde_json::from_value(pod).expect("a pod");
    // The namespace's account is made by a controller, a moment after the namespace.
    until("a pod is accepted", async || pods.create(&PostParams::default(), &pod).await.ok()).await;
    let running = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    pods.patch_status("kept", &PatchParams::default(), &Patch::Merge(&running)).await.expect("a status");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(admin.clone(), "default");
    let budget = json!({
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    });
    let budget = serde_json::from_value(budget).expect("a budget");
    budgets.create(&PostParams::default(), &budget).await.expect("a budget");
    pods
}

/// Whether a use is one of what is allowed.
fn covers(allowed: &Use, used: &Use) -> bool {
    (&allowed.0, &allowed.1, &allowed.2) == (&used.0, &used.1, &used.2)
        && (allowed.3.is_empty() || allowed.3 == used.3)
}

/// Everything the operator's roles allow.
async fn rules(admin: &Client) -> BTreeSet<Use> {
    let whole: ClusterRole = Api::all(admin.clone()).get("netferry-operator").await.expect("the role");
    let of_lease: Role =
        Api::namespaced(admin.clone(), "netferry").get("netferry-operator").await.expect("the role");
    let of_events: Role =
        Api::namespaced(admin.clone(), "default").get("netferry-operator-events").await.expect("the role");
    let all: Vec<PolicyRule> =
        [whole.rules, of_lease.rules, of_events.rules].into_iter().flatten().flatten().collect();
    let mut uses = BTreeSet::new();
    for rule in all {
        let names =
            rule.resource_names.filter(|names| !names.is_empty()).unwrap_or_else(|| vec![String::new()]);
        for verb in &rule.verbs {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    for name in &names {
                        uses.insert((verb.clone(), group.clone(), resource.clone(), name.clone()));
                    }
                }
            }
        }
    }
    uses
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_may_do_nothing_the_operator_s_role_is_for() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/agent/role.yaml"))
            .expect("the role");
    let role: ClusterRole =
        serde_saphyr::from_str(text.split("\n---\n").next().expect("a first document")).expect("a role");
    for rule in role.rules.iter().flatten() {
        let writes: Vec<&String> =
            rule.verbs.iter().filter(|verb| !["get", "list", "watch"].contains(&verb.as_str())).collect();
        let resources = rule.resources.clone().unwrap_or_default();
        let annotated = ["nodes", "nodes/status", "pods"].iter().any(|one| resources == [*one]);
        assert!(writes.is_empty() || (annotated && writes == ["patch"]), "{rule:?}");
        assert!(!resources.iter().any(|one| one == "secrets" || one == "*"), "{rule:?}");
    }
}

#[test]
fn what_is_installed_holds_every_definition() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    let listed = std::fs::read_to_string(deploy.join("kustomization.yaml")).expect("the kustomization");
    for (file, _) in netferry_api::crds() {
        assert!(listed.contains(&format!("- crds/{file}\n")), "{file} is not in deploy/kustomization.yaml");
    }
}
