//! Tunnel neighbours of the userspace datapath: whose hardware address a wrapped packet goes to.
//!
//! The switch's own process wraps packets and has a neighbour table of its own. It asks for an address when the first
//! packet for it comes, and drops that packet. So a peer's address is put in before the peer is used, and again
//! whenever the process is another one or the entries grow old. The kernel's datapath uses the kernel's neighbours
//! and needs none of this.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use netferry_core::net::Mac;
use netferry_ovs::unixctl::{Control, ControlError};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// How long an entry lives that nobody renews; the longest the switch accepts.
const LIFETIME: Duration = Duration::from_secs(3600);
/// How often entries are renewed: several times in a lifetime, for a switch that is busy just then.
const RENEWAL: Duration = Duration::from_secs(600);
/// Between looks for a switch that is away. Nothing tells when its socket appears.
const PAUSE: Duration = Duration::from_millis(50);

/// Peers by tunnel address, with the hardware address behind it. What is sent to one that is reached through a router goes
/// to the router's hardware address, which nobody tells: the switch asks for that one itself.
pub type Peers = BTreeMap<IpAddr, Mac>;

/// The neighbour table of the switch, for tunnels that leave through one bridge.
#[derive(Clone, Debug)]
pub struct TunnelNeighbours {
    run: PathBuf,
    bridge: String,
}

impl TunnelNeighbours {
    /// Of the switch whose control socket is in this run directory (`/run/openvswitch`), through this bridge.
    pub fn new(run: impl Into<PathBuf>, bridge: impl Into<String>) -> TunnelNeighbours {
        TunnelNeighbours { run: run.into(), bridge: bridge.into() }
    }

    /// Puts peers in, now. What is there of other peers stays; the switch forgets them by itself.
    ///
    /// When it returns without an error, the first packet to each of them finds its way.
    pub async fn load(&self, peers: &Peers) -> Result<(), ControlError> {
        if peers.is_empty() {
            return Ok(());
        }
        self.load_into(&self.control().await?, peers).await
    }

    /// Keeps all peers in the table: new ones as they come, all again after the switch was started anew, and in
    /// time before they grow old. Ends when nobody can change `peers` any more.
    pub async fn keep(&self, mut peers: watch::Receiver<Peers>) {
        loop {
            let Ok(control) = self.control().await else {
                sleep(PAUSE).await;
                continue;
            };
            // Its end is the end of this process: a connection tells at once, where a pidfile would be read late.
            let Ok(mut life) = UnixStream::connect(control.socket()).await else {
                sleep(PAUSE).await;
                continue;
            };
            match self.follow(&control, &mut life, &mut peers).await {
                Followed::Ended => return,
                Followed::Gone => {}
                Followed::Failed(error) => {
                    tracing::debug!(
                        bridge = self.bridge,
                        error = &error as &dyn std::error::Error,
                        "the switch takes no tunnel neighbours yet"
                    );
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn follow(
        &self,
        control: &Control,
        life: &mut UnixStream,
        peers: &mut watch::Receiver<Peers>,
    ) -> Followed {
        let mut known = Peers::new();
        let mut renewal = Instant::now();
        loop {
            let wanted = peers.borrow_and_update().clone();
            if Instant::now() >= renewal {
                known.clear();
                renewal = Instant::now() + RENEWAL;
            }
            let new: Peers = wanted
                .iter()
                .filter(|(address, mac)| known.get(address) != Some(mac))
                .map(|(address, mac)| (*address, *mac))
                .collect();
            if let Err(error) = self.load_into(control, &new).await {
                return Followed::Failed(error);
            }
            known = wanted;
            let mut nothing = [0; 16];
            tokio::select! {
                changed = peers.changed() => if changed.is_err() { return Followed::Ended },
                _ = life.read(&mut nothing) => return Followed::Gone,
                () = sleep_until(renewal) => {}
            }
        }
    }

    async fn load_into(&self, control: &Control, peers: &Peers) -> Result<(), ControlError> {
        if peers.is_empty() {
            return Ok(());
        }
        control.command("tnl/neigh/aging", &[&LIFETIME.as_secs().to_string()]).await?;
        for (address, mac) in peers {
            control.set_tunnel_neighbour(&self.bridge, *address, &mac.to_string()).await?;
        }
        Ok(())
    }

    async fn control(&self) -> Result<Control, ControlError> {
        crate::overlay::switch::control(&self.run).await
    }
}

enum Followed {
    /// Nobody can change the peers any more.
    Ended,
    /// The switch's process ended.
    Gone,
    /// It did not take an entry.
    Failed(ControlError),
}
