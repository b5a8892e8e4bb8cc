//! The pod network: who gets which addresses, and what every node's zone must hold.
//!
//! Every node is an OVN zone of its own; a transit switch joins the zones. [`allocate`] is the cluster side: node ids,
//! subnets and the addresses that follow from them; [`pod_addresses`] gives out what is in a subnet. [`zone`] is the
//! node side: from the cluster's objects to the rows of one zone, and [`host`] to what the host around it must have.
//! [`inputs`] follows the cluster one object at a time and computes only the rows that change.
//! [`path`] names the kinds of paths packets take through it. [`check`] reads a zone's rows without knowing how they were
//! made and lists what is wrong with them.

pub mod acl;
pub mod allocate;
pub mod check;
pub mod cluster;
pub mod ground;
pub mod host;
pub mod inputs;
pub mod names;
pub mod networks;
pub mod path;
pub mod pod_addresses;
pub mod policy;
pub mod rows;
pub mod service;
pub mod topology;
pub mod zone;
