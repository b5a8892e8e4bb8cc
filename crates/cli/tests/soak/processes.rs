//! What a lab costs the machine.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// What a process and all below it take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// In bytes; what is shared is counted once.
    pub(crate) memory: u64,
    /// Of processor, of those that still run and of children that were waited for.
    pub(crate) busy: Duration,
}

impl Cost {
    /// Of a process and all below it.
    pub(crate) fn below(pid: i32) -> Cost {
        let mut cost = Cost::default();
        for pid in family(pid) {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kilobytes = pss.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
            cost.memory += kilobytes.unwrap_or(0) * 1024;
            let ticks: u64 = fields(pid).get(11..15).unwrap_or_default().iter().sum();
            cost.busy += Duration::from_millis(ticks * 10);
        }
        cost
    }

    pub(crate) fn mebibytes(self) -> u64 {
        self.memory >> 20
    }
}

/// A process and all below it.
fn family(first: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    for pid in all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = fields(pid).get(1) {
            children.entry(i32::try_from(*parent).unwrap_or(0)).or_default().push(pid);
        }
    }
    let mut family = vec![first];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        family.extend(children.get(&pid).into_iter().flatten());
        next += 1;
    }
    family
}

/// The fields after the program's name, those that are no numbers as 0: state, parent, …, times as user, system,
/// user of children, system of children.
fn fields(pid: i32) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
}
