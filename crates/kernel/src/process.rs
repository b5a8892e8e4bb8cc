//! Where programs begin, and how soon they run.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A control group, open for a program to start in.
#[derive(Debug)]
pub struct ControlGroup {
    directory: PathBuf,
    processes: File,
}

/// Why a program is not started in a control group.
#[derive(Debug, thiserror::Error)]
enum GroupError {
    #[error(
        "cannot open the control group {}; remount its hierarchy read-write, or unmount it if nothing uses it",
        .0.display()
    )]
    Open(PathBuf, #[source] io::Error),
    #[error("cannot copy {} from the parent group; write CPUs and memory nodes there by hand", .0.display())]
    Fill(PathBuf, #[source] io::Error),
    #[error("the control group {} refuses the program; remove the group, and it is created anew", .0.display())]
    Enter(PathBuf, #[source] io::Error),
}

impl GroupError {
    fn open(directory: &Path) -> impl FnOnce(io::Error) -> GroupError {
        move |source| GroupError::Open(directory.to_owned(), source)
    }

    fn fill(file: &Path) -> impl FnOnce(io::Error) -> GroupError {
        move |source| GroupError::Fill(file.to_owned(), source)
    }
}

impl From<GroupError> for io::Error {
    fn from(error: GroupError) -> io::Error {
        let (GroupError::Open(_, cause) | GroupError::Fill(_, cause) | GroupError::Enter(_, cause)) = &error;
        io::Error::new(cause.kind(), error)
    }
}

impl ControlGroup {
    /// Opens the group `name` of the hierarchy mounted at `hierarchy`, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// The group cannot be created, or its file cannot be opened for writing.
    pub fn open(hierarchy: &Path, name: &Path) -> io::Result<ControlGroup> {
        let mut directory = hierarchy.to_owned();
        for level in name {
            directory.push(level);
            match std::fs::create_dir(&directory) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(GroupError::open(&directory)(error).into());
                }
                _ => fill_cpuset(&directory)?,
            }
        }
        let processes = File::options().write(true).open(directory.join("cgroup.procs"));
        let processes = processes.map_err(GroupError::open(&directory))?;
        Ok(ControlGroup { directory, processes })
    }
}

/// Copies the CPUs and memory nodes of the parent group into a group that has none. cgroup v1 creates cpuset groups
/// without any, and such a group refuses every process; cgroup v2 has groups inherit them.
fn fill_cpuset(group: &Path) -> Result<(), GroupError> {
    let parent = match group.parent() {
        Some(parent) if !group.join("cgroup.controllers").exists() => parent,
        _ => return Ok(()),
    };
    for name in ["cpuset.cpus", "cpuset.mems"] {
        let file = group.join(name);
        let current = match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()), // another hierarchy
            read => read.map_err(GroupError::fill(&file))?,
        };
        if current.trim().is_empty() {
            let inherited = std::fs::read(parent.join(name));
            inherited.and_then(|values| std::fs::write(&file, values)).map_err(GroupError::fill(&file))?;
        }
    }
    Ok(())
}

/// Starts `program` in all of `groups`. Neither it nor what it detaches into is ever in our own groups.
///
/// # Errors
///
/// The program cannot be started, or one of the groups refuses it; the error then names the group.
pub fn spawn_in(mut program: Command, groups: Vec<ControlGroup>) -> io::Result<Child> {
    let (directories, files) =
        groups.into_iter().map(|group| (group.directory, group.processes)).unzip::<_, _, Vec<_>, Vec<_>>();
    let (mut refused, mut report) = io::pipe()?;
    crate::sys::begin_in(&mut program, files, report.try_clone()?);
    program.spawn().map_err(|error| {
        // The index of the group that refused comes first, if one did. Otherwise this one does: it ends the reading.
        let mut index = [0; size_of::<usize>()];
        let read = report.write_all(&usize::MAX.to_ne_bytes()).and_then(|()| refused.read_exact(&mut index));
        match directories.get(usize::from_ne_bytes(index)) {
            Some(directory) if read.is_ok() => GroupError::Enter(directory.clone(), error).into(),
            _ => error,
        }
    })
}

/// Has `program` run before everything else of the machine, from its first moment on. Where that is not allowed it runs
/// as others do.
pub fn before_others(program: &mut Command) {
    crate::sys::before_others(program);
}
