//! The control socket.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use super::Cluster;
use crate::error::{During, Result};
use crate::protocol::{Reply, Request};

/// Takes requests for as long as the lab lives.
pub(super) async fn serve(cluster: Arc<Cluster>) -> Result<()> {
    let path = cluster.state.socket();
    let listener = UnixListener::bind(&path).during(format!("listening on {}", path.display()))?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let cluster = cluster.clone();
                tokio::spawn(async move {
                    // A caller that goes away in the middle is its own business.
                    let _ = converse(&cluster, stream).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a request");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(cluster: &Cluster, stream: UnixStream) -> std::io::Result<()> {
    let (input, mut output) = stream.into_split();
    let mut line = String::new();
    BufReader::new(input).read_line(&mut line).await?;
    let reply = match serde_json::from_str::<Request>(&line) {
        Ok(request) => answer(cluster, request, &mut output).await,
        Err(error) => Reply::Refused(format!("not a request: {error}")),
    };
    write(&mut output, &reply).await
}

async fn answer(cluster: &Cluster, request: Request, output: &mut OwnedWriteHalf) -> Reply {
    match request {
        Request::Status => Reply::of(Ok(cluster.status().await)),
        Request::Ready { seconds } => {
            let (tell, mut told) = mpsc::unbounded_channel();
            let ready = cluster.ready(Duration::from_secs(seconds), tell);
            let pass_on = async {
                while let Some(waiting) = told.recv().await {
                    let _ = write(output, &Reply::Progress(waiting)).await;
                }
            };
            Reply::of(tokio::join!(ready, pass_on).0)
        }
        Request::AddNode(node) => Reply::of(cluster.add_node(node).await),
        Request::RemoveNode { node } => Reply::of(cluster.remove_node(&node).await),
        Request::Reboot { node, orderly, again } => Reply::of(reboot(cluster, &node, orderly, again).await),
        Request::Harm(fault) => Reply::of(cluster.harm(fault)),
        Request::Heal { fault } => Reply::of(cluster.heal(fault)),
        Request::Way { target } => Reply::of(cluster.way(&target).await),
    }
}

async fn reboot(cluster: &Cluster, node: &str, orderly: bool, again: bool) -> Result<()> {
    cluster.node(node)?.off(orderly, again).await
}

async fn write(output: &mut OwnedWriteHalf, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    output.write_all(&line).await
}
