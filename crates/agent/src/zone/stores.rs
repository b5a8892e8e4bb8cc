//! The copies of the three databases.

use std::path::Path;
use std::sync::Arc;

use netferry_core::overlay::names;
use netferry_ovs::client::LinkError;
use netferry_ovs::tables::northbound as nb;
use netferry_ovs::tables::southbound as sb;
use netferry_ovs::tables::vswitch as vs;
use netferry_ovs::{Client, Options, Remote, Spec};

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
    /// Connects to all three and waits for what is in them.
    ///
    /// # Errors
    ///
    /// A server whose schema lacks what we need: another version of OVS or OVN.
    pub async fn connect(paths: &Paths) -> Result<Stores, Arc<LinkError>> {
        Ok(Stores {
            switch: connect(switch(), &paths.switch_socket()).await?,
            northbound: connect(northbound(), &paths.northbound_socket()).await?,
            southbound: connect(southbound(), &paths.southbound_socket()).await?,
        })
    }
}

async fn connect(spec: Spec, socket: &Path) -> Result<Client, Arc<LinkError>> {
    Client::connect(spec, vec![Remote::Unix(socket.to_owned())], Options::default()).await
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
