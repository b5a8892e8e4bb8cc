//! Trying features in a network namespace that is thrown away.
//!
//! A child process does it (`netferry doctor --probe`): entering a namespace cannot be undone, and as an
//! unprivileged user it needs a process with a single thread.

use std::collections::BTreeMap;
use std::process::Command;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::SockProtocol;
use serde::{Deserialize, Serialize};

use super::features::{FEATURES, Trial};
use super::netlink::{ACK, CREATE, EXCLUSIVE, Message, Netlink, attribute, text};

/// What came of trying one feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The kernel did it.
    Works,
    /// The kernel does not do it, and how that was seen.
    Fails(String),
    /// It could not be tried, and why.
    Untried(String),
}

/// By feature name.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

/// Tries everything in a child. A child that cannot be started leaves everything untried.
pub(super) fn in_child() -> Outcomes {
    let tried = std::env::current_exe()
        .and_then(|program| Command::new(program).args(["doctor", "--probe"]).output())
        .map_err(|e| e.to_string())
        .and_then(|output| serde_json::from_slice(&output.stdout).map_err(|e| e.to_string()));
    match tried {
        Ok(outcomes) => outcomes,
        Err(why) => everything(&Outcome::Untried(why)),
    }
}

/// Tries everything in this process, which cannot go back; returns the outcomes as JSON.
pub(super) fn in_this_process() -> String {
    let outcomes = match enter() {
        Ok(()) => FEATURES.iter().map(|f| (f.name.to_owned(), attempt(&f.trial))).collect(),
        Err(errno) => everything(&Outcome::Untried(format!("no new network namespace: {}", errno.desc()))),
    };
    serde_json::to_string(&outcomes).expect("a map of strings is JSON")
}

fn everything(outcome: &Outcome) -> Outcomes {
    FEATURES.iter().map(|f| (f.name.to_owned(), outcome.clone())).collect()
}

/// As root plainly; else inside a user namespace, where the kernel allows that.
fn enter() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)
        .or_else(|_| unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET))
}

fn attempt(trial: &Trial) -> Outcome {
    let (asked, unknown) = match trial {
        Trial::Namespaces => (namespaces(), Errno::EINVAL),
        Trial::Link(kind) => (link(kind), Errno::EOPNOTSUPP),
        Trial::Family(name) => (family(name), Errno::ENOENT),
        Trial::Rules => (rule(), Errno::EOPNOTSUPP),
        Trial::Qdisc(kind) => (qdisc(kind), Errno::ENOENT),
        Trial::NatChain => (nat_chain(), Errno::ENOENT),
        Trial::Conntrack => (conntrack(), Errno::EINVAL),
        Trial::Device(path) => (device(path), Errno::ENODEV),
    };
    judge(asked, unknown, matches!(trial, Trial::Link(_) | Trial::Qdisc(_)))
}

/// `bare`: the request lacks the parameters its kind demands, so that the kernel's complaint about them
/// proves that it knows the kind.
fn judge(asked: nix::Result<()>, unknown: Errno, bare: bool) -> Outcome {
    match asked {
        Ok(()) => Outcome::Works,
        Err(Errno::EPERM | Errno::EACCES) => Outcome::Untried("not permitted".into()),
        Err(errno) if bare && errno != unknown => Outcome::Works,
        Err(errno) if errno == unknown => Outcome::Fails("not in this kernel".into()),
        Err(errno) => Outcome::Fails(format!("tried, and the kernel says {:?}", errno.desc())),
    }
}

fn namespaces() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    unshare(CloneFlags::CLONE_NEWUTS)?;
    unshare(CloneFlags::CLONE_NEWPID)
}

fn link(kind: &str) -> nix::Result<()> {
    const NEW_LINK: u16 = 16;
    const LINK_INFO: u16 = 18;
    const INFO_KIND: u16 = 1;
    let info = attribute(LINK_INFO, &text(INFO_KIND, kind));
    let request = Message::new(NEW_LINK, ACK | CREATE | EXCLUSIVE, &[0; 16], &[info]);
    Netlink::open(SockProtocol::NetlinkRoute)?.ask(&[request])
}

fn family(name: &str) -> nix::Result<()> {
    const CONTROLLER: u16 = 0x10;
    const GET_FAMILY: u8 = 3;
    const FAMILY_NAME: u16 = 2;
    let request = Message::new(CONTROLLER, ACK, &[GET_FAMILY, 1, 0, 0], &[text(FAMILY_NAME, name)]);
    Netlink::open(SockProtocol::NetlinkGeneric)?.ask(&[request])
}

fn rule() -> nix::Result<()> {
    const NEW_RULE: u16 = 32;
    const TO_TABLE: u8 = 1;
    const PRIORITY: u16 = 6;
    const MARK: u16 = 10;
    const TABLE: u8 = 100;
    let route = Netlink::open(SockProtocol::NetlinkRoute)?;
    for family in [nix::libc::AF_INET, nix::libc::AF_INET6] {
        let family = u8::try_from(family).expect("address families are small");
        let fixed = [family, 0, 0, 0, TABLE, 0, 0, TO_TABLE, 0, 0, 0, 0];
        let by_mark = [attribute(PRIORITY, &1000_u32.to_ne_bytes()), attribute(MARK, &1_u32.to_ne_bytes())];
        route.ask(&[Message::new(NEW_RULE, ACK | CREATE | EXCLUSIVE, &fixed, &by_mark)])?;
    }
    Ok(())
}

fn qdisc(kind: &str) -> nix::Result<()> {
    const NEW_QDISC: u16 = 36;
    const KIND: u16 = 1;
    const LOOPBACK: i32 = 1;
    const ROOT: u32 = u32::MAX;
    let mut fixed = vec![0; 4];
    fixed.extend(LOOPBACK.to_ne_bytes());
    fixed.extend(0_u32.to_ne_bytes()); // handle
    fixed.extend(ROOT.to_ne_bytes());
    fixed.extend(0_u32.to_ne_bytes()); // info
    let request = Message::new(NEW_QDISC, ACK | CREATE | EXCLUSIVE, &fixed, &[text(KIND, kind)]);
    Netlink::open(SockProtocol::NetlinkRoute)?.ask(&[request])
}

const NFT: u8 = 10;

fn netfilter(kind: u16, flags: u16, family: u8, resource: u16, attributes: &[Vec<u8>]) -> Message {
    let [high, low] = resource.to_be_bytes();
    Message::new(kind, flags, &[family, 0, high, low], attributes)
}

/// A table with a NAT chain, in one transaction: more than "nf_tables is there", it is what we need of it.
fn nat_chain() -> nix::Result<()> {
    const BEGIN: u16 = 0x10;
    const END: u16 = 0x11;
    const NEW_TABLE: u16 = (NFT as u16) << 8;
    const NEW_CHAIN: u16 = ((NFT as u16) << 8) | 3;
    const NESTED: u16 = 0x8000;
    const INET: u8 = 1;
    const POSTROUTING: u32 = 4;
    const SOURCE_NAT: u32 = 100;
    let table = text(1, "netferry-doctor");
    let hook = attribute(
        4 | NESTED,
        &[attribute(1, &POSTROUTING.to_be_bytes()), attribute(2, &SOURCE_NAT.to_be_bytes())].concat(),
    );
    let chain = [table.clone(), text(3, "nat"), hook, text(7, "nat")];
    Netlink::open(SockProtocol::NetlinkNetFilter)?.ask(&[
        netfilter(BEGIN, 0, 0, u16::from(NFT), &[]),
        netfilter(NEW_TABLE, CREATE, INET, 0, &[table]),
        netfilter(NEW_CHAIN, CREATE | ACK, INET, 0, &chain),
        netfilter(END, 0, 0, u16::from(NFT), &[]),
    ])
}

fn conntrack() -> nix::Result<()> {
    const CONNTRACK: u16 = 1;
    const GET_STATISTICS: u16 = 5;
    let request = netfilter((CONNTRACK << 8) | GET_STATISTICS, ACK, 0, 0, &[]);
    Netlink::open(SockProtocol::NetlinkNetFilter)?.ask(&[request])
}

fn device(path: &str) -> nix::Result<()> {
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map(|_| ())
        .map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_about_parameters_proves_that_the_kernel_knows_the_kind() {
        let unknown = Errno::EOPNOTSUPP;
        assert_eq!(judge(Err(Errno::EINVAL), unknown, true), Outcome::Works);
        assert_eq!(judge(Err(unknown), unknown, true), Outcome::Fails("not in this kernel".into()));
        assert!(matches!(judge(Err(Errno::EINVAL), unknown, false), Outcome::Fails(_)));
    }

    #[test]
    fn what_is_not_permitted_was_not_tried() {
        assert_eq!(judge(Err(Errno::EPERM), Errno::ENOENT, true), Outcome::Untried("not permitted".into()));
    }
}
