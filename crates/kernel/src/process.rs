//! Where programs begin, and how soon they run.

use std::fs::File;
use std::process::Command;

/// Has `program` begin in control groups, each given as its `cgroup.procs`, opened for writing.
///
/// There is no moment at which it, or what it detaches into, is in ours. A group that does not take it (an unset cpuset)
/// is passed over; where none does, it is not started.
pub fn begin_in(program: &mut Command, groups: Vec<File>) {
    crate::sys::begin_in(program, groups);
}

/// Has `program` run before everything else of the machine, from its first moment on. Where that is not allowed it runs
/// as others do.
pub fn before_others(program: &mut Command) {
    crate::sys::before_others(program);
}
