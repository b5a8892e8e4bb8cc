//! What a [`HostPlan`] asks of the kernel, as the kernel's objects.

use std::collections::BTreeMap;

use netferry_core::overlay::host::HostPlan;
use netferry_core::overlay::host::datagrams::Datagrams;
use netferry_kernel::address::Address;
use netferry_kernel::link::Want;
use netferry_kernel::neighbour::Neighbour;
use netferry_kernel::nft::{Rule, Table};
use netferry_kernel::route::{Hop, Route};
use netferry_kernel::sysctl::Key;
use netferry_kernel::{IfName, Mac, Mark, Result};

use super::filter;

/// What a plan asks of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// The management link; made by the switch, adjusted by us.
    pub link: Want,
    /// The packet filter.
    pub filter: Table,
    /// What chains of others must let pass.
    pub admitted: Vec<Rule>,
    /// Settings.
    pub settings: BTreeMap<Key, String>,
    plan: HostPlan,
}

impl Objects {
    /// Reads a plan. An error is a name in it that the kernel would not take.
    pub fn of(plan: &HostPlan) -> Result<Objects> {
        let name = IfName::new(plan.link.name.clone())?;
        // The switch gives the link its hardware address, and would take any other away again.
        let link = Want::adjust(name).up().mtu(plan.link.mtu.bytes());
        let mut settings = BTreeMap::new();
        for (name, value) in &plan.sysctls {
            let below_net = name.strip_prefix("net.").unwrap_or(name);
            settings.insert(Key::new(below_net.split('.'))?, value.clone());
        }
        let (filter, admitted) = (filter::table(&plan.filter)?, filter::rules(&plan.admitted)?);
        Ok(Objects { link, filter, admitted, settings, plan: plan.clone() })
    }

    /// Where conversations by datagrams lead.
    pub fn datagrams(&self) -> &Datagrams {
        &self.plan.datagrams
    }

    /// The link's addresses, once it is there.
    pub fn addresses(&self, link: u32, mark: &Mark) -> Vec<Address> {
        let label = mark.label(self.link.name.as_str());
        let addresses = self.plan.link.addresses.iter().map(|net| {
            // The kernel's own route to the network is nobody's: once flushed it would not come back.
            let mut address = Address { no_prefix_route: true, ..Address::new(link, *net) };
            if net.addr().is_ipv4() {
                address.label.clone_from(&label);
            } else {
                // Nobody else is on this wire, and for a second nothing could be sent from it.
                address.no_dad = true;
            }
            address
        });
        addresses.collect()
    }

    /// The routes through the link, once it is there.
    pub fn routes(&self, link: u32) -> Vec<Route> {
        let wire = self.plan.link.addresses.iter();
        let wire = wire.map(|net| Route::new(net.trunc(), vec![Hop::on(link)]).source(net.addr()));
        let through = self.plan.routes.iter().map(|route| {
            // The router is there, whatever other routes say about it: these may be put back in any order.
            let hop = Hop { onlink: true, ..Hop::via(link, route.via) };
            let to = Route::new(route.to, vec![hop]).source(route.from);
            match route.mtu {
                Some(mtu) => to.mtu(mtu.bytes()),
                None => to,
            }
        });
        wire.chain(through).collect()
    }

    /// The neighbours behind the link, once it is there.
    pub fn neighbours(&self, link: u32) -> Vec<Neighbour> {
        let neighbours = self.plan.neighbours.iter();
        neighbours.map(|(ip, mac)| Neighbour::permanent(link, *ip, Mac(mac.bytes()))).collect()
    }

    /// Is this entry one of those, or in the place of one?
    pub fn knows(&self, neighbour: &Neighbour) -> bool {
        self.plan.neighbours.contains_key(&neighbour.ip)
    }
}
