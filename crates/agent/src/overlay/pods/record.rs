//! Attachments, as the switch's database has them.

use std::net::IpAddr;

use ipnet::IpNet;
use netferry_core::label::Labels;
use netferry_core::name::ObjectName;
use netferry_core::overlay::names;
use netferry_ovs::tables::Strings;
use netferry_ovs::tables::vswitch::Interface;
use netferry_ovs::{Datum, Entry, Index, Snapshot, TableCopy};

/// The logical port of an interface.
pub const PORT: &str = "iface-id";
/// The UID of its pod. OVN binds the port only if the logical one says the same.
pub const UID: &str = "iface-id-ver";
/// The UID the runtime knows its pod by, where [`UID`] is another: earlier agents wrote that of a static pod's mirror.
pub const RUNTIME_UID: &str = "netferry.dev/runtime-uid";
/// Its addresses, with the length of their network, with commas between.
pub const ADDRESSES: &str = "ip_addresses";
/// The hardware address inside.
pub const MAC: &str = "attached_mac";
/// The container it was made for.
pub const SANDBOX: &str = "sandbox";
/// The link's name inside.
pub const IFNAME: &str = "netferry.dev/ifname";
/// The name of the CNI network.
pub const NETWORK: &str = "netferry.dev/network";
/// The path of the container's namespace.
pub const NETNS: &str = "netferry.dev/netns";
/// The labels its pod had when it was attached, `key=value` with commas between: neither may have one in it. Should the
/// API no longer have the pod when an agent starts, they say which policies mean it.
pub const LABELS: &str = "netferry.dev/labels";
/// Set by `ovn-controller` once the port's flows are in the datapath.
pub const INSTALLED: &str = "ovn-installed";

/// An attachment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The host's end.
    pub link: String,
    /// Whose it is.
    pub pod: ObjectName,
    /// Which of the pods of that name, as OVN is told.
    pub uid: String,
    /// The same, as the runtime knows it.
    pub runtime_uid: String,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// The hardware address inside.
    pub mac: String,
    /// The container.
    pub container: String,
    /// The link's name inside.
    pub ifname: String,
    /// The name of the CNI network.
    pub network: String,
    /// The path of the container's namespace.
    pub netns: String,
    /// Whether OVN says that it is in the datapath.
    pub installed: bool,
}

impl Record {
    /// Reads one; `None` for an interface that is no attachment of ours.
    pub fn read(interface: &Interface) -> Option<Record> {
        let ids = &interface.external_ids;
        if ids.get(names::MARK.0).map(String::as_str) != Some(names::MARK.1) {
            return None;
        }
        let (namespace, name) = ids.get(PORT)?.split_once('_')?;
        let text = |key: &str| ids.get(key).cloned().unwrap_or_default();
        Some(Record {
            link: interface.name.clone(),
            pod: ObjectName::new(namespace, name),
            uid: text(UID),
            runtime_uid: ids.get(RUNTIME_UID).or(ids.get(UID)).cloned().unwrap_or_default(),
            addresses: text(ADDRESSES).split(',').filter_map(|net| net.parse().ok()).collect(),
            mac: text(MAC),
            container: ids.get(SANDBOX)?.clone(),
            ifname: text(IFNAME),
            network: text(NETWORK),
            netns: text(NETNS),
            installed: ids.get(INSTALLED).is_some_and(|value| value == "true"),
        })
    }

    /// Whether it has an address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.addr() == address)
    }
}

/// What an interface says about itself beyond what the zone says of its pod.
pub(super) fn ids(ifname: &str, network: &str, netns: &str, labels: &Labels) -> Strings {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pairs = [(IFNAME, ifname), (NETWORK, network), (NETNS, netns), (LABELS, &labels.join(","))];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// What [`LABELS`] says.
pub(crate) fn labels(text: &str) -> Labels {
    text.split(',').filter_map(|label| label.split_once('=')).collect()
}

/// All attachments.
pub fn all(now: &Snapshot) -> Vec<Record> {
    now.all::<Interface>().unwrap_or_default().iter().filter_map(|entry| Record::read(entry)).collect()
}

/// The attachments of a container.
pub fn of_container(now: &Snapshot, container: &str) -> Vec<Record> {
    let found = with_id(now, SANDBOX, container);
    found.iter().filter_map(|entry| Record::read(entry)).collect()
}

/// The interfaces that claim a logical port, whoever made them.
pub(super) fn of_port(now: &Snapshot, port: &str) -> Vec<Entry<Interface>> {
    with_id(now, PORT, port)
}

fn with_id(now: &Snapshot, key: &str, value: &str) -> Vec<Entry<Interface>> {
    let index = Index::MapKey("external_ids", key.to_owned());
    let rows = |table: &TableCopy| {
        table.find(&index, &[Datum::one(value)]).into_iter().map(|row| row.uuid).collect::<Vec<_>>()
    };
    let uuids = now.table("Interface").map(rows).unwrap_or_default();
    uuids.into_iter().filter_map(|uuid| now.get::<Interface>(uuid).ok().flatten()).collect()
}
