//! `netferry host-init` as a boot sees it: in a namespace of its own, with an Open vSwitch of its own.

use std::process::{Child, ChildStdin, Command, Output, Stdio};

use netferry_kernel::Namespace;

/// A daemon that ends with the test, even if that is killed.
struct Daemon(Child, Option<ChildStdin>);

impl Daemon {
    fn start(namespace: &Namespace, words: &[&str]) -> Daemon {
        let script = r#""$@" </dev/null >/dev/null 2>&1 & read _; kill -9 $!; wait"#;
        let mut shell = namespace
            .run(|| Command::new("sh").args(["-c", script, "sh"]).args(words).stdin(Stdio::piped()).spawn())
            .expect("the namespace is there")
            .expect("sh starts");
        let leash = shell.stdin.take();
        Daemon(shell, leash)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.1.take());
        let _ = self.0.wait();
    }
}

fn run(namespace: &Namespace, program: &str, args: &[&str]) -> Output {
    namespace
        .run(|| Command::new(program).args(args).output())
        .expect("these tests need root to make namespaces")
        .expect("the program runs")
}

fn must(namespace: &Namespace, line: &str) -> String {
    let output = run(namespace, "sh", &["-c", line]);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn netferry(namespace: &Namespace, args: &[&str]) -> (Option<i32>, String, String) {
    let output = run(namespace, env!("CARGO_BIN_EXE_netferry"), args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_host_without_a_switch_is_left_alone_and_told_what_is_missing() {
    let namespace = Namespace::anonymous().expect("root");
    let dir = tempfile::tempdir().expect("a directory");
    let (database, run_dir) = (format!("unix:{}/db.sock", dir.path().display()), dir.path().join("run"));
    let (root, run) = (dir.path().to_str().expect("plain"), run_dir.to_str().expect("plain"));
    let flags = ["--ovsdb", &database, "--run-dir", run, "--root", root, "--timeout", "1"];
    let (code, out, error) =
        netferry(&namespace, &[&["host-init", "--datapath", "userspace"][..], &flags].concat());
    assert_eq!((code, out.as_str()), (Some(4), ""), "{error}");
    assert!(error.contains("is the openvswitch-switch service running?"), "{error}");
    assert!(!run_dir.join("host-init.json").exists(), "nothing was prepared");
    let (code, ..) = netferry(&namespace, &["host-init", "--uplink", "a name that is none"]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_boot_ends_with_the_uplinks_address_on_the_bridge_and_says_so() {
    let namespace = Namespace::anonymous().expect("root");
    let dir = tempfile::tempdir().expect("a directory");
    let at = |file: &str| dir.path().join(file).display().to_string();
    let schema = "/usr/share/openvswitch/vswitch.ovsschema";
    must(&namespace, &format!("ovsdb-tool create {} {schema}", at("conf.db")));
    let sockets = [format!("--remote=punix:{}", at("db.sock")), format!("--unixctl={}", at("db.ctl"))];
    let _database = Daemon::start(&namespace, &["ovsdb-server", &at("conf.db"), &sockets[0], &sockets[1]]);
    let wait =
        format!("for i in $(seq 600); do test -S {0} && exit 0; sleep 0.05; done; exit 1", at("db.sock"));
    must(&namespace, &wait);
    let (remote, control) = (format!("unix:{}", at("db.sock")), format!("--unixctl={}", at("switch.ctl")));
    must(&namespace, &format!("ovs-vsctl --db={remote} --no-wait init"));
    must(&namespace, "ip link add eth0 type veth peer name far; ip link set eth0 up; ip link set far up");
    let flags = ["--ovsdb", &remote, "--run-dir", &at("run"), "--root", &at(""), "--datapath", "userspace"];
    let init = |more: &[&str]| netferry(&namespace, &[&["host-init"], more, &flags].concat());

    let (code, out, error) = init(&[]);
    assert_eq!((code, out.as_str()), (Some(3), ""), "{error}");
    assert!(error.contains("--uplink"), "{error}");

    must(&namespace, "ip addr add 192.0.2.1/24 dev eth0");
    let _switch = Daemon::start(
        &namespace,
        &["env", &format!("OVS_RUNDIR={}", at("")), "ovs-vswitchd", &remote, &control],
    );
    let (code, out, error) = init(&["-o", "json"]);
    assert_eq!(code, Some(0), "{error}");
    let record: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(record["datapath"], "userspace");
    assert_eq!(record["bridge"]["uplink"], "eth0");
    assert_eq!(record["bridge"]["addresses"][0], "192.0.2.1/24");
    assert!(must(&namespace, "ip -o -4 addr show dev br-ex").contains("192.0.2.1/24"));
    let written = std::fs::read_to_string(at("run/host-init.json")).expect("it is written down");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&written).expect("JSON"), record);
    let (code, _, error) = init(&["--uplink", "far"]);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("br-ex stands on link eth0"), "{error}");

    let (code, _, error) = netferry(
        &namespace,
        &["host-init", "--undo", "--ovsdb", &remote, "--run-dir", &at("run"), "--root", &at("")],
    );
    assert_eq!(code, Some(0), "{error}");
    assert!(must(&namespace, "ip -o -4 addr show dev eth0").contains("192.0.2.1/24"));
}

#[test]
fn units_put_back_after_a_loss_of_power_are_read_again_by_whoever_had_read_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |path: &str| dir.path().join(path);
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(at(path).parent().expect("a directory")).expect("made");
        std::fs::write(at(path), text).expect("written");
    };
    write("bin/systemctl", "#!/bin/sh\necho \"$*\" >> \"$0.told\"\n");
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(at("bin/systemctl"), runs).expect("set");
    std::fs::create_dir_all(at("run/systemd/system")).expect("made");
    let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap_or_default());
    let boot = || {
        let mut netferry = Command::new(env!("CARGO_BIN_EXE_netferry"));
        netferry
            .args(["host-init", "--files", "--root"])
            .arg(dir.path())
            .arg("--run-dir")
            .arg(at("netferry"));
        let done = netferry.env("PATH", &path).output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read_to_string(at("bin/systemctl.told")).unwrap_or_default()
    };
    assert_eq!(boot(), "", "nothing was cut off");
    write(
        "var/lib/netferry/machine/intent",
        "netferry intent 1\nto new\nnew /etc/systemd/system/x.service\n",
    );
    write("etc/systemd/system/x.service", "[Service]\n");
    assert_eq!(boot(), "daemon-reload\n");
    assert!(!at("etc/systemd/system/x.service").exists());
}
