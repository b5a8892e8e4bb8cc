//! The copies of the three databases.

use std::sync::Arc;

use netferry_core::overlay::names;
use netferry_ovs::client::LinkError;
use netferry_ovs::tables::northbound as nb;
use netferry_ovs::tables::southbound as sb;
use netferry_ovs::tables::vswitch as vs;
use netferry_ovs::{Client, Options, Remote, Spec};
use tokio::task::JoinSet;

use crate::config::Paths;

/// Handles on the three databases; cheap to clone.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The local switch's.
    pub switch: Client,
    /// The zone's northbound.
    pub northbound: Client,
    /// The zone's southbound.
    pub southbound: Client,
}

impl Stores {
    /// Handles on all three, and among `parts` what keeps their connections: without it nothing is heard or written any
    /// more, so whoever opens them watches over it.
    pub fn open(paths: &Paths, parts: &mut JoinSet<()>) -> Stores {
        let mut open = |spec, socket| {
            let (client, driver) = Client::new(spec, vec![Remote::Unix(socket)], Options::default());
            parts.spawn(driver.run());
            client
        };
        Stores {
            switch: open(switch(), paths.switch_socket()),
            northbound: open(northbound(), paths.northbound_socket()),
            southbound: open(southbound(), paths.southbound_socket()),
        }
    }

    /// Waits for what is in them.
    ///
    /// # Errors
    ///
    /// A server whose schema lacks what we need: another version of OVS or OVN.
    pub async fn ready(&self) -> Result<(), Arc<LinkError>> {
        for store in [&self.switch, &self.northbound, &self.southbound] {
            store.ready().await?;
        }
        Ok(())
    }
}

fn switch() -> Spec {
    Spec::new(vs::DATABASE)
        .table::<vs::OpenVSwitch>()
        .table::<vs::Bridge>()
        .table::<vs::Datapath>()
        .table::<vs::Port>()
        .table::<vs::Interface>()
        .index::<vs::Interface>(super::drift::by_logical_port())
}

fn northbound() -> Spec {
    Spec::new(nb::DATABASE)
        .table::<nb::NbGlobal>()
        .table::<nb::LogicalSwitch>()
        .table::<nb::LogicalSwitchPort>()
        .table::<nb::LogicalRouter>()
        .table::<nb::LogicalRouterPort>()
        .table::<nb::GatewayChassis>()
        .table::<nb::LogicalRouterStaticRoute>()
        .table::<nb::LogicalRouterPolicy>()
        .table::<nb::Nat>()
        .table::<nb::LoadBalancer>()
        .table::<nb::LoadBalancerGroup>()
        .table::<nb::Acl>()
        .table::<nb::PortGroup>()
        .table::<nb::AddressSet>()
        .indexed_by_id(names::ID)
}

fn southbound() -> Spec {
    Spec::new(sb::DATABASE).table::<sb::Chassis>().table::<sb::Encap>().table::<sb::PortBinding>()
}
