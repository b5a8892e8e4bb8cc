//! The cluster side: one controller per capability. Each reads the cluster, lets `core` decide, writes what nodes
//! are to do, and reports what is true.
//!
//! [`run`] is the operator. [`lead`] makes sure that one process acts at a time; [`overlay`] gives nodes their places in
//! the pod network.

pub mod lead;
pub mod overlay;
mod report;

use std::future::Future;

use kube::Client;

use lead::{Election, Timing};

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace of its lease.
    pub namespace: String,
    /// What it is called in the lease.
    pub identity: String,
    /// How long the lease lasts.
    pub timing: Timing,
    /// How the overlay's controller works.
    pub overlay: overlay::Settings,
}

/// The name of the operator's lease.
pub const LEASE: &str = "netferry-operator";

/// Runs the operator until it is told to stop; then lets go of its lease.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let election = Election {
        namespace: settings.namespace,
        name: LEASE.to_owned(),
        identity: settings.identity,
        timing: settings.timing,
    };
    let overlay = settings.overlay;
    lead::lead(client.clone(), &election, stop, |leadership| {
        overlay::control(client.clone(), leadership, overlay)
    })
    .await;
}
