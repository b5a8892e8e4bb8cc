//! The real control plane, for a lab that asks for it: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use kube::config::Kubeconfig;
use netferry_apiserver::pki::Pki;

use super::control::{Control, write_private};
use crate::error::{During, LabError, Result};
use crate::options::Options;
use crate::program::Program;

/// Starts all four; whether they answer is for the caller to see.
pub(super) fn start(
    control: &mut Control,
    assets: &Path,
    options: &Options,
    address: SocketAddr,
    addresses: &[IpAddr],
) -> Result<Kubeconfig> {
    for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        if !assets.join(name).is_file() {
            return Err(LabError::Refused(format!(
                "{} has no {name}; scripts/kube-assets builds one, NETFERRY_KUBE_ASSETS names its directory",
                assets.display()
            )));
        }
    }
    let directory = control.directory().to_owned();
    let tls = directory.join("tls");
    let mut names: Vec<IpAddr> = addresses.to_vec();
    // The address the API has as a Service: the first of each range.
    let ranges = options.families.service_networks();
    names.extend(ranges.iter().filter_map(|range| range.hosts().find(|host| *host != range.network())));
    let pki = Pki::open(&tls, &names).during("making the certificates of the control plane")?;
    let text = pki.kubeconfig(&format!("https://{address}"));
    let kubeconfig = Kubeconfig::from_yaml(&text).during("reading the kubeconfig of the control plane")?;
    let admin = directory.join("kubeconfig");
    write_private(&admin, &text)?;

    let shown = |path: &Path| path.display().to_string();
    let file = |name: &str| shown(&tls.join(name));
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let mut run = |name: &str, flags: &[(&str, String)]| {
        let flags = flags.iter().map(|(flag, value)| format!("--{flag}={value}"));
        let program = Program::new(assets.join(name), control.log(name)).args(flags);
        control.run(program);
    };
    // On the loopback of a network of its own, where every port is free.
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    run(
        "etcd",
        &[
            ("data-dir", shown(&directory.join("etcd"))),
            ("listen-client-urls", client.into()),
            ("advertise-client-urls", client.into()),
            ("listen-peer-urls", peer.into()),
            ("initial-advertise-peer-urls", peer.into()),
            ("initial-cluster", format!("default={peer}")),
            // Nothing here has to outlive the machine.
            ("unsafe-no-fsync", "true".into()),
            ("log-level", "warn".into()),
        ],
    );
    run(
        "kube-apiserver",
        &[
            ("etcd-servers", client.into()),
            ("bind-address", address.ip().to_string()),
            ("advertise-address", address.ip().to_string()),
            ("secure-port", address.port().to_string()),
            ("tls-cert-file", file("server.crt")),
            ("tls-private-key-file", file("server.key")),
            ("client-ca-file", file("ca.crt")),
            ("anonymous-auth", "false".into()),
            ("authorization-mode", "Node,RBAC".into()),
            ("service-account-issuer", "https://kubernetes.default.svc".into()),
            ("service-account-key-file", file("server.crt")),
            ("service-account-signing-key-file", file("server.key")),
            ("service-cluster-ip-range", ranges.join(",")),
            ("allow-privileged", "true".into()),
        ],
    );
    run(
        "kube-controller-manager",
        &[
            ("kubeconfig", shown(&admin)),
            ("leader-elect", "false".into()),
            ("allocate-node-cidrs", "false".into()),
            ("root-ca-file", file("ca.crt")),
            ("service-account-private-key-file", file("server.key")),
            ("use-service-account-credentials", "true".into()),
            // Serves nothing anybody here asks for.
            ("secure-port", "0".into()),
        ],
    );
    run(
        "kube-scheduler",
        &[("kubeconfig", shown(&admin)), ("leader-elect", "false".into()), ("secure-port", "0".into())],
    );
    Ok(kubeconfig)
}
