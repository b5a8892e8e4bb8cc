//! The API for programs in the caller's network: a port of its loopback that leads to the control plane's network.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use netferry_kernel::Namespace;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Takes a free port of the loopback, and leads it to an address in another network until the task is ended.
pub(super) async fn open(network: Arc<Namespace>, to: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((caller, _)) => {
                    tokio::spawn(carry(caller, network.clone(), to));
                }
                Err(error) => {
                    // Out of descriptors, most likely: those that are open go on, and some will close.
                    tracing::warn!(%error, "accepting a connection to the API");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(address)
}

async fn carry(mut caller: TcpStream, network: Arc<Namespace>, to: SocketAddr) {
    let carried = async {
        let mut server = connect(&network, to).await?;
        // Answers are small and many; held back, each would cost the other side's patience.
        let _ = (caller.set_nodelay(true), server.set_nodelay(true));
        tokio::io::copy_bidirectional(&mut caller, &mut server).await
    };
    if let Err(error) = carried.await {
        tracing::debug!(%error, "a connection to the API ended");
    }
}

/// A socket belongs to the network it was made in, wherever it is used from.
async fn connect(network: &Namespace, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = network
        .run(|| if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() })
        .map_err(io::Error::other)??;
    socket.connect(to).await
}
