//! A lab for one test, of a name nobody else has.

#![allow(dead_code, reason = "the soak suite uses it too, and each its part")]

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use netferry_lab::{Lab, Lifetime, Options, Parts};
use netferry_testkit::wait::until_blocking_for;

/// Generous: two processors may be shared with every other test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// What a lab of this test is made of; it ends with this process.
pub(crate) fn options(nodes: u16) -> Options {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test-{}-{number}", std::process::id());
    let program = Path::new(env!("CARGO_BIN_EXE_netferry"));
    let mut options = Options::new(
        name.parse().expect("digits make a name"),
        program.to_owned(),
        program.with_file_name("netferry-cni"),
    );
    options.nodes = nodes;
    options.lifetime = Lifetime::OfCaller;
    options
}

/// Machines with a switch, and an API: what every lab stands on.
pub(crate) fn bare(nodes: u16) -> Options {
    Options { parts: Parts::NONE, ..options(nodes) }
}

/// Starts a lab and waits until it is ready.
pub(crate) fn up(options: &Options) -> Lab {
    let lab = Lab::up(options).unwrap_or_else(|error| panic!("{}", error.chain()));
    ready(&lab);
    lab
}

/// Waits until everything is ready again.
pub(crate) fn ready(lab: &Lab) {
    if let Err(error) = lab.wait_ready(PATIENCE, |_| {}) {
        let log = std::fs::read_to_string(lab.state().log()).unwrap_or_default();
        panic!("{}\n{log}", error.chain());
    }
}

/// What a command inside prints; it must succeed.
pub(crate) fn said(lab: &Lab, target: &str, command: &[&str]) -> String {
    let output = ran(lab, target, command);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} in {target}: {}\n{text}{errors}", output.status);
    text
}

/// How a command inside ends.
pub(crate) fn ran(lab: &Lab, target: &str, command: &[&str]) -> Output {
    lab.exec(target, command[0], &command[1..]).unwrap_or_else(|error| panic!("{}", error.chain()))
}

/// Waits for something, with a bound.
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    until_blocking_for(PATIENCE, what, holds);
}
