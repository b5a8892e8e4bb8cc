//! `netferry apiserver` as a process: what it prints, what it leaves, how it ends.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{Server, command};
use nix::sys::signal::Signal;

const FREE: &str = "127.0.0.1:0";

fn server_version(dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netferry"))
        .current_dir(dir)
        .args(["version", "--server", "--kubeconfig", "kubeconfig", "-o", "json"])
        .output()
        .expect("the binary under test runs")
}

const ALL: [&str; 6] = ["--data", "data.log", "--tls-dir", "tls", "--kubeconfig-out", "kubeconfig"];

#[test]
fn a_server_answers_with_its_kubeconfig_as_soon_as_it_says_so() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(dir.path(), FREE, &ALL);
    let output = server_version(dir.path());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert!(answer["server"].as_str().is_some_and(|v| v.starts_with("v1.34.")), "{answer}");
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
}

#[test]
fn asking_a_server_to_stop_is_not_a_failure() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        assert_eq!(Server::start(dir.path(), FREE, &[]).end_with(signal).code(), Some(0), "{signal}");
    }
}

#[test]
fn a_kubeconfig_outlives_a_killed_server_when_its_certificates_are_kept() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first = Server::start(dir.path(), FREE, &ALL);
    let address = first.url.trim_start_matches("https://").to_owned();
    let written = std::fs::read(dir.path().join("kubeconfig")).expect("a kubeconfig");
    first.end_with(Signal::SIGKILL);
    let _second = Server::start(dir.path(), &address, &["--data", "data.log", "--tls-dir", "tls"]);
    assert_eq!(std::fs::read(dir.path().join("kubeconfig")).expect("a kubeconfig"), written);
    assert!(server_version(dir.path()).status.success());
}

#[test]
fn credentials_are_for_their_owner_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _server = Server::start(dir.path(), FREE, &ALL);
    let mode = |name: &str| {
        std::fs::metadata(dir.path().join(name)).expect("it is there").permissions().mode() & 0o077
    };
    for name in ["kubeconfig", "tls", "tls/server.key"] {
        assert_eq!(mode(name), 0, "{name}");
    }
}

#[test]
fn a_data_file_in_use_is_refused_with_exit_code_3() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let _first = Server::start(dir.path(), FREE, &ALL);
    let second =
        command(dir.path(), FREE, &["--data", "data.log"]).output().expect("the binary under test runs");
    assert_eq!(second.status.code(), Some(3), "{}", String::from_utf8_lossy(&second.stderr));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another server"));
}

#[test]
fn an_address_in_use_is_a_failure_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(["apiserver", "--listen", &address])
        .output()
        .expect("the binary under test runs");
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with(&format!("error: listening on {address}: ")), "{error}");
}
