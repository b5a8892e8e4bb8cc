//! A refused change changes nothing but its own condition and Event (I6).

use std::collections::BTreeMap;

use netferry_api::annotation::Annotation;
use netferry_api::mtu::NicRange;
use netferry_api::mtu::annotations::{MtuPaused, MtuUnattended};
use netferry_api::mtu::conditions::MtuConditionType;
use netferry_core::mtu::record::Stage;
use serde_json::{Value, json};

use crate::support::chance::Chance;
use crate::support::pass;
use crate::support::site::{HOSTS, PODS, Site};

/// An edit of `spec`, and what is said of it: reason of the condition, and a part of its message.
struct Row(Value, &'static str, &'static str);

fn migration(from: Option<u32>, to: u32, machine: Value) -> Value {
    json!({ "migration": { "mtu": { "network": { "from": from, "to": to }, "machine": machine } } })
}

fn plugin(mtu: u32) -> Value {
    json!({ "migration": null, "defaultNetwork": { "ovnKubernetesConfig": { "mtu": mtu } } })
}

/// All there is, but what the edit itself wrote and what a refusal may write: its condition, and where the plugin or ranges
/// were edited the one that tells of fields that cannot be.
async fn untouched(site: &Site, edited: &Value) -> BTreeMap<String, Value> {
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
    let fields = ["defaultNetwork", "clusterNetwork"].iter().any(|field| edited.get(field).is_some());
    let its_own = |kind: &Value| kind == MtuConditionType::Refused.as_str() || (fields && kind == "Degraded");
    let conditions = network["status"]["conditions"].as_array_mut().expect("conditions");
    conditions.retain(|condition| !its_own(&condition["type"]));
    all
}

async fn is_refused(site: &Site, Row(spec, reason, part): Row, undo: &Value) {
    let before = untouched(site, &spec).await;
    site.edit(json!({ "spec": spec })).await;
    let refused = MtuConditionType::Refused.as_str();
    let (found, message) = site.cluster.until_condition(refused, "True").await;
    assert_eq!(found, reason, "{spec}: {message}");
    assert!(message.contains(part), "{spec}: {message}");
    // Whatever else would be done is done by then.
    pass(120).await;
    let after = untouched(site, &spec).await;
    for name in before.keys().chain(after.keys()) {
        assert_eq!(before.get(name), after.get(name), "{spec}: {name}");
    }
    let events = site.cluster.events("Network", "cluster").await;
    assert!(events.iter().any(|(told, _)| told == reason), "{spec}: {events:#?}");
    site.edit(json!({ "spec": undo })).await;
    site.cluster.until_condition(refused, "False").await;
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
        Row(migration(None, 1300, hosts.clone()), "FieldMissing", "network.from"),
        Row(migration(Some(1500), 1300, hosts.clone()), "FromIsNotApplied", "network.from is 1500, but the MTU that is applied is 1400"),
        Row(migration(Some(1400), 100, hosts.clone()), "OutOfRange", "576"),
        Row(migration(Some(1400), 65537, hosts.clone()), "OutOfRange", "65637"),
        Row(migration(Some(1400), 1500, hosts.clone()), "MachineTooSmall", "1600"),
        Row(migration(Some(1400), 1300, json!({ "from": 1400, "to": 1600 })), "HostElsewhere", "n000 at 1500"),
        Row(migration(Some(1400), 1300, json!({ "from": 9000, "to": 1500 })), "HostsNotAtFrom", "machine.from is 9000, but every host that has reported runs at 1500"),
        Row(migration(Some(1400), 9001, json!({ "to": 9101 })), "CardTooSmall", "carry 9101, and card eth0 of node n000 takes at most 9100"),
        Row(plugin(8900), "WithoutMigration", "8900"),
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
        "HostFixed",
        "that of node n000 cannot: nobody describes eth0",
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
        Row(migration(Some(1300), 8900, json!({ "to": 9000 })), "FromIsNotApplied", "network.from is 1300"),
        Row(migration(Some(1400), 8900, json!({ "to": 8999 })), "MachineTooSmall", "9000"),
        Row(migration(Some(1400), 9001, json!({ "to": 9101 })), "CardTooSmall", "n001"),
        Row(migration(Some(8900), 2000, json!({ "to": 9000 })), "ChangeRunning", "1400"),
        Row(plugin(PODS.0), "MigrationRemoved", "1400"),
        Row(plugin(2000), "MigrationRemoved", "2000"),
    ];
    for row in rows {
        is_refused(&site, row, &running).await;
    }
}

/// An edit beside the MTU that is refused, and what is said of it.
async fn is_not_followed(site: &Site, spec: Value, says: &str, undo: &Value) {
    let before = untouched(site, &spec).await;
    site.edit(json!({ "spec": spec })).await;
    let (reason, message) = site.cluster.until_condition("Degraded", "True").await;
    assert_eq!((reason.as_str(), message.as_str()), ("InvalidOperatorConfig", says));
    pass(120).await;
    let after = untouched(site, &spec).await;
    for name in before.keys().chain(after.keys()) {
        assert_eq!(before.get(name), after.get(name), "{spec}: {name}");
    }
    // What comes again soon is counted with what was told before it.
    let events = site.cluster.events("Network", "cluster").await;
    assert!(events.iter().any(|(told, _)| *told == reason), "{spec}: {events:#?}");
    site.edit(json!({ "spec": undo })).await;
    site.cluster.until_condition("Degraded", "False").await;
    site.fleet.lawful();
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
    site.annotate(MtuPaused::KEY, None).await;
    site.until("all is at the new size", async |site| site.settled().await.ok().filter(|at| *at == PODS.1))
        .await;
}
