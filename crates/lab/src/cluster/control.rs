//! The control plane: an API server in a network of its own, what belongs to it, and the operator.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::config::Kubeconfig;
use netferry_kernel::Namespace;

use super::{identity, relay};
use crate::children::{Children, Place};
use crate::client;
use crate::error::{During, LabError, Result};
use crate::options::{ControlPlane, Options};
use crate::program::{Program, Service};
use crate::protocol::ProgramStatus;
use crate::state::State;

const PORT: u16 = 6443;
/// A real control plane on a busy machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(180);
/// Programs of a real control plane end when what they need is not there yet, and are started again.
const HOPELESS_AFTER: u32 = 8;
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Whom our programs are.
#[derive(Clone, Debug)]
struct Accounts {
    operator: Kubeconfig,
    agent: Kubeconfig,
}

/// What of the control plane runs.
#[derive(Debug)]
pub(super) struct Control {
    services: BTreeMap<String, Service>,
    children: Children,
    network: Arc<Namespace>,
    directory: PathBuf,
    program: PathBuf,
    /// Where the API is reached from the caller's network.
    pub relay: SocketAddr,
    /// An administrator's kubeconfig for the fabric.
    pub for_nodes: Kubeconfig,
    /// The operator's and the agents'.
    accounts: Option<Accounts>,
}

impl Control {
    /// Starts the API server and waits until it answers.
    pub(super) async fn start(
        options: &Options,
        state: &State,
        network: Arc<Namespace>,
        children: &Children,
    ) -> Result<Control> {
        let addresses: Vec<IpAddr> = options.families.control().iter().map(|net| net.addr()).collect();
        let first = *addresses.first().ok_or_else(|| LabError::failed("addressing the API", "no family"))?;
        let address = SocketAddr::new(first, PORT);
        let relay = relay::open(network.clone(), address).await.during("opening the way to the API")?;
        let mut control = Control {
            services: BTreeMap::new(),
            children: children.clone(),
            network,
            directory: state.control(),
            program: options.program.clone(),
            relay,
            for_nodes: Kubeconfig::default(),
            accounts: None,
        };
        let kubeconfig = match &options.control_plane {
            ControlPlane::Embedded => control.start_embedded(options, address, &addresses).await?,
            ControlPlane::Kube { assets } => {
                super::kube::start(&mut control, assets, options, address, &addresses)?
            }
        };
        control.for_nodes = pointed_at(&kubeconfig, address);
        let here =
            serde_json::to_string_pretty(&pointed_at(&kubeconfig, relay)).during("writing the kubeconfig")?;
        write_private(&state.kubeconfig(), &here)?;
        control.wait_for_answers().await?;
        Ok(control)
    }

    async fn start_embedded(
        &mut self,
        options: &Options,
        address: SocketAddr,
        addresses: &[IpAddr],
    ) -> Result<Kubeconfig> {
        let kubeconfig = self.directory.join("kubeconfig");
        let shown = |path: &PathBuf| path.display().to_string();
        let ranges: Vec<String> =
            options.families.service_networks().iter().map(ToString::to_string).collect();
        let mut arguments = vec![
            "apiserver".to_owned(),
            format!("--listen={address}"),
            format!("--data={}", shown(&self.directory.join("cluster.journal"))),
            format!("--tls-dir={}", shown(&self.directory.join("tls"))),
            format!("--kubeconfig-out={}", shown(&kubeconfig)),
            format!("--service-cidr={}", ranges.join(",")),
        ];
        arguments.extend(addresses.iter().map(|address| format!("--tls-address={address}")));
        let program = self.program.clone();
        self.run(Program::new(program, self.log("apiserver")).named("apiserver").args(arguments));
        let deadline = tokio::time::Instant::now() + ANSWERS_WITHIN;
        loop {
            // Written just before it answers, and whole: it is put in place by renaming.
            if let Ok(read) = Kubeconfig::read_from(&kubeconfig) {
                return Ok(read);
            }
            self.check_patience(deadline, "the API server's kubeconfig")?;
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Keeps a program of the control plane running.
    pub(super) fn run(&mut self, program: Program) {
        let name = program.name.clone();
        let program = program.at(Place::network(self.network.clone())).first();
        self.services.insert(name, program.supervise(&self.children));
    }

    /// Where a program of the control plane writes.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Where the files of the control plane are.
    pub(super) fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// Gives our programs the accounts they are deployed with, where the API server asks for them. The embedded one
    /// lets everybody do everything.
    pub(super) async fn give_accounts(&mut self, plane: &ControlPlane) -> Result<()> {
        let accounts = match plane {
            ControlPlane::Embedded => {
                Accounts { operator: self.for_nodes.clone(), agent: self.for_nodes.clone() }
            }
            ControlPlane::Kube { .. } => {
                let client = self.client().await?;
                identity::deploy(&client).await?;
                Accounts {
                    operator: identity::kubeconfig(&client, "netferry-operator", &self.for_nodes).await?,
                    agent: identity::kubeconfig(&client, "netferry-agent", &self.for_nodes).await?,
                }
            }
        };
        self.accounts = Some(accounts);
        Ok(())
    }

    /// What a node's kubelet and its agent use, once there is both.
    pub(super) fn for_a_node(&self) -> Option<(Kubeconfig, Kubeconfig)> {
        Some((self.for_nodes.clone(), self.accounts.as_ref()?.agent.clone()))
    }

    /// Keeps the operator running.
    pub(super) fn start_operator(&mut self) -> Result<()> {
        let kubeconfig = self.directory.join("operator.kubeconfig");
        let account = self.accounts.as_ref().map_or(&self.for_nodes, |accounts| &accounts.operator);
        let text = serde_json::to_string_pretty(account).during("writing the operator's kubeconfig")?;
        write_private(&kubeconfig, &text)?;
        let arguments = ["--kubeconfig".to_owned(), kubeconfig.display().to_string(), "operator".to_owned()];
        let program = self.program.clone();
        self.run(Program::new(program, self.log("operator")).named("operator").args(arguments));
        Ok(())
    }

    /// A client of an administrator.
    pub(super) async fn client(&self) -> Result<Client> {
        let file = pointed_at(&self.for_nodes, self.relay);
        client::client(file, "using the API server's kubeconfig").await
    }

    /// How its programs are.
    pub(super) fn programs(&self) -> BTreeMap<String, ProgramStatus> {
        self.services.iter().map(|(name, service)| (name.clone(), service.status())).collect()
    }

    async fn wait_for_answers(&self) -> Result<()> {
        let client = self.client().await?;
        let deadline = tokio::time::Instant::now() + ANSWERS_WITHIN;
        loop {
            match client.apiserver_version().await {
                Ok(_) => return Ok(()),
                Err(error) => tracing::debug!(%error, "the API does not answer yet"),
            }
            self.check_patience(deadline, "the API server's first answer")?;
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Whether to go on waiting: not for ever, and not for a program that keeps ending.
    fn check_patience(&self, deadline: tokio::time::Instant, waiting_for: &str) -> Result<()> {
        let ending = self.services.iter().map(|(name, service)| (name, service.status()));
        for (name, status) in ending.filter(|(_, status)| status.starts >= HOPELESS_AFTER) {
            if let Some(how) = status.last_end {
                let last = last_line(&self.log(name));
                return Err(LabError::failed(
                    format!("starting {name}, which ended again and again ({how})"),
                    last,
                ));
            }
        }
        if tokio::time::Instant::now() < deadline {
            return Ok(());
        }
        let waiting_for = format!("{waiting_for} (its log is in {})", self.directory.display());
        Err(LabError::TimedOut { waiting_for, within: ANSWERS_WITHIN })
    }
}

fn last_line(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

/// The same credentials, for a server at another address.
fn pointed_at(kubeconfig: &Kubeconfig, address: SocketAddr) -> Kubeconfig {
    let mut pointed = kubeconfig.clone();
    for named in &mut pointed.clusters {
        if let Some(cluster) = &mut named.cluster {
            cluster.server = Some(format!("https://{address}"));
        }
    }
    pointed
}

/// Writes a file that holds credentials.
pub(crate) fn write_private(path: &std::path::Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let attempt = || format!("writing {}", path.display());
    let draft = path.with_extension("draft");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .during(attempt())?;
    file.write_all(text.as_bytes()).during(attempt())?;
    // Whole or not at all, for those who wait for it.
    std::fs::rename(&draft, path).during(attempt())
}
