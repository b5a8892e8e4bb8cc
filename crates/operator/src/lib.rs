//! The cluster side: one controller per capability. Each reads the cluster, lets `core` decide, writes what nodes
//! are to do, and reports what is true.
//!
//! [`run`] is the operator. [`lead`] makes sure that one process acts at a time; [`overlay`] gives nodes their places in
//! the pod network; [`mtu`] decides how its MTU changes; [`rollout`] moves nodes to their configuration. [`metrics`] is
//! what is measured, [`serve`] where it can be asked for.

mod capability;
mod follow;
pub mod lead;
pub mod metrics;
mod mtu;
mod network_status;
pub mod overlay;
mod pace;
mod report;
pub mod rollout;
mod round;
pub mod serve;
mod writer;

use std::future::Future;
use std::net::SocketAddr;

use futures::future::join_all;
use kube::Client;
use tracing::{Instrument, info_span};

use capability::{Capability, Context};
use lead::{Election, Timing};
use metrics::Metrics;
use writer::Writer;

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

/// What the operator is capable of. The rollout asks them in this order.
fn capabilities(overlay: overlay::Settings, metrics: &Metrics) -> Vec<Capability> {
    vec![overlay::capability(overlay), mtu::capability(metrics)]
}

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
        let context = Context {
            client: client.clone(),
            writer: Writer::new(&client, &leadership),
            leadership,
            namespace: namespace.clone(),
        };
        let (rollout, metrics) = (rollout.clone(), metrics.clone());
        async move {
            let _leading = metrics.while_leading();
            let capabilities = capabilities(overlay, &metrics);
            let own = capabilities.iter().filter_map(|one| Some((one.name, one.run.as_ref()?)));
            let loops =
                own.map(|(name, run)| run(context.clone()).instrument(info_span!("capability", name)));
            let loops = join_all(loops.collect::<Vec<_>>());
            // Boxed: it is large, and lives as long as the process.
            let rollout = Box::pin(rollout::control(context.clone(), rollout, &capabilities, metrics));
            tokio::join!(loops, rollout);
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
