//! Whether pods that are attached reach anything.

use std::path::Path;
use std::time::Duration;

use netferry_ovs::unixctl::Control;

/// How long the switch may take to answer before it counts as gone.
const LIMIT: Duration = Duration::from_secs(2);

/// Whether the switch itself runs. Without it no packet of any pod moves, and nothing in a database says so.
pub(super) async fn is_switching(ovs_run: &Path) -> bool {
    let found = tokio::time::timeout(LIMIT, Control::find(ovs_run, "ovs-vswitchd")).await;
    matches!(found, Ok(Ok(_)))
}
