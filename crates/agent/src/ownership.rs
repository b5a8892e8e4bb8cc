//! Every mark, number and name by which this agent recognises what it owns on a host.
//!
//! Each keeper takes its numbers from here. A start-up adopts, repairs and removes exactly the objects that carry them,
//! so two keepers must never share one.

use netferry_kernel::Mark;

/// The pod network's host side: routes, rules, neighbours, addresses, the nftables table `netferry`.
pub fn host() -> Mark {
    Mark::default()
}

/// The routes and rules of tunnels. Not [`host`]'s: its keeper would remove them as surplus.
pub fn tunnel_routes() -> Mark {
    Mark { protocol: 111, ..Mark::default() }
}

/// The links of pods, on the host's side. Not [`host`]'s: they come and go with CNI requests.
pub fn pod_links() -> Mark {
    Mark { link_alias: "netferry-pod".to_owned(), ..Mark::default() }
}

/// The guard of links that a userspace switch reads. Not [`host`]'s table, which is rewritten as a whole.
pub fn guard() -> Mark {
    Mark { nft_table: GUARD_TABLE.to_owned(), ..Mark::default() }
}

/// The table of that guard.
pub const GUARD_TABLE: &str = "netferry-guard";

/// The guard's hook priority: before conntrack, so that a dropped frame leaves no connection behind.
pub const GUARD_PRIORITY: i32 = -500;

/// The route table of tunnels where the kernel moves the packets, named after Geneve's port.
pub const TUNNEL_ROUTE_TABLE: u32 = 6081;

/// The rule that leads to it: directly before the main table, so that existing policy rules keep precedence.
pub const TUNNEL_RULE_PRIORITY: u32 = 32_765;

/// The UDP port on which nodes probe each other, unless `--probe-port` changes it on all of them.
pub const PROBE_PORT: u16 = 9644;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two owners of one mark would remove each other's objects.
    #[test]
    fn no_two_owners_share_a_whole_mark() {
        let all = [host(), tunnel_routes(), pod_links(), guard()];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{one:?}");
        }
        assert_ne!(host().protocol, tunnel_routes().protocol);
        assert_ne!(host().nft_table, guard().nft_table);
        assert_ne!(host().link_alias, pod_links().link_alias);
        assert_eq!(host().nft_table, netferry_core::overlay::host::TABLE, "core names the same table");
    }
}
