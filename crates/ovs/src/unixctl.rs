//! Talking to a daemon itself over its control socket, as `ovs-appctl` does.

use crate::protocol::{Framer, Message, MessageError, RpcError, request};
use ipnet::IpNet;
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Longest answer accepted; `ofproto/trace` and dumps run to megabytes.
const LONGEST: usize = 256 << 20;

/// Why a command brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No control socket of this daemon answers.
    #[error("no control socket of {daemon} in {}", directory.display())]
    NotFound {
        /// The daemon.
        daemon: String,
        /// Where it was looked for.
        directory: PathBuf,
        /// What went wrong with the most likely one, if there was any.
        #[source]
        source: Option<io::Error>,
    },
    /// Talking to it failed.
    #[error("sending {command:?} to {}", socket.display())]
    Io {
        /// The command.
        command: String,
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It answered with something that is no answer.
    #[error("{} answered {command:?} with nonsense", socket.display())]
    Nonsense {
        /// The command.
        command: String,
        /// The socket.
        socket: PathBuf,
        /// What was wrong with it.
        #[source]
        source: MessageError,
    },
    /// It refused.
    #[error("{} refused {command:?}", socket.display())]
    Refused {
        /// The command.
        command: String,
        /// The socket.
        socket: PathBuf,
        /// Its words.
        #[source]
        source: RpcError,
    },
}

/// A daemon's control socket.
#[derive(Debug, Clone)]
pub struct Control {
    socket: PathBuf,
    limit: Duration,
}

impl Control {
    /// The control socket at this path. Five seconds for an answer, unless changed by
    /// [`within`](Control::within).
    pub fn at(socket: impl Into<PathBuf>) -> Control {
        Control { socket: socket.into(), limit: Duration::from_secs(5) }
    }

    /// The control socket of a daemon in its run directory: the one its pidfile names, else any
    /// `<daemon>.<pid>.ctl` behind which somebody listens.
    ///
    /// The pidfile comes first because sockets of daemons that were killed stay behind.
    pub async fn find(directory: impl Into<PathBuf>, daemon: &str) -> Result<Control, ControlError> {
        let directory = directory.into();
        let mut source = None;
        for socket in candidates(&directory, daemon) {
            match UnixStream::connect(&socket).await {
                Ok(_) => return Ok(Control::at(socket)),
                Err(e) => source = source.or(Some(e)),
            }
        }
        Err(ControlError::NotFound { daemon: daemon.to_owned(), directory, source })
    }

    /// Allows this long for an answer.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Control {
        self.limit = limit;
        self
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs a command and returns what it prints.
    pub async fn command(&self, command: &str, arguments: &[&str]) -> Result<String, ControlError> {
        let failed = |source| self.failed(command, source);
        let (text, _) = timeout(self.limit, self.exchange(command, arguments))
            .await
            .map_err(|_| failed(io::ErrorKind::TimedOut.into()))??;
        Ok(text)
    }

    /// The daemon's version, as it prints it.
    pub async fn version(&self) -> Result<String, ControlError> {
        Ok(self.command("version", &[]).await?.trim().to_owned())
    }

    /// Ends the daemon and waits until its process is gone. `arguments` say how: `--restart` keeps
    /// `ovn-controller`'s flows and bindings for its successor, `--cleanup` removes what
    /// `ovs-vswitchd` made in the kernel.
    ///
    /// The answer, and the end of the connection after it, come before the daemon has let go of its
    /// databases and locks: a successor started then would have to share them.
    pub async fn exit(&self, arguments: &[&str]) -> Result<(), ControlError> {
        let failed = |source| self.failed("exit", source);
        let ending = async {
            let (_, mut stream) = self.exchange("exit", arguments).await?;
            // Of the process that listens; nothing if it is in a namespace we cannot see into.
            let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| *pid > 0);
            let mut rest = [0; 256];
            loop {
                match stream.read(&mut rest).await {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::ConnectionReset => break,
                    Err(e) => return Err(failed(e)),
                }
            }
            while pid.is_some_and(runs) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        timeout(self.limit, ending).await.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
    }

    /// Tells the userspace datapath a tunnel neighbour, so that the first packet to a new peer is not
    /// lost while it is asked for.
    pub async fn set_tunnel_neighbour(
        &self,
        bridge: &str,
        address: IpAddr,
        mac: &str,
    ) -> Result<(), ControlError> {
        self.command("tnl/neigh/set", &[bridge, &address.to_string(), mac]).await.map(drop)
    }

    /// The table by which the userspace datapath sends what it wraps.
    pub async fn tunnel_routes(&self) -> Result<Vec<TunnelRoute>, ControlError> {
        Ok(read_routes(&self.command("ovs/route/show", &[]).await?))
    }

    /// Tells the userspace datapath a way for what it wraps, in place of another one to the same network.
    ///
    /// The address packets are sent from is chosen by the switch, of those of the bridge: one in the same network as
    /// `to`, or as the router. It refuses when there is none.
    pub async fn set_tunnel_route(
        &self,
        to: IpNet,
        bridge: &str,
        router: Option<IpAddr>,
    ) -> Result<(), ControlError> {
        let (to, router) = (to.to_string(), router.map(|router| router.to_string()));
        let words: Vec<&str> = [to.as_str(), bridge].into_iter().chain(router.as_deref()).collect();
        self.command("ovs/route/add", &words).await.map(drop)
    }

    /// Makes the userspace datapath forget a way it was told.
    ///
    /// With it the switch forgets, whatever else leads through that bridge, that tunnels end at the bridge's addresses.
    /// It learns that anew from the next way it is told: tell it one after this.
    pub async fn forget_tunnel_route(&self, to: IpNet) -> Result<(), ControlError> {
        self.command("ovs/route/del", &[&to.to_string()]).await.map(drop)
    }

    /// How often the daemon passed one of the points it counts, now.
    pub async fn counter(&self, name: &str) -> Result<u64, ControlError> {
        let text = self.command("coverage/read-counter", &[name]).await?;
        text.trim().parse().map_err(|e| self.failed("coverage/read-counter", io::Error::other(e)))
    }

    /// How often the daemon passed the points it counts, by name; those never passed are not there. The
    /// daemon sums up every five seconds only: for what just happened ask [`counter`](Control::counter).
    pub async fn coverage(&self) -> Result<std::collections::BTreeMap<String, u64>, ControlError> {
        Ok(read_coverage(&self.command("coverage/show", &[]).await?))
    }

    fn failed(&self, command: &str, source: io::Error) -> ControlError {
        ControlError::Io { command: command.to_owned(), socket: self.socket.clone(), source }
    }

    async fn exchange(
        &self,
        command: &str,
        arguments: &[&str],
    ) -> Result<(String, UnixStream), ControlError> {
        let failed = |source| self.failed(command, source);
        let nonsense = |source| ControlError::Nonsense {
            command: command.to_owned(),
            socket: self.socket.clone(),
            source,
        };
        let mut stream = UnixStream::connect(&self.socket).await.map_err(failed)?;
        stream.write_all(&request(0, command, &json!(arguments))).await.map_err(failed)?;
        let mut framer = Framer::new(LONGEST);
        let mut received = vec![0; 16 * 1024];
        loop {
            let text = framer.next().map_err(|e| failed(io::Error::other(e)))?;
            if let Some(text) = text {
                // Anything but the reply is not for us.
                let Message::Reply { result, .. } = Message::parse(&text).map_err(nonsense)? else {
                    continue;
                };
                let refused = |source| ControlError::Refused {
                    command: command.to_owned(),
                    socket: self.socket.clone(),
                    source,
                };
                let value = result.map_err(refused)?;
                let text = if let Value::String(text) = value { text } else { value.to_string() };
                return Ok((text, stream));
            }
            match stream.read(&mut received).await.map_err(failed)? {
                0 => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                n => framer.push(&received[..n]),
            }
        }
    }
}

/// A way for what the userspace datapath wraps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelRoute {
    /// Told by somebody; else taken from the kernel, as the switch does unless `--disable-system-route` forbids it.
    pub told: bool,
    /// The network it leads to.
    pub to: IpNet,
    /// For packets with this mark only; 0 are those without.
    pub mark: u32,
    /// The link it leads through.
    pub link: String,
    /// The router it leads through, if to one.
    pub router: Option<IpAddr>,
    /// Where packets are sent from.
    pub source: Option<IpAddr>,
}

/// Reads lines like `User: 172.30.0.0/16 dev br-ex GW 172.30.0.1 SRC 172.30.1.1`. What it does not know it leaves out.
fn read_routes(text: &str) -> Vec<TunnelRoute> {
    let read = |line: &str| {
        let (kind, rest) = line.split_once(": ")?;
        let told = match kind {
            "User" => true,
            "Cached" => false,
            _ => return None,
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let after = |key: &str| words.iter().skip_while(|word| **word != key).nth(1).copied();
        Some(TunnelRoute {
            told,
            to: words.first()?.parse().ok()?,
            mark: after("MARK").map_or(Some(0), |mark| mark.parse().ok())?,
            link: after("dev")?.to_owned(),
            router: after("GW").and_then(|router| router.parse().ok()),
            source: after("SRC").and_then(|source| source.parse().ok()),
        })
    };
    text.lines().filter_map(read).collect()
}

/// Is there such a process, and has it not ended? One that nobody has waited for yet has.
fn runs(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may hold anything.
    !matches!(stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()), Some('Z' | 'X') | None)
}

/// Sockets that may be the daemon's, most likely first.
fn candidates(directory: &Path, daemon: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(pid) = std::fs::read_to_string(directory.join(format!("{daemon}.pid"))) {
        found.push(directory.join(format!("{daemon}.{}.ctl", pid.trim())));
    }
    found.push(directory.join(format!("{daemon}.ctl")));
    let numbered = |name: &str| {
        let pid = name.strip_prefix(daemon)?.strip_prefix('.')?.strip_suffix(".ctl")?;
        pid.parse::<u32>().ok()
    };
    let mut others: Vec<(u32, PathBuf)> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((numbered(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    others.sort();
    found.extend(others.into_iter().rev().map(|(_, path)| path));
    found
}

/// Reads lines like `mac_learning_learned   0.0/sec   0.000/sec   0.0003/sec   total: 2`.
fn read_coverage(text: &str) -> std::collections::BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (rates, total) = line.split_once("total:")?;
            Some((rates.split_whitespace().next()?.to_owned(), total.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_with_whoever_they_are_from() {
        let text = "Route Table:\n\
            Cached: 127.0.0.0/8 dev lo SRC 127.0.0.1 local\n\
            User: 0.0.0.0/0 MARK 7 dev br-ex GW 172.30.0.1 SRC 172.30.1.1\n\
            User: fd00:172:30::/64 dev br-ex SRC fd00:172:30::2\n\
            Guessed: 10.0.0.0/8 dev br-ex SRC 10.0.0.1\n\
            User: nowhere dev br-ex\n";
        let route = |told, to: &str, mark, link: &str, router: Option<&str>, source: &str| TunnelRoute {
            told,
            to: to.parse().unwrap(),
            mark,
            link: link.to_owned(),
            router: router.map(|router| router.parse().unwrap()),
            source: Some(source.parse().unwrap()),
        };
        let expected = [
            route(false, "127.0.0.0/8", 0, "lo", None, "127.0.0.1"),
            route(true, "0.0.0.0/0", 7, "br-ex", Some("172.30.0.1"), "172.30.1.1"),
            route(true, "fd00:172:30::/64", 0, "br-ex", None, "fd00:172:30::2"),
        ];
        assert_eq!(read_routes(text), expected);
    }

    #[test]
    fn coverage_lines_without_a_total_are_headings() {
        let text = "Event coverage, avg rate over last: 5 seconds, hash=5c4d:\n\
            hmap_pathological          0.0/sec     0.000/sec        0.0000/sec   total: 12\n\
            txn_success                1.0/sec     0.2/sec          0.0003/sec   total: 3\n\
            100 events never hit\n";
        let read: Vec<(String, u64)> = read_coverage(text).into_iter().collect();
        assert_eq!(read, [("hmap_pathological".to_owned(), 12), ("txn_success".to_owned(), 3)]);
    }

    #[test]
    fn a_process_runs_until_it_has_ended_even_if_nobody_waited_for_it() {
        assert!(runs(std::process::id() as i32));
        let mut child =
            std::process::Command::new("true").stdout(std::process::Stdio::piped()).spawn().unwrap();
        // Its end of the pipe closes when it ends; until `wait` it is a zombie.
        std::io::Read::read_to_end(&mut child.stdout.take().unwrap(), &mut Vec::new()).unwrap();
        while runs(child.id() as i32) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!runs(child.id() as i32));
    }

    #[test]
    fn the_socket_that_the_pidfile_names_is_tried_first() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["ovn-controller.7.ctl", "ovn-controller.12.ctl", "ovn-controller-vtep.13.ctl"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        std::fs::write(dir.path().join("ovn-controller.pid"), "7\n").unwrap();
        let names: Vec<String> = candidates(dir.path(), "ovn-controller")
            .iter()
            .map(|p| p.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        let expected =
            ["ovn-controller.7.ctl", "ovn-controller.ctl", "ovn-controller.12.ctl", "ovn-controller.7.ctl"];
        assert_eq!(names, expected);
    }
}
