//! What the host's own network configuration says of an interface's MTU, and letting it say something else.
//!
//! Whichever service owns the interface is told in its own way: netplan and systemd-networkd by a file of ours beside
//! theirs, NetworkManager in the interface's keyfile, ifupdown in the interface's stanza. What was there is kept by
//! whoever asks, so that it can be asked back.
//!
//! Files may be symbolic links, as those of every service: one is read and edited where it leads, and stays a link. One
//! that leads nowhere, or to `/dev/null`, says nothing.

mod ifupdown;
mod keyfile;
mod netplan;
mod networkd;

use netferry_core::rollout::journal::Op;
use netferry_core::rollout::layout::{Entry, Found};
use netferry_core::size::Mtu;

use crate::machine::{Disk, DiskError};

const NETPLAN: &str = "/etc/netplan";
const NETPLAN_OWN: &str = "/etc/netplan/99-netferry-mtu.yaml";
const KEYFILES: [&str; 2] =
    ["/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"];
const INTERFACES: &str = "/etc/network/interfaces";
const ETHERNET: [&str; 2] = ["ethernet", "802-3-ethernet"];

/// Why the host's configuration could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// Nobody's configuration names the interface.
    #[error(
        "no configuration of netplan, NetworkManager, systemd-networkd or ifupdown describes {link}: \
         describe it in one of them, so that its MTU outlives a restart"
    )]
    Nobody {
        /// Which.
        link: String,
    },
    /// It cannot be understood.
    #[error("{file} cannot be read: {why}")]
    Unreadable {
        /// Which file.
        file: String,
        /// Why not.
        why: String,
    },
    /// A configuration that is gone with the next boot.
    #[error("{file} describes {link} only until the next restart: describe it below /etc/NetworkManager")]
    Fleeting {
        /// Which file.
        file: String,
        /// Which interface.
        link: String,
    },
    /// Somebody's link is where a file of ours has to be.
    #[error("{file} is a symbolic link, and a file of netferry's has to be there: remove it")]
    Linked {
        /// Which file.
        file: String,
    },
    /// A configuration of more than one interface.
    #[error(
        "{file} describes {other} as well as {link}, and both would get another MTU: describe {link} by its name in a \
         file of its own"
    )]
    Shared {
        /// Which file, as far as its service has only one.
        file: String,
        /// Which interface.
        link: String,
        /// The other one.
        other: String,
    },
    /// A file.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Who configures an interface, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owner {
    /// netplan, under this heading and name.
    Netplan {
        /// `ethernets`, `vlans`, …
        kind: &'static str,
        /// netplan's name of it.
        id: String,
        /// What is said without us.
        theirs: Option<u32>,
    },
    /// NetworkManager, in this keyfile.
    NetworkManager {
        /// Its path.
        file: String,
    },
    /// systemd-networkd, by this unit.
    Networkd {
        /// Its file's name.
        unit: String,
        /// What is said without us.
        theirs: Option<u32>,
    },
    /// ifupdown, in this file.
    Ifupdown {
        /// Its path.
        file: String,
    },
}

/// What a host's own configuration says of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configured {
    /// Who says it.
    pub owner: Owner,
    /// The MTU, if it says one that can be.
    pub mtu: Option<Mtu>,
}

type Result<T> = std::result::Result<T, PersistError>;

/// Finds who configures an interface. netplan comes first: it writes the files of the two after it.
///
/// # Errors
/// If a file that may describe it cannot be read.
pub fn find(disk: &Disk, link: &str, mac: Option<&str>) -> Result<Option<Configured>> {
    if let Some((owner, mtu)) = find_netplan(disk, link, mac)? {
        return Ok(Some(Configured { owner, mtu: size(mtu) }));
    }
    if let Some((owner, mtu)) = find_keyfile(disk, link, mac)? {
        return Ok(Some(Configured { owner, mtu: size(mtu) }));
    }
    if let Some((owner, mtu)) = networkd::find(disk, link, mac)? {
        return Ok(Some(Configured { owner, mtu: size(mtu) }));
    }
    for file in interfaces_files(disk)? {
        let said = text(disk, &file)?.and_then(|text| ifupdown::read(&text, link));
        if let Some(ifupdown::Said { mtu }) = said {
            return Ok(Some(Configured { owner: Owner::Ifupdown { file }, mtu: size(mtu) }));
        }
    }
    Ok(None)
}

/// An interface that is there: its name, and its hardware address if it has one.
pub type Present = (String, Option<String>);

/// Looks whether [`set`] could let the host's configuration say this MTU of an interface, and of none of `others`. Changes
/// nothing.
///
/// # Errors
/// If it could not, and why.
pub fn check(
    disk: &Disk,
    link: &str,
    configured: &Configured,
    mtu: Option<Mtu>,
    others: &[Present],
) -> Result<()> {
    let (own, theirs, described) = match &configured.owner {
        Owner::NetworkManager { file } if file.starts_with("/run") => {
            return Err(PersistError::Fleeting { file: file.clone(), link: link.to_owned() });
        }
        // These name one interface.
        Owner::NetworkManager { .. } | Owner::Ifupdown { .. } => return Ok(()),
        Owner::Netplan { id, theirs, .. } => {
            (NETPLAN_OWN.to_owned(), theirs, format!("{NETPLAN} (under {id})"))
        }
        Owner::Networkd { unit, theirs } => (networkd::own(unit), theirs, networkd::place_of(disk, unit)?),
    };
    // What is theirs is said again by taking ours away, which nobody else notices.
    let Some(bytes) = mtu.map(Mtu::bytes).filter(|bytes| Some(*bytes) != *theirs) else { return Ok(()) };
    if is_link(disk, &own)? {
        return Err(PersistError::Linked { file: own });
    }
    // Whoever else is described runs at it already.
    if configured.mtu.map(Mtu::bytes) == Some(bytes) {
        return Ok(());
    }
    for (other, mac) in others {
        let same = find(disk, other, mac.as_deref())?.is_some_and(|said| said.owner == configured.owner);
        if same {
            let (link, other) = (link.to_owned(), other.clone());
            return Err(PersistError::Shared { file: described, link, other });
        }
    }
    Ok(())
}

/// Lets the host's configuration say this MTU of an interface from the next boot on, or none. Durable when it returns.
///
/// # Errors
/// If it cannot be written; then it says what it said before.
pub fn set(disk: &Disk, link: &str, owner: &Owner, mtu: Option<Mtu>) -> Result<()> {
    let bytes = mtu.map(Mtu::bytes);
    match owner {
        Owner::Netplan { kind, id, theirs } => {
            let now = text(disk, NETPLAN_OWN)?;
            let unreadable = |why| PersistError::Unreadable { file: NETPLAN_OWN.to_owned(), why };
            let said = bytes.filter(|_| bytes != *theirs);
            let text = netplan::own(now.as_deref(), kind, id, said).map_err(unreadable)?;
            own_file(disk, NETPLAN_OWN, text, 0o600)
        }
        Owner::NetworkManager { file } => {
            let value = bytes.map(|mtu| mtu.to_string());
            edit(disk, file, |text| keyfile::set(text, &ETHERNET, "mtu", value.as_deref()))
        }
        Owner::Networkd { unit, theirs } => {
            let said = bytes.filter(|_| bytes != *theirs);
            let text = said.map(|mtu| format!("# Written by netferry host-init.\n[Link]\nMTUBytes={mtu}\n"));
            own_file(disk, &networkd::own(unit), text, 0o644)
        }
        Owner::Ifupdown { file } => edit(disk, file, |text| ifupdown::write(text, link, bytes)),
    }
}

fn find_netplan(disk: &Disk, link: &str, mac: Option<&str>) -> Result<Option<(Owner, Option<u32>)>> {
    let mut found: Option<netplan::Said> = None;
    let mut ours = None;
    for name in disk.list(NETPLAN)?.iter().filter(|name| name.ends_with(".yaml")) {
        let file = format!("{NETPLAN}/{name}");
        let Some(text) = text(disk, &file)? else { continue };
        let unreadable = |why| PersistError::Unreadable { file: file.clone(), why };
        if file == NETPLAN_OWN {
            // It names the interface as netplan does, without saying which one that is.
            let id = found.as_ref().map_or(link, |found| &found.id);
            ours = netplan::read(&text, id, None).map_err(unreadable)?.and_then(|said| said.mtu);
        } else if let Some(said) = netplan::read(&text, link, mac).map_err(unreadable)? {
            // A later file adds to an earlier one.
            let mtu = said.mtu.or(found.and_then(|found| found.mtu));
            found = Some(netplan::Said { mtu, ..said });
        }
    }
    Ok(found.map(|said| {
        let netplan::Said { kind, id, mtu: theirs } = said;
        (Owner::Netplan { kind, id, theirs }, ours.or(theirs))
    }))
}

/// The connection that names an interface; without one the connection of its hardware address. A VLAN has that of what
/// it stands on, so a name counts for more.
fn find_keyfile(disk: &Disk, link: &str, mac: Option<&str>) -> Result<Option<(Owner, Option<u32>)>> {
    let mut by_address = None;
    for dir in KEYFILES {
        // What editors leave behind is no connection of NetworkManager's, and need not be text.
        let left_behind = |name: &String| name.starts_with('.') || name.ends_with('~');
        for name in disk.list(dir)?.into_iter().filter(|name| !left_behind(name)) {
            let file = format!("{dir}/{name}");
            let Some(text) = text(disk, &file)? else { continue };
            let mtu = keyfile::get(&text, &ETHERNET, "mtu").and_then(|mtu| mtu.parse().ok());
            let found = (Owner::NetworkManager { file }, mtu);
            let address = keyfile::get(&text, &ETHERNET, "mac-address").zip(mac);
            match keyfile::get(&text, &["connection"], "interface-name") {
                Some(name) if name == link => return Ok(Some(found)),
                None if address.is_some_and(|(a, b)| a.eq_ignore_ascii_case(b)) => {
                    by_address = by_address.or(Some(found));
                }
                Some(_) | None => {}
            }
        }
    }
    Ok(by_address)
}

fn interfaces_files(disk: &Disk) -> Result<Vec<String>> {
    let Some(main) = text(disk, INTERFACES)? else { return Ok(Vec::new()) };
    let mut files = vec![INTERFACES.to_owned()];
    for pattern in ifupdown::sources(&main) {
        let pattern = if pattern.starts_with('/') { pattern } else { format!("/etc/network/{pattern}") };
        let Some((dir, name)) = pattern.rsplit_once('/') else { continue };
        let names = disk.list(dir)?.into_iter().filter(|file| keyfile::matches(name, file));
        files.extend(names.filter(|file| !file.starts_with('.')).map(|file| format!("{dir}/{file}")));
    }
    Ok(files)
}

fn size(mtu: Option<u32>) -> Option<Mtu> {
    mtu.and_then(|mtu| Mtu::new(mtu).ok())
}

fn text(disk: &Disk, file: &str) -> Result<Option<String>> {
    let unreadable = |why: String| PersistError::Unreadable { file: file.to_owned(), why };
    match disk.read_through(file) {
        Ok(Some(bytes)) => String::from_utf8(bytes).map(Some).map_err(|error| unreadable(error.to_string())),
        Ok(None) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn edit(disk: &Disk, file: &str, change: impl FnOnce(&str) -> String) -> Result<()> {
    let unreadable = |why: String| PersistError::Unreadable { file: file.to_owned(), why };
    let file = &disk.leads_to(file)?;
    let Found::Entry(Entry::File { mode, contents }) = disk.found(file)? else {
        return Err(unreadable("it is not a file any more".to_owned()));
    };
    let old = String::from_utf8(contents).map_err(|error| unreadable(error.to_string()))?;
    let new = change(&old);
    if new != old {
        disk.replace(file, new.into_bytes(), mode)?;
    }
    Ok(())
}

fn is_link(disk: &Disk, file: &str) -> Result<bool> {
    Ok(matches!(disk.found(file)?, Found::Entry(Entry::Symlink(_))))
}

/// A file that is ours alone. A link of that name is somebody's, and stays.
fn own_file(disk: &Disk, file: &str, text: Option<String>, mode: u32) -> Result<()> {
    let dir = file.rsplit_once('/').map_or("/", |(dir, _)| dir);
    match text {
        Some(_) if is_link(disk, file)? => return Err(PersistError::Linked { file: file.to_owned() }),
        Some(text) => disk.replace(file, text.into_bytes(), mode)?,
        None if is_link(disk, file)? => {}
        None => disk.run(&[Op::Remove(file.to_owned()), Op::SyncDir(dir.to_owned())])?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
