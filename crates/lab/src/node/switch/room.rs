//! Room for what comes while the switch stands still.
//!
//! A switch that forwards by its own thread reads nothing while its database is away (see [`super::meeting`]). A socket
//! of the usual size then holds some ninety full-size packets, which at full rate is less than the time a new process of
//! the database needs on a busy machine. What does not fit is lost. Neither the switch nor a namespace has a setting for
//! that size, and the machine's default is not a lab's to change. But a process of the same machine may take a second
//! handle on a socket and enlarge it there: so that is done in the moment it is needed, for every port there is then.

use std::io;
use std::os::fd::{AsFd, RawFd};

use rustix::net::{AddressFamily, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tokio::sync::watch;

use crate::protocol::ProgramStatus;

const SWITCH: &str = "/run/openvswitch/ovs-vswitchd.pid";
/// Holds what a link of a gigabit brings in a tenth of a second; nothing is set aside for it before packets wait.
const ROOM: usize = 12 << 20;

/// Makes room whenever the database had to be started again, until nothing starts one any more.
pub(super) async fn make(mut database: watch::Receiver<ProgramStatus>) {
    // The first one is there before the switch is.
    let mut seen = database.borrow_and_update().starts.max(1);
    while let Ok(starts) = database.wait_for(|status| status.starts > seen).await.map(|status| status.starts)
    {
        seen = starts;
        let made = std::fs::read_to_string(SWITCH)
            .and_then(|pid| pid.trim().parse().map_err(io::Error::other))
            .and_then(enlarge);
        match made {
            Ok(sockets) => tracing::info!(sockets, "room for what waits for the switch"),
            // A switch that is not there either reads nothing in any case.
            Err(error) => tracing::warn!(error = error.to_string(), "no room for what waits for the switch"),
        }
    }
}

/// Enlarges every packet socket of a process; says how many it has.
fn enlarge(pid: i32) -> io::Result<usize> {
    let process = Pid::from_raw(pid).ok_or_else(|| io::Error::other(format!("{pid} is not a process")))?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let mut enlarged = 0;
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Whatever was closed since it was listed, or is no socket, is not meant.
        enlarged += usize::from(enlarge_one(&process, number).unwrap_or(false));
    }
    Ok(enlarged)
}

fn enlarge_one(process: impl AsFd, number: RawFd) -> io::Result<bool> {
    let socket = pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
    if sockopt::socket_domain(&socket)? != AddressFamily::PACKET {
        return Ok(false);
    }
    sockopt::set_socket_recv_buffer_size_force(&socket, ROOM)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use rustix::net::{SocketFlags, SocketType, socket_with};

    use super::*;

    #[test]
    fn packet_sockets_of_a_process_get_room_and_others_stay() {
        let open = |family, kind| socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        // Without a protocol it hears nothing.
        let packets = open(AddressFamily::PACKET, SocketType::RAW);
        let other = open(AddressFamily::INET, SocketType::DGRAM);
        let size = |socket| sockopt::socket_recv_buffer_size(socket).expect("its size");
        let (small, untouched) = (size(&packets), size(&other));

        let enlarged = enlarge(std::process::id().try_into().expect("a process")).expect("own sockets");

        assert!(enlarged >= 1, "nothing was enlarged");
        // The kernel counts its own cost of a packet too, and so doubles what it is told.
        assert_eq!(size(&packets), 2 * ROOM, "was {small}");
        assert_eq!(size(&other), untouched);
    }

    #[test]
    fn a_process_that_is_gone_is_named_as_such() {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("its end");
        let error = enlarge(child.id().try_into().expect("a process")).expect_err("nobody");
        assert_eq!(error.raw_os_error(), Some(nix::libc::ESRCH));
    }
}
