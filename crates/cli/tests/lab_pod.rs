//! The pod program as a process: in a network namespace of its own, asked by itself.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use netferry_kernel::Namespace;
use netferry_lab::programs::probe::{Outcome, Silence};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const NETFERRY: &str = env!("CARGO_BIN_EXE_netferry");

/// A pod in a namespace of its own; both end with the test, also when it panics.
struct Pod {
    child: Child,
    out: BufReader<ChildStdout>,
    namespace: Namespace,
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pod {
    fn start(args: &[&str]) -> Pod {
        // The kernel has an IPv6 address at once and makes the route to it later; packets between the two are lost.
        let up = "ip link set lo up; ip addr add 127.0.0.2/8 dev lo; ip addr add fd00::2/128 dev lo nodad; \
                  until ip -6 route show table local fd00::2 | grep -q lo; do sleep 0.01; done; exec \"$@\"";
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-ec", up, "pod", NETFERRY, "lab-pod", "--name", "alpha"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "serving\n");
        Pod { out, namespace: Namespace::of_process(child.id()).unwrap(), child }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.child.id()))
            .arg(NETFERRY)
            .args(["lab-pod", "probe"])
            .args(args);
        command
    }

    fn probe_lines(&self, probes: &str) -> Vec<Outcome> {
        let mut child = self.command(&["-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(probes.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success());
        let lines = std::str::from_utf8(&out.stdout).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn get(&self, path: &str) -> String {
        let connect = || TcpStream::connect("127.0.0.1:80").unwrap();
        let mut stream = self.namespace.run(connect).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }
}

#[test]
fn a_pod_says_who_it_is_and_whom_it_sees_by_both_protocols_and_families() {
    let pod = Pod::start(&["--port", "80"]);
    let mut probes = String::new();
    for protocol in ["tcp", "udp"] {
        for (from, to) in [("127.0.0.2", "127.0.0.1:80"), ("fd00::2", "[::1]:80")] {
            let probe = serde_json::json!({"id": format!("{protocol} {to}"), "protocol": protocol, "to": to, "from": from});
            probes.push_str(&format!("{probe}\n"));
        }
    }
    let outcomes = pod.probe_lines(&probes);
    assert_eq!(outcomes.len(), 4);
    for outcome in outcomes {
        let answer = outcome.answer.clone().unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!(answer.name, "alpha");
        assert_eq!(answer.local, outcome.to);
        let from = if outcome.to.is_ipv4() { "127.0.0.2" } else { "fd00::2" };
        assert_eq!(answer.peer.ip().to_string(), from, "{}", outcome.id);
    }
}

#[test]
fn datagrams_are_answered_from_the_address_they_were_sent_to() {
    let pod = Pod::start(&["--udp", "5353", "--port", "80"]);
    for to in ["127.0.0.2:5353", "[fd00::2]:5353"] {
        let to: SocketAddr = to.parse().unwrap();
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = pod.namespace.run(|| UdpSocket::bind(any).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let said = vec![7; 1200];
        socket.send_to(&said, to).unwrap();
        let mut heard = vec![0; 2000];
        let (length, from) = socket.recv_from(&mut heard).unwrap();
        assert_eq!((from, &heard[..length]), (to, said.as_slice()));
    }
}

#[test]
fn whatever_is_no_request_is_echoed_as_it_comes() {
    let pod = Pod::start(&["--tcp", "7", "--port", "80"]);
    let mut stream = pod.namespace.run(|| TcpStream::connect("127.0.0.1:7").unwrap()).unwrap();
    let said: Vec<u8> = (0..=255).cycle().skip(1).take(1 << 20).collect();
    let mut reader = stream.try_clone().unwrap();
    let heard = std::thread::spawn(move || {
        let mut heard = vec![0; 1 << 20];
        reader.read_exact(&mut heard).unwrap();
        heard
    });
    stream.write_all(&said).unwrap();
    assert!(heard.join().unwrap() == said, "the echo differs from what was said");
}

#[test]
fn a_pod_told_to_end_is_not_ready_and_serves_until_it_has_lingered() {
    let mut pod = Pod::start(&["--port", "80", "--linger", "60s"]);
    assert!(pod.get("/readyz").starts_with("HTTP/1.0 200 "));
    pod.signal(Signal::SIGTERM);
    // The signal is read in the same loop as the connection, but after it if both are there.
    while pod.get("/readyz").starts_with("HTTP/1.0 200 ") {}
    assert!(pod.get("/readyz").starts_with("HTTP/1.0 503 "));
    assert!(pod.get("/who").contains("\"ready\":false"));
    assert!(pod.get("/healthz").starts_with("HTTP/1.0 200 "));
    assert!(pod.child.try_wait().unwrap().is_none(), "it ended before it had lingered");
    pod.signal(Signal::SIGINT);
    assert!(pod.child.wait().unwrap().success());

    let mut brief = Pod::start(&["--port", "80"]);
    brief.signal(Signal::SIGTERM);
    assert!(brief.child.wait().unwrap().success());
    let mut rest = String::new();
    brief.out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_probe_tells_refused_from_silent_and_a_stranger_from_a_pod() {
    let pod = Pod::start(&["--port", "80"]);
    let stranger = pod.namespace.run(|| std::net::TcpListener::bind("127.0.0.1:81").unwrap()).unwrap();
    let answering = std::thread::spawn(move || {
        let mut stream = stranger.accept().unwrap().0;
        // Closing with the request unread would be a reset.
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        stream.write_all(b"SSH-2.0\r\n").unwrap();
    });
    // Nobody reads from this one.
    let silent = pod.namespace.run(|| UdpSocket::bind("127.0.0.1:82").unwrap()).unwrap();
    let outcomes = pod.probe_lines(
        "{\"protocol\":\"tcp\",\"to\":\"127.0.0.1:9\"}\n{\"protocol\":\"udp\",\"to\":\"127.0.0.1:9\"}\n\
         {\"protocol\":\"tcp\",\"to\":\"127.0.0.1:81\"}\n{\"protocol\":\"udp\",\"to\":\"127.0.0.1:82\",\"timeoutMs\":300}\n\
         {\"protocol\":\"tcp\",\"to\":\"192.0.2.1:80\"}\n{\"protocol\":\"tcp\",\"to\":\"127.0.0.1:80\"}\n",
    );
    answering.join().unwrap();
    drop(silent);
    let silences: Vec<Option<Silence>> = outcomes.iter().map(|outcome| outcome.silence).collect();
    let expected = [
        Some(Silence::Refused),
        Some(Silence::Refused),
        Some(Silence::Nonsense),
        Some(Silence::Timeout),
        Some(Silence::Unreachable),
        None,
    ];
    assert_eq!(silences, expected);
}

#[test]
fn one_probe_ends_with_an_exit_code_and_a_sentence() {
    let pod = Pod::start(&["--port", "80"]);
    let out = pod.command(&["127.0.0.1:80"]).output().unwrap();
    assert!(out.status.success());
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.starts_with("127.0.0.1:80: alpha answered, seen from 127.0.0.1:"), "{said}");

    let out = pod.command(&["--udp", "127.0.0.1:9"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8(out.stderr).unwrap().contains("127.0.0.1:9: refused"));

    let out = pod.command(&["nowhere"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let pod = Pod::start(&["--port", "80"]);
    let second = Command::new("nsenter")
        .arg(format!("--net=/proc/{}/ns/net", pod.child.id()))
        .args([NETFERRY, "lab-pod", "--port", "80"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("listening on TCP port 80"), "{said}");
}
