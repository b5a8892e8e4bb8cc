//! The pod network's tasks on a node.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netferry_core::overlay::service::Forward;
use netferry_core::overlay::zone::Datapath;
use netferry_kernel::IfName;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::host::ways::Ways;
use super::ovn::{Outlook, ZoneHandle};
use super::pods::objects::ApiPods;
use super::pods::server::{NotListening, Server};
use super::pods::{self, Parts, Pods, Readiness, conflist};
use super::session::Sessions;
use super::{forward, host, switch};
use crate::capability::Startup;
use crate::cluster::Cache;
use crate::context::Context;
use crate::host_init;
use crate::node::annotations::{self, PLACE_KEYS};
use crate::node::gate::Verdict;
use crate::node::publisher::When;

const NAME: &str = "overlay";
/// How often the host's forwards are written to disk at most, for the next boot.
const TO_DISK_EVERY: Duration = Duration::from_secs(2);
/// How often they are written at most for the next agent of this boot.
const TO_RUN_EVERY: Duration = Duration::from_millis(100);
/// How often it is checked that the CNI configuration is there.
const CONFIG_EVERY: Duration = Duration::from_secs(10);

/// Starts the pod network. The zone itself runs in the future that is returned, which ends when one of its tasks panics.
pub(crate) async fn start(
    context: &Arc<Context>,
    chassis: String,
    cache: Cache,
    gate: watch::Receiver<Verdict>,
    startup: &mut Startup,
) -> Result<impl Future<Output = JoinError> + use<>, NotListening> {
    let Startup { tasks, publisher, .. } = startup;
    let paths = &context.config.paths;
    let process = switch::process(&paths.ovs_run, context.datapath).await;
    let (tell_process, process) = watch::channel(process);
    tasks.spawn(switch::follow(paths.ovs_run.clone(), context.datapath, tell_process));
    let outlook = Outlook::default();
    outlook.forward.send_replace(forward::newest(&paths.run, &paths.data));
    for (directory, every) in [(&paths.data, TO_DISK_EVERY), (&paths.run, TO_RUN_EVERY)] {
        tasks.spawn(remember(outlook.forward.subscribe(), directory.clone(), every));
    }
    if context.datapath == Datapath::Userspace {
        let (client, run) = (&context.stores.switch, &paths.ovs_run);
        tasks.spawn(switch::zero_snat::forgo(client.clone(), run.clone()));
        tasks.spawn(switch::packet_room::make(client.clone(), run.clone()));
        tasks.spawn(switch::stale_flows::forget(run.clone()));
    }
    let place = (NAME, &PLACE_KEYS[..], When::Registered);
    publisher.add_printed(tasks, place, outlook.place.subscribe(), |place| annotations::of_place(place));
    let (links, links_seen) = watch::channel(BTreeSet::new());
    let host = keep_host(context, &outlook, links_seen, tasks);
    let (handle, requests) = ZoneHandle::new();
    attach_pods(context, handle, &outlook, links, host, gate, startup)?;
    let sessions = Sessions { chassis, process, requests, outlook };
    Ok(sessions.run(Arc::clone(context), cache))
}

/// Keeps the kernel's side, and the uplink where host-init put it.
fn keep_host(
    context: &Context,
    outlook: &Outlook,
    links: watch::Receiver<BTreeSet<IfName>>,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<host::State> {
    let userspace = context.datapath == Datapath::Userspace;
    let bridge = context.bridge();
    let inputs = host::Inputs {
        plan: outlook.host.subscribe(),
        // With the kernel's datapath there is nothing to guard.
        guarded: if userspace { links } else { watch::channel(BTreeSet::new()).1 },
        uplink: bridge.as_ref().filter(|_| userspace).map(|(_, uplink)| uplink.clone()),
        resync: context.config.resync,
        run: context.config.paths.run.clone(),
    };
    let (state, seen) = watch::channel(host::State::default());
    tasks.spawn(host::run(Arc::clone(&context.kernel), inputs, state));
    if userspace && let Some((bridge, _)) = bridge {
        let ways = Ways::new(Arc::clone(&context.kernel), &context.config.paths.ovs_run, bridge);
        tasks.spawn(async move { match ways.keep().await {} });
    }
    if let Some(bridge) = context.host_init.as_ref().and_then(|record| record.bridge.clone()) {
        let run = context.config.paths.run.clone();
        let size = context.bridge_size.subscribe();
        let done = host_init::Done { run, datapath: context.datapath, bridge, size };
        tasks.spawn(host_init::keep(Arc::clone(&context.kernel), context.stores.switch.clone(), done));
    }
    seen
}

/// Answers the CNI plugin, and announces it to the runtime last of all.
fn attach_pods(
    context: &Context,
    handle: ZoneHandle,
    outlook: &Outlook,
    links: watch::Sender<BTreeSet<IfName>>,
    host: watch::Receiver<host::State>,
    gate: watch::Receiver<Verdict>,
    Startup { tasks, metrics, .. }: &mut Startup,
) -> Result<(), NotListening> {
    let paths = &context.config.paths;
    let (objects, follow) = ApiPods::new(context.client.clone(), &context.config.node);
    let zone = outlook.readiness.subscribe();
    let (ready, readiness) = watch::channel(zone.borrow().clone());
    tasks.spawn(pods::ready::follow(context.stores.switch.clone(), zone, gate, ready));
    let watched = Arc::clone(&context.kernel);
    tasks.spawn(async move { match pods::links::keep(watched).await {} });
    let pods = Pods::new(Parts {
        settings: pods::Settings {
            ovn_run: paths.ovn_run.clone(),
            ovs_run: Some(paths.ovs_run.clone()),
            ..pods::Settings::default()
        },
        kernel: Arc::clone(&context.kernel),
        switch: context.stores.switch.clone(),
        southbound: Some(context.stores.southbound.clone()),
        ports: Arc::new(handle),
        objects,
        place: outlook.place.subscribe(),
        readiness: readiness.clone(),
        hooks: context.pod_hooks.clone(),
        metrics: pods::Metrics::register(metrics),
    });
    let server = Server::open(&paths.cni_socket())?;
    let (keeper, writer) = (pods.clone(), pods.clone());
    tasks.spawn(follow);
    tasks.spawn(async move { keeper.keep(links).await });
    tasks.spawn(async move { writer.keep_annotations().await });
    tasks.spawn(server.run(pods));
    tasks.spawn(announce(readiness, host, paths.cni_config.clone(), paths.cni_socket()));
    Ok(())
}

/// Keeps the host's forwards in a directory, written at most once per interval.
async fn remember(mut forward: watch::Receiver<Option<Forward>>, directory: PathBuf, every: Duration) {
    while forward.changed().await.is_ok() {
        let now = forward.borrow_and_update().clone();
        if let Some(now) = now
            && let Err(error) = forward::write(&directory, &now)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the host's forwards were not written for the next agent");
        }
        tokio::time::sleep(every).await;
    }
}

/// Writes the CNI configuration once pods can be started, and again if it is removed by hand.
async fn announce(
    mut readiness: watch::Receiver<Readiness>,
    mut host: watch::Receiver<host::State>,
    file: PathBuf,
    socket: PathBuf,
) {
    // A pod that its node cannot reach would fail its probes.
    if host.wait_for(|now| *now == host::State::AsPlanned).await.is_err()
        || readiness.wait_for(|now| *now == Readiness::Ready).await.is_err()
    {
        return;
    }
    loop {
        match conflist::write(&file, &socket) {
            Ok(true) => tracing::info!(file = %file.display(), "pods can be started"),
            Ok(false) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(
                    error,
                    "writing the CNI configuration; the runtime starts no pods without it"
                );
            }
        }
        tokio::time::sleep(CONFIG_EVERY).await;
    }
}
