//! What a switch must not remember of rules that are no more.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use netferry_ovs::unixctl::{Control, ControlError};

use crate::overlay::switch;

/// Between looks at whether the switch's rules have changed: how long what it remembers may be wrong.
const LOOK: Duration = Duration::from_millis(500);
/// How often it is told to forget after a change: what it was just correcting escapes.
const TIMES: u32 = 3;
/// What the switch counts when its rules change, and when its ports do.
const CHANGES: [&str; 2] = ["rev_flow_table", "rev_reconfigure"];

/// Makes a switch that moves packets itself forget what it decided before its rules changed.
///
/// Such a switch remembers each decision for all packets like the one it was made for, and corrects what it remembers
/// when its rules change. Those of before 3.3 may look up the decision to correct by its first packet instead of by its
/// identity. Where two decisions cover that packet they correct the other one, take both for right, and follow the wrong
/// one for as long as packets come: what a policy forbids stays open, what it allows stays closed. A switch that has
/// forgotten decides anew, and loses no packet by it.
pub(crate) async fn forget(ovs_run: PathBuf) {
    loop {
        match switch::control(&ovs_run).await {
            Ok(control) => match switch::version(&control).await {
                // A switch that is exchanged for another is started again, and the agent with it or before it.
                Ok(version) if version >= (3, 3) => {
                    return tracing::debug!(?version, "the switch corrects what it remembers");
                }
                Ok(_) => {
                    let Err(error) = follow(&control).await;
                    tracing::debug!(%error, "asking the switch whether its rules have changed");
                }
                Err(error) => tracing::debug!(%error, "asking the switch for its version"),
            },
            Err(error) => tracing::debug!(%error, "looking for the switch"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Until the switch answers no more.
async fn follow(switch: &Control) -> Result<Infallible, ControlError> {
    // Whoever followed it before may have ended between a change and this.
    let mut times = 1;
    let mut known = changes(switch).await?;
    loop {
        let now = changes(switch).await?;
        if known != now {
            (known, times) = (now, TIMES);
        }
        if times > 0 {
            switch.command("revalidator/purge", &[]).await?;
            times -= 1;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn changes(switch: &Control) -> Result<[u64; 2], ControlError> {
    Ok([switch.counter(CHANGES[0]).await?, switch.counter(CHANGES[1]).await?])
}
