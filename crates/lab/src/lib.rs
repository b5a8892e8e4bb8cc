//! A cluster on one machine: nodes, pods, fabric and an outside world out of network namespaces, with real Open vSwitch
//! and OVN in each node, faults on request and meters on every path.

pub mod meter;
pub mod paths;
pub mod programs;
