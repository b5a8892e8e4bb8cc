//! Where programs begin.

use std::fs::File;
use std::process::Command;

/// Has `program` begin in control groups, each given as its `cgroup.procs`, opened for writing.
///
/// There is no moment at which it, or what it detaches into, is in ours. A group that does not take it (an unset cpuset)
/// is passed over; where none does, it is not started.
pub fn begin_in(program: &mut Command, groups: Vec<File>) {
    crate::sys::begin_in(program, groups);
}
