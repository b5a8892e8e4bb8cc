//! The southbound tables and those of the local switch.

use std::net::IpAddr;

use super::Row;
use super::nb::{Map, row};
use crate::net::Mac;
use crate::size::Mtu;

/// Another node's switch, with where its tunnels end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RemoteChassis {
    /// Its identity.
    pub name: String,
    /// Its node.
    pub hostname: String,
    /// Its tunnels' end.
    pub encap: IpAddr,
    /// Options of the tunnel.
    pub encap_options: Map,
    /// Its settings.
    pub other_config: Map,
    /// Who it belongs to.
    pub external_ids: Map,
}
row!(RemoteChassis, "Chassis", this => this.name.clone());

impl RemoteChassis {
    /// How packets are wrapped on their way.
    pub const ENCAP: &'static str = "geneve";
}

/// Where another node's port is. The row exists once `ovn-northd` has seen the port; until then there is nothing to
/// bind, and whenever it makes the row anew the binding is to be made anew.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RemoteBinding {
    /// The port.
    pub port: String,
    /// Where it is.
    pub chassis: String,
}
row!(RemoteBinding, "Port_Binding", this => this.port.clone());

/// What the local switch is told about itself, in its one row; other settings there are not ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchSettings {
    /// For `ovn-controller`.
    pub external_ids: Map,
}
row!(SwitchSettings, "Open_vSwitch", _this => "Open_vSwitch".to_owned());

/// A port of the local switch, with the interface of the same name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The bridge it is on.
    pub bridge: String,
    /// `internal` for one the switch makes itself, empty for one that exists.
    pub kind: String,
    /// Its link-layer address, where the switch sets it.
    pub mac: Option<Mac>,
    /// Its MTU, where the switch sets it.
    pub mtu: Option<Mtu>,
    /// Settings of the port.
    pub port_other_config: Map,
    /// Which logical port it is.
    pub external_ids: Map,
}
row!(Interface, "Interface", this => this.name.clone());
