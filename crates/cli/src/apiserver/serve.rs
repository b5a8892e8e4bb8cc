//! Starting the server the flags describe.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;
use netferry_apiserver::pki::{Pki, write_private};
use netferry_apiserver::store::LogError;
use netferry_apiserver::{ApiServer, Settings};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::ApiserverArgs;
use crate::exit::Failure;
use crate::output;

pub(super) fn until_interrupted(args: &ApiserverArgs) -> Result<(), Failure> {
    if args.exit_with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL).context("asking to end with the parent process")?;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(serve(args))
}

async fn serve(args: &ApiserverArgs) -> Result<(), Failure> {
    // Before anything answers: a signal that comes early must not be missed.
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;

    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    let bound = listener.local_addr().context("finding out the port")?;

    let mut addresses = args.tls_address.clone();
    addresses.push(reachable(bound).ip());
    let pki = match &args.tls_dir {
        Some(dir) => Pki::open(dir, &addresses).context("preparing the certificates")?,
        None => Pki::fresh(&addresses).context("preparing the certificates")?,
    };
    let server = ApiServer::open(settings(args, &pki)?).map_err(not_opened)?;
    let url = format!("https://{}", reachable(bound));
    if let Some(path) = &args.kubeconfig_out {
        write_private(path, pki.kubeconfig(&url).as_bytes()).context("writing the kubeconfig")?;
    }
    // The socket listens already: whoever reads this line can connect.
    output::print(&format!("serving {url}\n"))?;

    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(server.serve(listener, &pki, stop).await.context("serving")?)
}

fn settings(args: &ApiserverArgs, pki: &Pki) -> Result<Settings, Failure> {
    Ok(Settings {
        data: args.data.clone(),
        service_ranges: args.service_cidr.0.clone(),
        node_ports: args.node_ports.clone(),
        // Kept with the certificates, so that tokens of service accounts outlive a restart as they do.
        secret: Some(pki.secret().context("preparing the key that signs tokens")?),
        // Long enough for `kubectl delete -f` of a namespace and what is in it.
        namespace_lingers: std::time::Duration::from_secs(2),
        ..Settings::default()
    })
}

fn not_opened(error: LogError) -> Failure {
    let in_use = matches!(error, LogError::InUse { .. });
    let cause = anyhow::Error::new(error).context("opening the server");
    if in_use { Failure::Refused(cause) } else { Failure::Failed(cause) }
}

/// The address to give to clients: "any" is one to listen on, not one to connect to.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, bound.port())
}
