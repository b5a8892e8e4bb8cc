//! The real binary, as a shell sees it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn netferry(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(args)
        .env_remove("KUBECONFIG")
        .output()
        .expect("the binary under test runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("output is text")
}

const COMMANDS: [&str; 13] = [
    "doctor",
    "lab",
    "demo",
    "mtu",
    "agent",
    "operator",
    "solo",
    "apiserver",
    "host-init",
    "crds",
    "version",
    "completions",
    "man",
];

#[test]
fn help_names_every_command_and_every_exit_code() {
    let output = netferry(&["--help"]);
    let help = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command}")), "{command} is not in:\n{help}");
    }
    for code in ["0  done", "1  failed", "2  the command line", "3  refused", "4  timed out"] {
        assert!(help.contains(code), "{code} is not in:\n{help}");
    }
}

#[test]
fn help_of_every_command_shows_an_example() {
    for command in COMMANDS {
        let output = netferry(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(stdout(&output).contains(&format!("netferry {command}")), "{}", stdout(&output));
        assert!(stdout(&output).contains("Examples:"), "{}", stdout(&output));
    }
}

#[test]
fn a_wrong_command_line_exits_with_2_and_prints_nothing_to_standard_output() {
    let wrong: [&[&str]; 6] = [
        &[],
        &["frobnicate"],
        &["doctor", "--frobnicate"],
        &["version", "-o", "xml"],
        &["completions", "tcl"],
        &["completions"],
    ];
    for args in wrong {
        let output = netferry(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_failure_is_one_line_that_names_the_attempt_and_the_cause() {
    let output = netferry(&["man", "--dir", "/proc/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("error: making the directory /proc/nowhere: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn bash_parses_its_completion_script() {
    let script = netferry(&["completions", "bash"]);
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash runs");
    bash.stdin.take().expect("a pipe").write_all(&script.stdout).expect("bash reads");
    let checked = bash.wait_with_output().expect("bash ends");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&netferry(&["completions", shell]));
        for command in COMMANDS {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_every_command_and_its_markup_is_sound() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let output = netferry(&["man", "--dir", dir.path().to_str().expect("a plain path")]);
    assert!(output.status.success());
    let pages = COMMANDS.iter().map(|c| format!("netferry-{c}.1")).chain(["netferry.1".to_owned()]);
    for page in pages {
        let text = std::fs::read_to_string(dir.path().join(&page)).expect("the page is there");
        assert!(text.lines().any(|l| l.starts_with(".TH ")), "{page} has no title");
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page} lacks a section");
    }
    assert!(stdout(&netferry(&["man"])).contains(".SH NAME"));
}

#[test]
fn version_says_the_same_in_every_format() {
    let json: serde_json::Value =
        serde_json::from_slice(&netferry(&["version", "-o", "json"]).stdout).expect("JSON");
    let yaml: serde_json::Value =
        serde_saphyr::from_str(&stdout(&netferry(&["version", "-o", "yaml"]))).expect("YAML");
    assert_eq!(json, yaml);
    assert_eq!(json["netferry"], env!("CARGO_PKG_VERSION"));
    assert!(stdout(&netferry(&["version"])).contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn doctor_names_everything_it_looks_at_and_exits_by_what_is_missing() {
    let output = netferry(&["doctor", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let names: Vec<&str> = checks.iter().filter_map(|c| c["name"].as_str()).collect();
    for expected in [
        "CAP_NET_ADMIN",
        "CAP_SYS_ADMIN",
        "openvswitch-switch",
        "ovn-central",
        "ovn-host",
        "iproute2",
        "nftables",
        "ethtool",
        "tcpdump",
        "ovs",
        "ovn",
        "namespaces",
        "veth",
        "bridge",
        "tun",
        "conntrack",
        "policy-routing",
        "openvswitch",
        "geneve",
        "vxlan",
        "macvlan",
        "vlan",
        "bond",
        "dummy",
        "vrf",
        "netem",
        "ovn-controller.service",
        "ovn-central.service",
    ] {
        assert!(names.contains(&expected), "{expected} is not in {names:?}");
    }
    let missing = checks.iter().filter(|c| c["level"] == "missing").count();
    assert_eq!(output.status.code(), Some(i32::from(missing > 0)));
    assert_eq!(report["summary"]["missing"], missing);
}

#[test]
fn colour_is_for_terminals_only() {
    assert!(!stdout(&netferry(&["doctor"])).contains('\x1b'));
}

#[test]
fn a_reader_that_has_seen_enough_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netferry"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

fn kubeconfig_for(dir: &tempfile::TempDir, server: &str) -> String {
    let path = dir.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster: {{server: '{server}'}}\n\
         users:\n- name: u\n  user: {{}}\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n"
    );
    std::fs::write(&path, text).expect("a kubeconfig");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn a_cluster_that_never_answers_exits_with_4() {
    // Bound but never accepted: the connection stands, the answer does not come.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let address = silent.local_addr().expect("an address");
    let kubeconfig = kubeconfig_for(&dir, &format!("http://{address}"));
    let output = netferry(&["version", "--server", "--timeout", "1", "--kubeconfig", &kubeconfig]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: asking the cluster for its version: no answer within 1 s\n"
    );
}

#[test]
fn a_context_the_kubeconfig_lacks_is_named_in_the_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let kubeconfig = kubeconfig_for(&dir, "http://127.0.0.1:1");
    let output = netferry(&["version", "--server", "--kubeconfig", &kubeconfig, "--context", "elsewhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("elsewhere"));
}

#[test]
fn the_documentation_names_every_command_and_every_exit_code() {
    let page = include_str!("../../../docs/cli.md");
    for command in COMMANDS {
        assert!(page.contains(&format!("`netferry {command}`")), "docs/cli.md does not name {command}");
    }
    for code in 0..=4 {
        assert!(page.contains(&format!("| {code} |")), "docs/cli.md does not explain exit code {code}");
    }
}

#[test]
fn the_printed_definitions_are_one_stream_of_crds() {
    let text = stdout(&netferry(&["crds"]));
    let documents: Vec<&str> = text.split("---\n").filter(|d| !d.trim().is_empty()).collect();
    assert!(documents.len() >= 12, "{} definitions", documents.len());
    for document in documents {
        let crd: serde_json::Value = serde_saphyr::from_str(document).expect("YAML");
        assert_eq!(crd["kind"], "CustomResourceDefinition");
        assert_eq!(crd["apiVersion"], "apiextensions.k8s.io/v1");
    }
}

#[test]
fn definitions_written_to_a_directory_are_one_file_each_named_after_the_crd() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let crds = dir.path().join("new/crds");
    assert!(netferry(&["crds", "--dir", crds.to_str().expect("a plain path")]).status.success());
    let files: Vec<_> = std::fs::read_dir(&crds).expect("the directory is made").flatten().collect();
    assert!(files.len() >= 12);
    for file in files {
        let text = std::fs::read_to_string(file.path()).expect("the file is text");
        let crd: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
        let name = crd["metadata"]["name"].as_str().expect("a name");
        assert_eq!(file.file_name().to_str(), Some(format!("{name}.yaml").as_str()));
    }
}

#[test]
fn every_promise_names_a_test_that_exists() {
    fn sources(dir: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|e| e == "rs") {
                text.push_str(&std::fs::read_to_string(path).expect("source is text"));
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = String::new();
    sources(&root.join("crates"), &mut text);
    let promises = std::fs::read_to_string(root.join("PROMISES.md")).expect("the promises");
    let rows = promises.lines().filter(|l| l.starts_with("| ") && l.ends_with("` |"));
    let mut checked = 0;
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
        for test in tests.split(", ").map(|test| test.trim_matches('`')) {
            assert!(text.contains(&format!("fn {test}(")), "no test is called {test}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} promises found");
}

#[test]
fn kubectl_runs_it_under_the_name_of_a_plugin_and_ends_as_it_does() {
    let kubectl = netferry_testkit::assets().expect("the real programs").join("kubectl");
    let path = tempfile::tempdir().expect("a directory");
    let plugin = path.path().join("kubectl-netferry");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_netferry"), plugin).expect("a link");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&kubectl);
        command.arg("netferry").args(arguments).env("PATH", path.path()).env_remove("KUBECONFIG");
        command.output().expect("kubectl runs")
    };
    for arguments in
        [&["version", "--output", "json"][..], &["mtu", "status", "--help"], &["no-such-command"]]
    {
        let (through_kubectl, alone) = (run(arguments), netferry(arguments));
        assert_eq!(through_kubectl.status.code(), alone.status.code(), "{arguments:?}");
        // Usage names the program as it was called.
        let renamed = stdout(&through_kubectl).replace("kubectl-netferry", "netferry");
        assert_eq!(renamed, stdout(&alone), "{arguments:?}");
    }
}
