//! The host's Open vSwitch: its database and its daemon, as the host's own service would run them.

mod meeting;

use std::path::Path;
use std::time::Duration;

use netferry_ovs::tables::vswitch::{DATABASE, OpenVSwitch};
use netferry_ovs::{Client, Desired, Options, Owner, Spec, Wanted};

use super::{Reporter, insist, once};
use crate::children::Children;
use crate::error::{During, Result};
use crate::program::{Program, Service, Urgency};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const FILE: &str = "/etc/openvswitch/conf.db";
const SOCKET: &str = "unix:/run/openvswitch/db.sock";
const LOGS: &str = "/var/log/openvswitch";

/// Starts both, and keeps them running.
///
/// A switch of hardware does not wait until a compiler lets go of the processor. This one forwards by a process whose
/// sockets hold some packets and no more, so it comes before others. Not where there are too many (`crowded`): they would take
/// up all processors with packets one by one, which they handle many at a time when they have to wait, and nobody could
/// tell them anything.
pub(super) async fn start(children: &Children, reporter: &Reporter, crowded: bool) -> Result<Vec<Service>> {
    let urgency = if crowded { Urgency::BackAtOnce } else { Urgency::First };
    if !Path::new(FILE).exists() {
        let tool = Program::new("/usr/bin/ovsdb-tool", format!("{LOGS}/ovsdb-tool.log"));
        once(tool.args(["create", FILE, SCHEMA]), children).await?;
    }
    let database = Program::new("/usr/sbin/ovsdb-server", format!("{LOGS}/ovsdb-server.log")).args([
        FILE,
        "--remote=punix:/run/openvswitch/db.sock",
        &format!("--remote={}", meeting::CALLED),
        "--pidfile=/run/openvswitch/ovsdb-server.pid",
        "-vconsole:warn",
    ]);
    // Without it the switch stands still.
    let database = database.urgent(urgency).supervise(children);
    insist(reporter, "preparing the switch's database", async || {
        tokio::time::timeout(Duration::from_secs(10), prepare())
            .await
            .during("waiting for the switch's database")?
    })
    .await;
    let daemon = Program::new("/usr/sbin/ovs-vswitchd", format!("{LOGS}/ovs-vswitchd.log")).args([
        meeting::LISTENING,
        "--pidfile=/run/openvswitch/ovs-vswitchd.pid",
        "-vconsole:info",
        // Else it forgets where tunnels lead and end whenever any link changes, and pods that come and go cost packets
        // of others. The agent tells it.
        "--disable-system-route",
    ]);
    let daemon = daemon.urgent(urgency).supervise(children);
    tokio::spawn(meeting::arrange(daemon.follow()));
    Ok(vec![database, daemon])
}

/// The one row the daemon waits for. One thread of each kind is enough for a machine of a lab, of which there are many.
async fn prepare() -> Result<()> {
    let attempt = "preparing the switch's database";
    let remote = SOCKET.parse().during(attempt)?;
    let (client, driver) = Client::new(
        Spec::new(DATABASE).table::<OpenVSwitch>(),
        vec![remote],
        Options { connect_timeout: Duration::from_secs(1), ..Options::default() },
    );
    let settled = async {
        // Refusals only end this; that it is not there yet is what the driver gets over.
        while client.ready().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let row = Wanted::ensure::<OpenVSwitch>("").put("other_config", "n-handler-threads", "1").put(
            "other_config",
            "n-revalidator-threads",
            "1",
        );
        let owner = Owner::new("netferry.dev/owner", "lab", "netferry.dev/id");
        client
            .settle(&Desired::new().with(row), &owner, "lab: switch of a node")
            .await
            .during(attempt)
            .map(drop)
    };
    tokio::select! {
        done = settled => done,
        () = driver.run() => Err(crate::error::LabError::failed(attempt, "the connection's driver ended")),
    }
}
