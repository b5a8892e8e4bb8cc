//! The cluster side: one controller per capability. Each reads the cluster, lets `core` decide, writes what nodes
//! are to do, and reports what is true.
//!
//! [`run`] is the operator. [`lead`] makes sure that one process acts at a time; [`overlay`] gives nodes their places in
//! the pod network; [`mtu`] decides how its MTU changes; [`rollout`] moves nodes to their configuration. [`metrics`] is
//! what is measured, [`serve`] where it can be asked for.

mod follow;
pub mod lead;
pub mod metrics;
pub mod mtu;
pub mod overlay;
mod pace;
mod report;
pub mod rollout;
mod round;
pub mod serve;

use std::future::Future;
use std::net::SocketAddr;

use kube::Client;

use lead::{Election, Timing};
use metrics::Metrics;

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
    /// How the controller of configurations works.
    pub rollout: rollout::Settings,
    /// Where metrics and health are answered; nothing, nowhere.
    pub listen: Option<SocketAddr>,
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
    let metrics = Metrics::default();
    let namespace = election.namespace.clone();
    let (overlay, rollout) = (settings.overlay, settings.rollout);
    let leading = lead::lead(client.clone(), &election, stop, |leadership| {
        metrics.leading(true);
        // Boxed: they are large, and live as long as the process.
        let (namespace, rollout, metrics) = (namespace.clone(), rollout.clone(), metrics.clone());
        let places = overlay::control(client.clone(), leadership.clone(), namespace.clone(), overlay);
        let places = Box::pin(places);
        let machines = rollout::control(client.clone(), leadership, namespace, rollout, metrics.clone());
        let machines = Box::pin(machines);
        async move {
            let _leading = Leading(metrics);
            tokio::join!(places, machines);
        }
    });
    let answering = async {
        match settings.listen {
            Some(address) => serve::serve(address, client.clone(), metrics.clone()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = leading => {}
        () = answering => {}
    }
}

/// Says that this process no longer leads when its work is dropped.
struct Leading(Metrics);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.leading(false);
    }
}
