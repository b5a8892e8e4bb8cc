//! A relay between client and server that can be cut, frozen and listened to.

use crate::daemons::Server;
use netferry_ovs::Remote;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(crate) struct Relay {
    remote: Remote,
    heard: Arc<Mutex<Vec<u8>>>,
    cuts: watch::Sender<u64>,
    frozen: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(server: &Server) -> Relay {
        let path = server.path("relay");
        let target = server.path("sock");
        let listener = UnixListener::bind(&path).expect("a socket in our own directory");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (cuts, frozen) = (watch::Sender::new(0), watch::Sender::new(false));
        let task = {
            let (heard, cuts, frozen) = (Arc::clone(&heard), cuts.clone(), frozen.clone());
            tokio::spawn(async move {
                while let Ok((client, _)) = listener.accept().await {
                    if let Ok(server) = UnixStream::connect(&target).await {
                        let cut = cuts.subscribe();
                        tokio::spawn(carry(client, server, Arc::clone(&heard), cut, frozen.subscribe()));
                    }
                }
            })
        };
        Relay { remote: Remote::Unix(path), heard, cuts, frozen, task }
    }

    pub(crate) fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Ends all connections there are.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|n| *n += 1);
    }

    /// Passes nothing on while frozen.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    /// Bytes the server has sent.
    pub(crate) fn received(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    pub(crate) fn text_since(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()[at..]).into_owned()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(
    mut client: UnixStream,
    mut server: UnixStream,
    heard: Arc<Mutex<Vec<u8>>>,
    mut cut: watch::Receiver<u64>,
    mut frozen: watch::Receiver<bool>,
) {
    let (mut up, mut down) = (vec![0; 65536], vec![0; 65536]);
    loop {
        if *frozen.borrow_and_update() {
            tokio::select! {
                _ = cut.changed() => return,
                _ = frozen.changed() => continue,
            }
        }
        tokio::select! {
            _ = cut.changed() => return,
            _ = frozen.changed() => {}
            read = client.read(&mut up) => match read {
                Ok(n) if n > 0 => if server.write_all(&up[..n]).await.is_err() { return },
                Ok(_) | Err(_) => return,
            },
            read = server.read(&mut down) => match read {
                Ok(n) if n > 0 => {
                    heard.lock().unwrap().extend_from_slice(&down[..n]);
                    if client.write_all(&down[..n]).await.is_err() { return }
                }
                Ok(_) | Err(_) => return,
            },
        }
    }
}
