//! What a lab is made of on the machine, so that its absence can be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use netferry_lab::Lab;

/// Processes and namespaces of a lab, and its directory.
#[derive(Debug)]
pub(crate) struct Footprint {
    /// Process ids with the time of their start.
    processes: BTreeSet<(i32, String)>,
    /// As links below /proc name them.
    namespaces: BTreeSet<PathBuf>,
    directory: PathBuf,
    /// When it was taken, in the kernel's ticks.
    taken: u64,
}

impl Footprint {
    pub(crate) fn of(lab: &Lab) -> Footprint {
        let runner = lab.state().runner().expect("a running lab has a runner").pid;
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for pid in pids() {
            if let Some(parent) = stat(pid).and_then(|stat| stat.get(1)?.parse().ok()) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut family = vec![runner];
        let mut next = 0;
        while let Some(pid) = family.get(next).copied() {
            family.extend(children.get(&pid).into_iter().flatten());
            next += 1;
        }
        let ours = namespaces(std::process::id().cast_signed());
        Footprint {
            processes: family.iter().filter_map(|pid| Some((*pid, start(*pid)?))).collect(),
            namespaces: family
                .iter()
                .flat_map(|pid| namespaces(*pid))
                .filter(|ns| !ours.contains(ns))
                .collect(),
            directory: lab.state().path().to_owned(),
            taken: now(),
        }
    }

    /// How many processes there were.
    pub(crate) fn processes(&self) -> usize {
        self.processes.len()
    }

    /// How many namespaces there were.
    pub(crate) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }

    /// What of it is still there.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = vec![];
        for pid in pids() {
            let Some(start) = start(pid) else { continue };
            if self.processes.contains(&(pid, start.clone())) {
                let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                left.push(format!("process {pid}: {}", command.replace('\0', " ")));
            }
            // The numbers of namespaces that are gone are given to new ones, of processes that came later.
            if start.parse::<u64>().expect("a number") > self.taken {
                continue;
            }
            for namespace in namespaces(pid).intersection(&self.namespaces) {
                left.push(format!("{} of process {pid}", namespace.display()));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("our mounts");
        let directory = self.directory.to_str().expect("plain");
        let bound = |line: &&str| {
            line.contains(directory)
                || self.namespaces.iter().any(|ns| line.contains(ns.to_str().unwrap_or("?")))
        };
        left.extend(mounts.lines().filter(bound).map(str::to_owned));
        if self.directory.exists() {
            left.push(self.directory.display().to_string());
        }
        left
    }
}

fn pids() -> Vec<i32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The fields after the program's name: state, parent, …
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

/// When a process started, if it has not ended.
fn start(pid: i32) -> Option<String> {
    let stat = stat(pid)?;
    if stat[0] == "Z" || stat[0] == "X" { None } else { stat.get(19).cloned() }
}

fn namespaces(pid: i32) -> BTreeSet<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
    // "for_children" are the same ones by another name, or none at all.
    let named = all.filter(|entry| !entry.file_name().to_string_lossy().contains("for_children"));
    named.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

fn now() -> u64 {
    let uptime = fs::read_to_string("/proc/uptime").expect("uptime");
    let seconds: f64 = uptime.split(' ').next().expect("a number").parse().expect("a number");
    (seconds * 100.0) as u64
}
