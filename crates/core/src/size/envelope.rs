//! What a node carries and what it sends.

use std::fmt;

use super::Mtu;

/// What a node's interfaces carry, and what its routes let it send.
///
/// Others call the two `mtu` and `routable-mtu`; those words stay at the edges where others read them.
///
/// Invariant: `sends <= carries`. It is why there is no constructor that takes the two in an order to be confused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Envelope {
    carries: Mtu,
    sends: Mtu,
}

impl Envelope {
    /// Carries the larger of the two and sends no more than the smaller: safe beside a node at either.
    pub fn spanning(a: Mtu, b: Mtu) -> Envelope {
        Envelope { carries: a.max(b), sends: a.min(b) }
    }

    /// Carries and sends the same.
    pub fn settled(at: Mtu) -> Envelope {
        Envelope { carries: at, sends: at }
    }

    /// The largest packet that is not dropped on arrival.
    pub fn carries(self) -> Mtu {
        self.carries
    }

    /// The largest packet that leaves.
    pub fn sends(self) -> Mtu {
        self.sends
    }

    /// The MTU of routes, where it differs from that of the interfaces: what others call `routable-mtu`.
    pub fn pin(self) -> Option<Mtu> {
        (self.sends < self.carries).then_some(self.sends)
    }

    /// Whether a node like this is safe beside every node that is settled at `size`.
    ///
    /// Two nodes that hold the same size are safe beside each other: neither sends more than that size, neither
    /// carries less. It is the whole argument of a change: there is always one size that all nodes hold.
    pub fn holds(self, size: Mtu) -> bool {
        self.sends <= size && size <= self.carries
    }

    /// Whether every size that `other` holds is held by this too.
    pub fn covers(self, other: Envelope) -> bool {
        self.sends <= other.sends && other.carries <= self.carries
    }

    /// Whether two nodes can exchange packets as large as either sends, both ways, with nothing dropped.
    pub fn fits(self, peer: Envelope) -> bool {
        self.sends <= peer.carries && peer.sends <= self.carries
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pin() {
            None => write!(f, "{}", self.carries),
            Some(pin) => write!(f, "{} (routes {pin})", self.carries),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size() -> impl Strategy<Value = Mtu> {
        (Mtu::MIN..=Mtu::MAX).prop_map(|bytes| Mtu::new(bytes).unwrap())
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        (size(), size()).prop_map(|(a, b)| Envelope::spanning(a, b))
    }

    proptest! {
        #[test]
        fn nodes_that_hold_one_size_lose_nothing_between_them(a in envelope(), b in envelope(), size in size()) {
            prop_assert!(!(a.holds(size) && b.holds(size)) || a.fits(b));
        }

        #[test]
        fn a_spanning_node_is_safe_beside_the_old_and_the_new(a in size(), b in size()) {
            let span = Envelope::spanning(a, b);
            prop_assert!(span.fits(Envelope::settled(a)) && span.fits(Envelope::settled(b)));
            prop_assert_eq!(span, Envelope::spanning(b, a));
        }
    }

    #[test]
    fn nodes_settled_apart_do_not_fit() {
        let at = |bytes| Envelope::settled(Mtu::new(bytes).unwrap());
        assert!(!at(1400).fits(at(8900)));
        assert!(at(1400).fits(at(1400)));
    }

    #[test]
    fn routes_are_pinned_only_where_they_differ_from_the_interface() {
        let mtu = |bytes| Mtu::new(bytes).unwrap();
        assert_eq!(Envelope::spanning(mtu(8900), mtu(1400)).pin(), Some(mtu(1400)));
        assert_eq!(Envelope::spanning(mtu(1400), mtu(1400)).pin(), None);
        assert_eq!(Envelope::spanning(mtu(8900), mtu(1400)).to_string(), "8900 (routes 1400)");
    }
}
