//! A refused change changes nothing but its own condition and Event (I6).

use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use netferry_api::annotation::Annotation;
use netferry_api::mtu::annotations::{MtuPaused, MtuUnattended};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_api::mtu::{InterfaceMtu, InterfaceRole, MtuObserved, NicRange};
use netferry_api::overlay::annotations::NetworkTopology;
use netferry_core::mtu::record::Stage;
use serde_json::{Value, json};

use crate::support::chance::Chance;
use crate::support::site::{HOSTS, PODS, Site};
use crate::support::{network, pass};

/// An edit of `spec`, and what is said of it: of each refusal its reason, and a part of what it says.
struct Row<'a>(Value, &'a [(&'a str, &'a str)]);

fn migration(from: Option<u32>, to: u32, machine: Value) -> Value {
    json!({ "migration": { "mtu": { "network": { "from": from, "to": to }, "machine": machine } } })
}

fn plugin(mtu: u32) -> Value {
    json!({ "migration": null, "defaultNetwork": { "ovnKubernetesConfig": { "mtu": mtu } } })
}

/// All there is, but what an edit itself writes, and conditions of these kinds.
pub(super) async fn all_but(site: &Site, kinds: &[&str]) -> BTreeMap<String, Value> {
    let mut all = site.everything().await;
    let network = all.get_mut("Network cluster").expect("the operator's Network");
    let network = network.as_object_mut().expect("an object");
    network.remove("spec");
    // What counts edits, this one too.
    for (part, counts) in [
        ("metadata", "generation"),
        ("metadata", "resourceVersion"),
        ("metadata", "managedFields"),
        ("status", "observedGeneration"),
    ] {
        network[part].as_object_mut().expect("an object").remove(counts);
    }
    let conditions = network["status"]["conditions"].as_array_mut().expect("conditions");
    conditions.retain(|condition| !kinds.iter().any(|kind| condition["type"] == *kind));
    all
}

/// The condition of what is refused of the MTU.
pub(super) const REFUSED: &str = MtuConditionType::Refused.as_str();
/// The one that tells of fields that cannot be.
pub(super) const INVALID: &str = "InvalidOperatorConfig";

/// The administrator edits `spec`, and only its own condition and Events follow.
pub(super) struct Edit {
    edited: Value,
    /// Conditions that may tell of it.
    kinds: Vec<&'static str>,
    spec: Value,
    before: BTreeMap<String, Value>,
    told: BTreeMap<String, (String, String, String)>,
}

impl Edit {
    pub(super) async fn make(site: &Site, edited: Value, kinds: &[&'static str]) -> Edit {
        let (before, told) = (all_but(site, kinds).await, site.cluster.told().await);
        let spec = json!(site.edit(json!({ "spec": edited })).await.spec);
        Edit { edited, kinds: kinds.to_vec(), spec, before, told }
    }

    /// Waits until whatever else would be done is done. What was told of the edit, all of it about the network.
    pub(super) async fn changed_nothing(self, site: &Site) -> Vec<(String, String)> {
        let Edit { edited, kinds, spec, before, told } = self;
        pass(120).await;
        let after = all_but(site, &kinds).await;
        for name in before.keys().chain(after.keys()) {
            assert_eq!(before.get(name), after.get(name), "{edited}: {name}");
        }
        assert_eq!(json!(site.cluster.network().await.spec), spec, "{edited}: it is edited again");
        let now = site.cluster.told().await;
        let new = now.into_iter().filter(|(name, _)| !told.contains_key(name)).map(|(_, told)| told);
        let of_the_network = |(about, reason, note): (String, String, String)| {
            assert_eq!(about, "Network cluster", "{edited}: {reason}: {note}");
            (reason, note)
        };
        new.map(of_the_network).collect()
    }
}

async fn is_refused(site: &Site, Row(spec, refusals): Row<'_>, undo: &Value) {
    // Where the plugin was edited there may be fields that cannot be.
    let fields = spec.get("defaultNetwork").is_some();
    let kinds = if fields { vec![REFUSED, "Degraded"] } else { vec![REFUSED] };
    let edit = Edit::make(site, spec.clone(), &kinds).await;
    let (found, message) = site.cluster.until_condition(REFUSED, "True").await;
    assert_eq!(found, refusals[0].0, "{spec}: {message}");
    let mut told = edit.changed_nothing(site).await;
    if fields {
        let invalid = told.iter().position(|(reason, _)| reason == INVALID);
        invalid.map(|at| told.remove(at));
    }
    assert_eq!(told.len(), refusals.len(), "{spec}: {told:#?}");
    for (reason, part) in refusals {
        assert!(message.contains(part), "{spec}: {message}");
        let tells = |(found, note): &(String, String)| found == reason && note.contains(part);
        assert!(told.iter().any(tells), "{spec}: {reason}: {told:#?}");
    }
    site.edit(json!({ "spec": undo })).await;
    site.cluster.until_condition(REFUSED, "False").await;
    pass(120).await;
    site.fleet.lawful();
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_leaves_a_cluster_that_was_never_changed_as_it_is() {
    let mut site = Site::new(1, Chance::new(1)).await;
    let _operator = site.cluster.operator("one");
    site.fleet.truth.with(|seen| seen.cards = Some(NicRange { min: 68, max: 9100 }));
    site.populate(3, 1).await;
    // Until the machines have said all they have to say.
    pass(120).await;
    let hosts = json!({ "to": HOSTS.0 });
    #[rustfmt::skip]
    let rows = [
        Row(migration(None, 1300, hosts.clone()), &[("FieldMissing", "network.from")]),
        Row(json!({ "migration": { "mtu": { "machine": hosts.clone() } } }), &[("FieldMissing", "missing: spec.migration.mtu.network.from, spec.migration.mtu.network.to")]),
        Row(json!({ "migration": { "mtu": { "network": { "from": 1400, "to": 1300 } } } }), &[("FieldMissing", "missing: spec.migration.mtu.machine.to")]),
        Row(migration(Some(1500), 1300, hosts.clone()), &[("FromIsNotApplied", "network.from is 1500, but the MTU that is applied is 1400")]),
        Row(migration(Some(1400), 100, hosts.clone()), &[("OutOfRange", "576")]),
        Row(migration(Some(1400), 65537, hosts.clone()), &[("OutOfRange", "65537"), ("MachineTooSmall", "65637")]),
        Row(migration(Some(1400), 1500, hosts.clone()), &[("MachineTooSmall", "1600")]),
        Row(migration(Some(1400), 1300, json!({ "from": 1400, "to": 1600 })), &[("HostElsewhere", "n000 at 1500")]),
        Row(migration(Some(1400), 1300, json!({ "from": 9000, "to": 1500 })), &[("HostsNotAtFrom", "machine.from is 9000, but every host that has reported runs at 1500")]),
        Row(migration(Some(1400), 9001, json!({ "to": 9101 })), &[("CardTooSmall", "carry 9101, and card eth0 of node n000 takes at most 9100")]),
        Row(plugin(8900), &[("WithoutMigration", "8900")]),
    ];
    let said = async || {
        let conditions = site.cluster.network().await.status.expect("a status").conditions;
        let ours = conditions.into_iter().filter(|one| MtuConditionType::named(&one.type_).is_some());
        ours.map(|one| one.type_).collect::<Vec<_>>()
    };
    assert_eq!(said().await, [""; 0], "nothing is said of a change that nobody asked for");
    for row in rows {
        is_refused(&site, row, &plugin(PODS.0)).await;
    }
    site.fleet.truth.with(|seen| seen.fixed = Some("nobody describes eth0".into()));
    // Until the machines have said that, too.
    pass(120).await;
    let row = Row(
        migration(Some(1400), 8900, json!({ "to": 9000 })),
        &[("HostFixed", "that of node n000 cannot: nobody describes eth0")],
    );
    is_refused(&site, row, &plugin(PODS.0)).await;
    assert_eq!(said().await, [MtuConditionType::Refused.as_str()]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_edit_leaves_a_change_that_is_under_way_as_it_is() {
    let mut site = Site::new(1, Chance::new(2)).await;
    let _operator = site.cluster.operator("one");
    site.fleet.truth.with(|seen| seen.cards = Some(NicRange { min: 68, max: 9100 }));
    site.populate(3, 1).await;
    // Nothing moves meanwhile that could be taken for a consequence.
    site.annotate(MtuPaused::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("the change is applied", async |site| site.record().await?.change).await;
    pass(120).await;
    let running = migration(Some(PODS.0), PODS.1, json!({ "to": HOSTS.1 }));
    #[rustfmt::skip]
    let rows = [
        Row(migration(Some(1300), 8900, json!({ "to": 9000 })), &[("FromIsNotApplied", "network.from is 1300")]),
        Row(migration(Some(1400), 8900, json!({ "to": 8999 })), &[("MachineTooSmall", "9000")]),
        Row(migration(Some(1400), 9001, json!({ "to": 9101 })), &[("CardTooSmall", "node n001 takes at most 9100")]),
        Row(migration(Some(8900), 2000, json!({ "to": 9000 })), &[("ChangeRunning", "1400")]),
        Row(plugin(PODS.0), &[("MigrationRemoved", "1400")]),
        Row(plugin(2000), &[("MigrationRemoved", "2000")]),
    ];
    for row in rows {
        is_refused(&site, row, &running).await;
    }
    ports_and_services_stay(&site).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_with_other_numbers_is_told_by_an_event_of_its_own_and_the_same_one_is_counted() {
    let mut site = Site::new(1, Chance::new(9)).await;
    let _operator = site.cluster.operator("one");
    site.populate(1, 1).await;
    for to in [1500, 1450, 1500] {
        site.edit(json!({ "spec": migration(Some(1400), to, json!({ "to": HOSTS.0 })) })).await;
        site.cluster.until_condition(REFUSED, "True").await;
        site.edit(json!({ "spec": plugin(PODS.0) })).await;
        site.cluster.until_condition(REFUSED, "False").await;
    }
    let events = Api::<Event>::all(site.cluster.client.clone());
    let told = events.list(&ListParams::default()).await.expect("a list").items.into_iter();
    let told = told.filter(|event| event.reason.as_deref() == Some("MachineTooSmall"));
    let mut told: Vec<_> =
        told.map(|event| (event.note.unwrap_or_default(), event.series.map(|series| series.count))).collect();
    told.sort();
    let [(less, None), (more, Some(2))] = &told[..] else { panic!("{told:#?}") };
    assert!(less.contains("1550") && more.contains("1600"), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_of_hosts_and_their_cards_leaves_a_cluster_as_it_is() {
    let mut site = Site::new(1, Chance::new(5)).await;
    let _operator = site.cluster.operator("one");
    site.fleet.truth.with(|seen| seen.cards = Some(NicRange { min: 1400, max: 9100 }));
    site.populate(3, 1).await;
    pass(120).await;
    let undo = plugin(PODS.0);
    let up = || migration(Some(1400), 8900, json!({ "to": 9000 }));
    let low = Row(
        migration(Some(1400), 1200, json!({ "to": 1300 })),
        &[("CardTooLarge", "run at 1300, and card eth0 of node n000 takes at least 1400")],
    );
    is_refused(&site, low, &undo).await;
    // A machine that never comes up; then somebody says for it where its uplink is.
    let silent = json!({
        "metadata": { "name": "silent", "labels": { "node-role.kubernetes.io/worker": "" } },
        "status": { "addresses": [{ "type": "InternalIP", "address": "172.30.0.2" }] },
    });
    let node = serde_json::from_value(silent.clone()).expect("a node");
    site.cluster.nodes().create(&PostParams::default(), &node).await.expect("a node");
    let status = Patch::Merge(json!({ "status": silent["status"] }));
    site.cluster.nodes().patch_status("silent", &PatchParams::default(), &status).await.expect("a status");
    pass(120).await;
    is_refused(&site, Row(up(), &[("HostUnknown", "not reported by silent")]), &undo).await;
    let uplink = InterfaceMtu { name: "eth0".into(), role: InterfaceRole::Uplink, mtu: 8000, nic: None };
    let observed = MtuObserved::new(vec![uplink], vec![], None).expect("it does not contradict itself");
    site.cluster.scribble("silent", MtuObserved::KEY, json!(observed.to_string())).await;
    pass(120).await;
    is_refused(&site, Row(up(), &[("HostsDiffer", "n002 at 1500, silent at 8000")]), &undo).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_of_a_transport_that_is_not_served_leaves_a_cluster_as_it_is() {
    let mut site = Site::new(1, Chance::new(8)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    // An edit cannot say so; a Network that is made anew can.
    site.networks().delete("cluster", &DeleteParams::default()).await.expect("a deletion");
    let mut spec = network(&[("10.128.0.0/12", 23)], &["10.96.0.0/16"]);
    spec["additionalRoutingCapabilities"] = json!({ "providers": ["FRR"] });
    spec["defaultNetwork"] = json!({ "type": "OVNKubernetes", "ovnKubernetesConfig": {
        "mtu": PODS.0, "transport": "NoOverlay", "routeAdvertisements": "Enabled",
        "noOverlayConfig": { "outboundSNAT": "Enabled", "routing": "Unmanaged" },
    } });
    site.cluster.ask(spec).await;
    site.cluster.until_condition("Degraded", "True").await;
    pass(120).await;
    let asked = migration(Some(1400), 1300, json!({ "to": HOSTS.0 }));
    let row = Row(asked, &[("TransportNotServed", "transport is NoOverlay")]);
    is_refused(&site, row, &json!({ "migration": null })).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_of_one_machine_leaves_it_as_it_is() {
    let mut site = Site::new(1, Chance::new(6)).await;
    site.annotate(NetworkTopology::KEY, Some("single-node")).await;
    let _operator = site.cluster.operator("one");
    site.populate(1, 1).await;
    pass(120).await;
    let rows = [
        Row(migration(Some(1400), 1300, json!({ "to": 1500 })), &[("OneMachine", "spec.migration.mtu: ")]),
        Row(plugin(1300), &[("OneMachine", "pods, 1400, is not changed while they run")]),
    ];
    for row in rows {
        is_refused(&site, row, &plugin(PODS.0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_edit_does_not_end_a_change_that_was_taken_back() {
    let mut site = Site::new(1, Chance::new(7)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.held("AwaitingFinish").await;
    site.ask_change(PODS.0, PODS.0, HOSTS.0).await;
    site.held("AwaitingRemoval").await;
    pass(120).await;
    let mut taken_back = migration(Some(PODS.0), PODS.0, json!({ "to": HOSTS.0 }));
    taken_back["defaultNetwork"] = plugin(PODS.0)["defaultNetwork"].clone();
    let record = site.record().await;
    #[rustfmt::skip]
    let rows = [
        Row(migration(Some(1400), 1400, json!({ "to": 1450 })), &[("MachineTooSmall", "1500")]),
        Row(migration(None, 1400, json!({ "to": 1500 })), &[("FieldMissing", "network.from")]),
        Row(migration(Some(1400), 1400, json!({ "to": null })), &[("FieldMissing", "machine.to")]),
        Row(plugin(PODS.1), &[("MigrationRemoved", "1400")]),
        Row(plugin(1300), &[("MigrationRemoved", "1400")]),
    ];
    for row in rows {
        is_refused(&site, row, &taken_back).await;
        assert_eq!(site.record().await, record);
    }
    site.edit(json!({ "spec": { "migration": null } })).await;
    site.until("it has ended", async |site| site.settled().await.ok().filter(|at| *at == PODS.0)).await;
}

/// An edit beside the MTU that is refused, and what is said of it.
async fn is_not_followed(site: &Site, spec: Value, says: &str, undo: &Value) {
    let edit = Edit::make(site, spec, &["Degraded"]).await;
    let (reason, message) = site.cluster.until_condition("Degraded", "True").await;
    assert_eq!((reason.as_str(), message.as_str()), (INVALID, says));
    assert_eq!(edit.changed_nothing(site).await, [(INVALID.to_owned(), says.to_owned())]);
    site.edit(json!({ "spec": undo })).await;
    site.cluster.until_condition("Degraded", "False").await;
    site.fleet.lawful();
}

/// What nodes and clients know cannot be changed under them, least of all while sizes change.
async fn ports_and_services_stay(site: &Site) {
    let says = "spec.serviceNetwork cannot be changed while a change is under way";
    let services = |cidr: &str| json!({ "serviceNetwork": [cidr] });
    is_not_followed(site, services("10.97.0.0/16"), says, &services("10.96.0.0/16")).await;
    let port =
        |port: Option<u32>| json!({ "defaultNetwork": { "ovnKubernetesConfig": { "genevePort": port } } });
    let says = "spec.defaultNetwork.ovnKubernetesConfig.genevePort cannot be changed from 6081 to 6082";
    is_not_followed(site, port(Some(6082)), says, &port(None)).await;
}

fn ranges(cidr: &str, prefix: u32) -> Value {
    json!({ "clusterNetwork": [{ "cidr": cidr, "hostPrefix": prefix }] })
}

#[tokio::test(start_paused = true)]
async fn a_plugin_and_ranges_that_may_not_be_edited_so_stay_as_they_are() {
    let mut site = Site::new(1, Chance::new(3)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    pass(120).await;
    let named = |name: &str| json!({ "defaultNetwork": { "type": name } });
    for other in ["OpenShiftSDN", "Calico"] {
        let says = format!("spec.defaultNetwork.type cannot become {other:?} without spec.migration");
        is_not_followed(&site, named(other), &says, &named("OVNKubernetes")).await;
    }
    let says = "spec.clusterNetwork 10.128.0.0/12 (/23 per node) cannot become 10.128.0.0/12 (/24 per node): hostPrefix \
                must stay";
    is_not_followed(&site, ranges("10.128.0.0/12", 24), says, &ranges("10.128.0.0/12", 23)).await;
    // The cluster goes on as it was: whoever comes is placed.
    site.edit(json!({ "spec": named("Calico") })).await;
    site.join("late", false).await;
    site.until("the newcomer serves", async |site| site.serve(PODS.0).ok()).await;
}

#[tokio::test(start_paused = true)]
async fn ranges_stay_in_phase_two_as_well() {
    let mut site = Site::new(1, Chance::new(4)).await;
    let _operator = site.cluster.operator("one");
    site.populate(3, 1).await;
    site.annotate(MtuUnattended::KEY, Some("true")).await;
    site.ask_change(PODS.0, PODS.1, HOSTS.1).await;
    site.until("phase two", async |site| {
        (site.record().await?.change?.stage == Stage::Settling).then_some(())
    })
    .await;
    // Nothing moves meanwhile that could be taken for a consequence.
    site.annotate(MtuPaused::KEY, Some("true")).await;
    pass(300).await;
    let says = "spec.clusterNetwork cannot be changed while a change is under way";
    is_not_followed(&site, ranges("10.128.0.0/11", 23), says, &ranges("10.128.0.0/12", 23)).await;
    ports_and_services_stay(&site).await;
    site.annotate(MtuPaused::KEY, None).await;
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}
