//! `netferry.dev/topology`: for how many nodes the pod network is made.

use crate::annotation::{any_value, names, text_annotation};

names! {
    /// For how many nodes the pod network is made.
    TopologyMode {
        /// Any number; what is not said is this.
        MultiNode = "multi-node",
        /// One machine, whose uplink stays as it is.
        SingleNode = "single-node",
    }
}

text_annotation! {
    /// `netferry.dev/topology`. On `Network.operator.openshift.io`: what is asked for. On `Network.config.openshift.io`:
    /// what the cluster runs with, written by the operator.
    NetworkTopology(TopologyMode), "netferry.dev/topology", |value| {
        let known = TopologyMode::ALL.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(" nor ");
        TopologyMode::named(value).ok_or_else(|| format!("{value:?} is neither {known}"))
    }
}
any_value!(NetworkTopology(TopologyMode));
