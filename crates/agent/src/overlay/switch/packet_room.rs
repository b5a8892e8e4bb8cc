//! Room for packets that wait for a switch that moves them itself.

use std::path::PathBuf;
use std::time::Duration;

use netferry_core::error::chain;
use netferry_kernel::packets::PacketSockets;
use netferry_ovs::{Client, Watcher};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::overlay::pods::blocking;
use crate::overlay::switch;

/// Of each port, and nothing is set aside for it before packets wait: some 250 packets of 8 900 bytes, or 2 000 of 1 400.
const ROOM: usize = 2 << 20;
/// Between looks for a switch that is away, or whose sockets could not be seen.
const PAUSE: Duration = Duration::from_millis(500);

/// Gives the sockets of the switch's ports room, of each port that comes and of each process.
///
/// One thread of such a switch moves packets, takes in flows and talks to its database; it stands still while that is away.
/// Packets wait in the sockets of its ports meanwhile, and those hold twelve large ones: with an MTU of 8 900 single
/// packets of pods that sent some hundred a second were lost when nodes came and went.
pub(crate) async fn make(database: Client, ovs_run: PathBuf) {
    let mut ports = database.watch(&["Interface"]);
    loop {
        if let Ok(control) = switch::control(&ovs_run).await
            && let Ok(life) = UnixStream::connect(control.socket()).await
            && let Some(pid) = life.peer_cred().ok().and_then(|of| of.pid()).filter(|pid| *pid > 0)
        {
            follow(PacketSockets::of(pid), life, &mut ports).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Until the process ends.
async fn follow(mut sockets: PacketSockets, mut life: UnixStream, ports: &mut Watcher) {
    loop {
        let (seen, made) = blocking(move || {
            let made = sockets.make_room(ROOM);
            (sockets, made)
        })
        .await;
        sockets = seen;
        match made {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "made room in the switch's sockets"),
            // Another process, or one that this one may not look into; what is lost then is lost.
            Err(error) => {
                return tracing::debug!(error = chain(&error), "making room in the switch's sockets");
            }
        }
        let mut nothing = [0; 16];
        tokio::select! {
            // A port has its socket before the switch says its number.
            _ = ports.next() => {}
            _ = life.read(&mut nothing) => return,
        }
    }
}
