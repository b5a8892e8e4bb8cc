//! `netferry host-init`: what must be true of a host before its kubelet starts.
//!
//! Tunnels of the userspace datapath end on a bridge of the switch, so the host's addresses have to be on one. The
//! uplink becomes a port of it, and everything that the host's network service configured on the uplink moves to the
//! bridge, with its metrics, labels and lifetimes. The host's configuration is not touched: at the next boot it puts
//! everything on the uplink again, and host-init moves it again.
//!
//! ```text
//! bridge made ▸ addresses on it too ▸ uplink a port ▸ guard ▸ bridge on ▸ routes turned ▸ addresses off ▸ announced
//! ```
//!
//! Every step finds out from the kernel and the switch what is left of it, and the next one needs nothing but its
//! result: a run that was cut off anywhere, by whatever, is finished by the next. Until the guard everything still
//! works through the uplink; from there to the announcement are a few netlink messages.

mod bridge;
mod bridge_size;
mod follow;
mod offloads;
mod part;
mod record;
pub mod transfer;
mod uplink;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netferry_core::error::chain;
use netferry_core::overlay::names;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::announce::Announcement;
use netferry_kernel::link::Link;
use netferry_kernel::sysctl::{Key, Of};
use netferry_kernel::{IfName, Kernel, Mac, Objects};
use netferry_ovs::client::LinkError;
use netferry_ovs::{CallError, Remote, SettleError};
use tokio::time::timeout;

use crate::config::Paths;
use crate::machine::{self, Disk, StoreError};
use crate::overlay::host::{SettingsError, guard};
use bridge::{Found, Plan, Switch};
pub use bridge_size::BridgeSize;
pub use follow::{Done, follow, keep};
use part::Parts;
pub use part::{BootError, BootPart, OpenPart};
pub use record::{BridgeRecord, Moves, Record};

pub use uplink::{NoUplink, Sight, choose};

/// How long the switch may take at a boot.
const PATIENCE: Duration = Duration::from_secs(60);

/// What host-init is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The switch's database.
    pub database: Remote,
    /// Our run directory.
    pub run: PathBuf,
    /// The bridge's name.
    pub bridge: IfName,
    /// The link that becomes its port; found by the default route if none is named.
    pub uplink: Option<IfName>,
    /// Who moves packets; found out if not said.
    pub datapath: Option<Datapath>,
    /// Make the bridge where the kernel moves packets too, and no tunnel needs it.
    pub always: bool,
    /// Give the bridge the uplink's hardware address, for networks that know no other.
    pub keep_mac: bool,
    /// How long to wait for the switch.
    pub patience: Duration,
    /// Where the host's files are.
    pub root: PathBuf,
}

/// Why the host could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is no link to build on.
    #[error(transparent)]
    Uplink(#[from] NoUplink),
    /// Somebody else's bridge has the name.
    #[error(
        "bridge {bridge} exists and was not made by netferry: remove it, or choose another with --bridge-name"
    )]
    Foreign {
        /// The bridge.
        bridge: IfName,
    },
    /// The switch's database or daemon does not answer.
    #[error("{what} did not answer within {} s: is the openvswitch-switch service running?", patience.as_secs())]
    NoSwitch {
        /// Which part of it.
        what: &'static str,
        /// How long was waited.
        patience: Duration,
    },
    /// The switch's database is not one we understand.
    #[error("using the switch's database")]
    Database(#[source] Arc<LinkError>),
    /// The switch's database did not take our rows.
    #[error("setting up bridge {bridge}")]
    Rows {
        /// The bridge.
        bridge: IfName,
        /// Why not.
        #[source]
        source: SettleError,
    },
    /// The switch's database did not answer our question.
    #[error("waiting for bridge {bridge}")]
    Waiting {
        /// The bridge.
        bridge: IfName,
        /// Why not.
        #[source]
        source: CallError,
    },
    /// The switch could not use a link.
    #[error("the switch cannot use link {link}: {why}")]
    Port {
        /// Which.
        link: IfName,
        /// Its words.
        why: String,
    },
    /// The kernel refused something.
    #[error("{step}")]
    Kernel {
        /// What was being done.
        step: String,
        /// Its refusal.
        #[source]
        source: netferry_kernel::Error,
    },
    /// What is ours in the kernel could not be removed.
    #[error("removing what is ours from the kernel")]
    Withdraw(#[source] SettingsError),
    /// The host's files could not be put in order after a loss of power.
    #[error("putting in order what a loss of power left half done")]
    Files(#[source] StoreError),
    /// A capability could not prepare the host.
    #[error(transparent)]
    Part(#[from] BootError),
    /// What was done could not be written down.
    #[error("writing down what was done in {}", run.display())]
    Record {
        /// Where.
        run: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl Options {
    /// The usual ones, on a node with these places.
    pub fn of(paths: &Paths) -> Options {
        Options {
            database: Remote::Unix(paths.switch_socket()),
            run: paths.run.clone(),
            bridge: IfName::new(names::EXTERNAL_BRIDGE).expect("a short name"),
            uplink: None,
            datapath: None,
            always: false,
            keep_mac: false,
            patience: PATIENCE,
            root: paths.root.clone(),
        }
    }
}

impl InitError {
    /// Was nothing changed, because the request as it is cannot be carried out?
    pub fn is_refusal(&self) -> bool {
        match self {
            InitError::Uplink(_) | InitError::Foreign { .. } => true,
            InitError::Part(error) => matches!(error, BootError::Refused(_)),
            InitError::NoSwitch { .. }
            | InitError::Database(_)
            | InitError::Rows { .. }
            | InitError::Waiting { .. }
            | InitError::Port { .. }
            | InitError::Kernel { .. }
            | InitError::Withdraw(_)
            | InitError::Files(_)
            | InitError::Record { .. } => false,
        }
    }
}

/// Prepares the host, from whatever state it is in. `step` hears what is being done.
///
/// # Guarantees
///
/// A refusal ([`InitError::is_refusal`]) changed nothing. Cut off at any step, the next run ends where this one
/// would have ended. Run again after it has ended it changes nothing.
pub async fn prepare(
    kernel: &Kernel,
    options: &Options,
    mut step: impl FnMut(&str),
) -> Result<Record, InitError> {
    let datapath = match options.datapath {
        Some(datapath) => datapath,
        None => datapath_of(kernel)?,
    };
    step("putting the host's files in order");
    mend(options)?;
    let mut parts = Parts::open(options)?;
    let (mut sized, mut unsized_because) = (None, None);
    let bridge = match datapath {
        Datapath::Kernel if !options.always => {
            let switch = connect(options).await?;
            let found = bridge::find(&switch.client.snapshot(), &options.bridge);
            match look(kernel, options, &found) {
                Ok(uplink) => {
                    let uplink = parts.prepare(kernel, uplink, &mut step)?;
                    parts.record(kernel, &[&uplink.name])?;
                    sized = Some(uplink.name.to_string());
                }
                // Without sizes to run at it does not matter which link it is.
                Err(error) if !parts.need_uplink() => unsized_because = Some(chain(&error)),
                Err(error) => return Err(error),
            }
            forget_last_boot(&switch, options).await?;
            None
        }
        Datapath::Kernel | Datapath::Userspace => {
            Some(build(kernel, options, datapath, &mut parts, &mut step).await?)
        }
    };
    let record = Record { datapath: datapath.into(), bridge, sized, unsized_because };
    record.write(&options.run).map_err(|source| InitError::Record { run: options.run.clone(), source })?;
    Ok(record)
}

/// Prepares a host whose links are not ours to use: its files are put in order, and what OVN said before this boot is
/// forgotten. Where the host was prepared in this boot, nothing is done.
///
/// What the switch was told before us is noted in `data`.
pub async fn prepare_alone(kernel: &Kernel, options: &Options, data: &Path) -> Result<Record, InitError> {
    let failed = |source| InitError::Record { run: options.run.clone(), source };
    if let Some(record) = Record::read(&options.run).map_err(failed)? {
        return Ok(record);
    }
    mend(options)?;
    let switch = connect(options).await?;
    crate::leave::note(&switch.client, data);
    forget_last_boot(&switch, options).await?;
    let datapath = match options.datapath {
        Some(datapath) => datapath,
        None => datapath_of(kernel)?,
    };
    let record = Record { datapath: datapath.into(), bridge: None, sized: None, unsized_because: None };
    record.write(&options.run).map_err(failed)?;
    Ok(record)
}

/// Puts in order what a loss of power left of the host's files, and notes what this boot finds there: to be done before
/// anything reads them, the host's network service among others. Answers whether units changed by that: the host's
/// service manager has read those already.
pub fn mend(options: &Options) -> Result<bool, InitError> {
    let opened = Disk::open(&options.root).map_err(StoreError::from);
    opened.and_then(|disk| machine::mend(&disk, &options.run)).map_err(InitError::Files)
}

/// Who moves packets on this host.
pub fn datapath_of(kernel: &Kernel) -> Result<Datapath, InitError> {
    let there = tell(kernel.has_ovs_datapath(), || "looking for the kernel's datapath".to_owned())?;
    Ok(if there { Datapath::Kernel } else { Datapath::Userspace })
}

async fn build(
    kernel: &Kernel,
    options: &Options,
    datapath: Datapath,
    parts: &mut Parts,
    step: &mut impl FnMut(&str),
) -> Result<BridgeRecord, InitError> {
    let (name, patience) = (&options.bridge, options.patience);
    step("waiting for the switch's database");
    let switch = connect(options).await?;
    let found = bridge::find(&switch.client.snapshot(), name);
    let uplink = look(kernel, options, &found)?;
    let uplink = parts.prepare(kernel, uplink, step)?;
    forget_last_boot(&switch, options).await?;
    let mac = match (&found.mac, uplink.mac) {
        (_, Some(own)) if options.keep_mac => own,
        // Kept in the database: other nodes know it, and links of virtual machines have another one at every boot.
        (Some(kept), _) => *kept,
        (None, own) => own_mac(own.unwrap_or(Mac([0; 6]))),
    };
    let mut plan = Plan { bridge: name, mac, mtu: uplink.mtu, datapath, uplink: found.uplink.as_ref() };
    // A port that an earlier run attached to a link that is not there any more is not worth keeping.
    plan.uplink = plan.uplink.filter(|port| **port == uplink.name);

    step(&format!("making bridge {name}"));
    settle(&switch, &plan, patience).await?;
    let link = named(kernel, name)?;
    step(&format!("copying addresses of {} to {name}", uplink.name));
    let load = observe(kernel, &uplink, &link)?;
    tell(transfer::add_addresses(kernel, &load), || format!("copying addresses to {name}"))?;
    tell(learn_from_routers(kernel, &uplink, &link), || {
        format!("preparing {name} for router advertisements")
    })?;

    step(&format!("making {} a port of {name}", uplink.name));
    tell(transfer::up(kernel, &uplink.name), || format!("switching {} on", uplink.name))?;
    if datapath == Datapath::Userspace {
        offloads::off(kernel, &uplink.name, &options.run)?;
    }
    plan.uplink = Some(&uplink.name);
    settle(&switch, &plan, patience).await?;
    if let Some(why) = switch.error_of(&uplink.name) {
        return Err(InitError::Port { link: uplink.name, why });
    }

    if datapath == Datapath::Userspace {
        step(&format!("guarding {}", uplink.name));
        tell(guard::add(kernel, &uplink.name), || format!("guarding {}", uplink.name))?;
    }
    step(&format!("switching {name} on"));
    tell(transfer::up(kernel, name), || format!("switching {name} on"))?;
    step(&format!("turning routes from {} to {name}", uplink.name));
    hand_over(kernel, &uplink, &link)?;
    parts.record(kernel, &[name, &uplink.name])?;
    step("telling the neighbours");
    let addresses = announce(kernel, &link, mac)?;
    Ok(BridgeRecord {
        name: name.to_string(),
        uplink: uplink.name.to_string(),
        mac: mac.to_string(),
        mtu: uplink.mtu,
        addresses,
    })
}

/// Undoes what [`prepare`] did: everything moves back to the uplink, the bridge goes, and with it whatever an agent that
/// has ended left in the kernel. Nothing to undo is fine.
pub async fn undo(kernel: &Kernel, options: &Options, mut step: impl FnMut(&str)) -> Result<(), InitError> {
    let name = &options.bridge;
    step("waiting for the switch's database");
    let switch = connect(options).await?;
    let found = bridge::find(&switch.client.snapshot(), name);
    if found.foreign {
        return Err(InitError::Foreign { bridge: name.clone() });
    }
    // First of all: an agent that runs keeps what is written down.
    Record::remove(&options.run).map_err(|source| InitError::Record { run: options.run.clone(), source })?;
    let link = |name: &IfName| tell(kernel.links().named(name), || format!("looking for link {name}"));
    let uplink = found.uplink.as_ref().map(link).transpose()?.flatten();
    if let (Some(bridge), Some(uplink)) = (link(name)?, &uplink) {
        step(&format!("copying addresses of {name} to {}", uplink.name));
        let load = observe(kernel, &bridge, uplink)?;
        tell(transfer::add_addresses(kernel, &load), || format!("copying addresses to {}", uplink.name))?;
        step(&format!("turning routes from {name} to {}", uplink.name));
        tell(guard::remove(kernel, &uplink.name), || format!("taking the guard off {}", uplink.name))?;
        hand_over(kernel, &bridge, uplink)?;
        // While the bridge still says which link it stands on: a run cut off here would not know any more.
        step("telling the neighbours");
        announce(kernel, uplink, uplink.mac.unwrap_or(Mac([0; 6])))?;
    }
    step(&format!("removing bridge {name}"));
    let removed = timeout(options.patience, switch.clear()).await;
    removed.map_err(|_| silent(options.patience))?.map_err(|source| rows(name, source))?;
    waited(&switch, name, options.patience).await?;
    if let Some(uplink) = &uplink {
        // It was up all along, so the kernel does not ask by itself for what it forgot when the bridge took over.
        let mac = uplink.mac.unwrap_or(Mac([0; 6]));
        let asking = || format!("asking routers behind {} to tell of themselves", uplink.name);
        tell(kernel.solicit_routers(uplink.index, mac), asking)?;
    }
    offloads::restore(kernel, &options.run)?;
    step("removing what else of ours is in the kernel");
    crate::overlay::host::withdraw(kernel, &options.run).map_err(InitError::Withdraw)
}

async fn connect(options: &Options) -> Result<Switch, InitError> {
    let no_switch =
        |_| InitError::NoSwitch { what: "the database of Open vSwitch", patience: options.patience };
    let connecting = timeout(options.patience, Switch::connect(options.database.clone()));
    connecting.await.map_err(no_switch)?.map_err(InitError::Database)
}

/// The uplink, or a refusal. Nothing was changed so far.
fn look(kernel: &Kernel, options: &Options, found: &Found) -> Result<Link, InitError> {
    if found.foreign {
        return Err(InitError::Foreign { bridge: options.bridge.clone() });
    }
    let looking = || "looking for the uplink".to_owned();
    let links = tell(kernel.links().observe(), looking)?;
    let sight = Sight {
        links: &links,
        addresses: &tell(kernel.addresses().observe(), looking)?,
        routes: &tell(kernel.routes().observe(), looking)?,
        of_the_switch: &found.made,
        in_use: found.uplink.as_ref(),
    };
    let name = choose(&options.bridge, options.uplink.as_ref(), &sight)?;
    Ok(links.into_iter().find(|link| link.name == name).expect("one of these was chosen"))
}

/// Takes back what OVN said before this boot. The record of this one is there from the end of the first run on.
async fn forget_last_boot(switch: &Switch, options: &Options) -> Result<(), InitError> {
    if !matches!(Record::read(&options.run), Ok(None)) {
        return Ok(());
    }
    let forgotten = timeout(options.patience, switch.forget_last_boot()).await;
    forgotten.map_err(|_| silent(options.patience))?.map_err(|source| rows(&options.bridge, source))
}

async fn settle(switch: &Switch, plan: &Plan<'_>, patience: Duration) -> Result<(), InitError> {
    let settled = timeout(patience, switch.settle(plan)).await;
    settled.map_err(|_| silent(patience))?.map_err(|source| rows(plan.bridge, source))?;
    waited(switch, plan.bridge, patience).await
}

async fn waited(switch: &Switch, bridge: &IfName, patience: Duration) -> Result<(), InitError> {
    let done = timeout(patience, switch.carried_out()).await;
    done.map_err(|_| silent(patience))?
        .map_err(|source| InitError::Waiting { bridge: bridge.clone(), source })
}

fn silent(patience: Duration) -> InitError {
    InitError::NoSwitch { what: "the daemon of Open vSwitch", patience }
}

fn rows(bridge: &IfName, source: SettleError) -> InitError {
    InitError::Rows { bridge: bridge.clone(), source }
}

/// Turns routes and takes addresses off the old link. Twice, if the network service puts something there meanwhile.
fn hand_over(kernel: &Kernel, from: &Link, to: &Link) -> Result<(), InitError> {
    let turning = || format!("turning routes from {} to {}", from.name, to.name);
    for _ in 0..2 {
        let load = observe(kernel, from, to)?;
        if load.is_empty() {
            break;
        }
        tell(transfer::add_addresses(kernel, &load), turning)?;
        tell(transfer::turn(kernel, &load), turning)?;
    }
    Ok(())
}

fn observe(kernel: &Kernel, from: &Link, to: &Link) -> Result<transfer::Load, InitError> {
    tell(transfer::observe(kernel, from, to), || format!("reading what is on {}", from.name))
}

/// What the uplink would take from router advertisements the bridge takes from now on; an address it would make of
/// them itself would be a second one beside the one that moved.
fn learn_from_routers(kernel: &Kernel, from: &Link, to: &Link) -> netferry_kernel::Result<()> {
    let accept = |link: &Link| Key::accept_ra(&Of::Link(link.name.clone()));
    let autoconf = Key::conf(netferry_kernel::Family::V6, &Of::Link(to.name.clone()), "autoconf");
    let have = kernel.sysctls().read(&[accept(from), accept(to), autoconf.clone()])?;
    let mut want = std::collections::BTreeMap::new();
    if let (Some(value), true) = (have.get(&accept(from)), have.contains_key(&autoconf)) {
        want.insert(accept(to), value.clone());
        want.insert(autoconf, "0".to_owned());
    }
    kernel.sysctls().converge_keys(&want).map(drop)
}

/// Tells everybody on the wire where the addresses are now; answers which these are.
fn announce(kernel: &Kernel, link: &Link, mac: Mac) -> Result<Vec<ipnet::IpNet>, InitError> {
    let telling = || format!("announcing the addresses of {}", link.name);
    let on_it = tell(kernel.addresses().observe(), telling)?;
    let own: Vec<ipnet::IpNet> =
        on_it.iter().filter(|a| a.link == link.index && a.scope == 0).map(|a| a.net).collect();
    let frames: Vec<Announcement> =
        own.iter().map(|net| Announcement { link: link.index, ip: net.addr(), mac }).collect();
    tell(kernel.announce(&frames), telling)?;
    Ok(own)
}

fn named(kernel: &Kernel, name: &IfName) -> Result<Link, InitError> {
    let looking = || format!("looking for link {name}");
    tell(kernel.links().named(name), looking)?.ok_or_else(|| InitError::Port {
        link: name.clone(),
        why: "it did not make it; its log says why".to_owned(),
    })
}

fn tell<T>(done: netferry_kernel::Result<T>, step: impl FnOnce() -> String) -> Result<T, InitError> {
    done.map_err(|source| InitError::Kernel { step: step(), source })
}

/// A hardware address of our own, always the same for the same uplink. The uplink's would have the host take every
/// frame twice whenever the guard is missing for a moment.
fn own_mac(uplink: Mac) -> Mac {
    let [_, b, c, d, e, f] = uplink.0;
    // Locally administered, and different from any the vendor or a virtual machine would give the uplink.
    Mac([0x0e, b ^ 0x6e, c, d, e, f])
}
