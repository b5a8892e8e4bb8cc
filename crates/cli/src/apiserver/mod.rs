//! `netferry apiserver`: the flags. What they start is in [`serve`].

mod serve;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;

use crate::exit::Failure;

/// Serve a small Kubernetes-compatible API, for labs, demos and tests
#[derive(Debug, Args)]
#[command(
    long_about = "\
Serve a small Kubernetes-compatible API, for labs, demos and tests.

kubectl and controllers work against it as they are. It is not for production: whoever is authenticated
may do everything. What it does not do it refuses, with an answer that says so.

Prints `serving https://ADDRESS` to standard output when it answers, and runs until it is interrupted.",
    after_help = "\
Examples:
  netferry apiserver --kubeconfig-out lab.kubeconfig
  netferry apiserver --data lab.log --tls-dir lab-tls --kubeconfig-out lab.kubeconfig
  KUBECONFIG=lab.kubeconfig kubectl get nodes"
)]
pub(crate) struct ApiserverArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Log every write here before acknowledging it, and start from what it holds; without it, memory only
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Write a kubeconfig with an administrator's credentials here
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep the authority and certificates here, so that credentials outlive a restart
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Another address the server is reached by, for its certificate; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    tls_address: Vec<IpAddr>,
    /// Addresses of Services: one range, or one of each family
    #[arg(long, value_name = "CIDR[,CIDR]", default_value = "10.96.0.0/16,fd00:96::/112", value_parser = service_ranges)]
    service_cidr: ServiceRanges,
    /// Ports of NodePort Services
    #[arg(long, value_name = "FIRST-LAST", default_value = "30000-32767", value_parser = port_range)]
    node_ports: RangeInclusive<u16>,
    /// End when the process that started this one ends
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

pub(crate) fn run(args: &ApiserverArgs) -> Result<(), Failure> {
    serve::until_interrupted(args)
}

/// One prefix, or one of each family; the first is preferred.
#[derive(Clone, Debug, PartialEq)]
struct ServiceRanges(Vec<IpNet>);

fn service_ranges(text: &str) -> Result<ServiceRanges, String> {
    let ranges: Vec<IpNet> = text
        .split(',')
        .map(|cidr| cidr.parse().map_err(|_| format!("{cidr:?} is not a prefix such as 10.96.0.0/16")))
        .collect::<Result<_, _>>()?;
    let of_both_families =
        |a: &IpNet, b: &IpNet| matches!((a, b), (IpNet::V4(_), IpNet::V6(_)) | (IpNet::V6(_), IpNet::V4(_)));
    match ranges.as_slice() {
        [_] => Ok(ServiceRanges(ranges)),
        [first, second] if of_both_families(first, second) => Ok(ServiceRanges(ranges)),
        _ => Err("expected one prefix, or one of each family".to_owned()),
    }
}

fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ports = text.split_once('-').and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
    match ports {
        Some(range) if !range.is_empty() && *range.start() > 0 => Ok(range),
        Some(_) | None => Err("expected FIRST-LAST, for example 30000-32767".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{port_range, service_ranges};

    #[test]
    fn service_addresses_come_from_one_range_or_one_of_each_family() {
        for right in ["10.96.0.0/16", "fd00::/112", "10.96.0.0/16,fd00::/112", "fd00::/112,10.96.0.0/16"] {
            assert!(service_ranges(right).is_ok(), "{right}");
        }
        for wrong in ["", "10.96.0.0", "10.96.0.0/16,10.97.0.0/16", "10.96.0.0/16,fd00::/112,10.97.0.0/16"] {
            assert!(service_ranges(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_range_of_ports_is_two_ports_in_order() {
        assert_eq!(port_range("30000-32767"), Ok(30000..=32767));
        assert_eq!(port_range("8080-8080"), Ok(8080..=8080));
        for wrong in ["", "30000", "32767-30000", "0-10", "1-70000", "a-b"] {
            assert!(port_range(wrong).is_err(), "{wrong}");
        }
    }
}
