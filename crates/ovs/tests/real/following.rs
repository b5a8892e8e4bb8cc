//! The copy follows the server, whatever happens to either.

use crate::daemons::{NORTHBOUND, SOUTHBOUND, Server, in_time, lasts};
use netferry_ovs::client::{Options, Status};
use netferry_ovs::tables::northbound::{AddressSet, LogicalSwitch, LogicalSwitchPort};
use netferry_ovs::tables::southbound::Chassis;
use netferry_ovs::{CallError, Change, Client, Condition, Is, Spec, Table, Transaction};
use netferry_testkit::wait::until_blocking;
use std::collections::BTreeMap;
use std::process::Command;

fn sets() -> Spec {
    Spec::new("OVN_Northbound").table::<AddressSet>()
}

async fn add_sets(client: &Client, names: impl IntoIterator<Item = String>) {
    let mut transaction = Transaction::new();
    for name in names {
        transaction.insert(&AddressSet { name, ..Default::default() });
    }
    client.transact(&transaction).await.unwrap();
}

/// Keeps what a watcher was told, and fails if it was told the same twice or out of order.
#[derive(Default)]
struct Told(BTreeMap<uuid::Uuid, AddressSet>);

impl Told {
    fn hear(&mut self, changes: Vec<Change>) {
        for change in changes {
            let (old, new) = change.typed::<AddressSet>().unwrap().unwrap();
            assert_ne!(old, new, "a change that is none");
            assert_eq!(self.0.get(&change.uuid), old.as_ref(), "told twice, or something was left out");
            match new {
                Some(new) => self.0.insert(change.uuid, new),
                None => self.0.remove(&change.uuid),
            };
        }
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.values().map(|s| s.name.as_str()).collect();
        names.sort_unstable();
        names
    }
}

/// Changes the database behind the client's back, through Open vSwitch's own client.
fn behind_the_back(server: &Server, database: &str, operations: &str) {
    let socket = format!("unix:{}", server.path("sock").display());
    let transaction = format!("[\"{database}\",{operations}]");
    // The server was only just started; its own client does not wait for it.
    let answer = until_blocking(&format!("ovsdb-client reaches {socket}"), || {
        let done = Command::new("ovsdb-client").args(["transact", &socket, &transaction]).output().unwrap();
        let said = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        if done.status.success() { Ok(said(&done.stdout)) } else { Err(said(&done.stderr)) }
    });
    assert!(!answer.contains("error"), "{answer}");
}

const CHANGES_WHILE_AWAY: &str = r#"
    {"op":"delete","table":"Address_Set","where":[["name","==","a"]]},
    {"op":"update","table":"Address_Set","where":[["name","==","b"]],"row":{"addresses":["set",["1","2"]]}},
    {"op":"insert","table":"Address_Set","row":{"name":"d"}}"#;

async fn a_killed_server_comes_back(mut server: Server) {
    let client = server.client(sets()).await;
    add_sets(&client, ["a", "b", "c"].map(str::to_owned)).await;
    let mut watcher = client.watch(&["Address_Set"]);
    let mut told = Told::default();
    told.hear(watcher.now());

    server.kill();
    let mut status = client.status();
    in_time("noticing", status.wait_for(|s| matches!(s, Status::Away { .. }))).await.unwrap();
    // Away at the old socket so that the client cannot see the changes one by one.
    let socket = server.path("sock");
    server.resume();
    behind_the_back(&server, "OVN_Northbound", CHANGES_WHILE_AWAY);
    assert!(socket.exists());

    let found = client.until(|now| now.named::<AddressSet>("d").unwrap());
    in_time("seeing what happened meanwhile", found).await;
    add_sets(&client, ["e".to_owned()]).await;
    told.hear(watcher.now());
    assert_eq!(told.names(), ["b", "c", "d", "e"]);
    let b = client.snapshot().named::<AddressSet>("b").unwrap().unwrap();
    assert_eq!(b.addresses, ["1".to_owned(), "2".to_owned()].into());
    assert!(watcher.now().is_empty());
}

#[tokio::test]
async fn no_update_is_lost_when_a_standalone_server_is_killed_and_comes_back() {
    a_killed_server_comes_back(Server::start(NORTHBOUND)).await;
}

#[tokio::test]
async fn no_update_is_lost_when_a_clustered_server_is_killed_and_comes_back() {
    a_killed_server_comes_back(Server::start_clustered(NORTHBOUND)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_see_every_change_once_while_the_server_is_killed_again_and_again() {
    let mut server = Server::start(NORTHBOUND);
    let client = server.client(sets()).await;
    let mut watcher = client.watch(&[]);
    let writer = {
        let client = client.clone();
        tokio::spawn(async move {
            let mut sure = Vec::new();
            for n in 0..300 {
                let mut transaction = Transaction::new();
                let name = format!("set{n:03}");
                transaction.insert(&AddressSet { name: name.clone(), ..Default::default() });
                match client.transact(&transaction).await {
                    Ok(_) => sure.push(name),
                    // Perhaps it is there, perhaps not: the copy decides, below.
                    Err(CallError::Lost { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            sure
        })
    };
    for round in 0..5usize {
        let enough =
            client.until(|now| (now.table("Address_Set").unwrap().len() >= (round + 1) * 40).then_some(()));
        in_time("writing", enough).await;
        server.kill();
        server.resume();
    }
    let sure = in_time("writing", writer).await.unwrap();
    let mut told = Told::default();
    told.hear(watcher.now());
    in_time("being connected", client.ready()).await.unwrap();
    told.hear(watcher.now());
    let held: Vec<AddressSet> =
        client.snapshot().all::<AddressSet>().unwrap().into_iter().map(|e| e.row).collect();
    let mut names: Vec<&str> = held.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(told.names(), names, "watcher and copy disagree");
    for name in &sure {
        assert!(names.contains(&name.as_str()), "{name} was acknowledged and is lost");
    }
    // And the copy agrees with the server.
    let fresh = server.client(sets()).await;
    assert_eq!(fresh.snapshot().table("Address_Set").unwrap().len(), names.len());
}

#[tokio::test]
async fn a_clustered_server_that_still_knows_the_transaction_is_not_loaded_again() {
    let server = Server::start_clustered(NORTHBOUND);
    let relay = Relay::start(&server).await;
    let spec = sets();
    let client =
        in_time("connecting", Client::connect(spec, vec![relay.remote()], Options::default())).await.unwrap();
    add_sets(&client, (0..500).map(|n| format!("s{n}"))).await;
    let before = relay.received();
    relay.cut();
    behind_the_back(
        &server,
        "OVN_Northbound",
        r#"{"op":"insert","table":"Address_Set","row":{"name":"late"}}"#,
    );
    in_time("resuming", client.until(|now| now.named::<AddressSet>("late").unwrap())).await;
    assert_eq!(client.snapshot().table("Address_Set").unwrap().len(), 501);
    let rows = relay.text_since(before).matches("\"s4").count();
    assert_eq!(rows, 0, "the rows that were known were sent again");
}

use crate::relay::Relay;

#[tokio::test]
async fn a_server_that_stops_answering_is_left_and_found_again() {
    let server = Server::start(NORTHBOUND);
    let relay = Relay::start(&server).await;
    let mut options = Options::default();
    options.session.probe = std::time::Duration::from_millis(200);
    let client = in_time("connecting", Client::connect(sets(), vec![relay.remote()], options)).await.unwrap();
    let mut status = client.status();
    relay.freeze(true);
    in_time("noticing", status.wait_for(|s| matches!(s, Status::Away { .. }))).await.unwrap();
    relay.freeze(false);
    in_time("coming back", status.wait_for(|s| matches!(s, Status::Following))).await.unwrap();
    add_sets(&client, ["a".to_owned()]).await;
}

#[tokio::test]
async fn an_idle_connection_stays() {
    let server = Server::start(NORTHBOUND);
    let mut options = Options::default();
    options.session.probe = std::time::Duration::from_millis(300);
    let client =
        in_time("connecting", Client::connect(sets(), vec![server.remote()], options)).await.unwrap();
    let probed = std::time::Duration::from_secs(2);
    assert!(
        lasts(&client, probed).await,
        "several probes were answered and still the connection was given up"
    );
}

#[tokio::test]
async fn ten_thousand_rows_are_loaded_and_found_by_index() {
    let server = Server::start(NORTHBOUND);
    let spec = Spec::new("OVN_Northbound").table::<LogicalSwitch>().table::<LogicalSwitchPort>();
    let writer = server.client(spec.clone()).await;
    let mut transaction = Transaction::new();
    let mut ports = netferry_ovs::tables::Refs::new();
    for n in 0..10_000 {
        ports.insert(
            transaction.insert(&LogicalSwitchPort {
                name: format!("ns_pod-{n}"),
                addresses: [format!(
                    "0a:58:0a:80:{:02x}:{:02x} 10.128.{}.{}",
                    n / 256,
                    n % 256,
                    n / 256,
                    n % 256
                )]
                .into(),
                external_ids: [("pod".to_owned(), "true".to_owned())].into(),
                ..Default::default()
            }),
        );
    }
    transaction.insert(&LogicalSwitch { name: "node".into(), ports, ..Default::default() });
    in_time("writing", writer.transact(&transaction)).await.unwrap();

    let client = server.client(spec).await;
    let snapshot = client.snapshot();
    assert_eq!(snapshot.table("Logical_Switch_Port").unwrap().len(), 10_000);
    let one = snapshot.named::<LogicalSwitchPort>("ns_pod-7777").unwrap().unwrap();
    assert_eq!(one.addresses.first().unwrap(), "0a:58:0a:80:1e:61 10.128.30.97");
    assert_eq!(snapshot.named::<LogicalSwitch>("node").unwrap().unwrap().ports.len(), 10_000);
}

#[tokio::test]
async fn a_slow_consumer_holds_up_nobody_and_ends_with_the_net_change() {
    let server = Server::start(NORTHBOUND);
    let client = server.client(sets()).await;
    add_sets(&client, ["busy".to_owned()]).await;
    let uuid = client.snapshot().named::<AddressSet>("busy").unwrap().unwrap().uuid;
    let mut slow = client.watch(&[]);
    slow.now();
    for n in 0..300i64 {
        let mut transaction = Transaction::new();
        let addresses = netferry_ovs::Datum::one(n.to_string());
        transaction.update("Address_Set", uuid, [("addresses".to_owned(), addresses)].into());
        client.transact(&transaction).await.unwrap();
    }
    let changes = slow.next().await;
    assert_eq!(changes.len(), 1);
    let (old, new) = changes[0].typed::<AddressSet>().unwrap().unwrap();
    assert!(old.unwrap().addresses.is_empty());
    assert_eq!(new.unwrap().addresses, ["299".to_owned()].into());
}

#[tokio::test]
async fn a_conditional_monitor_shows_rows_that_come_to_meet_it_and_hides_those_that_cease_to() {
    let server = Server::start(NORTHBOUND);
    let all = server.client(sets()).await;
    let condition = Condition::on(AddressSet::addresses(), Is::Including, ["10.0.0.1".to_owned()].into());
    let some = server.client(Spec::new("OVN_Northbound").table_where::<AddressSet>([condition])).await;
    add_sets(&all, ["in", "out"].map(str::to_owned)).await;
    let uuid = all.snapshot().named::<AddressSet>("in").unwrap().unwrap().uuid;
    let address = |inserts: bool| {
        use netferry_ovs::transaction::Mutation;
        let datum = netferry_ovs::Datum::set(["10.0.0.1"]);
        let mut transaction = Transaction::new();
        let mutation = if inserts {
            Mutation::Insert("addresses".into(), datum)
        } else {
            Mutation::Delete("addresses".into(), datum)
        };
        transaction.mutate("Address_Set", uuid, vec![mutation]);
        transaction
    };
    let mut seen = some.watch(&[]);
    all.transact(&address(true)).await.unwrap();
    let came = in_time("coming", seen.next()).await;
    assert_eq!((came.len(), came[0].uuid, came[0].old.is_none()), (1, uuid, true));
    all.transact(&address(false)).await.unwrap();
    let went = in_time("going", seen.next()).await;
    assert_eq!((went.len(), went[0].new.is_none()), (1, true));
    assert_eq!(all.snapshot().table("Address_Set").unwrap().len(), 2);
}

#[tokio::test]
async fn a_stolen_lock_is_known_to_be_lost_and_its_transactions_are_refused() {
    let server = Server::start(SOUTHBOUND);
    let spec = || Spec::new("OVN_Southbound").table::<Chassis>();
    let (first, second) = (server.client(spec()).await, server.client(spec()).await);
    let mut lock = first.lock("leader", false).await.unwrap();
    in_time("winning", lock.won()).await;
    let mut waiting = second.lock("leader", false).await.unwrap();
    let mut guarded = Transaction::new();
    guarded.assert_lock(lock.name());
    first.transact(&guarded).await.unwrap();
    assert!(second.transact(&guarded).await.is_err(), "only waiting for it");

    let mut thief = second.lock("leader", true).await.unwrap();
    in_time("stealing", thief.won()).await;
    in_time("losing", lock.lost()).await;
    assert!(first.transact(&guarded).await.is_err());
    second.transact(&guarded).await.unwrap();
    in_time("the older request is replaced", waiting.lost()).await;

    // Given back when dropped: the first, still in the queue, has it again.
    drop(thief);
    in_time("winning again", lock.won()).await;
    assert_eq!(Chassis::DECL.name, "Chassis");
}

#[tokio::test]
async fn a_lock_is_asked_for_again_after_a_lost_connection() {
    let mut server = Server::start(SOUTHBOUND);
    let client = server.client(Spec::new("OVN_Southbound").table::<Chassis>()).await;
    let mut lock = client.lock("leader", false).await.unwrap();
    in_time("winning", lock.won()).await;
    server.kill();
    in_time("losing", lock.lost()).await;
    server.resume();
    in_time("winning again", lock.won()).await;
}
