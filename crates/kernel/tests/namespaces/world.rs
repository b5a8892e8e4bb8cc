//! Namespaces to test in, and independent readers of what is in them.

use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;

use ipnet::IpNet;
use netferry_kernel::link::{Make, VethPeer, Want};
use netferry_kernel::{IfName, Kernel, Mark, Namespace, Objects};
use serde_json::Value;

/// A handle on a new namespace, which vanishes with it.
pub(crate) fn kernel() -> Kernel {
    let namespace = Namespace::anonymous()
        .expect("these tests need root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, to make network namespaces");
    Kernel::inside(namespace).unwrap()
}

pub(crate) fn name(name: &str) -> IfName {
    IfName::new(name).unwrap()
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn mark() -> Mark {
    Mark::default()
}

/// Two namespaces with a pair between them: `here` and `there`, both up.
pub(crate) struct Pair {
    pub(crate) here: Kernel,
    pub(crate) there: Kernel,
    pub(crate) index: u32,
    pub(crate) index_there: u32,
}

pub(crate) fn pair() -> Pair {
    let here = kernel();
    let there = kernel();
    let peer = VethPeer::named(name("there")).inside(Arc::new(there.namespace().try_clone().unwrap()));
    here.links().converge(&[Want::make(name("here"), Make::Veth(peer)).up()], &mark()).unwrap();
    there.links().converge(&[Want::adjust(name("there")).up()], &mark()).unwrap();
    let index = here.links().named(&name("here")).unwrap().unwrap().index;
    let index_there = there.links().named(&name("there")).unwrap().unwrap().index;
    Pair { here, there, index, index_there }
}

/// Runs a command inside; panics with its words if it fails.
pub(crate) fn run(kernel: &Kernel, command: &str) -> String {
    let output = try_run(kernel, command);
    output.unwrap_or_else(|error| panic!("{command}: {error}"))
}

pub(crate) fn try_run(kernel: &Kernel, command: &str) -> Result<String, String> {
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let output = kernel
        .namespace()
        .run(|| Command::new(&words[0]).args(&words[1..]).output())
        .unwrap()
        .map_err(|error| format!("{error}; install iproute2, nftables and ethtool"))?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// What `ip -j` and `nft -j` say.
pub(crate) fn json(kernel: &Kernel, command: &str) -> Value {
    let text = run(kernel, command);
    if text.trim().is_empty() { Value::Array(vec![]) } else { serde_json::from_str(&text).unwrap() }
}

/// Feeds a script to `nft`.
pub(crate) fn nft(kernel: &Kernel, script: &str) {
    use std::io::Write;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(script.as_bytes()).unwrap();
    run(kernel, &format!("nft -f {}", file.path().display()));
}
