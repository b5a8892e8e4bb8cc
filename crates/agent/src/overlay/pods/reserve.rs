//! Addresses that were chosen and are not yet to be seen anywhere else.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use netferry_core::net::{Addresses, Subnets};
use netferry_core::overlay::pod_addresses::{SubnetFull, choose};

#[derive(Default)]
pub(super) struct Reservations {
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// Chosen by requests that are under way.
    reserved: BTreeSet<IpAddr>,
    /// Where the search goes on. Forgotten with the process: it only spreads the choice over the subnet.
    last: Option<Addresses>,
}

/// Addresses that are nobody else's while this is kept.
pub(super) struct Reserved {
    pub(super) addresses: Addresses,
    book: Arc<Reservations>,
}

impl Reservations {
    /// Chooses free addresses, at once for everybody who asks.
    pub(super) fn choose(
        self: &Arc<Reservations>,
        subnets: &Subnets,
        taken: &BTreeSet<IpAddr>,
    ) -> Result<Reserved, SubnetFull> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.union(&book.reserved).copied().collect();
        let addresses = choose(subnets, &all, book.last.as_ref())?;
        book.reserved.extend(addresses.iter());
        book.last = Some(addresses);
        Ok(Reserved { addresses, book: Arc::clone(self) })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut book = self.book.book.lock().unwrap_or_else(PoisonError::into_inner);
        for address in self.addresses.iter() {
            book.reserved.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netferry_core::net::Stack;

    #[test]
    fn two_requests_at_once_never_get_the_same_address() {
        let reservations = Arc::new(Reservations::default());
        let subnets: Subnets = Stack::V4("10.0.0.0/29".parse().unwrap());
        let none = BTreeSet::new();
        let held: Vec<_> = (0..3).map(|_| reservations.choose(&subnets, &none).unwrap()).collect();
        let distinct: BTreeSet<IpAddr> = held.iter().flat_map(|r| r.addresses.iter()).collect();
        assert_eq!(distinct.len(), 3);
        assert!(reservations.choose(&subnets, &none).is_err(), "the three there are");
        drop(held);
        assert!(reservations.choose(&subnets, &none).is_ok(), "given back");
    }
}
