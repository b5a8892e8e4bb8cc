//! Nothing of a lab is left, however it ended.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use netferry_lab::neighbours::LEDGER;
use netferry_lab::{Lab, LabError, Lifetime, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{bare, said, until, up};
use crate::footprint::Footprint;

#[test]
fn a_lab_that_is_taken_down_leaves_no_process_namespace_mount_or_file() {
    let options = bare(2);
    let lab = up(&options);
    let made = Footprint::of(&lab);
    // The lab's process, the API server, and of each node its first process, the switch and its database.
    assert!(made.processes() >= 8, "{made:?}");
    // A mount and a process namespace of the lab, and three more of each node at least.
    assert!(made.namespaces() >= 10, "{made:?}");
    lab.down().expect("down");
    assert_eq!(made.left(), Vec::<String>::new());
}

#[test]
fn a_lab_whose_process_was_killed_is_removed_by_down_and_replaced_by_up() {
    let options = bare(1);
    let lab = up(&options);
    let made = Footprint::of(&lab);
    let runner = lab.state().runner().expect("a runner").pid;
    kill(Pid::from_raw(runner), Signal::SIGKILL).expect("the lab's process is there");
    until("the end of every process of the lab", || {
        made.left().iter().all(|left| !left.starts_with("process"))
    });
    assert!(matches!(Lab::attach(&options.root, &options.name), Err(LabError::Refused(_))));

    let again = up(&options);
    assert_eq!(said(&again, "node-1", &["hostname"]).trim(), "node-1");
    let made = Footprint::of(&again);
    let runner = again.state().runner().expect("a runner").pid;
    kill(Pid::from_raw(runner), Signal::SIGKILL).expect("the lab's process is there");
    assert!(Lab::remove(&options.root, &options.name).expect("removed"));
    assert_eq!(made.left(), Vec::<String>::new());
    assert!(!Lab::remove(&options.root, &options.name).expect("nothing to remove is fine"));
}

#[test]
fn a_lab_killed_while_it_comes_up_or_goes_down_leaves_nothing_either() {
    let options = bare(2);
    // It answers, and its nodes boot.
    let lab = Lab::up(&options).unwrap_or_else(|error| panic!("{}", error.chain()));
    let made = Footprint::of(&lab);
    let runner = lab.state().runner().expect("a runner").pid;
    kill(Pid::from_raw(runner), Signal::SIGKILL).expect("the lab's process is there");
    assert!(Lab::remove(&options.root, &options.name).expect("removed"));
    assert_eq!(made.left(), Vec::<String>::new());

    let lab = up(&options);
    let made = Footprint::of(&lab);
    let mut down = Command::new(&options.program)
        .args(["lab", "down", "--name", options.name.as_str()])
        .stderr(Stdio::null())
        .spawn()
        .expect("netferry runs");
    let whole = made.left().len();
    until("the end of some of it", || made.left().len() < whole);
    down.kill().expect("it is there, or has ended");
    down.wait().expect("it ends");
    Lab::remove(&options.root, &options.name).expect("removed");
    assert_eq!(made.left(), Vec::<String>::new());
}

#[test]
fn room_for_the_neighbours_of_a_large_lab_is_given_back_when_it_was_killed_too() {
    let limit = || -> u32 {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/neigh/default/gc_thresh3").expect("a limit");
        text.trim().parse().expect("a number")
    };
    let ledger = || std::fs::read_to_string(LEDGER).unwrap_or_default();
    // Many wires count as many nodes do. Other large labs may run beside this one, hence the ledger.
    let options = Options { networks: Options::MOST_NETWORKS, ..bare(2) };
    let (alone, before) = (ledger().is_empty(), limit());
    let lab = up(&options);
    let entry = lab.state().path().display().to_string();
    assert!(ledger().contains(&entry), "{}", ledger());
    if alone {
        assert!(limit() > before, "{} was {before}", limit());
    }
    let runner = lab.state().runner().expect("a runner").pid;
    kill(Pid::from_raw(runner), Signal::SIGKILL).expect("the lab's process is there");
    lab.down().expect("down");
    assert!(!ledger().contains(&entry), "{}", ledger());
    if alone && ledger().is_empty() {
        assert_eq!(limit(), before);
    }
}

#[test]
fn killing_a_node_or_the_api_server_keeps_the_lab_whole_and_down_leaves_nothing() {
    let lab = up(&bare(2));
    let server = || lab.status().expect("status").programs["apiserver"].starts;
    let boots = || lab.status().expect("status").nodes[0].boots;
    let first = Footprint::of(&lab);

    said(&lab, "control", &["sh", "-c", "kill -9 $(pgrep -f 'netferry [a]piserver')"]);
    until("another API server", || server() == 2);
    kill_node(&lab, "node-1");
    until("another boot", || boots() == 2);
    crate::bench::ready(&lab);

    let second = Footprint::of(&lab);
    lab.down().expect("down");
    assert_eq!(first.left(), Vec::<String>::new());
    assert_eq!(second.left(), Vec::<String>::new());
}

/// From outside: inside, the first process is spared by the kernel.
fn kill_node(lab: &Lab, node: &str) {
    let way = lab.way(node).expect("a way");
    let inside = way.through.last().expect("the node's first process").to_string();
    said(lab, "control", &["kill", "-9", &inside]);
}

#[test]
fn a_lab_tied_to_a_process_ends_when_that_process_is_killed() {
    let options = bare(1);
    let program = options.program.clone();
    let mut owner = Command::new(program)
        .args(["lab", "up", "--foreground", "--bare", "--nodes", "1", "--name", options.name.as_str()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("netferry runs");
    let output = BufReader::new(owner.stdout.take().expect("a pipe"));
    assert!(output.lines().next().expect("a line").expect("text").contains("ready"));
    let lab = Lab::attach(&options.root, &options.name).expect("it runs");
    let made = Footprint::of(&lab);
    owner.kill().expect("the owner is there");
    owner.wait().expect("the owner ends");
    until("the end of the lab", || made.left().is_empty());
}

#[test]
fn two_labs_at_once_know_nothing_of_each_other() {
    let (one, two) = (up(&bare(1)), up(&bare(1)));
    let hosts = said(&one, "node-1", &["cat", "/proc/sys/kernel/hostname"]);
    assert_eq!(hosts, said(&two, "node-1", &["cat", "/proc/sys/kernel/hostname"]));
    said(&one, "node-1", &["touch", "/etc/only-here"]);
    said(&two, "node-1", &["test", "!", "-e", "/etc/only-here"]);
    let made = Footprint::of(&one);
    one.down().expect("down");
    assert_eq!(made.left(), Vec::<String>::new());
    said(&two, "node-1", &["true"]);
}

#[test]
fn a_second_up_of_a_running_lab_is_refused_and_changes_nothing() {
    let options = bare(1);
    let lab = up(&options);
    let before = Footprint::of(&lab).processes();
    let refused = Lab::up(&netferry_lab::Options { lifetime: Lifetime::Detached, ..options.clone() });
    assert!(matches!(refused, Err(LabError::Refused(why)) if why.contains("lab down")));
    assert_eq!(Footprint::of(&lab).processes(), before);
    lab.down().expect("down");
}
