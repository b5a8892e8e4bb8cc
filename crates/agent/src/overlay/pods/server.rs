//! The socket the plugin asks at.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use netferry_cni::protocol::{Greeting, LONGEST_LINE, REQUEST_LIMIT};
use netferry_cni::{Answer, Ask, CniError, Code, Spent};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Pods;
use crate::kept;

/// How many questions are worked on at once; the others wait their turn. A node has some hundred pods, and every one
/// of these may have a thread in the kernel.
const AT_ONCE: usize = 64;
/// How long a plugin may take to say what it wants, and to take the answer.
const TALK_LIMIT: Duration = Duration::from_secs(10);
/// Between attempts to take connections when the process has no room for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("listening at {}", socket.display())]
pub struct NotListening {
    socket: PathBuf,
    #[source]
    source: io::Error,
}

/// An open socket.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    socket: PathBuf,
}

impl Server {
    /// Opens the socket, for root alone: who may ask may attach containers. One that a killed agent left behind is
    /// replaced; so is one that another agent still listens at, which then gets no more questions.
    pub fn open(socket: &Path) -> Result<Server, NotListening> {
        let failed = |source| NotListening { socket: socket.to_owned(), source };
        let directory = socket.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
        // Bound under another name and renamed: at no instant is the path without a socket, or open to others.
        let draft = directory.join(format!(".cni.{}", std::process::id()));
        let opened = (|| {
            kept::remove(&draft)?;
            let listener = UnixListener::bind(&draft)?;
            std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))?;
            std::fs::rename(&draft, socket)?;
            Ok(listener)
        })();
        if opened.is_err() {
            let _ = std::fs::remove_file(&draft);
        }
        Ok(Server { listener: opened.map_err(failed)?, socket: socket.to_owned() })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Answers questions for as long as it is run.
    pub async fn run(self, pods: Pods) {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (pods, room) = (pods.clone(), Arc::clone(&room));
                    tokio::spawn(async move {
                        if let Err(error) = converse(stream, pods, room).await {
                            tracing::debug!(%error, "talking to the CNI plugin");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "taking a connection of the CNI plugin");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Greets, hears, answers. The work goes on when the plugin goes away, or the answer is late: half an attachment is
/// worse than one nobody waited for, and the DEL that follows waits for it.
async fn converse(stream: UnixStream, pods: Pods, room: Arc<Semaphore>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    say(&mut write, &Greeting::ours()).await?;
    let mut line = Vec::new();
    let mut read = BufReader::new(read).take(LONGEST_LINE as u64);
    timeout(TALK_LIMIT, read.read_until(b'\n', &mut line)).await??;
    if line.is_empty() {
        // somebody looked whether we are here
        return Ok(());
    }
    let ask: Ask = match serde_json::from_slice(&line) {
        Ok(ask) => ask,
        Err(error) => {
            let refusal = CniError::new(Code::Decode, "the agent does not understand the question")
                .with_details(error.to_string());
            return say(&mut write, &refused(refusal)).await;
        }
    };
    let about = describe(&ask);
    let work = tokio::spawn(async move {
        let _room = room.acquire_owned().await;
        pods.answer(ask).await
    });
    let answer = match timeout(REQUEST_LIMIT, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => refused(CniError::new(Code::TryAgain, format!("the agent failed over {about}"))),
        Err(_) => {
            let text = format!("{about} is not done after {} s", REQUEST_LIMIT.as_secs());
            refused(CniError::new(Code::TryAgain, text))
        }
    };
    let Spent { total_us, ovn_us, api_us } = answer.spent;
    match &answer.error {
        None => tracing::info!(about, total_us, ovn_us, api_us, "done"),
        Some(error) => tracing::warn!(about, total_us, %error, "refused"),
    }
    say(&mut write, &answer).await
}

fn refused(error: CniError) -> Answer {
    Answer { result: None, error: Some(error), spent: Spent::default() }
}

fn describe(ask: &Ask) -> String {
    match ask {
        Ask::Add { attachment, pod, .. } => {
            format!("ADD of {attachment} for pod {}/{}", pod.namespace, pod.name)
        }
        Ask::Del { attachment, .. } => format!("DEL of {attachment}"),
        Ask::Check { attachment, .. } => format!("CHECK of {attachment}"),
        Ask::Status => "STATUS".to_owned(),
        Ask::Gc { network, .. } => format!("GC of network {network}"),
    }
}

async fn say(to: &mut OwnedWriteHalf, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    timeout(TALK_LIMIT, to.write_all(&line)).await?
}
