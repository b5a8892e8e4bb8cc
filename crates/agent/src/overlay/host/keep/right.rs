//! Comparing each part of the host with the plan, and mending it.
//!
//! What one part is refused does not keep the others from being put right: a node whose filter cannot be changed still
//! has its addresses and routes, and has them back when somebody takes them away.

use std::net::IpAddr;

use netferry_kernel::link::Link;
use netferry_kernel::{Objects as _, Result};

use super::super::objects::Objects;
use super::super::settings::SettingsError;
use super::super::{admit, flows, guard, settings};
use super::{Keeper, State, Suspects, words};

/// What was refused first; the others are in the log.
#[derive(Default)]
struct Trouble(Option<SettingsError>);

impl Trouble {
    /// What was done, unless it was refused.
    fn keep<T, E: Into<SettingsError>>(&mut self, done: Result<T, E>) -> Option<T> {
        let error = match done {
            Ok(done) => return Some(done),
            Err(error) => error.into(),
        };
        if self.0.is_some() {
            tracing::warn!(error = words(&error), "and besides, keeping the host as planned");
        } else {
            self.0 = Some(error);
        }
        None
    }

    fn or(self, state: State) -> Result<State, SettingsError> {
        self.0.map_or(Ok(state), Err)
    }
}

impl Keeper<'_> {
    /// Compares and mends. The order is that of need: routes stand on addresses, addresses on the link.
    pub(super) fn put_right(&mut self, suspects: Suspects) -> Result<State, SettingsError> {
        let mut trouble = Trouble::default();
        if suspects.guards {
            trouble.keep(guard::repair(self.kernel, &self.guarded));
        }
        // Taken for as long as this lasts, so that the rest of the keeper may change meanwhile.
        let Some(objects) = self.objects.take() else { return trouble.or(State::Unplanned) };
        if suspects.filter {
            trouble.keep(self.put_filter_right(&objects));
        }
        if suspects.others
            && let Some(done) = trouble.keep(admit::converge(self.kernel, &objects.admitted))
        {
            self.tell_admitted(done);
        }
        let link = trouble.keep(self.kernel.links().named(&objects.link.name));
        if let Some(link) = &link {
            self.link = link.as_ref().map(|link| link.index);
        }
        if suspects.settings || suspects.link {
            trouble.keep(settings::settle(self.kernel, &objects.settings, &self.run));
        }
        let link = link.flatten();
        let state = if link.is_some() { State::AsPlanned } else { State::NoLink };
        if let Some(link) = link {
            self.put_link_right(&objects, link, suspects, &mut trouble);
        }
        self.objects = Some(objects);
        trouble.or(state)
    }

    fn put_filter_right(&mut self, objects: &Objects) -> Result<()> {
        let done = self.filter.converge(&self.kernel.nft(), std::slice::from_ref(&objects.filter))?;
        if !done.is_empty() {
            tracing::debug!(steps = done.steps.len(), "changed the packet filter");
        }
        let datagrams = objects.datagrams();
        if self.led.as_ref() != Some(datagrams) {
            match flows::set_right(self.kernel, datagrams) {
                Ok(forgotten) => {
                    tracing::debug!(forgotten, "conversations by datagrams begin anew");
                    self.led = Some(datagrams.clone());
                }
                // Everything else of the host is worth more than these.
                Err(error) => tracing::warn!(error = words(&error), "looking for conversations led astray"),
            }
        }
        Ok(())
    }

    /// Says what was opened, and once what only its owner can open.
    fn tell_admitted(&mut self, done: admit::Done) {
        if done.steps > 0 {
            tracing::info!("chains of others let the overlay's packets pass");
        }
        if done.closed == self.closed {
            return;
        }
        for table in done.closed.difference(&self.closed) {
            tracing::warn!(
                %table,
                "drops what is forwarded, and only the program that owns it can let the overlay's packets pass: \
                 pods do not reach what is outside until it does (firewalld: NftablesTableOwner=no)"
            );
        }
        for table in self.closed.difference(&done.closed) {
            tracing::info!(%table, "is in nobody's way any more");
        }
        self.closed = done.closed;
    }

    fn put_link_right(&self, objects: &Objects, link: Link, suspects: Suspects, trouble: &mut Trouble) {
        let (kernel, mark, index) = (self.kernel, &self.mark, link.index);
        // A kernel that was booted without IPv6 can be given nothing of it, and everything else all the same.
        let speaks_v6 = trouble.keep(kernel.sysctls().speaks_v6()).unwrap_or(true);
        let can_have = |ip: IpAddr| speaks_v6 || ip.is_ipv4();
        if suspects.link {
            // Compared with this link alone: others that carry our mark are not part of this plan.
            let changes = netferry_kernel::link::diff(std::slice::from_ref(&objects.link), &[link], mark);
            trouble.keep(kernel.links().apply(&changes));
        }
        if suspects.addresses {
            let mut addresses = objects.addresses(index, mark);
            addresses.retain(|address| can_have(address.net.addr()));
            trouble.keep(kernel.addresses().converge(&addresses, mark)).iter().for_each(report);
        }
        if suspects.routes {
            let mut routes = objects.routes(index);
            routes.retain(|route| can_have(route.to.addr()));
            trouble.keep(kernel.routes().converge(&routes, mark)).iter().for_each(report);
        }
        if suspects.neighbours {
            let mut neighbours = objects.neighbours(index);
            neighbours.retain(|neighbour| can_have(neighbour.ip));
            trouble.keep(kernel.neighbours().converge(&neighbours, mark)).iter().for_each(report);
        }
    }
}

/// Something of somebody else's is in the way. It stays; whoever put it there must be told by the log.
fn report<T: std::fmt::Debug>(changes: &netferry_kernel::Changes<T>) {
    for conflict in &changes.conflicts {
        tracing::warn!(want = ?conflict.want, have = ?conflict.have, "somebody else's is in the way");
    }
}
