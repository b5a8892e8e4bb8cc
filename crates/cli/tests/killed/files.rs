//! Data files that others have damaged, hold, or keep out of reach.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Output;

use nix::sys::signal::Signal;

use crate::common::{self, Server};

const DATA: [&str; 2] = ["--data", "data.log"];

/// A data file as a killed server left it, and how many lines it has.
fn left_behind(dir: &Path) -> usize {
    Server::start(dir, "127.0.0.1:0", &DATA).end_with(Signal::SIGKILL);
    let text = fs::read_to_string(dir.join("data.log")).expect("the file");
    assert!(text.ends_with('\n'), "every record is a whole line");
    text.lines().count()
}

fn refused(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output: Output =
        common::command(dir, "127.0.0.1:0", args).output().expect("the binary under test runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_torn_last_line_is_cut_off_and_the_server_goes_on() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let lines = left_behind(dir.path());
    let whole = fs::read(dir.path().join("data.log")).expect("the file");
    for torn in ["{", "{\"op\":\"put\",\"revision\":999,\"table\":\"pods\",\"object\":{\"metadata\""] {
        let mut file =
            fs::OpenOptions::new().append(true).open(dir.path().join("data.log")).expect("the file");
        file.write_all(torn.as_bytes()).expect("half a line");
        drop(file);
        let again = left_behind(dir.path());
        assert_eq!(again, lines, "{torn}: nothing is lost and nothing is made twice");
        assert_eq!(fs::read(dir.path().join("data.log")).expect("the file"), whole, "{torn}");
    }
}

#[test]
fn a_damaged_line_is_refused_by_its_number() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let lines = left_behind(dir.path());
    let path = dir.path().join("data.log");
    let text = fs::read_to_string(&path).expect("the file");
    type Damage = fn(&str) -> String;
    let damages: [(usize, Damage); 4] = [
        (1, |_| "not a record".to_owned()),
        (2, |line| line[..line.len() / 2].to_owned()),
        (lines / 2, |line| line.replacen("\"op\":\"put\"", "\"op\":\"pull\"", 1)),
        (lines, |line| format!("{line} and more")),
    ];
    for (number, damage) in damages {
        let damaged: String = text
            .lines()
            .enumerate()
            .map(|(n, line)| if n + 1 == number { damage(line) } else { line.to_owned() } + "\n")
            .collect();
        fs::write(&path, &damaged).expect("a damaged file");
        let (code, error) = refused(dir.path(), &DATA);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(&format!("line {number} of the data file data.log")), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("the file"), damaged, "a refused file is left as it is");
    }
}

#[test]
fn a_file_that_was_never_a_data_file_is_not_touched() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for text in ["a letter to somebody, without an end", "apiVersion: v1\nkind: Config\n"] {
        fs::write(dir.path().join("data.log"), text).expect("a file");
        let (code, error) = refused(dir.path(), &DATA);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("line 1 of the data file data.log is not a record"), "{error}");
        assert_eq!(fs::read_to_string(dir.path().join("data.log")).expect("the file"), text);
    }
}

#[test]
fn a_file_out_of_reach_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(dir.path().join("directory")).expect("a directory");
    for path in ["directory", "nowhere/data.log"] {
        let (code, error) = refused(dir.path(), &["--data", path]);
        assert_eq!(code, Some(1), "{error}");
        assert!(
            error.starts_with("error: ") && error.contains(&format!("opening the data file {path}: ")),
            "{error}"
        );
    }
}
