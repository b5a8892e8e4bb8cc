//! The bridge in Open vSwitch.

use std::collections::{BTreeMap, BTreeSet};

use netferry_core::overlay::names;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::{IfName, Mac};
use netferry_ovs::tables::vswitch::{self, Bridge, Interface, OpenVSwitch, Port};
use netferry_ovs::transaction::Mutation;
use netferry_ovs::{
    CallError, Change, Client, Desired, Hold, Options, Owner, Remote, SettleError, Snapshot, Spec, Table,
    Transaction, Wanted, Watcher,
};

/// Set by OVN on an interface whose port is in the datapath.
const INSTALLED: &str = "ovn-installed";
/// Whose rows these are. Not the overlay's: those are made whole from the cluster's objects by the agent, long after
/// the bridge has to be there.
const OWNER: &str = "host-init";
const HWADDR: &str = "hwaddr";

/// What the switch is to have.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) bridge: &'a IfName,
    pub(super) mac: Mac,
    pub(super) mtu: u32,
    pub(super) datapath: Datapath,
    /// The port to the outside; none while the bridge is being prepared.
    pub(super) uplink: Option<&'a IfName>,
}

/// A connection to the switch's database, and what of it is ours.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) client: Client,
    owner: Owner,
}

impl Switch {
    /// Connects, and waits as long as it takes for the database to be there.
    pub(super) async fn connect(
        remote: Remote,
    ) -> Result<Switch, std::sync::Arc<netferry_ovs::client::LinkError>> {
        let spec = Spec::new(vswitch::DATABASE)
            .table::<OpenVSwitch>()
            .table::<Bridge>()
            .table::<Port>()
            .table::<Interface>();
        Ok(Switch::over(Client::connect(spec, vec![remote], Options::default()).await?))
    }

    /// Over a connection that is there.
    pub(super) fn over(client: Client) -> Switch {
        Switch { client, owner: Owner::new(names::MARK.0, OWNER, names::ID) }
    }

    /// Makes the rows, in one transaction.
    pub(super) async fn settle(&self, plan: &Plan<'_>) -> Result<(), SettleError> {
        self.client.settle(&desired(plan), &self.owner, "netferry host-init").await.map(drop)
    }

    /// Takes back what OVN said before this boot and the database has kept: that ports are in the datapath, and that
    /// there are flows worth waiting for.
    pub(super) async fn forget_last_boot(&self) -> Result<(), SettleError> {
        let rows = self.client.snapshot();
        let mut desired = Desired::new();
        for interface in rows.all::<Interface>().unwrap_or_default() {
            if interface.external_ids.contains_key(INSTALLED) {
                let row = Wanted::if_there::<Interface>(interface.name.clone());
                desired.add(row.unset("external_ids", INSTALLED));
            }
        }
        let root = rows.single::<OpenVSwitch>().ok().flatten();
        if root.is_some_and(|root| root.external_ids.contains_key(names::WAIT_BEFORE_CLEAR)) {
            let row = Wanted::share::<OpenVSwitch>("");
            desired.add(row.put("external_ids", names::WAIT_BEFORE_CLEAR, "0"));
        }
        // Nothing is anybody's of this name, so nothing is removed.
        let nobody = Owner::new(names::MARK.0, "boot", names::ID);
        self.client.settle(&desired, &nobody, "netferry host-init: a new boot").await.map(drop)
    }

    /// Removes everything host-init made.
    pub(super) async fn clear(&self) -> Result<(), SettleError> {
        self.client.settle(&Desired::new(), &self.owner, "netferry host-init --undo").await.map(drop)
    }

    /// Waits until the daemon has carried out what the database says now. Columns that the daemon once filled in
    /// stay filled in when it is dead, so it is asked for a sign of life.
    pub(super) async fn carried_out(&self) -> Result<(), CallError> {
        let root = self.client.until(|rows| rows.single::<OpenVSwitch>().ok().flatten()).await;
        let mut ask = Transaction::new();
        ask.mutate(OpenVSwitch::DECL.name, root.uuid, vec![Mutation::Add("next_cfg".to_owned(), 1)]);
        self.client.transact(&ask).await?;
        self.client
            .until(|rows| {
                let root = rows.single::<OpenVSwitch>().ok().flatten()?;
                (root.cur_cfg >= root.next_cfg).then_some(())
            })
            .await;
        Ok(())
    }

    /// What is wrong with a port, in the daemon's words.
    pub(super) fn error_of(&self, interface: &IfName) -> Option<String> {
        self.client.snapshot().named::<Interface>(interface.as_str()).ok()??.row.error
    }
}

/// Returns when a row of one of these names has changed; the first time at once.
pub(super) async fn changed(watcher: &mut Watcher, names: &[&str]) {
    loop {
        let changes = watcher.next().await;
        let concerned = |change: &Change| {
            concerns::<Bridge>(change, names, |row| &row.name)
                || concerns::<Port>(change, names, |row| &row.name)
                || concerns::<Interface>(change, names, |row| &row.name)
        };
        if changes.iter().any(concerned) {
            return;
        }
    }
}

fn concerns<T: Table>(change: &Change, names: &[&str], name: impl Fn(&T) -> &str) -> bool {
    let Some(Ok((old, new))) = change.typed::<T>() else { return false };
    [old, new].iter().flatten().any(|row| names.contains(&name(row)))
}

fn desired(plan: &Plan<'_>) -> Desired {
    let bridge = plan.bridge.as_str();
    // The agent's and the controller's ports hang on this bridge too, so its columns are shared.
    let mut row = Wanted::dynamic(Bridge::DECL, bridge, Hold::Ensure)
        .put("external_ids", names::MARK.0, OWNER)
        .put("other_config", HWADDR, plan.mac.to_string())
        .under::<OpenVSwitch>("", &OpenVSwitch::bridges());
    row = row.set(&Bridge::datapath_type(), &type_of(plan.datapath).to_owned());
    let mut desired = Desired::new().with(row);
    let own = Interface {
        name: bridge.to_owned(),
        kind: "internal".to_owned(),
        mtu_request: Some(i64::from(plan.mtu)),
        ..Interface::default()
    };
    let uplink = plan.uplink.map(|name| Interface { name: name.to_string(), ..Interface::default() });
    for interface in std::iter::once(own).chain(uplink) {
        let name = interface.name.clone();
        let port = Port { name: name.clone(), ..Port::default() };
        desired.add(Wanted::own(&port).under::<Bridge>(bridge, &Bridge::ports()));
        desired.add(Wanted::own(&interface).under::<Port>(name, &Port::interfaces()));
    }
    desired
}

fn type_of(datapath: Datapath) -> &'static str {
    match datapath {
        Datapath::Kernel => "system",
        Datapath::Userspace => "netdev",
    }
}

/// What the switch has under the bridge's name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// A bridge of somebody else.
    pub(super) foreign: bool,
    /// The hardware address it was given.
    pub(super) mac: Option<Mac>,
    /// The largest packet it was given.
    pub(super) mtu: Option<u32>,
    /// The link that is its way out.
    pub(super) uplink: Option<IfName>,
    /// Links that exist only because the switch made them.
    pub(super) made: BTreeSet<IfName>,
}

pub(super) fn find(rows: &Snapshot, bridge: &IfName) -> Found {
    let ours = |ids: &BTreeMap<String, String>| ids.get(names::MARK.0).is_some_and(|owner| owner == OWNER);
    let row = rows.named::<Bridge>(bridge.as_str()).ok().flatten();
    let interfaces = rows.all::<Interface>().unwrap_or_default();
    let link = |name: &str| IfName::new(name).ok();
    let made =
        interfaces.iter().filter(|i| !i.kind.is_empty() && i.kind != "system").filter_map(|i| link(&i.name));
    Found {
        foreign: row.as_ref().is_some_and(|row| !ours(&row.external_ids)),
        mac: row.as_ref().and_then(|row| row.other_config.get(HWADDR)?.parse().ok()),
        mtu: interfaces
            .iter()
            .find(|i| i.name == bridge.as_str())
            .and_then(|i| u32::try_from(i.mtu_request?).ok()),
        uplink: interfaces
            .iter()
            .find(|i| ours(&i.external_ids) && i.kind.is_empty())
            .filter(|_| row.is_some())
            .and_then(|i| link(&i.name)),
        made: made.collect(),
    }
}
