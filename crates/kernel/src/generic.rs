//! Which of the kernel's optional interfaces are there: generic netlink families.

use nix::errno::Errno;

use crate::error::Result;
use crate::kernel::Kernel;
use crate::wire::Attributes;

const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Before the attributes of every message of a generic family.
pub(crate) const HEADER: usize = 4;

impl Kernel {
    /// Does the kernel itself switch for Open vSwitch? Loads the module where there is one.
    pub fn has_ovs_datapath(&self) -> Result<bool> {
        match family(self, "ovs_datapath") {
            Ok(_) => Ok(true),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The number of a family.
pub(crate) fn family(kernel: &Kernel, name: &str) -> Result<u16> {
    kernel.generic_socket().ask(
        CONTROL,
        &format!("the {name} interface"),
        |w| {
            w.raw(&[GET_FAMILY, 1, 0, 0]).str(FAMILY_NAME, name);
        },
        |message| Attributes::after(message.body, HEADER).find(FAMILY_ID).and_then(crate::wire::u16),
    )
}
