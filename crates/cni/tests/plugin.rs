//! The executable as a runtime starts it, in front of agents that answer, hang, go away or are not there.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netferry_cni::protocol::{Greeting, Patience};
use netferry_cni::{Answer, Ask, Attachment, CniError, CniResult, Code, Interface, Spent, ask};
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};
use serde_json::{Value, json};

/// Nothing that comes at all comes later, on a busy machine either.
const LATE: Duration = Duration::from_secs(60);
const ARGS: &str = "IgnoreUnknown=1;K8S_POD_NAMESPACE=web;K8S_POD_NAME=a-0;K8S_POD_UID=u-1";

/// Starts the executable; answers what it printed and whether it succeeded.
fn plugin(env: &[(&str, &str)], input: &str) -> (Value, bool) {
    let mut child = started(env, Stdio::piped());
    // an executable that refuses its environment need not read its input
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    ended(child)
}

fn started(env: &[(&str, &str)], input: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netferry-cni"));
    command.env_clear().envs(env.iter().copied()).stdin(input).stdout(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> (Value, bool) {
    let output = child.wait_with_output().unwrap();
    let printed =
        if output.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&output.stdout).unwrap() };
    (printed, output.status.success())
}

fn add() -> Vec<(&'static str, &'static str)> {
    vec![
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c0ffee"),
        ("CNI_NETNS", "/run/netns/x"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", ARGS),
        ("CNI_PATH", "/opt/cni/bin"),
    ]
}

/// The same environment with another verb.
fn calling(verb: &'static str) -> Vec<(&'static str, &'static str)> {
    add().into_iter().map(|(name, value)| (name, if name == "CNI_COMMAND" { verb } else { value })).collect()
}

/// A connection, if there is room for one more to wait.
fn connected_at_once(socket: &Path) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    match socket::connect(fd.as_raw_fd(), &UnixAddr::new(socket).unwrap()) {
        Ok(()) => Some(fd),
        Err(Errno::EAGAIN) => None,
        Err(error) => panic!("{error}"),
    }
}

fn config(socket: &Path) -> Value {
    json!({ "cniVersion": "1.1.0", "name": "netferry", "type": "netferry-cni", "socket": socket })
}

/// An agent that takes one question and answers it.
fn agent(socket: &Path, answer: Answer) -> JoinHandle<Ask> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        writeln!(stream, "{}", serde_json::to_string(&Greeting::ours()).unwrap()).unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        writeln!(stream, "{}", serde_json::to_string(&answer).unwrap()).unwrap();
        serde_json::from_str(&line).unwrap()
    })
}

fn done() -> Answer {
    let interfaces =
        vec![Interface { name: "eth0".into(), sandbox: "/run/netns/x".into(), ..Default::default() }];
    let result = CniResult { interfaces, ..Default::default() };
    Answer { result: Some(result), error: None, spent: Spent::default() }
}

#[test]
fn an_add_is_passed_on_and_its_result_put_behind_what_others_made() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let agent = agent(&socket, done());
    let mut config = config(&socket);
    config["prevResult"] = json!({ "cniVersion": "1.1.0", "interfaces": [{ "name": "first" }] });
    config["dns"] = json!({ "nameservers": ["192.0.2.53"] });
    let (printed, success) = plugin(&add(), &config.to_string());
    assert!(success, "{printed}");
    assert_eq!(printed["cniVersion"], "1.1.0");
    assert_eq!(printed["interfaces"][0]["name"], "first");
    assert_eq!(printed["interfaces"][1]["name"], "eth0");
    assert_eq!(printed["dns"]["nameservers"][0], "192.0.2.53");
    let Ask::Add { attachment, network, netns, pod } = agent.join().unwrap() else { panic!("not an ADD") };
    assert_eq!(attachment, Attachment::new("c0ffee", "eth0").unwrap());
    assert_eq!((network.as_str(), netns.as_str()), ("netferry", "/run/netns/x"));
    assert_eq!((pod.name.as_str(), pod.uid.as_deref()), ("a-0", Some("u-1")));
}

#[test]
fn a_refusal_of_the_agent_is_printed_in_the_version_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let refusal =
        CniError::new(Code::TryAgain, "no address is free in 10.244.1.0/24").with_details("253 in use");
    let agent = agent(&socket, Answer { result: None, error: Some(refusal), spent: Spent::default() });
    let mut config = config(&socket);
    config["cniVersion"] = "0.4.0".into();
    let (printed, success) = plugin(&add(), &config.to_string());
    assert!(!success);
    let expected = json!({ "cniVersion": "0.4.0", "code": 11,
        "msg": "no address is free in 10.244.1.0/24", "details": "253 in use" });
    assert_eq!(printed, expected);
    agent.join().unwrap();
}

#[test]
fn an_agent_that_is_not_there_is_named_and_to_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    let stale = dir.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    for socket in [absent, stale] {
        let (printed, success) = plugin(&add(), &config(&socket).to_string());
        assert!(!success);
        assert_eq!(printed["code"], 11, "{printed}");
        assert!(printed["msg"].as_str().unwrap().contains(socket.to_str().unwrap()), "{printed}");
        // what is attached lives on without the agent, so never 51
        let (printed, _) = plugin(&[("CNI_COMMAND", "STATUS")], &config(&socket).to_string());
        assert_eq!(printed["code"], 50, "{printed}");
    }
}

#[test]
fn the_executable_gives_up_an_agent_that_hangs_whatever_it_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("hangs");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut config = config(&socket);
    config["prevResult"] = json!({ "cniVersion": "1.1.0", "interfaces": [{ "name": "eth0" }] });
    let asked = ["ADD", "CHECK", "DEL", "STATUS", "GC"].map(|verb| {
        let (began, mut child) = (Instant::now(), started(&calling(verb), Stdio::piped()));
        child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
        (verb, began, child)
    });
    for (verb, began, child) in asked {
        let (printed, success) = ended(child);
        assert!(began.elapsed() < 3 * LATE, "{verb} took {:?}", began.elapsed());
        let code = if verb == "STATUS" { 50 } else { 11 };
        assert!(!success && printed["code"] == code, "{verb}: {printed}");
        assert!(printed["msg"].as_str().unwrap().contains(socket.to_str().unwrap()), "{verb}: {printed}");
    }
}

#[test]
fn an_agent_that_hangs_or_goes_away_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let soon = Duration::from_millis(200);
    let question = |socket: &Path, greeting: Duration| {
        let patience = Patience { greeting, answer: soon };
        let started = Instant::now();
        let error = ask(socket, &Ask::Status, patience).unwrap_err();
        assert!(started.elapsed() < LATE * 2, "it is bounded");
        assert_eq!(error.code, Code::TryAgain, "{error}");
        error
    };

    let hangs = dir.path().join("hangs");
    let _listener = UnixListener::bind(&hangs).unwrap();
    // one that gets no processor for that long is not even connected
    let mute = |error: &CniError| error.msg.contains("does not take questions");
    assert!((0..100).any(|_| mute(&question(&hangs, soon))), "it never connected");
    // until the kernel takes no more connections for it
    let waiting: Vec<_> = std::iter::from_fn(|| connected_at_once(&hangs)).collect();
    let error = question(&hangs, soon);
    assert!(error.msg.contains("is not running"), "{error}, and {} connections wait", waiting.len());

    let greets = |name: &str, greeting: String, then: fn(&mut std::os::unix::net::UnixStream)| {
        let socket = dir.path().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            writeln!(stream, "{greeting}").unwrap();
            then(&mut stream);
            stream
        });
        (socket, thread)
    };
    let ours = serde_json::to_string(&Greeting::ours()).unwrap();
    // holds the connection and says nothing until the plugin has hung up
    let (socket, thread) = greets("silent", ours.clone(), |stream| {
        BufReader::new(stream).lines().for_each(drop);
    });
    assert!(question(&socket, LATE).msg.contains("went away before it answered"));
    thread.join().unwrap();
    let (socket, thread) = greets("newer", r#"{"protocol":99,"agent":"9.0.0"}"#.into(), |_| {});
    let error = question(&socket, LATE);
    assert!(error.msg.contains("9.0.0") && error.details.contains("99"), "{error}");
    thread.join().unwrap();
    let (socket, thread) = greets("nonsense", "no json at all".into(), |_| {});
    question(&socket, LATE);
    thread.join().unwrap();
    let (socket, thread) = greets("half", ours, |stream| {
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        stream.write_all(b"{\"result\":").unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    assert!(question(&socket, LATE).msg.contains("went away before it answered"));
    thread.join().unwrap();
}

#[test]
fn every_misuse_has_the_code_of_the_specification() {
    let dir = tempfile::tempdir().unwrap();
    let good = config(&dir.path().join("absent"));
    let with = |key: &str, value: Value| {
        let mut config = good.clone();
        config[key] = value;
        config.to_string()
    };
    let without = |name: &str| add().into_iter().filter(|(n, _)| *n != name).collect::<Vec<_>>();
    let cases = [
        ("broken JSON", add(), "{".to_owned(), 6),
        ("no input", add(), String::new(), 6),
        ("no command", without("CNI_COMMAND"), good.to_string(), 4),
        ("no container", without("CNI_CONTAINERID"), good.to_string(), 4),
        ("no namespace", without("CNI_NETNS"), good.to_string(), 4),
        ("no interface", without("CNI_IFNAME"), good.to_string(), 4),
        ("no pod", without("CNI_ARGS"), good.to_string(), 4),
        ("an unknown verb", calling("REMOVE"), good.to_string(), 4),
        ("an old version", add(), with("cniVersion", json!("0.3.1")), 1),
        ("a version to come", add(), with("cniVersion", json!("2.0.0")), 1),
        ("a verb newer than the version", calling("GC"), with("cniVersion", json!("1.0.0")), 1),
        ("no name", add(), with("name", json!("")), 7),
        ("CHECK without a result", calling("CHECK"), good.to_string(), 7),
        ("an address manager", add(), with("ipam", json!({ "type": "host-local" })), 2),
        ("a result that is none", add(), with("prevResult", json!(7)), 6),
        ("a socket below what is no directory", add(), with("socket", json!("/dev/null/cni.sock")), 5),
    ];
    for (what, env, input, code) in cases {
        let (printed, success) = plugin(&env, &input);
        assert!(!success, "{what}");
        assert_eq!(printed["code"], code, "{what}: {printed}");
        assert!(printed["msg"].as_str().is_some_and(|msg| !msg.is_empty()), "{what}: {printed}");
        assert!(printed["cniVersion"].is_string(), "{what}: {printed}");
    }
}

#[test]
fn input_that_cannot_be_read_has_the_code_of_the_specification() {
    let directory = std::fs::File::open("/").unwrap();
    let (printed, success) = ended(started(&add(), directory.into()));
    assert!(!success && printed["code"] == 5, "{printed}");
    assert!(printed["msg"].as_str().unwrap().contains("standard input"), "{printed}");
}

#[test]
fn the_versions_are_told_without_an_agent() {
    for input in ["", r#"{"cniVersion":"1.0.0"}"#, r#"{"cniVersion":"9.9.9"}"#] {
        let (printed, success) = plugin(&[("CNI_COMMAND", "VERSION")], input);
        assert!(success, "{printed}");
        assert_eq!(printed["supportedVersions"], json!(["0.4.0", "1.0.0", "1.1.0"]));
    }
}

#[test]
fn an_agent_is_ready_to_its_daemon_set_when_pods_can_be_attached_and_else_not() {
    let file = include_str!("../../../deploy/agent/daemonset.yaml");
    let (_, probe) = file.split_once("readinessProbe:").unwrap();
    let (_, script) = probe.split_once("- >-").unwrap();
    let script =
        script.split("periodSeconds").next().unwrap().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    assert!(script.contains(netferry_cni::protocol::DEFAULT_SOCKET), "where agents listen: {script}");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let script = script.replace(netferry_cni::protocol::DEFAULT_SOCKET, &socket.display().to_string());
    let program = Path::new(env!("CARGO_BIN_EXE_netferry-cni")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", program.display());
    let ready = || {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).env_clear().env("PATH", &path).stdout(Stdio::null());
        shell.status().unwrap().success()
    };
    assert!(!ready(), "no agent");
    for error in [Some(CniError::new(Code::NotAvailable, "no place in the cluster yet")), None] {
        let can = error.is_none();
        let agent = agent(&socket, Answer { result: None, error, spent: Spent::default() });
        assert_eq!(ready(), can);
        assert!(matches!(agent.join().unwrap(), Ask::Status));
        std::fs::remove_file(&socket).unwrap();
    }
}
