//! What an ADD made, in every version's words.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{CniError, Code};
use crate::version::Version;

/// What an ADD made. Keys of other plugins that we do not know are kept and passed on.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CniResult {
    /// The interfaces, on the host and in the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub interfaces: Vec<Interface>,
    /// The addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub ips: Vec<IpConfig>,
    /// The routes in the container.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub routes: Vec<RouteEntry>,
    /// Names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An interface.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
    /// Its largest packet; since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The namespace it is in; empty for the host's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// An address.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IpConfig {
    /// The position of its interface in the list of interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<usize>,
    /// The address and the length of its network.
    pub address: IpNet,
    /// The way out of that network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A route.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RouteEntry {
    /// Where to.
    pub dst: IpNet,
    /// Through which router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gw: Option<IpAddr>,
    /// The largest packet that is sent along it; since 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Names.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Dns {
    /// Servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Domains short names are looked for in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    /// Options of the resolver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl CniResult {
    /// Reads a result of a version, as it comes as `prevResult`.
    ///
    /// # Errors
    /// Code 6 for what is no result, code 1 for a result that says it is of a version that is not spoken.
    pub fn parse(value: &Value, version: Version) -> Result<CniResult, CniError> {
        if let Some(said) = value.get("cniVersion").and_then(Value::as_str) {
            Version::parse(said)?;
        }
        let mut result = CniResult::deserialize(value).map_err(|error| {
            CniError::new(Code::Decode, format!("prevResult is not a result of CNI version {version}"))
                .with_details(error.to_string())
        })?;
        result.other.remove("cniVersion");
        for ip in &mut result.ips {
            // 0.4 says the family beside the address, which says it too
            ip.other.remove("version");
            if ip.interface.is_some_and(|at| at >= result.interfaces.len()) {
                let text =
                    format!("prevResult: address {} is on an interface that is not listed", ip.address);
                return Err(CniError::new(Code::InvalidConfig, text));
            }
        }
        Ok(result)
    }

    /// The object a plugin prints, in the version that was asked for.
    pub fn to_json(&self, version: Version) -> Value {
        let mut result = self.clone();
        if version < Version::V1_1 {
            result.interfaces.iter_mut().for_each(|interface| interface.mtu = None);
            result.routes.iter_mut().for_each(|route| route.mtu = None);
        }
        if version < Version::V1_0 {
            for ip in &mut result.ips {
                let family = if ip.address.addr().is_ipv4() { "4" } else { "6" };
                ip.other.insert("version".into(), family.into());
            }
        }
        result.other.insert("cniVersion".into(), version.as_str().into());
        serde_json::to_value(result).expect("a result has text for keys and no number that is none")
    }

    /// What this made after what the plugins before it made.
    #[must_use]
    pub fn after(self, previous: Option<CniResult>) -> CniResult {
        let Some(mut all) = previous else { return self };
        let before = all.interfaces.len();
        all.interfaces.extend(self.interfaces);
        all.ips.extend(
            self.ips.into_iter().map(|ip| IpConfig { interface: ip.interface.map(|at| at + before), ..ip }),
        );
        all.routes.extend(self.routes);
        all.dns = all.dns.or(self.dns);
        all.other.extend(self.other);
        all
    }
}

/// Go prints an empty list as null.
fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::<Vec<T>>::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made() -> CniResult {
        CniResult {
            interfaces: vec![
                Interface {
                    name: "c0ffee".into(),
                    mac: "02:00:00:00:00:01".into(),
                    mtu: Some(9000),
                    ..Default::default()
                },
                Interface {
                    name: "eth0".into(),
                    mac: "0a:58:0a:f4:01:05".into(),
                    mtu: Some(1400),
                    sandbox: "/run/netns/x".into(),
                    ..Default::default()
                },
            ],
            ips: vec![IpConfig {
                interface: Some(1),
                address: "10.244.1.5/24".parse().unwrap(),
                gateway: Some("10.244.1.1".parse().unwrap()),
                other: Map::new(),
            }],
            routes: vec![RouteEntry {
                dst: "0.0.0.0/0".parse().unwrap(),
                gw: Some("10.244.1.1".parse().unwrap()),
                mtu: Some(1300),
                other: Map::new(),
            }],
            dns: None,
            other: Map::new(),
        }
    }

    #[test]
    fn a_result_is_printed_as_its_version_has_it() {
        assert_eq!(
            made().to_json(Version::V0_4),
            json!({
                "cniVersion": "0.4.0",
                "interfaces": [
                    {"name": "c0ffee", "mac": "02:00:00:00:00:01"},
                    {"name": "eth0", "mac": "0a:58:0a:f4:01:05", "sandbox": "/run/netns/x"},
                ],
                "ips": [{"version": "4", "interface": 1, "address": "10.244.1.5/24", "gateway": "10.244.1.1"}],
                "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.1.1"}],
            })
        );
        let newer = made().to_json(Version::V1_0);
        assert_eq!(newer["ips"][0].get("version"), None);
        assert_eq!(newer["routes"][0].get("mtu"), None);
        let newest = made().to_json(Version::V1_1);
        assert_eq!(newest["interfaces"][1]["mtu"], 1400);
        assert_eq!(newest["routes"][0]["mtu"], 1300);
    }

    #[test]
    fn a_result_survives_every_version_as_far_as_the_version_goes() {
        for version in Version::ALL {
            let mut expected = made();
            if version < Version::V1_1 {
                expected.interfaces.iter_mut().for_each(|i| i.mtu = None);
                expected.routes.iter_mut().for_each(|r| r.mtu = None);
            }
            assert_eq!(CniResult::parse(&made().to_json(version), version).unwrap(), expected, "{version}");
        }
    }

    #[test]
    fn what_others_made_stays_in_front_and_addresses_keep_their_interfaces() {
        let before = json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "dummy0", "pciID": "0000:00:1f.6"}],
            "ips": [{"interface": 0, "address": "192.0.2.1/32"}],
            "routes": null,
            "dns": {"nameservers": ["192.0.2.53"]},
            "vendor": {"kept": true},
        });
        let all = made().after(Some(CniResult::parse(&before, Version::V1_1).unwrap()));
        let printed = all.to_json(Version::V1_1);
        assert_eq!(printed["interfaces"][0]["pciID"], "0000:00:1f.6");
        assert_eq!(printed["ips"][0]["interface"], 0);
        assert_eq!(printed["ips"][1]["interface"], 2);
        assert_eq!(printed["vendor"]["kept"], true);
        assert_eq!(printed["dns"]["nameservers"][0], "192.0.2.53");
    }

    #[test]
    fn an_address_on_an_interface_that_is_not_listed_is_refused() {
        let value = json!({"ips": [{"interface": 3, "address": "10.0.0.1/24"}]});
        assert_eq!(CniResult::parse(&value, Version::V1_1).unwrap_err().code, Code::InvalidConfig);
    }
}
