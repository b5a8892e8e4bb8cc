//! A node's disk: a directory that survives its reboots.

use std::fs;
use std::io;
use std::path::Path;

use kube::config::Kubeconfig;

use super::Spec;
use crate::error::{During, Result};

/// What a machine's own `/etc` has of the installation it came from: what programs need to find libraries, users and
/// each other. Its identity and its network are not among it, the hooks of its network service least of all: they run programs
/// and read files that a node does not have, and one that fails keeps the node from coming up.
const FROM_INSTALLATION: [&str; 20] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "debian_version",
    "default/networking",
    "environment",
    "gai.conf",
    "group",
    "host.conf",
    "iproute2",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "login.defs",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "protocols",
    "services",
    "ssl",
];

/// Directories a new disk has.
const DIRECTORIES: [&str; 15] = [
    "etc/cni/net.d",
    "etc/kubernetes",
    "etc/netferry",
    // ifupdown refuses to work without them.
    "etc/network/if-down.d",
    "etc/network/if-post-down.d",
    "etc/network/if-pre-up.d",
    "etc/network/if-up.d",
    "etc/network/interfaces.d",
    "etc/openvswitch",
    "opt/cni/bin",
    "var/lib/kubelet",
    "var/lib/netferry",
    "var/log/netferry",
    "var/log/openvswitch",
    "var/log/ovn",
];

/// Makes a node's disk. One that is there is left as it is.
pub(crate) fn make(spec: &Spec) -> Result<()> {
    let disk = spec.disk();
    let attempt = || format!("making the disk of {}", spec.name);
    if disk.is_dir() {
        return Ok(());
    }
    for directory in DIRECTORIES {
        fs::create_dir_all(disk.join(directory)).during(attempt())?;
    }
    fs::create_dir_all(spec.directory.join("root")).during(attempt())?;
    let etc = disk.join("etc");
    for name in FROM_INSTALLATION {
        copy(&Path::new("/etc").join(name), &etc.join(name)).during(attempt())?;
    }
    let write = |name: &str, text: String| fs::write(etc.join(name), text).during(attempt());
    write("hostname", format!("{}\n", spec.name))?;
    write("hosts", hosts(spec))?;
    write("resolv.conf", String::new())?;
    write("network/interfaces", interfaces(spec))
}

/// Gives a program of a node the way to the API; the path is the one inside.
pub(crate) fn write_kubeconfig(spec: &Spec, path: &str, kubeconfig: &Kubeconfig) -> Result<()> {
    let text = serde_json::to_string_pretty(kubeconfig).during("writing a kubeconfig")?;
    crate::cluster::write_private(&spec.disk().join(path.trim_start_matches('/')), &text)
}

fn hosts(spec: &Spec) -> String {
    let mut text = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for address in spec.interfaces.iter().take(1).flat_map(|interface| &interface.addresses) {
        text += &format!("{} {}\n", address.addr(), spec.name);
    }
    text
}

/// What ifupdown reads.
fn interfaces(spec: &Spec) -> String {
    let mut text = String::from("source /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n");
    for (position, interface) in spec.interfaces.iter().enumerate() {
        text += &format!("\nauto {}\n", interface.name);
        for address in &interface.addresses {
            let is_v4 = address.addr().is_ipv4();
            let family = if is_v4 { "inet" } else { "inet6" };
            text += &format!("iface {} {family} static\n    address {address}\n", interface.name);
            text += &format!("    mtu {}\n", interface.mtu);
            if !is_v4 {
                text += "    accept_ra 0\n    dad-attempts 0\n";
            }
            let gateway = spec.gateways.iter().find(|gateway| gateway.addr().is_ipv4() == is_v4);
            if let (0, Some(gateway)) = (position, gateway) {
                text += &format!("    gateway {}\n", gateway.addr());
            }
        }
    }
    text
}

/// Copies a file, a link or a directory; what is not there is not copied.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(from) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if meta.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        Ok(())
    } else if meta.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)
    } else {
        fs::copy(from, to).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's `wpasupplicant`, which comes with NetworkManager, leaves links there whose targets a node does not have.
    #[test]
    fn a_node_runs_no_hook_of_the_installation_it_came_from() {
        assert!(!FROM_INSTALLATION.iter().any(|name| name.starts_with("network")));
        for hooks in ["if-down.d", "if-post-down.d", "if-pre-up.d", "if-up.d"] {
            assert!(DIRECTORIES.contains(&format!("etc/network/{hooks}").as_str()), "{hooks}");
        }
    }
}
