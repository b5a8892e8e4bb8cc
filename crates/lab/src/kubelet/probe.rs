//! Readiness and liveness probes, from the node to the pod as a kubelet makes them.

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::children::Children;
use crate::enter::Way;
use crate::node::Spec;

/// What of a container is looked at while it runs.
pub(super) struct Probes {
    readiness: Option<Check>,
    liveness: Option<Check>,
    children: Children,
}

/// One probe.
#[derive(Clone)]
struct Check {
    how: How,
    delay: Duration,
    period: Duration,
    timeout: Duration,
    succeeds_after: u32,
    fails_after: u32,
}

#[derive(Clone)]
enum How {
    Connect(Option<SocketAddr>),
    Get { address: Option<SocketAddr>, path: String },
    Exec(Vec<String>),
}

impl Probes {
    pub(super) fn of(
        container: &Container,
        addresses: &[String],
        spec: &Spec,
        children: &Children,
    ) -> Probes {
        let host = spec.addresses().next();
        let address = addresses.first().and_then(|address| address.parse().ok()).or(host);
        let read =
            |probe: &Option<Probe>| probe.as_ref().and_then(|probe| Check::of(probe, container, address));
        Probes {
            readiness: read(&container.readiness_probe),
            liveness: read(&container.liveness_probe),
            children: children.clone(),
        }
    }

    /// Says whether the container is ready whenever that changes; returns when it is to be ended.
    pub(super) async fn watch(&self, pid: i32, ready: impl Fn(bool)) {
        let readiness = async {
            match &self.readiness {
                None => ready(true),
                Some(check) => {
                    ready(false);
                    check.follow(pid, &self.children, &ready).await;
                }
            }
            std::future::pending::<()>().await;
        };
        let liveness = async {
            match &self.liveness {
                None => std::future::pending().await,
                Some(check) => {
                    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
                    tokio::select! {
                        () = check.follow(pid, &self.children, move |fine| { let _ = tell.send(fine); }) => {}
                        () = async { while told.recv().await != Some(false) {} } => {}
                    }
                }
            }
        };
        tokio::select! {
            () = readiness => {}
            () = liveness => {}
        }
    }
}

impl Check {
    fn of(probe: &Probe, container: &Container, address: Option<IpAddr>) -> Option<Check> {
        let port = |wanted: &IntOrString| -> Option<u16> {
            match wanted {
                IntOrString::Int(number) => u16::try_from(*number).ok(),
                IntOrString::String(name) => {
                    let named =
                        container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
                    u16::try_from(named?.container_port).ok()
                }
            }
        };
        let at = |wanted: &IntOrString| Some(SocketAddr::new(address?, port(wanted)?));
        let how = if let Some(tcp) = &probe.tcp_socket {
            How::Connect(at(&tcp.port))
        } else if let Some(http) = &probe.http_get {
            How::Get { address: at(&http.port), path: http.path.clone().unwrap_or_else(|| "/".into()) }
        } else if let Some(exec) = &probe.exec {
            How::Exec(exec.command.clone().unwrap_or_default())
        } else {
            return None;
        };
        let seconds = |value: Option<i32>, default: u64| {
            Duration::from_secs(value.and_then(|v| u64::try_from(v).ok()).unwrap_or(default))
        };
        let times =
            |value: Option<i32>, default: u32| value.and_then(|v| u32::try_from(v).ok()).unwrap_or(default);
        Some(Check {
            how,
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
            timeout: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
            succeeds_after: times(probe.success_threshold, 1).max(1),
            fails_after: times(probe.failure_threshold, 3).max(1),
        })
    }

    /// Looks again and again; tells what it comes to.
    async fn follow(&self, pid: i32, children: &Children, tell: impl Fn(bool)) {
        tokio::time::sleep(self.delay).await;
        let mut run: (bool, u32) = (false, 0);
        let mut ever = false;
        loop {
            let fine = self.look(pid, children).await;
            run = if run.0 == fine { (fine, run.1.saturating_add(1)) } else { (fine, 1) };
            if run.1 >= if fine { self.succeeds_after } else { self.fails_after } {
                ever |= fine;
                tell(fine);
            }
            // Until it is there for the first time nobody wants to wait a whole period.
            let pause = if ever { self.period } else { self.period.min(Duration::from_millis(500)) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn look(&self, pid: i32, children: &Children) -> bool {
        let look = async {
            match &self.how {
                How::Connect(Some(address)) => TcpStream::connect(address).await.is_ok(),
                How::Get { address: Some(address), path } => get(*address, path).await.unwrap_or(false),
                How::Exec(command) => exec(command, pid, children).await,
                How::Connect(None) | How::Get { address: None, .. } => false,
            }
        };
        tokio::time::timeout(self.timeout, look).await.unwrap_or(false)
    }
}

async fn get(address: SocketAddr, path: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    let ask = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nUser-Agent: netferry-lab\r\n\r\n");
    stream.write_all(ask.as_bytes()).await?;
    // "HTTP/1.1 200": the first digit of the code decides.
    let mut head = [0; 10];
    stream.read_exact(&mut head).await?;
    Ok(matches!(head[9], b'2' | b'3'))
}

/// Runs a command where a container's process is; answers whether it succeeded.
pub(super) async fn exec(command: &[String], pid: i32, children: &Children) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let way = Way { through: vec![pid], network: None };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let runtime = tokio::runtime::Handle::current();
    let children = children.clone();
    let started = way.run(move || {
        let _runtime = runtime.enter();
        children.spawn(&mut command)
    });
    match started {
        Ok(Ok(mut child)) => child.wait().await.is_ok_and(|status| status.success()),
        Ok(Err(_)) | Err(_) => false,
    }
}
