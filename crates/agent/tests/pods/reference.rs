//! The specification's own client drives the executable.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use netferry_agent::pods::{Readiness, conflist};
use serde_json::Value;

use crate::node;
use crate::world::{NAMESPACE, World};

/// Runs `cnitool` with directories of its own: it keeps results below `/var/lib`, where other runtimes keep theirs.
struct Tool {
    program: PathBuf,
    plugins: PathBuf,
    configuration: PathBuf,
    cache: PathBuf,
    args: String,
}

impl Tool {
    fn run(&self, verb: &str, netns: &str) -> Output {
        let script = r#"mount -t tmpfs none /var/lib && mkdir /var/lib/cni && mount --bind "$1" /var/lib/cni && shift && exec "$@""#;
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&self.cache)
            .arg(&self.program)
            .args([verb, conflist::NETWORK, netns])
            .env("CNI_PATH", &self.plugins)
            .env("NETCONFPATH", &self.configuration)
            .env("CNI_ARGS", &self.args)
            .output()
            .unwrap()
    }
}

/// Where `scripts/cnitool` or the environment says it is.
fn cnitool() -> PathBuf {
    if let Some(assets) = std::env::var_os("NETFERRY_KUBE_ASSETS") {
        let tool = Path::new(&assets).join("cnitool");
        if tool.is_file() {
            return tool;
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cnitool");
    let output = Command::new(&script).output().unwrap();
    assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    Path::new(String::from_utf8(output.stdout).unwrap().trim()).join("cnitool")
}

/// The executable under test, built as it is now.
fn plugin() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--package",
            "netferry-cni",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages = String::from_utf8(built.stdout).unwrap();
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    };
    messages.lines().filter_map(executable).next_back().expect("cargo says where it built it")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_client_attaches_checks_collects_and_detaches() {
    let world = World::new().await;
    let uid = world.pod("a").await;
    let sandbox = world.sandbox("a", &uid);
    let dir = tempfile::tempdir().unwrap();
    let tool = Tool {
        program: cnitool(),
        plugins: plugin().parent().unwrap().to_owned(),
        configuration: dir.path().join("net.d"),
        cache: dir.path().join("cache"),
        args: format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={NAMESPACE};K8S_POD_NAME=a;K8S_POD_UID={uid}"),
    };
    std::fs::create_dir(&tool.cache).unwrap();
    conflist::write(&tool.configuration.join("10-netferry.conflist"), &world.socket()).unwrap();
    let run = |verb: &str, netns: &str| {
        let output = tool.run(verb, netns);
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let works = |verb: &str| {
        let (success, printed, said) = run(verb, &sandbox.netns);
        assert!(success, "{verb}: {said}");
        printed
    };
    let fails = |verb: &str, netns: &str, with: &str| {
        let (success, _, said) = run(verb, netns);
        assert!(!success && said.contains(with), "{verb}: {said}");
    };

    works("status");
    let result: Value = serde_json::from_str(&works("add")).unwrap();
    assert_eq!(result["cniVersion"], "1.1.0", "the newest both know: {result}");
    assert_eq!(result["ips"][0]["address"], "10.244.1.4/24");
    let again: Value = serde_json::from_str(&works("add")).unwrap();
    assert_eq!(again, result);
    works("check");
    node::run(&sandbox.kernel, "ip route del default");
    fails("check", &sandbox.netns, "the route to 0.0.0.0/0 is gone");
    works("del");
    assert!(world.claims("a").is_empty());
    works("del");

    works("add");
    works("gc");
    assert!(world.claims("a").is_empty(), "the client keeps nothing, so nothing stays");
    works("gc");

    fails("add", "/run/netns/gone", "/run/netns/gone");
    world.readiness.send_replace(Readiness::NotReady("the zone is being set up".into()));
    fails("status", &sandbox.netns, "the zone is being set up");
}
