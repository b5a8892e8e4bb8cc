//! The guided tour, with a real kubectl.

use std::process::Command;

#[test]
fn the_guided_tour_goes_as_it_promises_and_leaves_nothing_behind() {
    let kubectl = netferry_testkit::assets().expect("the real programs are at hand").join("kubectl");
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(["demo", "api", "--kubectl"])
        .arg(kubectl)
        .env("TMPDIR", scratch.path())
        .output()
        .expect("the binary under test runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}\n{error}");
    assert!(said.contains("each as it should be"), "{said}");
    assert_eq!(std::fs::read_dir(scratch.path()).expect("the directory is there").count(), 0);
}

#[test]
fn a_kubectl_that_is_not_there_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(["demo", "api", "--kubectl", "/nowhere/kubectl"])
        .output()
        .expect("the binary under test runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/kubectl"));
}
