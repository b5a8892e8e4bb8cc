//! Packets that wait for a process to read them.
//!
//! What a socket holds is the reading process's to say, or the machine's default, which is not ours to change. But a
//! process of the same machine may take a second handle on a socket and enlarge it there.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{OwnedFd, RawFd};

use nix::errno::Errno;
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::{Attempt, Error, Result};

/// The sockets by which another process reads packets off links.
#[derive(Debug)]
pub struct PacketSockets {
    pid: i32,
    /// By their inodes. Those of other processes in the same network are among them.
    seen: BTreeSet<u64>,
}

impl PacketSockets {
    /// Those of a process.
    pub fn of(pid: i32) -> PacketSockets {
        PacketSockets { pid, seen: BTreeSet::new() }
    }

    /// Has each of them hold packets in so much memory at least; answers how many got more than they had. Those that were
    /// seen before are not looked at again.
    ///
    /// The kernel counts all the memory a packet takes. What a socket has by itself, 208 KiB, is ninety packets of 1 400
    /// bytes but no more than twelve of 8 900: a process that looks away for a moment loses what comes.
    pub fn make_room(&mut self, bytes: usize) -> Result<usize> {
        let new: BTreeSet<u64> = self.inodes()?.difference(&self.seen).copied().collect();
        let mut grown = 0;
        if !new.is_empty() {
            let refused = |errno: rustix::io::Errno| Error::Refused {
                attempt: Attempt::Setting,
                object: format!("how many packets wait for process {}", self.pid),
                explained: None,
                errno: Errno::from_raw(errno.raw_os_error()),
            };
            let process = Pid::from_raw(self.pid).ok_or(rustix::io::Errno::SRCH);
            let process = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())).map_err(refused)?;
            for descriptor in self.descriptors(&new)? {
                grown += usize::from(self.grow(&process, descriptor, bytes).map_err(refused)?);
            }
        }
        self.seen.extend(new);
        Ok(grown)
    }

    /// Of all such sockets of its network.
    fn inodes(&self) -> Result<BTreeSet<u64>> {
        let path = format!("/proc/{}/net/packet", self.pid);
        let table = fs::read_to_string(&path).map_err(|source| reading(path, source))?;
        // sk RefCnt Type Proto Iface R Rmem User Inode
        let inode = |line: &str| line.split_whitespace().nth(8)?.parse().ok();
        Ok(table.lines().skip(1).filter_map(inode).collect())
    }

    /// The process's own of these.
    fn descriptors(&self, inodes: &BTreeSet<u64>) -> Result<Vec<RawFd>> {
        let path = format!("/proc/{}/fd", self.pid);
        let open = fs::read_dir(&path).map_err(|source| reading(path, source))?;
        let wanted = open.filter_map(|entry| {
            let entry = entry.ok()?;
            let leads = fs::read_link(entry.path()).ok()?;
            let inode = leads.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
            let descriptor = entry.file_name().to_str()?.parse().ok()?;
            inodes.contains(&inode).then_some(descriptor)
        });
        Ok(wanted.collect())
    }

    fn grow(&self, process: &OwnedFd, descriptor: RawFd, bytes: usize) -> rustix::io::Result<bool> {
        let socket = match pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty()) {
            // Closed meanwhile.
            Err(rustix::io::Errno::BADF) => return Ok(false),
            other => other?,
        };
        // The kernel answers twice what it was told, and counts by that.
        if sockopt::socket_recv_buffer_size(&socket)? >= 2 * bytes {
            return Ok(false);
        }
        sockopt::set_socket_recv_buffer_size_force(&socket, bytes)?;
        Ok(true)
    }
}

fn reading(object: String, source: std::io::Error) -> Error {
    Error::Io { attempt: Attempt::Reading, object, source }
}
