//! Where programs begin, and how soon they run.

use std::fs::File;
use std::process::Command;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// Has `program` begin in control groups, each given as its `cgroup.procs`, opened for writing.
///
/// There is no moment at which it, or what it detaches into, is in ours. A group that does not take it (an unset cpuset)
/// is passed over; where none does, it is not started.
pub fn begin_in(program: &mut Command, groups: Vec<File>) {
    crate::sys::begin_in(program, groups);
}

/// Has `program` run before everything else of the machine, from its first moment on, and each of its threads for as long
/// as it has something to do. Where that is not allowed it runs as others do.
pub fn before_others(program: &mut Command) {
    crate::sys::before_others(program);
}

/// Has all threads of `program` share one processor, so that no two of them run at a time: the `turn`th of those we may
/// run on, counted round. Where that is not allowed they run on any.
pub fn on_one_processor(program: &mut Command, turn: usize) {
    let Ok(ours) = sched_getaffinity(Pid::from_raw(0)) else { return };
    let ours: Vec<usize> = (0..CpuSet::count()).filter(|one| ours.is_set(*one).unwrap_or(false)).collect();
    let mut chosen = CpuSet::new();
    if !ours.is_empty() && chosen.set(ours[turn % ours.len()]).is_ok() {
        crate::sys::on_processors(program, chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(turn: Option<usize>) -> String {
        let mut program = Command::new("cat");
        program.arg("/proc/self/status");
        if let Some(turn) = turn {
            on_one_processor(&mut program, turn);
        }
        let status = String::from_utf8(program.output().unwrap().stdout).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        line.trim().to_owned()
    }

    #[test]
    fn programs_are_dealt_to_the_processors_there_are() {
        let ours = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let ours: Vec<String> = (0..CpuSet::count())
            .filter(|one| ours.is_set(*one).unwrap())
            .map(|one| one.to_string())
            .collect();
        let dealt: Vec<String> = (0..ours.len() * 2).map(|turn| allowed(Some(turn))).collect();
        assert_eq!(dealt, [ours.clone(), ours.clone()].concat());
        assert_eq!(allowed(None).parse::<usize>().is_ok(), ours.len() == 1, "without it, on any");
    }
}
