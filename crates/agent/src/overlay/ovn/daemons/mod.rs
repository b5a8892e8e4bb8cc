//! The zone's daemons: two databases, `ovn-northd` and `ovn-controller`.
//!
//! They outlive the agent. Each is started detached, in a session of its own, and found again by its pidfile and
//! control socket; whoever is there already is adopted as it is. One that dies is started again. Nothing about them is
//! remembered: a connection to the control socket, held open, ends with the process behind it.

mod daemon;
mod database;

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinSet;

pub use daemon::{Daemon, StartError};
pub use database::{Database, DatabaseError};

use crate::config::Paths;

/// Between an attempt that failed and the next.
const PATIENCE: Duration = Duration::from_millis(500);

/// The zone's daemons, in the order they are started in.
pub fn of_zone(paths: &Paths) -> [Daemon; 4] {
    let unix = |path: PathBuf| format!("unix:{}", path.display());
    let database = |name: &str, schema: &str, log: &str| {
        let file = paths.ovn_data.join(format!("{name}.db"));
        let socket = paths.ovn_run.join(format!("{name}.sock"));
        Daemon::new("ovsdb-server", name, paths, log)
            .argument(file.display().to_string())
            .argument(format!("--remote=punix:{}", socket.display()))
            .argument(format!("--unixctl={}", paths.ovn_run.join(format!("{name}.ctl")).display()))
            .listening_at(socket)
            .keeping(Database { file, schema: paths.ovn_schemas.join(schema) })
    };
    let northbound = unix(paths.northbound_socket());
    let southbound = unix(paths.southbound_socket());
    [
        database("ovnnb_db", "ovn-nb.ovsschema", "ovsdb-server-nb.log"),
        database("ovnsb_db", "ovn-sb.ovsschema", "ovsdb-server-sb.log"),
        Daemon::new("ovn-northd", "ovn-northd", paths, "ovn-northd.log")
            .argument(format!("--ovnnb-db={northbound}"))
            .argument(format!("--ovnsb-db={southbound}"))
            .argument(format!("--unixctl={}", paths.ovn_run.join("ovn-northd.ctl").display())),
        // 23.03 reads the southbound database's global row without looking whether it is there.
        // It has no option for its control socket: that is where its environment says, with its process in the name.
        Daemon::new("ovn-controller", "ovn-controller", paths, "ovn-controller.log")
            .argument(unix(paths.switch_socket()))
            .once_filled(paths.southbound_socket()),
    ]
}

/// Keeps the daemons running until dropped; dropping it leaves them as they are.
#[derive(Debug)]
pub struct Daemons {
    /// What keeps each of them. One that fails must be seen: nobody would start its daemon again.
    pub parts: JoinSet<()>,
}

impl Daemons {
    /// Starts what does not run and adopts what does; returns when each has been seen to run once.
    ///
    /// # Errors
    ///
    /// A daemon that cannot be started at all, such as one that is not installed. One that ran and dies later is
    /// started again for as long as it takes.
    pub async fn keep(paths: &Paths) -> Result<Daemons, StartError> {
        for directory in [&paths.ovn_run, &paths.ovn_data, &paths.ovn_log] {
            std::fs::create_dir_all(directory)
                .map_err(|source| StartError::Directory { directory: directory.clone(), source })?;
        }
        let mut parts = JoinSet::new();
        for daemon in of_zone(paths) {
            let running = daemon.ensure().await?;
            parts.spawn(keep(daemon, running));
        }
        Ok(Daemons { parts })
    }
}

async fn keep(daemon: Daemon, mut running: daemon::Running) {
    loop {
        running.ended().await;
        tracing::warn!(daemon = daemon.name(), "ended; starting it again");
        running = loop {
            match daemon.ensure().await {
                Ok(running) => break running,
                Err(error) => {
                    report(&daemon, &error);
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        };
    }
}

fn report(daemon: &Daemon, error: &StartError) {
    let error = error as &dyn std::error::Error;
    tracing::error!(daemon = daemon.name(), error, "cannot be started; trying again");
}
