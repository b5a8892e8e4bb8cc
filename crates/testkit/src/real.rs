//! A real Kubernetes control plane, on free loopback ports, for as long as a test needs it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use rcgen::{KeyPair, SanType};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::https::{Https, SendError, TlsError};
use crate::pki::{Authority, Identity};
use crate::supervised::Supervised;

/// How long the whole control plane may take to be ready. Three seconds is usual; a busy machine takes longer.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How often the processes are asked whether they are ready.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// A port found free may be taken by somebody else before the program binds it; this often we try again.
const ATTEMPTS: usize = 3;
/// Whom the administrator's certificate names.
pub const ADMIN_BY_CERTIFICATE: (&str, &str) = ("admin-by-certificate", "system:masters");
/// The bearer token of the administrator.
const TOKEN: &str = "administrator-of-a-throw-away-cluster";

/// etcd, kube-apiserver and kube-controller-manager (garbage collector, namespace, service account and disruption
/// controllers), ended when this is dropped and also when the process that holds it is killed.
pub struct RealControlPlane {
    // Dropped in this order: clients of etcd before etcd.
    processes: Vec<Supervised>,
    directory: Option<TempDir>,
    address: SocketAddr,
    etcd: SocketAddr,
    ca: String,
    client: Identity,
    answered_after: Duration,
}

/// Why the real control plane is not there.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file could not be written or a program not started.
    #[error("preparing a real control plane: {what}")]
    Prepare {
        /// What was tried.
        what: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Certificates could not be made.
    #[error("making the certificates of a real control plane")]
    Certificates(#[source] rcgen::Error),
    /// Certificates could not be used.
    #[error("trusting the certificates of a real control plane")]
    Tls(#[source] TlsError),
    /// A program ended before it was ready.
    #[error("{program} ended ({status}) before it was ready; its last words:\n{log}")]
    Ended {
        /// Which one.
        program: String,
        /// How.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// Nothing ended, but nothing answered either.
    #[error("the real control plane was not ready within {within:?}: {waiting_for}; logs in {logs}")]
    NotReady {
        /// For how long it was asked.
        within: Duration,
        /// What did not come.
        waiting_for: String,
        /// Where its logs were left.
        logs: PathBuf,
    },
}

fn prepare(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    let what = what.into();
    move |source| StartError::Prepare { what, source }
}

impl RealControlPlane {
    /// Starts one from the executables in `assets` and waits until it answers and its controllers work.
    pub async fn start(assets: &Path) -> Result<RealControlPlane, StartError> {
        let mut attempt = 1;
        loop {
            match Self::start_once(assets).await {
                Err(StartError::Ended { .. }) if attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    async fn start_once(assets: &Path) -> Result<RealControlPlane, StartError> {
        let directory = tempfile::Builder::new()
            .prefix("netferry-real-")
            .tempdir()
            .map_err(prepare("a temporary directory"))?;
        let [etcd, peer, address] = free_ports().map_err(prepare("free ports"))?;
        let authority = Authority::new("real-ca").map_err(StartError::Certificates)?;
        let files = Files::write(directory.path(), &authority, address)?;
        let client = authority
            .client("admin-by-certificate", Some("system:masters"))
            .map_err(StartError::Certificates)?;
        let mut plane = RealControlPlane {
            processes: Vec::new(),
            directory: Some(directory),
            address,
            etcd,
            ca: authority.pem(),
            client,
            answered_after: Duration::ZERO,
        };
        let began = Instant::now();
        plane.run(assets, "etcd", &etcd_flags(etcd, peer, &files), Some(&files.etcd))?;
        plane.run(assets, "kube-apiserver", &apiserver_flags(etcd, address, &files), None)?;
        plane.wait_for("kube-apiserver's first answer", "/api/v1/namespaces/default").await?;
        plane.answered_after = began.elapsed();
        plane.wait_for("kube-apiserver's readyz", "/readyz").await?;
        plane.run(assets, "kube-controller-manager", &controller_flags(&files), None)?;
        plane
            .wait_for("the default service account", "/api/v1/namespaces/default/serviceaccounts/default")
            .await?;
        Ok(plane)
    }

    /// Where kube-apiserver listens (HTTPS).
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority to trust, PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// A bearer token of a cluster administrator.
    pub fn token(&self) -> &str {
        TOKEN
    }

    /// A client certificate of a cluster administrator.
    pub fn client_identity(&self) -> &Identity {
        &self.client
    }

    /// A kubeconfig of a cluster administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path().join("kubeconfig")
    }

    /// A client without a certificate: whoever uses it sends a token, or nothing.
    pub fn client(&self) -> Result<Https, TlsError> {
        Https::new(self.address, &self.ca, None)
    }

    /// Name and process id of every program, for measurements.
    pub fn processes(&self) -> Vec<(String, u32)> {
        self.processes.iter().filter_map(|p| Some((p.name().to_owned(), p.pid()?))).collect()
    }

    /// How long etcd and kube-apiserver took from their start to the first object they showed.
    pub fn answered_after(&self) -> Duration {
        self.answered_after
    }

    /// Has etcd forget every revision before `revision`, as it does by itself every few minutes.
    pub async fn compact(&self, revision: u64) -> io::Result<()> {
        let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        let stream = tokio::net::TcpStream::connect(self.etcd).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream))
                .await
                .map_err(io::Error::other)?;
        tokio::spawn(connection);
        let request = Request::post("/v3/kv/compaction")
            .header("host", self.etcd.to_string())
            .body(http_body_util::Full::new(Bytes::from(body)))
            .expect("the parts are valid");
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        if answer.status().is_success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("etcd answered {}", answer.status())))
        }
    }

    /// Leaves the logs where they are when this is dropped, and says where that is. For the report of a failed test.
    pub fn keep_logs(&mut self) -> PathBuf {
        let path = self.path().to_owned();
        if let Some(directory) = self.directory.as_mut() {
            directory.disable_cleanup(true);
        }
        path
    }

    fn path(&self) -> &Path {
        self.directory.as_ref().expect("held until drop").path()
    }

    fn run(
        &mut self,
        assets: &Path,
        name: &str,
        flags: &[String],
        scratch: Option<&Path>,
    ) -> Result<(), StartError> {
        let program = assets.join(name);
        let program = program.canonicalize().map_err(prepare(format!("finding {}", program.display())))?;
        let started = Supervised::start(&program, flags, self.path(), scratch)
            .map_err(prepare(format!("starting {name}")))?;
        self.processes.insert(0, started);
        Ok(())
    }

    /// Asks for `path` until the answer is 200.
    async fn wait_for(&mut self, waiting_for: &str, path: &str) -> Result<(), StartError> {
        let https = self.client().map_err(StartError::Tls)?;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if ask(&https, path).await.is_ok_and(|status| status == StatusCode::OK) {
                return Ok(());
            }
            for process in &mut self.processes {
                if let Some(status) = process.ended() {
                    let program = process.name().to_owned();
                    let log = last_lines(&self.path().join(format!("{program}.log")), 15);
                    return Err(StartError::Ended { program, status: status.to_string(), log });
                }
            }
            if Instant::now() > deadline {
                let logs = self.keep_logs();
                return Err(StartError::NotReady {
                    within: READY_WITHIN,
                    waiting_for: waiting_for.to_owned(),
                    logs,
                });
            }
            sleep(ASK_EVERY).await;
        }
    }
}

impl Drop for RealControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = self.keep_logs();
            eprintln!("the logs of the real control plane are in {}", logs.display());
        }
        self.processes.clear();
    }
}

async fn ask(https: &Https, path: &str) -> Result<StatusCode, SendError> {
    let request = Request::get(path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Bytes::new())
        .expect("the parts are valid");
    let answer = https.send(request).await?;
    let status = answer.status();
    // The connection ends cleanly only when the answer was read.
    let _ = answer.into_body().collect().await;
    Ok(status)
}

fn free_ports<const N: usize>() -> io::Result<[SocketAddr; N]> {
    // All at once, else the same port could be found twice.
    let listeners: Vec<_> =
        (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
    let addresses: Vec<_> = listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
    Ok(addresses.try_into().expect("as many addresses as listeners"))
}

fn last_lines(path: &Path, count: usize) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The files the programs read.
struct Files {
    ca: PathBuf,
    server_certificate: PathBuf,
    server_key: PathBuf,
    tokens: PathBuf,
    account_key: PathBuf,
    account_public: PathBuf,
    kubeconfig: PathBuf,
    etcd: PathBuf,
}

impl Files {
    fn write(directory: &Path, authority: &Authority, address: SocketAddr) -> Result<Files, StartError> {
        let file = |name: &str, content: &str| {
            let path = directory.join(name);
            std::fs::write(&path, content).map_err(prepare(format!("writing {name}")))?;
            Ok(path)
        };
        let alternatives = vec![
            SanType::IpAddress(address.ip()),
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1))),
            SanType::DnsName("localhost".try_into().map_err(StartError::Certificates)?),
            SanType::DnsName("kubernetes.default.svc".try_into().map_err(StartError::Certificates)?),
        ];
        let server = authority.server("kube-apiserver", alternatives).map_err(StartError::Certificates)?;
        let accounts = KeyPair::generate().map_err(StartError::Certificates)?;
        let ca = file("ca.crt", &authority.pem())?;
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": {"server": format!("https://{address}"), "certificate-authority": ca}}],
            "users": [{"name": "admin", "user": {"token": TOKEN}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
            "current-context": "real",
        });
        Ok(Files {
            server_certificate: file("server.crt", &server.certificate)?,
            server_key: file("server.key", &server.key)?,
            tokens: file("tokens.csv", &format!("{TOKEN},admin,,\"system:masters\"\n"))?,
            account_key: file("accounts.key", &accounts.serialize_pem())?,
            account_public: file("accounts.pub", &accounts.public_key_pem())?,
            kubeconfig: file("kubeconfig", &kubeconfig.to_string())?,
            etcd: directory.join("etcd"),
            ca,
        })
    }
}

fn flags<const N: usize>(flags: [(&str, String); N]) -> Vec<String> {
    flags.into_iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn etcd_flags(client: SocketAddr, peer: SocketAddr, files: &Files) -> Vec<String> {
    flags([
        ("data-dir", shown(&files.etcd)),
        ("listen-client-urls", format!("http://{client}")),
        ("advertise-client-urls", format!("http://{client}")),
        ("listen-peer-urls", format!("http://{peer}")),
        ("initial-advertise-peer-urls", format!("http://{peer}")),
        ("initial-cluster", format!("default=http://{peer}")),
        // Nothing here has to outlive the machine.
        ("unsafe-no-fsync", "true".into()),
        ("log-level", "warn".into()),
    ])
}

fn apiserver_flags(etcd: SocketAddr, address: SocketAddr, files: &Files) -> Vec<String> {
    flags([
        ("etcd-servers", format!("http://{etcd}")),
        ("bind-address", address.ip().to_string()),
        ("advertise-address", address.ip().to_string()),
        ("secure-port", address.port().to_string()),
        ("tls-cert-file", shown(&files.server_certificate)),
        ("tls-private-key-file", shown(&files.server_key)),
        ("client-ca-file", shown(&files.ca)),
        ("token-auth-file", shown(&files.tokens)),
        ("anonymous-auth", "false".into()),
        ("authorization-mode", "RBAC".into()),
        ("service-account-issuer", "https://kubernetes.default.svc".into()),
        ("service-account-key-file", shown(&files.account_public)),
        ("service-account-signing-key-file", shown(&files.account_key)),
        ("service-cluster-ip-range", "10.96.0.0/16,fd00:96::/112".into()),
        ("allow-privileged", "true".into()),
        ("endpoint-reconciler-type", "none".into()),
    ])
}

fn controller_flags(files: &Files) -> Vec<String> {
    let controllers =
        "garbage-collector-controller,namespace-controller,serviceaccount-controller,disruption-controller";
    flags([
        ("kubeconfig", shown(&files.kubeconfig)),
        ("controllers", controllers.into()),
        ("leader-elect", "false".into()),
        // Serves nothing, so it needs no port that somebody else could take.
        ("secure-port", "0".into()),
        ("use-service-account-credentials", "false".into()),
    ])
}
