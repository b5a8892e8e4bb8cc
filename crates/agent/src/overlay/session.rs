//! The zone of this node, for as long as what it is built on stays the same.

use std::sync::Arc;

use netferry_core::overlay::inputs::{Model, News};
use netferry_core::overlay::names;
use netferry_core::overlay::networks::Networks;
use netferry_core::overlay::topology::Mode;
use netferry_core::overlay::zone::{Datapath, SwitchFacts, SwitchProcess};
use netferry_core::size::Envelope;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use super::follow::{self, Own};
use super::host::neighbours::TunnelNeighbours;
use super::host::tunnel_routes;
use super::ovn::{Heard, Keeper, Outlook, Requests, astray};
use crate::cluster::{Basis, Cache, Written};
use crate::context::Context;
use crate::tasks::failure;

/// What the zone is built on. The ranges follow the cluster; the sizes are those of this boot, whatever is published
/// meanwhile.
#[derive(PartialEq)]
struct Ground {
    networks: Networks,
    mode: Mode,
    sizes: Envelope,
}

impl Ground {
    fn known(written: Option<&Written>, sizes: Option<Envelope>) -> Option<Ground> {
        let Basis { networks, mode, .. } = written?.basis().ok().flatten()?;
        Some(Ground { networks, mode, sizes: sizes? })
    }
}

/// Everything that is built on one ground; ends when dropped.
struct Session {
    ground: Ground,
    tasks: JoinSet<()>,
}

/// What sessions are started with.
pub(super) struct Sessions {
    pub(super) chassis: String,
    pub(super) process: watch::Receiver<SwitchProcess>,
    pub(super) requests: Requests,
    pub(super) outlook: Outlook,
}

impl Sessions {
    /// Keeps a session on the current ground, and the cache for the next boot, until a task of the session panics.
    pub(super) async fn run(self, context: Arc<Context>, mut cache: Cache) -> JoinError {
        let (mut networks, mut served) = (context.networks.clone(), context.served.subscribe());
        let (mut own, mut place) = (context.own.clone(), self.outlook.place.subscribe());
        let mut session: Option<Session> = None;
        loop {
            let ground = Ground::known(networks.borrow_and_update().as_ref(), *served.borrow_and_update());
            if let Some(ground) = ground
                && session.as_ref().is_none_or(|session| session.ground != ground)
            {
                // What was built on another ends before anything is built on this one.
                drop(session.take());
                session = Some(self.start(ground, &context, &cache));
            }
            let mut now = cache.clone();
            now.networks = networks.borrow().clone();
            if let Some(node) = &*own.borrow_and_update() {
                now.remember(node);
            }
            if let Some(place) = &*place.borrow_and_update() {
                now.remember_place(place);
            }
            if now != cache {
                if let Err(error) = now.write(&context.config.paths.data) {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "what is known of the cluster was not written for the next boot");
                }
                cache = now;
            }
            tokio::select! {
                Ok(()) = networks.changed() => {}
                Ok(()) = served.changed() => {}
                Ok(()) = own.changed() => {}
                Ok(()) = place.changed() => {}
                failed = failure(session.as_mut().map(|session| &mut session.tasks)) => return failed,
            }
        }
    }

    fn start(&self, ground: Ground, context: &Context, cache: &Cache) -> Session {
        let (me, datapath) = (context.config.node.clone(), context.datapath);
        let (paths, resync) = (&context.config.paths, context.config.resync);
        let (topology, mode) = (ground.mode.topology(), ground.mode);
        tracing::info!(node = %me, ?mode, mtu = %ground.sizes, ?datapath, "keeping the zone");
        let basis = Basis { networks: ground.networks.clone(), mtu: ground.sizes.carries(), mode };
        let southbound = format!("unix:{}", paths.southbound_socket().display());
        let SwitchProcess { has_flows, follows_routes } = *self.process.borrow();
        let facts = SwitchFacts { southbound, datapath, has_flows, follows_routes };
        let tunnels = topology.way_out.tunnels;
        let model = Model::new(me.clone(), basis.networks.clone(), topology, basis.mtu, facts);
        let mut model = model.sending(ground.sizes.pin());
        let own = Own { name: me.clone(), chassis: self.chassis.clone(), mode };
        if let Ok(node) = own.read(&basis.networks, &cache.node(me.as_str())) {
            model.hear(News::Node(node));
        }
        let mut tasks = JoinSet::new();
        let (heard, hearing) = mpsc::channel::<Heard>(64);
        let (outlook, requests) = (self.outlook.clone(), self.requests.clone());
        let mut keeper = Keeper::new(model, &context.stores, datapath, hearing, requests, outlook);
        keeper.resync = resync;
        if tunnels && datapath == Datapath::Userspace {
            let tunnels = TunnelNeighbours::new(&paths.ovs_run, names::EXTERNAL_BRIDGE);
            let peers = keeper.know_tunnels(tunnels.clone());
            tasks.spawn(async move { tunnels.keep(peers).await });
        }
        if datapath == Datapath::Kernel {
            let kernel = Arc::clone(&context.kernel);
            if tunnels {
                tasks.spawn(async move { match tunnel_routes::keep(kernel, resync).await {} });
            } else if let Err(error) = tunnel_routes::withdraw(&kernel) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "removing the routes of tunnels");
            }
        }
        tasks.spawn(astray::look_for(paths.ovs_run.clone(), keeper.tell_moved()));
        tasks.spawn(forward_process(self.process.clone(), heard.clone()));
        tasks.spawn(keeper.run());
        tasks.spawn(follow::follow(context.client.clone(), own, basis, heard, context.peers.clone()));
        Session { ground, tasks }
    }
}

/// Forwards the state of the switch's process to the zone.
async fn forward_process(mut process: watch::Receiver<SwitchProcess>, zone: mpsc::Sender<Heard>) {
    loop {
        let now = *process.borrow_and_update();
        if zone.send(Heard::Process(now)).await.is_err() || process.changed().await.is_err() {
            return;
        }
    }
}
