//! The node's Open vSwitch: who it is and who moves its packets. Its rows are kept by [`crate::overlay::ovn`].

pub(crate) mod packet_room;
pub(crate) mod stale_flows;
pub(crate) mod zero_snat;

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use netferry_api::annotation::Annotation;
use netferry_api::overlay::annotations::ChassisId;
use netferry_core::overlay::names;
use netferry_core::overlay::zone::{Datapath, SwitchProcess};
use netferry_kernel::Kernel;
use netferry_ovs::tables::vswitch::OpenVSwitch;
use netferry_ovs::unixctl::{Control, ControlError};
use netferry_ovs::{Client, Desired, Owner, SettleError, Wanted};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::host_init::{self, InitError, Record};

const DAEMON: &str = "ovs-vswitchd";
/// How often a switch without flows is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Between looks for a switch that is away.
const PAUSE: Duration = Duration::from_millis(50);

/// Who moves the packets on this host: what host-init found at this boot, for the uplink is as that needs it; else what
/// host-init would find.
///
/// # Errors
/// If the kernel cannot be asked.
pub fn datapath(kernel: &Kernel, done: Option<&Record>) -> Result<Datapath, InitError> {
    done.map_or_else(|| host_init::datapath_of(kernel), |done| Ok(done.datapath.into()))
}

/// The running switch's control socket.
pub(crate) async fn control(run: &Path) -> Result<Control, ControlError> {
    Control::find(run, DAEMON).await
}

/// The first two numbers of a switch's version; the highest there are where it says something else.
pub(crate) async fn version(switch: &Control) -> Result<(u32, u32), ControlError> {
    Ok(read_version(&switch.version().await?))
}

/// Of `3.1.0`, or of `ovs-vswitchd (Open vSwitch) 3.1.0`.
fn read_version(text: &str) -> (u32, u32) {
    let number = text.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or_default();
    let mut numbers = number.split('.').map(|number| number.parse::<u32>().unwrap_or(u32::MAX));
    (numbers.next().unwrap_or(u32::MAX), numbers.next().unwrap_or(u32::MAX))
}

/// Makes sure that the switch has an identity, by which other nodes send to it. One it has is kept; a switch that has
/// lost its database gets the one this node was last known by, because that is where others send to.
pub async fn identity(switch: &Client, last_known: &Node) -> Result<String, SettleError> {
    let has = switch.snapshot().single::<OpenVSwitch>().ok().flatten();
    if let Some(id) = has.and_then(|row| row.row.external_ids.get("system-id").cloned()) {
        return Ok(id);
    }
    let known = last_known.metadata.annotations.as_ref().and_then(|all| ChassisId::read(all).ok().flatten());
    let id = known.map_or_else(|| uuid::Uuid::new_v4().to_string(), |known| known.get().clone());
    let root = Wanted::ensure::<OpenVSwitch>("").put("external_ids", "system-id", &id);
    let owner = Owner::new(names::MARK.0, names::MARK.1, names::ID);
    switch.settle_part(&Desired::new().with(root), &[], &owner, "netferry agent: an identity").await?;
    tracing::info!(id, "the switch has an identity now");
    Ok(id)
}

/// Whether the switch has flows on its integration bridge; `None` when it does not answer.
pub async fn has_flows(run: &Path) -> Option<bool> {
    let control = control(run).await.ok()?;
    match control.command("bridge/dump-flows", &[names::INTEGRATION_BRIDGE]).await {
        // The last table holds what every bridge has by itself.
        Ok(flows) => Some(flows.lines().any(|flow| !flow.contains("table_id=254"))),
        Err(ControlError::Refused { .. }) => Some(false),
        Err(_) => None,
    }
}

/// The state of the switch's process. While there is none, it is taken to read the kernel's routes.
pub async fn process(run: &Path, datapath: Datapath) -> SwitchProcess {
    SwitchProcess {
        has_flows: has_flows(run).await.unwrap_or(false),
        follows_routes: follows_routes(run, datapath, true).await,
    }
}

/// Returns true if the switch takes its routes from the kernel; else they are set (see [`crate::overlay::host::ways`]).
/// `known` is the answer while the switch gives none. In the kernel's datapath the kernel routes.
async fn follows_routes(run: &Path, datapath: Datapath, known: bool) -> bool {
    if datapath == Datapath::Kernel {
        return true;
    }
    match control(run).await {
        // The loopback has some on every host.
        Ok(control) => {
            let routes = control.tunnel_routes().await;
            routes.map_or(known, |routes| routes.iter().any(|route| !route.told))
        }
        Err(_) => known,
    }
}

/// Follows the state of the switch's process while it has a receiver. A new process has no flows until `ovn-controller`
/// installed some.
pub async fn follow(run: PathBuf, datapath: Datapath, process: watch::Sender<SwitchProcess>) {
    let tell = |now: SwitchProcess| {
        process.send_if_modified(|last| {
            let differs = *last != now;
            *last = now;
            differs
        });
    };
    while !process.is_closed() {
        if let Ok(control) = control(&run).await
            && let Ok(mut life) = UnixStream::connect(control.socket()).await
        {
            loop {
                let last = *process.borrow();
                let has_flows = has_flows(&run).await != Some(false);
                // One that has just started may not have read them yet, and is asked again.
                let follows_routes = follows_routes(&run, datapath, last.follows_routes).await;
                tell(SwitchProcess { has_flows, follows_routes });
                if has_flows {
                    break;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            // Nothing is ever said here: it ends with the process.
            let _ = life.read(&mut [0; 16]).await;
            let last = *process.borrow();
            tell(SwitchProcess { has_flows: false, ..last });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers_and_unknown_ones_are_new() {
        for (text, numbers) in
            [("2.17.9", (2, 17)), ("3.1.0", (3, 1)), ("ovs-vswitchd (Open vSwitch) 3.10.1\nDPDK 22", (3, 10))]
        {
            assert_eq!(read_version(text), numbers, "{text}");
        }
        for text in ["unknown", ""] {
            assert!(read_version(text) > (1000, 0), "{text}");
        }
    }

    #[test]
    fn an_agent_uses_the_datapath_that_host_init_found_at_this_boot_and_else_finds_the_same() {
        let kernel = Kernel::here().unwrap();
        for of_boot in [Datapath::Kernel, Datapath::Userspace] {
            let done = Record { datapath: of_boot.into(), bridge: None, sized: None, unsized_because: None };
            assert_eq!(datapath(&kernel, Some(&done)).unwrap(), of_boot);
        }
        assert_eq!(datapath(&kernel, None).unwrap(), host_init::datapath_of(&kernel).unwrap());
    }
}
