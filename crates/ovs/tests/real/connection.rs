//! Getting and keeping a connection.

use crate::daemons::{NORTHBOUND, SOUTHBOUND, Server, VSWITCH, in_time, lasts};
use netferry_ovs::client::{LinkError, Options};
use netferry_ovs::tables::northbound::{AddressSet, LogicalSwitch, LogicalSwitchPort};
use netferry_ovs::tables::{northbound, southbound, vswitch};
use netferry_ovs::{Client, Spec, Table, Transaction, tables};
use std::error::Error;

macro_rules! spec {
    ($module:ident: $($table:ident),+) => {
        Spec::new($module::DATABASE)$(.table::<$module::$table>())+
    };
}

#[tokio::test]
async fn every_declared_table_is_in_the_packaged_northbound_schema() {
    let spec = spec!(northbound: NbGlobal, LogicalSwitch, LogicalSwitchPort, LogicalRouter, LogicalRouterPort,
        LogicalRouterStaticRoute, LogicalRouterPolicy, Nat, LoadBalancer, LoadBalancerGroup, Acl, PortGroup,
        AddressSet, GatewayChassis, DhcpOptions, StaticMacBinding, ChassisTemplateVar, Copp);
    let server = Server::start(NORTHBOUND);
    let client = server.client(spec).await;
    assert_eq!(client.snapshot().schema().unwrap().name, "OVN_Northbound");
}

#[tokio::test]
async fn every_declared_table_is_in_the_packaged_southbound_schema() {
    let spec =
        spec!(southbound: SbGlobal, Chassis, ChassisPrivate, Encap, DatapathBinding, PortBinding, MacBinding);
    let server = Server::start(SOUTHBOUND);
    let client = server.client(spec).await;
    assert_eq!(client.snapshot().schema().unwrap().name, "OVN_Southbound");
}

#[tokio::test]
async fn every_declared_table_is_in_the_packaged_switch_schema() {
    let spec = spec!(vswitch: OpenVSwitch, Bridge, Port, Interface, Controller);
    let server = Server::start(VSWITCH);
    let client = server.client(spec).await;
    assert_eq!(client.snapshot().schema().unwrap().name, "Open_vSwitch");
}

mod imagined {
    netferry_ovs::tables! { "OVN_Northbound";
        /// A real table with a column that no server has.
        Switch = "Logical_Switch" by netferry_ovs::Key::Columns(&["name"]) => {
            name: String,
            telepathy: String,
        }
        /// The same, if it can be had.
        ModestSwitch = "Logical_Switch" by netferry_ovs::Key::Columns(&["name"]) => {
            name: String,
            telepathy: String [optional],
        }
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

#[tokio::test]
async fn a_server_without_a_column_we_use_is_refused_by_table_column_and_version() {
    let server = Server::start(NORTHBOUND);
    let spec = Spec::new("OVN_Northbound").table::<imagined::Switch>();
    let connecting = Client::connect(spec, vec![server.remote()], Options::default());
    let refused = in_time("being refused", connecting).await.unwrap_err();
    assert!(matches!(*refused, LinkError::Session { .. }));
    let text = chain(&*refused);
    assert!(text.contains("no column telepathy in table Logical_Switch"), "{text}");
    assert!(text.contains("OVN_Northbound (schema version "), "{text}");
}

#[tokio::test]
async fn a_column_newer_than_the_server_reads_as_empty() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(Spec::new("OVN_Northbound").table::<imagined::ModestSwitch>()).await;
    let mut transaction = Transaction::new();
    transaction.insert(&imagined::ModestSwitch { name: "s".into(), ..Default::default() });
    client.transact(&transaction).await.unwrap();
    let rows = client.snapshot().all::<imagined::ModestSwitch>().unwrap();
    assert_eq!((rows.len(), rows[0].name.as_str(), rows[0].telepathy.as_str()), (1, "s", ""));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_waited_for_at_the_next_remote() {
    let other = Server::start(VSWITCH);
    let server = Server::start(NORTHBOUND);
    let gone = "unix:/nonexistent/socket".parse().unwrap();
    let remotes = vec![gone, other.remote(), server.remote()];
    let spec = Spec::new("OVN_Northbound").table::<LogicalSwitch>();
    let client = in_time("connecting", Client::connect(spec, remotes, Options::default())).await.unwrap();
    assert_eq!(client.snapshot().schema().unwrap().name, "OVN_Northbound");
}

#[tokio::test]
async fn a_transaction_shows_in_the_copy_when_it_returns() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(Spec::new("OVN_Northbound").table::<AddressSet>()).await;
    for n in 0..200 {
        let mut transaction = Transaction::new();
        let name = format!("set{n}");
        transaction.insert(&AddressSet { name: name.clone(), ..Default::default() });
        client.transact(&transaction).await.unwrap();
        assert!(client.snapshot().named::<AddressSet>(&name).unwrap().is_some(), "{name} is not there yet");
    }
}

#[tokio::test]
async fn a_failed_operation_is_named_and_nothing_happened() {
    let server = Server::start(NORTHBOUND);
    let client =
        server.client(Spec::new("OVN_Northbound").table::<AddressSet>().table::<LogicalSwitchPort>()).await;
    let mut transaction = Transaction::new();
    transaction.insert(&AddressSet { name: "good".into(), ..Default::default() });
    transaction
        .insert_columns("Address_Set", [("colour".to_owned(), netferry_ovs::Datum::one("red"))].into());
    let text = chain(&client.transact(&transaction).await.unwrap_err());
    assert!(text.contains("operation 1 of the transaction failed: insert row2 into Address_Set"), "{text}");
    assert!(text.contains("No column colour in table Address_Set"), "{text}");

    let mut twice = Transaction::new();
    twice.insert(&AddressSet { name: "same".into(), ..Default::default() });
    twice.insert(&AddressSet { name: "same".into(), ..Default::default() });
    let text = chain(&client.transact(&twice).await.unwrap_err());
    assert!(text.contains("the transaction as a whole was refused: constraint violation"), "{text}");
    assert!(client.snapshot().all::<AddressSet>().unwrap().is_empty());
    assert_eq!(AddressSet::DECL.name, "Address_Set");
}

#[tokio::test]
async fn a_precondition_that_no_longer_holds_stops_the_transaction() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(Spec::new("OVN_Northbound").table::<AddressSet>()).await;
    let mut first = Transaction::new();
    let set = first.insert(&AddressSet { name: "a".into(), ..Default::default() });
    let uuid = client.transact(&first).await.unwrap().uuid(&set).unwrap();

    let none: tables::StringSet = Default::default();
    let holds = |addresses: &tables::StringSet| {
        use netferry_ovs::shape::ColumnType;
        [("addresses".to_owned(), addresses.to_datum())].into()
    };
    let change = |addresses: &[&str]| {
        let mut change = Transaction::new();
        change.comment("a test");
        change.require("Address_Set", uuid, holds(&none));
        change.update("Address_Set", uuid, holds(&addresses.iter().map(|a| a.to_string()).collect()));
        change
    };
    client.transact(&change(&["10.0.0.1"])).await.unwrap();
    let text = chain(&client.transact(&change(&["10.0.0.2"])).await.unwrap_err());
    assert!(text.contains("operation 0 of the transaction failed: require of Address_Set"), "{text}");
    let now = client.snapshot().named::<AddressSet>("a").unwrap().unwrap();
    assert_eq!(now.addresses, ["10.0.0.1".to_owned()].into());
}

mod remotes {
    netferry_ovs::tables! { "OVN_Northbound";
        /// Where the server listens.
        Listener = "Connection" by netferry_ovs::Key::Columns(&["target"]) => {
            target: String,
            inactivity_probe: Option<i64>,
            status: netferry_ovs::tables::Strings [status],
        }
        /// The root that refers to it.
        Root = "NB_Global" by netferry_ovs::Key::Singleton => { connections: netferry_ovs::tables::Refs, }
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_sign_of_life_over_tcp_gets_one() {
    use remotes::{Listener, Root};
    let server = Server::start_listening(NORTHBOUND, "db:OVN_Northbound,NB_Global,connections");
    let local = server.client(Spec::new("OVN_Northbound").table::<Listener>().table::<Root>()).await;
    let mut transaction = Transaction::new();
    let target = "ptcp:0:127.0.0.1".to_owned();
    let listener =
        transaction.insert(&Listener { target, inactivity_probe: Some(200), ..Default::default() });
    transaction.insert(&Root { connections: [listener].into() });
    local.transact(&transaction).await.unwrap();
    let port = in_time(
        "listening",
        local.until(|now| now.single::<Listener>().unwrap()?.status.get("bound_port").cloned()),
    )
    .await;

    let remote = format!("tcp:127.0.0.1:{port}").parse().unwrap();
    let spec = Spec::new("OVN_Northbound").table::<AddressSet>();
    let client =
        in_time("connecting", Client::connect(spec, vec![remote], Options::default())).await.unwrap();
    // It asks after a second of silence at the soonest, and waits as long for the answer.
    let asked_and_heard = std::time::Duration::from_secs(3);
    assert!(lasts(&client, asked_and_heard).await, "the server gave up a client that answers");
    let mut transaction = Transaction::new();
    transaction.insert(&AddressSet { name: "a".into(), ..Default::default() });
    client.transact(&transaction).await.unwrap();
}
