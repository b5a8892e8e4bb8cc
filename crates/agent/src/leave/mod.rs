//! Leaving a host: everything of ours goes, and what was there before us is as it was.
//!
//! Each step finds out what is left of it, so that a run that was cut off anywhere is finished by the next. The order
//! is the reverse of how we came: nobody is told any more that pods can be started, then what keeps the network ends,
//! then what it kept goes. What is not ours any more is not touched by the next run: somebody else's may be in its place.

mod before;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netferry_core::overlay::names;
use netferry_kernel::{IfName, Kernel};
use netferry_ovs::tables::vswitch::{Bridge, Interface, OpenVSwitch, Port};
use netferry_ovs::transaction::Mutation;
use netferry_ovs::unixctl::{Control, ControlError};
use netferry_ovs::{CallError, Client, Datum, Options, Remote, SettleError, Spec, Table as _, Transaction};
use tokio::net::UnixStream;
use tokio::time::timeout;

pub use before::{Before, note};

use crate::capability::WithdrawError;
use crate::config::Paths;
use crate::kept;
use crate::machine::{Disk, StoreError, store};
use crate::overlay::host::{self, SettingsError};
use crate::overlay::ovn::daemons;
use crate::overlay::pods::{self, record};

/// How long the switch may take to answer, and to take its links away.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Why there is still something of ours.
#[derive(Debug, thiserror::Error)]
pub enum LeaveError {
    /// Somebody still keeps it.
    #[error("the agent runs, and would put back what is removed: stop it first")]
    Running,
    /// There are pods.
    #[error("{} pods would lose their network ({}): delete them first, or use --force", pods.len(), pods.join(", "))]
    Attached {
        /// Whose.
        pods: Vec<String>,
    },
    /// A daemon does not end.
    #[error("ending {daemon}")]
    Daemon {
        /// Which.
        daemon: String,
        /// Why not.
        #[source]
        source: ControlError,
    },
    /// The switch does not answer.
    #[error("Open vSwitch did not {what} within {} s: is the openvswitch-switch service running?", PATIENCE.as_secs())]
    NoSwitch {
        /// What it was to do.
        what: &'static str,
    },
    /// The switch's database cannot be used.
    #[error("using the switch's database")]
    Database(#[source] std::sync::Arc<netferry_ovs::client::LinkError>),
    /// Our rows stay.
    #[error("removing our rows from the switch's database")]
    Rows(#[source] SettleError),
    /// The bridge stays.
    #[error("removing bridge {} from the switch's database", names::INTEGRATION_BRIDGE)]
    Bridge(#[source] CallError),
    /// The kernel keeps something.
    #[error("removing what is ours from the kernel")]
    Kernel(#[from] SettingsError),
    /// Something of a capability stays.
    #[error(transparent)]
    Capability(#[from] WithdrawError),
    /// What a machine configuration brought stays.
    #[error("removing what a machine configuration brought")]
    Machine(#[from] StoreError),
    /// A file stays.
    #[error("removing {}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl LeaveError {
    /// Was nothing changed, because somebody has to decide first?
    pub fn is_refusal(&self) -> bool {
        match self {
            LeaveError::Running | LeaveError::Attached { .. } => true,
            LeaveError::Daemon { .. }
            | LeaveError::NoSwitch { .. }
            | LeaveError::Database(_)
            | LeaveError::Rows(_)
            | LeaveError::Bridge(_)
            | LeaveError::Kernel(_)
            | LeaveError::Capability(_)
            | LeaveError::Machine(_)
            | LeaveError::File { .. } => false,
        }
    }
}

/// Looks whether leaving would hurt anybody. Changes nothing.
pub async fn check(paths: &Paths, force: bool) -> Result<(), LeaveError> {
    // A switch that is not there has no pods on it.
    let Ok(Ok(switch)) = timeout(Duration::from_secs(2), connect(paths)).await else { return Ok(()) };
    let mut pods: Vec<String> =
        record::all(&switch.snapshot()).iter().map(|record| record.pod.to_string()).collect();
    pods.sort();
    if pods.is_empty() || force { Ok(()) } else { Err(LeaveError::Attached { pods }) }
}

/// Refuses while somebody keeps what would be removed.
pub async fn idle(paths: &Paths) -> Result<(), LeaveError> {
    match UnixStream::connect(paths.cni_socket()).await {
        Ok(_) => Err(LeaveError::Running),
        Err(_) => Ok(()),
    }
}

/// Whether switch, daemons and databases of OVN are ours. Once they were left they are whosever they were before.
pub async fn is_ours(paths: &Paths) -> bool {
    if before::is_noted(&paths.data) {
        return true;
    }
    // A switch that is not there was told nothing.
    let Ok(Ok(switch)) = timeout(Duration::from_secs(2), connect(paths)).await else { return false };
    let now = switch.snapshot();
    let root = now.single::<OpenVSwitch>().ok().flatten();
    root.is_some_and(|root| root.external_ids.contains_key(names::MARK.0))
}

/// Takes everything of ours off this host; nobody may keep it any more ([`idle`]). `step` hears what is being done.
pub async fn leave(kernel: &Kernel, paths: &Paths, mut step: impl FnMut(&str)) -> Result<(), LeaveError> {
    step("telling runtimes that no pods can be started");
    remove(&paths.cni_config)?;
    if is_ours(paths).await {
        leave_ovn(kernel, paths, &mut step).await?;
    }
    for capability in crate::capabilities().iter().rev() {
        (capability.withdraw)(kernel, paths)?;
    }
    step("removing what is ours from the kernel");
    host::withdraw(kernel, &paths.run)?;
    step("removing our files");
    // While it is known which ones they are, and what was there before.
    store::leave(&Disk::open(&paths.root).map_err(StoreError::from)?)?;
    // What says that OVN is ours goes with the last of these, and last of all.
    for directory in [&paths.run, &paths.data] {
        let removed = kept::remove_directory(directory);
        removed.map_err(|source| LeaveError::File { file: directory.clone(), source })?;
    }
    Ok(())
}

async fn leave_ovn(kernel: &Kernel, paths: &Paths, step: &mut impl FnMut(&str)) -> Result<(), LeaveError> {
    for daemon in daemons::of_zone(paths).iter().rev() {
        step(&format!("ending {}", daemon.name()));
        end(&paths.ovn_run, daemon.name()).await?;
    }
    step("clearing the switch");
    let switch = timeout(PATIENCE, connect(paths)).await;
    let switch =
        switch.map_err(|_| LeaveError::NoSwitch { what: "answer" })?.map_err(LeaveError::Database)?;
    // So that the next run knows that there is something to finish, also where nobody noted anything.
    note(&switch, &paths.data);
    let pods = record::all(&switch.snapshot());
    clear(&switch, &before::read(&paths.data)).await?;
    links_gone(kernel, &switch).await?;
    for record in pods {
        let gone = IfName::new(record.link).and_then(|link| pods::wire::detach(kernel, &link));
        gone.map_err(SettingsError::from)?;
    }
    step("removing the zone's databases");
    remove_databases(&paths.ovn_data)?;
    // Ours if nobody else has anything in them.
    for directory in [&paths.ovn_data, &paths.ovn_run] {
        let _ = std::fs::remove_dir(directory);
    }
    Ok(())
}

/// Ends a daemon that can be talked to; one that does not run has ended.
async fn end(run: &Path, name: &str) -> Result<(), LeaveError> {
    match Control::find(run, name).await {
        Ok(control) => {
            let ended = control.exit(&[]).await;
            ended.map_err(|source| LeaveError::Daemon { daemon: name.to_owned(), source })
        }
        Err(_) => Ok(()),
    }
}

async fn connect(paths: &Paths) -> Result<Client, std::sync::Arc<netferry_ovs::client::LinkError>> {
    let spec = Spec::new(netferry_ovs::tables::vswitch::DATABASE)
        .table::<OpenVSwitch>()
        .table::<Bridge>()
        .table::<Port>()
        .table::<Interface>();
    Client::connect(spec, vec![Remote::Unix(paths.switch_socket())], Options::default()).await
}

/// Our ports, the bridge they are on, and what we told the switch of OVN.
async fn clear(switch: &Client, before: &Before) -> Result<(), LeaveError> {
    let now = switch.snapshot();
    let Some(root) = now.single::<OpenVSwitch>().ok().flatten() else { return Ok(()) };
    let mut transaction = Transaction::new();
    transaction.comment("netferry: leaving");
    let mut mutations = vec![];
    let bridge = now.named::<Bridge>(names::INTEGRATION_BRIDGE).ok().flatten();
    mutations.extend(bridge.map(|bridge| Mutation::Delete("bridges".to_owned(), Datum::set([bridge.uuid]))));
    for (column, (gone, back)) in [
        ("external_ids", before.undo_ids(&root.row.external_ids)),
        ("other_config", before.undo_config(&root.row.other_config)),
    ] {
        if !gone.is_empty() {
            mutations.push(Mutation::Delete(column.to_owned(), Datum::set(gone)));
        }
        if !back.is_empty() {
            mutations.push(Mutation::Insert(column.to_owned(), Datum::map(back)));
        }
    }
    // A sign of life is asked for along with it.
    mutations.push(Mutation::Add("next_cfg".to_owned(), 1));
    transaction.mutate(OpenVSwitch::DECL.name, root.uuid, mutations);
    switch.transact(&transaction).await.map(drop).map_err(LeaveError::Bridge)
}

/// Waits until the switch's daemon has taken the links away.
async fn links_gone(kernel: &Kernel, switch: &Client) -> Result<(), LeaveError> {
    let done = async {
        switch
            .until(|rows| {
                let root = rows.single::<OpenVSwitch>().ok().flatten()?;
                (root.cur_cfg >= root.next_cfg).then_some(())
            })
            .await;
        for name in [names::MANAGEMENT_LINK, names::INTEGRATION_BRIDGE] {
            let name = IfName::new(name).map_err(SettingsError::from)?;
            while kernel.links().named(&name).map_err(SettingsError::from)?.is_some() {
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    };
    match timeout(PATIENCE, done).await {
        Ok(done) => done,
        Err(_) => Err(LeaveError::NoSwitch { what: "take its links away" }),
    }
}

/// The zone's databases, with their locks, and those that were put aside as damaged. Those of somebody else's have
/// another ending.
fn remove_databases(directory: &Path) -> Result<(), LeaveError> {
    let ours = |name: &str| {
        let name = name.trim_start_matches('.');
        let rest = ["ovnnb_db.db", "ovnsb_db.db"].iter().find_map(|file| name.strip_prefix(file));
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(".~lock~") || rest.starts_with(".damaged-"))
    };
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(ours) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(file: &Path) -> Result<(), LeaveError> {
    kept::remove(file).map_err(|source| LeaveError::File { file: file.to_owned(), source })
}
