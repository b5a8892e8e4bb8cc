//! The MTU's tasks on a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use netferry_api::annotation::Annotation;
use netferry_api::mtu::{MtuObserved, TrialObserved};
use netferry_kernel::IfName;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::admission::Door;
use super::boot::Running;
use super::host::preview::Foresight;
use super::host::{self, managed};
use super::sizes::{self, trial};
use super::{fit, observed};
use crate::capability::{Capability, Startup};
use crate::context::Context;
use crate::node::publisher::{Publisher, When};
use crate::probe;

const NAME: &str = "mtu";

/// The MTU in the agent's list.
pub fn capability() -> Capability {
    // What it leaves in the kernel carries the mark of the host, and its files are the MachineConfig's.
    Capability { name: NAME, boot: Some(host::boot_part), start, withdraw: |_, _| Ok(()) }
}

fn start(context: &Context, startup: &mut Startup) {
    let Startup { tasks, publisher, files, .. } = startup;
    let running = Running::open(&context.config.paths.run);
    let preview = Foresight {
        kernel: Arc::clone(&context.kernel),
        disk: Arc::clone(&context.disk),
        run: context.config.paths.run.clone(),
        facts: context.facts.clone(),
    };
    admit(context, &running, tasks);
    let fit = fit::keep(
        kube::Api::all(context.client.clone()),
        context.config.node.to_string(),
        context.facts.clone(),
        context.networks.clone(),
        context.served.subscribe(),
    );
    tasks.spawn(fit);
    let (tried, trial) = watch::channel(trial::begun(&context.config.paths.run));
    let observed = observe(context, &running, &preview, trial, tasks);
    let sizes = (NAME, &[MtuObserved::KEY][..], When::Registered);
    publisher.add_printed(tasks, sizes, observed.clone(), |sizes| BTreeMap::from([sizes.entry()]));
    probe_peers(context, observed, publisher, tasks);
    tasks.spawn(hold(context, &running, tried));
    files.push(managed::managed(running, Arc::clone(&context.disk), preview));
}

/// Decides whether the node serves pods, at which sizes, and as which object.
fn admit(context: &Context, running: &Running, tasks: &mut JoinSet<()>) {
    let door = Door {
        client: context.client.clone(),
        name: context.config.node.to_string(),
        namespace: context.config.namespace.clone(),
        data: context.config.paths.data.clone(),
        run: context.config.paths.run.clone(),
        disk: Arc::clone(&context.disk),
        running: running.clone(),
        networks: context.networks.clone(),
        own: context.own.clone(),
        verdict: context.gate.register(NAME),
    };
    tasks.spawn(door.keep(context.served.clone(), context.admitted.clone()));
}

/// Observes the sizes that links and routes really have.
fn observe(
    context: &Context,
    running: &Running,
    preview: &Foresight,
    trial: watch::Receiver<Option<TrialObserved>>,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<Option<MtuObserved>> {
    let sources = observed::Sources {
        kernel: Arc::clone(&context.kernel),
        disk: Arc::clone(&context.disk),
        bridge: context.bridge(),
        sized: sized(context),
        facts: context.facts.clone(),
        running: running.subscribe(),
        pods: context.served.subscribe(),
        trial,
        foresight: preview.clone(),
    };
    let (sizes, observed) = watch::channel(None);
    tasks.spawn(observed::observe(sources, sizes));
    observed
}

/// The link that host-init gave its size.
fn sized(context: &Context) -> Option<IfName> {
    IfName::new(context.host_init.as_ref()?.sized.clone()?).ok()
}

/// Probes whether full-size packets reach the other nodes, and publishes the report.
fn probe_peers(
    context: &Context,
    sizes: watch::Receiver<Option<MtuObserved>>,
    publisher: &mut Publisher,
    tasks: &mut JoinSet<()>,
) {
    let parts = probe::Parts {
        kernel: Arc::clone(&context.kernel),
        name: context.config.node.clone(),
        port: context.config.probe_port,
        peers: context.peers.subscribe(),
        runs: Box::new(move || observed::runs(sizes.borrow().as_ref()?)),
        pace: probe::Pace::default(),
    };
    let (report, reports) = watch::channel(None);
    tasks.spawn(probe::run(parts, report));
    let owned = (NAME, &[netferry_api::mtu::MtuProbes::KEY][..], When::Registered);
    publisher.add_printed(tasks, owned, reports, |report| {
        BTreeMap::from([netferry_translate::probe::printed(report).entry()])
    });
}

/// Holds links at what this boot carries and routes at what it sends, those that appear later too; and carries more for a
/// while where a trial asks for it.
fn hold(
    context: &Context,
    running: &Running,
    tried: watch::Sender<Option<TrialObserved>>,
) -> impl Future<Output = ()> + Send + 'static {
    let (kernel, run) = (Arc::clone(&context.kernel), context.config.paths.run.clone());
    let (bridge, sized, mut facts) = (context.bridge(), sized(context), context.facts.clone());
    let booted = running.get();
    let trials = trial::Parts {
        kernel: Arc::clone(&kernel),
        uplinks: Vec::new(),
        bridge: bridge.clone().map(|(name, _)| trial::Bridge {
            name,
            switch: context.stores.switch.clone(),
            size: context.bridge_size.clone(),
        }),
        running: running.clone(),
        node: context.own.clone(),
        run: run.clone(),
    };
    async move {
        let uplinks = match bridge {
            Some((bridge, port)) => vec![bridge, port],
            None => match facts.wait_for(Option::is_some).await {
                Ok(facts) => facts.iter().map(|facts| facts.host.link.clone()).collect(),
                Err(_) => return,
            },
        };
        // The link host-init sized, even if another one leads to the other nodes: nothing was persisted for that one.
        let held = sized.map_or_else(|| uplinks.clone(), |sized| vec![sized]);
        let trials = trial::Parts { uplinks, ..trials };
        let hold = async {
            if let Some(booted) = booted {
                sizes::keep(kernel, held, booted.host, run).await;
            }
        };
        tokio::join!(hold, trial::keep_trials(trials, tried));
    }
}
