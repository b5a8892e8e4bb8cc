//! Who of the switch and its database calls the other.
//!
//! A switch without a datapath in the kernel forwards with the thread that follows its database, and only while it holds
//! a lock there. When the database's process ends, that thread stands still until the next one has given it the lock;
//! packets wait meanwhile in sockets. A switch that calls its database waits a second before it calls again, two the next
//! time, then four, and nothing makes that shorter. One that is called waits for nothing: the next process of the
//! database calls as soon as it runs, and the sockets hold what came in between: the agent sees to that.
//!
//! Called or not, it is the caller that waits after a call nobody took. So when the switch itself is new, the database
//! is told to call at once.

use std::time::Duration;

use netferry_ovs::unixctl::{Control, ControlError};
use tokio::sync::watch;

use crate::protocol::ProgramStatus;

const PLACE: &str = "/run/openvswitch";
/// Where the switch is called, as the database says it.
pub(super) const CALLED: &str = "unix:/run/openvswitch/ovs-vswitchd.sock";
/// The same as the switch says it.
pub(super) const LISTENING: &str = "punix:/run/openvswitch/ovs-vswitchd.sock";
/// Between two looks whether the switch is there.
const LOOK: Duration = Duration::from_millis(20);
/// After which the database has long called by itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Has every new switch called at once, until nothing starts one any more.
pub(super) async fn arrange(mut switch: watch::Receiver<ProgramStatus>) {
    let mut seen = 0;
    while let Ok(starts) = switch.wait_for(|status| status.starts != seen).await.map(|status| status.starts) {
        seen = starts;
        let met = tokio::select! {
            met = tokio::time::timeout(PATIENCE, meet()) => met,
            // This one ended before it was met.
            _ = switch.wait_for(|status| status.starts != seen) => continue,
        };
        match met {
            Ok(Ok(())) => {}
            // A database that is not there calls when it starts; one that does not listen calls within seconds.
            Ok(Err(error)) => {
                tracing::warn!(error = error.to_string(), "the database was not told of the switch")
            }
            Err(_) => tracing::warn!("no switch answers"),
        }
    }
}

async fn meet() -> Result<(), ControlError> {
    // It takes commands only after it has begun to listen.
    while answer().await.is_err() {
        tokio::time::sleep(LOOK).await;
    }
    let database = Control::find(PLACE, "ovsdb-server").await?;
    // What is added anew has never been called in vain.
    database.command("ovsdb-server/remove-remote", &[CALLED]).await?;
    database.command("ovsdb-server/add-remote", &[CALLED]).await.map(drop)
}

async fn answer() -> Result<String, ControlError> {
    Control::find(PLACE, "ovs-vswitchd").await?.version().await
}
