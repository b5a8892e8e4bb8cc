//! netplan: `/etc/netplan/*.yaml`, of which a later one adds to an earlier one. Pure.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The kinds of interfaces, as netplan calls them.
const KINDS: [&str; 6] = ["ethernets", "vlans", "bonds", "bridges", "vrfs", "dummy-devices"];

#[derive(Deserialize)]
struct File {
    network: Option<BTreeMap<String, serde_json::Value>>,
}

/// What a file says of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Said {
    /// Under which heading.
    pub(super) kind: &'static str,
    /// By which name: netplan's own, which need not be the interface's.
    pub(super) id: String,
    pub(super) mtu: Option<u32>,
}

/// What a file says of an interface; nothing if it does not describe it.
///
/// # Errors
/// If it is not YAML, in its parser's words.
pub(super) fn read(text: &str, link: &str, mac: Option<&str>) -> Result<Option<Said>, String> {
    let file: Option<File> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let network = file.and_then(|file| file.network).unwrap_or_default();
    for kind in KINDS {
        let Some(interfaces) = network.get(kind).and_then(|interfaces| interfaces.as_object()) else {
            continue;
        };
        for (id, body) in interfaces {
            let text = |name: &str| body.get(name).and_then(|value| value.as_str());
            let of = body.get("match");
            let matched = |name: &str| of.and_then(|of| of.get(name)).and_then(|value| value.as_str());
            let (name, address) = (matched("name"), matched("macaddress"));
            let by_name = name.is_none_or(|pattern| super::keyfile::matches(pattern, link));
            let by_mac = address.is_none_or(|one| mac.is_some_and(|mac| one.eq_ignore_ascii_case(mac)));
            // All it asks for has to be so.
            let fits = (name.is_some() || address.is_some()) && by_name && by_mac;
            if id == link && of.is_none() || text("set-name") == Some(link) || fits {
                let mtu = body.get("mtu").and_then(|mtu| u32::try_from(mtu.as_u64()?).ok());
                return Ok(Some(Said { kind, id: id.clone(), mtu }));
            }
        }
    }
    Ok(None)
}

/// The file of our own, saying another MTU of one interface, or none; nothing if it says nothing any more.
///
/// # Errors
/// If what it is now is not YAML, in its parser's words.
pub(super) fn own(
    text: Option<&str>,
    kind: &str,
    id: &str,
    mtu: Option<u32>,
) -> Result<Option<String>, String> {
    let file: Option<Own> = match text {
        Some(text) => serde_saphyr::from_str(text).map_err(|error| error.to_string())?,
        None => None,
    };
    let mut all = file.map(|file| file.network.kinds).unwrap_or_default();
    let of_kind = all.entry(kind.to_owned()).or_default();
    match mtu {
        Some(mtu) => drop(of_kind.insert(id.to_owned(), OwnOne { mtu })),
        None => drop(of_kind.remove(id)),
    }
    all.retain(|_, interfaces| !interfaces.is_empty());
    let mut text = "# Written by netferry host-init.\nnetwork:\n  version: 2\n".to_owned();
    for (kind, interfaces) in &all {
        text += &format!("  {kind}:\n");
        for (id, OwnOne { mtu }) in interfaces {
            let id = serde_json::Value::String(id.clone());
            text += &format!("    {id}:\n      mtu: {mtu}\n");
        }
    }
    Ok((!all.is_empty()).then_some(text))
}

#[derive(Deserialize)]
struct Own {
    network: OwnNetwork,
}

#[derive(Deserialize)]
struct OwnNetwork {
    #[serde(rename = "version")]
    _version: u8,
    #[serde(flatten)]
    kinds: BTreeMap<String, BTreeMap<String, OwnOne>>,
}

#[derive(Deserialize)]
struct OwnOne {
    mtu: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_name_its_pattern_or_its_hardware_address() {
        let text = "
network:
  version: 2
  renderer: networkd
  ethernets:
    eth0: {dhcp4: true, mtu: 1500}
    lan:
      match: {macaddress: \"0A:00:00:00:00:01\"}
      set-name: lan0
    one: {match: {name: en*, macaddress: \"0a:00:00:00:00:02\"}}
    virtual: {match: {driver: virtio_net}}
    zz: {match: {name: en*}}
  vlans:
    vlan5: {id: 5, link: eth0}
";
        let said = |kind, id: &str, mtu| Some(Said { kind, id: id.into(), mtu });
        for (link, mac, found) in [
            ("eth0", None, said("ethernets", "eth0", Some(1500))),
            ("lan0", None, said("ethernets", "lan", None)),
            ("x", Some("0a:00:00:00:00:01"), said("ethernets", "lan", None)),
            ("enp3s0", Some("0a:00:00:00:00:02"), said("ethernets", "one", None)),
            ("enp3s0", Some("0a:00:00:00:00:03"), said("ethernets", "zz", None)),
            ("enp3s0", None, said("ethernets", "zz", None)),
            ("vlan5", None, said("vlans", "vlan5", None)),
            ("lan", None, None),
        ] {
            assert_eq!(read(text, link, mac).unwrap(), found, "{link}");
        }
        assert!(read("network: [", "eth0", None).is_err());
        for empty in ["", "# nothing yet\n", "network:\n", "---\n"] {
            assert_eq!(read(empty, "eth0", None), Ok(None), "{empty:?}");
        }
    }

    #[test]
    fn the_file_of_our_own_says_one_size_of_each_interface_and_is_gone_with_the_last() {
        let vlan = own(None, "vlans", "vlan5", Some(9000)).unwrap().unwrap();
        let both = own(Some(&vlan), "ethernets", "eth0", Some(9000)).unwrap().unwrap();
        let both = own(Some(&both), "ethernets", "eth0", Some(9100)).unwrap().unwrap();
        let says = |text: &str, link: &str| read(text, link, None).unwrap().and_then(|said| said.mtu);
        assert_eq!((says(&both, "vlan5"), says(&both, "eth0")), (Some(9000), Some(9100)));
        assert_eq!(own(Some(&both), "ethernets", "eth0", None), Ok(Some(vlan.clone())));
        assert_eq!(own(Some(&vlan), "vlans", "vlan5", None), Ok(None));
        assert_eq!(own(None, "vlans", "vlan5", None), Ok(None));
        assert!(own(Some("network: ["), "vlans", "vlan5", None).is_err());
    }
}
