//! Database `Open_vSwitch`: what one host's switch is configured to be.
//!
//! `external_ids` and `other_config` are written to by `ovn-controller`, the distribution and the
//! administrator as well, on rows we own too (`ovn-installed` on an interface), so they are `[merge]`.

use super::{Refs, StringSet, Strings};
use crate::table::Key;

/// Name of the database.
pub const DATABASE: &str = "Open_vSwitch";

crate::tables! { "Open_vSwitch";
    /// The root: settings of the whole switch.
    OpenVSwitch = "Open_vSwitch" by Key::Singleton => {
        bridges: Refs,
        external_ids: Strings [merge],
        other_config: Strings [merge],
        next_cfg: i64,
        cur_cfg: i64 [status],
        ovs_version: Option<String> [status],
        db_version: Option<String> [status],
        system_type: Option<String> [status],
        datapath_types: StringSet [status],
        iface_types: StringSet [status],
    }

    /// A bridge.
    Bridge = "Bridge" by Key::Columns(&["name"]) => {
        name: String,
        ports: Refs,
        datapath_type: String,
        fail_mode: Option<String>,
        protocols: StringSet,
        mcast_snooping_enable: bool,
        controller: Refs,
        external_ids: Strings [merge],
        other_config: Strings [merge],
        datapath_id: Option<String> [status],
        status: Strings [status],
    }

    /// A port of a bridge; has one interface, or several when it is a bond.
    Port = "Port" by Key::Columns(&["name"]) => {
        name: String,
        interfaces: Refs,
        tag: Option<i64>,
        mac: Option<String>,
        external_ids: Strings [merge],
        other_config: Strings [merge],
    }

    /// A network device or tunnel end behind a port.
    Interface = "Interface" by Key::Columns(&["name"]) => {
        name: String,
        kind = "type": String,
        options: Strings,
        mac: Option<String>,
        mtu_request: Option<i64>,
        ofport_request: Option<i64>,
        external_ids: Strings [merge],
        other_config: Strings [merge],
        ofport: Option<i64> [status],
        mac_in_use: Option<String> [status],
        mtu: Option<i64> [status],
        ifindex: Option<i64> [status],
        admin_state: Option<String> [status],
        link_state: Option<String> [status],
        error: Option<String> [status],
        status: Strings [status],
    }

    /// What moves the packets of bridges of one type, and what it says it can do.
    Datapath = "Datapath" by Key::ExternalId => {
        capabilities: Strings,
        external_ids: Strings [merge],
    }

    /// An OpenFlow controller of a bridge.
    Controller = "Controller" by Key::ExternalId => {
        target: String,
        connection_mode: Option<String>,
        external_ids: Strings [merge],
        is_connected: bool [status],
    }
}
