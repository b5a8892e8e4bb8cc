//! The cluster side: reads the cluster, lets `core` decide, writes what nodes are to do, and reports what is true.
//!
//! [`run`] is the operator. [`lead`] makes sure that one process acts at a time. [`capabilities`] lists what it is capable
//! of; each is a folder. [`rollout`] moves nodes to the configuration that capabilities contribute. [`cluster`] watches,
//! [`writer`] writes, [`network_status`] owns the status of the two Networks, [`metrics`] and [`serve`] answer over HTTP.

mod capability;
mod cluster;
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
mod settings;
mod writer;

use std::future::Future;

use futures::future::join_all;
use kube::Client;
use tracing::{Instrument, info_span};

use capability::{Capability, Context};
use cluster::Cluster;
use lead::Election;
use metrics::Metrics;
pub use settings::Settings;
use writer::Writer;

/// The name of the operator's lease.
pub const LEASE: &str = "netferry-operator";

/// What the operator is capable of. The rollout asks them in this order.
fn capabilities(overlay: overlay::Settings, metrics: &Metrics) -> Vec<Capability> {
    vec![overlay::capability(overlay), mtu::capability(&metrics.mtu)]
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
            let mut cluster = Cluster::new(&context.client);
            let own = capabilities.iter().filter_map(|one| Some((one.name, one.run.as_ref()?)));
            let own = own.map(|(name, run)| {
                run(context.clone(), cluster.follow()).instrument(info_span!("capability", name))
            });
            let own = join_all(own.collect::<Vec<_>>());
            let changes = cluster.follow();
            // Boxed: it is large, and lives as long as the process.
            let rollout = Box::pin(rollout::control(context, changes, rollout, &capabilities, metrics));
            tokio::join!(own, rollout, cluster.run());
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
