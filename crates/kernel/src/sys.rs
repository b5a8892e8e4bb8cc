//! The system calls that no safe wrapper covers. The only `unsafe` of the workspace.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::PipeWriter;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::name::IfName;
use crate::wire::Socket;

/// Switches of a netlink socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Netlink {
    /// Refusals come with the kernel's own sentence.
    ExtendedAck,
    /// Refusals do not repeat the request.
    CappedAck,
    /// Dump filters are honoured, and refused when they make no sense.
    StrictDumps,
}

/// Turns a switch on.
pub(crate) fn set_netlink(socket: &impl AsFd, option: Netlink) -> Result<(), Errno> {
    let number = match option {
        Netlink::ExtendedAck => libc::NETLINK_EXT_ACK,
        Netlink::CappedAck => libc::NETLINK_CAP_ACK,
        Netlink::StrictDumps => libc::NETLINK_GET_STRICT_CHK,
    };
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open (it is borrowed), and the kernel reads exactly `length` bytes of `on`, which
    // lives across the call and is that long.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_NETLINK,
            number,
            (&raw const on).cast(),
            length,
        )
    };
    Errno::result(result).map(drop)
}

/// Has a program move into control groups, through their open `cgroup.procs`, before it is anything but a copy of us.
/// If a group refuses, the program is not started, and the index of the group is written to `report`.
pub(crate) fn begin_in(program: &mut Command, groups: Vec<File>, report: PipeWriter) {
    let enter = move || {
        for (index, group) in groups.iter().enumerate() {
            // SAFETY: the descriptor is open (`groups` owns it), and the kernel reads the one byte that is there.
            if unsafe { libc::write(group.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
                let refused = std::io::Error::last_os_error();
                let number = (&raw const index).cast();
                // SAFETY: the descriptor is open (`report` is owned here), and the kernel reads `index` and no more.
                unsafe { libc::write(report.as_raw_fd(), number, size_of_val(&index)) };
                return Err(refused);
            }
        }
        Ok(())
    };
    // SAFETY: this runs in the copy of a process that may have had other threads, so it must neither allocate nor take a
    // lock. It writes to descriptors that were opened before, and makes an error of a number.
    unsafe { program.pre_exec(enter) };
}

/// Has a program scheduled in real time, before it is anything but a copy of us.
pub(crate) fn before_others(program: &mut Command) {
    let ask = || {
        let priority = libc::sched_param { sched_priority: 5 };
        // SAFETY: the kernel reads the one structure that is there.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
        Ok(())
    };
    // SAFETY: this runs in the copy of a process that may have had other threads, so it must neither allocate nor take a
    // lock. It makes one system call.
    unsafe { program.pre_exec(ask) };
}

/// Sends one Ethernet frame out of a link, through a packet socket.
pub(crate) fn send_frame(socket: &OwnedFd, link: u32, frame: &[u8]) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: 0,
        sll_ifindex: i32::try_from(link).map_err(|_| Errno::ENODEV)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the descriptor is open; the kernel reads `frame.len()` bytes of `frame` and `length` bytes of
    // `address`; both live across the call and are that long.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const address).cast(),
            length,
        )
    };
    Errno::result(sent).map(drop)
}

const TUNSETIFF: libc::c_ulong = nix::request_code_write!(b'T', 202, size_of::<libc::c_int>());
const TUNSETPERSIST: libc::c_ulong = nix::request_code_write!(b'T', 203, size_of::<libc::c_int>());

/// Attaches an open `/dev/net/tun` to an interface, making it if it is missing.
pub(crate) fn tun_attach(device: &File, name: &IfName, flags: libc::c_int) -> Result<(), Errno> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    for (to, from) in ifr_name.iter_mut().zip(name.as_str().bytes()) {
        *to = from as libc::c_char;
    }
    let mut request = libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short },
    };
    // SAFETY: the descriptor is open; TUNSETIFF reads and writes one `struct ifreq`, which `request` is, and the
    // name in it ends with NUL because an `IfName` is shorter than the field.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request) };
    Errno::result(result).map(drop)
}

/// Lets the interface of an attached `/dev/net/tun` outlive the descriptor.
pub(crate) fn tun_persist(device: &File) -> Result<(), Errno> {
    // SAFETY: the descriptor is open; TUNSETPERSIST takes its argument by value and touches no memory.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETPERSIST, 1 as libc::c_ulong) };
    Errno::result(result).map(drop)
}

/// Lets a runtime tell when a socket can be read.
pub(crate) fn readable(socket: Socket) -> std::io::Result<AsyncFd<Socket>> {
    // SAFETY: a `Socket` owns its descriptor, answers the same one for as long as it lives, and nothing in this
    // crate replaces the descriptor of a `Socket` or takes the `Socket` out of the `AsyncFd`.
    unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.map_err(std::io::Error::from)
}

/// Has the allocator give memory back to the system that it keeps for later.
pub(crate) fn give_back() {
    // SAFETY: takes no pointer and touches nothing but the allocator's own free lists, under its locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What the allocator has in use, and free but kept.
pub(crate) fn allocated() -> (usize, usize) {
    // SAFETY: takes no pointer, reads the allocator's own counts under its locks, and returns them by value.
    #[cfg(target_env = "gnu")]
    let counts = unsafe {
        let info = libc::mallinfo2();
        (info.uordblks + info.hblkhd, info.fordblks)
    };
    #[cfg(not(target_env = "gnu"))]
    let counts = (0, 0);
    counts
}

/// Has all threads take memory from one heap.
pub(crate) fn share_one_heap() {
    // SAFETY: takes no pointer; sets a number the allocator reads when a thread asks for memory the first time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
