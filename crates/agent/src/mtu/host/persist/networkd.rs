//! systemd-networkd: `.network` units, of which the first that matches an interface configures it.

use super::{Owner, Result, keyfile, text};
use crate::machine::Disk;

/// Where units are. One of a name hides those of that name further down.
const PLACES: [&str; 3] = ["/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network"];
/// The drop-in of ours.
const OWN: &str = "90-netferry-mtu.conf";

/// The unit that configures an interface: the first by name that matches; one of a name hides others of that name.
pub(super) fn find(disk: &Disk, link: &str, mac: Option<&str>) -> Result<Option<(Owner, Option<u32>)>> {
    let mut units = std::collections::BTreeMap::new();
    for dir in PLACES {
        for name in disk.list(dir)?.into_iter().filter(|name| name.ends_with(".network")) {
            units.entry(name).or_insert(dir);
        }
    }
    for (name, dir) in units {
        let Some(unit) = text(disk, &format!("{dir}/{name}"))? else { continue };
        if describes(&unit, link, mac) {
            let own = text(disk, &own(&name))?;
            let said = |text: &str| keyfile::get(text, &["Link"], "MTUBytes").and_then(bytes);
            let theirs = said(&unit);
            let mtu = own.as_deref().and_then(said).or(theirs);
            return Ok(Some((Owner::Networkd { unit: name, theirs }, mtu)));
        }
    }
    Ok(None)
}

/// Whether a unit is about an interface: all it asks for has to be so.
fn describes(unit: &str, link: &str, mac: Option<&str>) -> bool {
    let asked = |key| keyfile::all(unit, "Match", key).into_iter().flat_map(str::split_whitespace);
    let names: Vec<&str> = asked("Name").collect();
    let macs: Vec<&str> = asked("MACAddress").chain(asked("PermanentMACAddress")).collect();
    // A unit for everything is a default of the distribution's, not a description of this interface.
    let particular = !macs.is_empty() || names.iter().any(|pattern| *pattern != "*");
    let by_name = names.is_empty() || names.iter().any(|pattern| keyfile::matches(pattern, link));
    let by_mac =
        macs.is_empty() || mac.is_some_and(|mac| macs.iter().any(|one| one.eq_ignore_ascii_case(mac)));
    particular && by_name && by_mac
}

/// What we say beside a unit.
pub(super) fn own(unit: &str) -> String {
    format!("{}/{unit}.d/{OWN}", PLACES[0])
}

/// Which of the files of a unit's name is the one that counts.
pub(super) fn place_of(disk: &Disk, unit: &str) -> Result<String> {
    for file in PLACES.map(|dir| format!("{dir}/{unit}")) {
        if disk.present(&file)? {
            return Ok(file);
        }
    }
    Ok(unit.to_owned())
}

/// As systemd writes sizes: a number, maybe of thousands.
fn bytes(text: &str) -> Option<u32> {
    match text.strip_suffix('K') {
        Some(thousands) => thousands.parse::<u32>().ok()?.checked_mul(1024),
        None => text.parse().ok(),
    }
}
