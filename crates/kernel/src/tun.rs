//! TUN and TAP devices: frames or packets to and from a process.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};

use crate::error::{Attempt, Error, Result};
use crate::name::IfName;
use crate::netns::Namespace;
use crate::sys;

/// What goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunMode {
    /// IP packets.
    Tun,
    /// Ethernet frames.
    Tap,
}

/// An open device: reads give what the kernel sends out of the interface, writes arrive at it.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// A device that vanishes with this value, unless it was persistent already.
    pub fn open(namespace: &Namespace, name: &IfName, mode: TunMode) -> Result<Tun> {
        namespace.run(|| {
            let object = format!("link {name}");
            let device = OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
                .map_err(|source| Error::io(Attempt::Opening, "/dev/net/tun", source))?;
            let flags = libc::IFF_NO_PI
                | match mode {
                    TunMode::Tun => libc::IFF_TUN,
                    TunMode::Tap => libc::IFF_TAP,
                };
            sys::tun_attach(&device, name, flags)
                .map_err(|errno| Error::refused(Attempt::Adding, object, errno))?;
            Ok(Tun(device))
        })?
    }

    /// A device that stays until it is removed as a link.
    pub fn persistent(namespace: &Namespace, name: &IfName, mode: TunMode) -> Result<Tun> {
        let tun = Tun::open(namespace, name, mode)?;
        sys::tun_persist(&tun.0).map_err(|errno| {
            Error::refused(Attempt::Setting, format!("persistence of link {name}"), errno)
        })?;
        Ok(tun)
    }

    /// The device as a file.
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
