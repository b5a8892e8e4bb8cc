//! Database `OVN_Southbound`: what `ovn-northd` compiled and where it is bound.

use super::{Refs, StringSet, Strings};
use crate::shape::Ref;
use crate::table::Key;

/// Name of the database.
pub const DATABASE: &str = "OVN_Southbound";

crate::tables! { "OVN_Southbound";
    /// Settings of the whole zone.
    SbGlobal = "SB_Global" by Key::Singleton => {
        nb_cfg: i64 [status],
        options: Strings [merge],
        external_ids: Strings [merge],
        ipsec: bool,
    }

    /// A node that packets can be sent to.
    Chassis = "Chassis" by Key::Columns(&["name"]) => {
        name: String,
        hostname: String,
        encaps: Refs,
        other_config: Strings,
        external_ids: Strings,
        transport_zones: StringSet,
        nb_cfg: i64 [status],
    }

    /// What only one chassis writes about itself.
    ChassisPrivate = "Chassis_Private" by Key::Columns(&["name"]) => {
        name: String,
        chassis: Option<Ref>,
        nb_cfg: i64 [status],
        nb_cfg_timestamp: i64 [status],
        external_ids: Strings [merge],
    }

    /// A tunnel end of a chassis. Has no `external_ids`: it belongs to whom its chassis belongs.
    Encap = "Encap" by Key::Columns(&["type", "ip"]) => {
        kind = "type": String,
        ip: String,
        chassis_name: String,
        options: Strings,
    }

    /// A logical switch or router, compiled.
    DatapathBinding = "Datapath_Binding" by Key::ExternalId => {
        tunnel_key: i64 [status],
        external_ids: Strings [merge],
    }

    /// A logical port and the chassis it is on. `external_ids` is not among the columns: `ovn-northd` copies those of
    /// the northbound port there, marks and all, and its rows would pass for ours.
    PortBinding = "Port_Binding" by Key::Columns(&["logical_port"]) => {
        logical_port: String,
        chassis: Option<Ref>,
        up: Option<bool>,
        requested_chassis: Option<Ref> [status],
        kind = "type": String [status],
        datapath: Ref [status],
        tunnel_key: i64 [status],
        mac: StringSet [status],
        options: Strings [status],
        encap: Option<Ref> [status],
    }

    /// A neighbour that a router has learned.
    MacBinding = "MAC_Binding" by Key::Columns(&["logical_port", "ip"]) => {
        logical_port: String,
        ip: String,
        mac: String,
        timestamp: i64,
        datapath: Ref,
    }
}
