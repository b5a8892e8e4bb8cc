//! The specification's own client drives the executable.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use netferry_agent::overlay::pods::{Readiness, conflist};
use netferry_cni::Version;
use serde_json::{Value, json};

use crate::node;
use crate::world::{Sandbox, World};

/// Runs `cnitool` with directories of its own: it keeps results below `/var/lib`, where other runtimes keep theirs.
struct Tool {
    program: PathBuf,
    plugins: OsString,
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

/// What a client does with a pod's sandbox.
struct Driven<'a> {
    tool: Tool,
    sandbox: &'a Sandbox,
}

impl Driven<'_> {
    fn run(&self, verb: &str, netns: &str) -> (bool, String, String) {
        let output = self.tool.run(verb, netns);
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), said)
    }

    fn works(&self, verb: &str) -> String {
        let (success, printed, said) = self.run(verb, &self.sandbox.netns);
        assert!(success, "{verb}: {said}");
        printed
    }

    fn adds(&self) -> Value {
        serde_json::from_str(&self.works("add")).unwrap()
    }

    fn fails(&self, verb: &str, netns: &str, with: &str) {
        let (success, _, said) = self.run(verb, netns);
        assert!(!success && said.contains(with), "{verb}: {said}");
    }
}

/// A client with directories below `dir`, for pod `a`.
fn driven<'a>(dir: &Path, sandbox: &'a Sandbox) -> Driven<'a> {
    let tool = Tool {
        program: cnitool(),
        plugins: std::env::join_paths([plugin().parent().unwrap(), dir]).unwrap(),
        configuration: dir.join("net.d"),
        cache: dir.join("cache"),
        args: sandbox.args.clone(),
    };
    std::fs::create_dir(&tool.cache).unwrap();
    Driven { tool, sandbox }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_client_attaches_checks_collects_and_detaches() {
    let world = World::new().await;
    let uid = world.pod("a").await;
    let sandbox = world.sandbox("a", &uid);
    let dir = tempfile::tempdir().unwrap();
    let client = driven(dir.path(), &sandbox);
    conflist::write(&client.tool.configuration.join("10-netferry.conflist"), &world.socket()).unwrap();

    client.works("status");
    let result = client.adds();
    assert_eq!(result["cniVersion"], "1.1.0", "the newest both know: {result}");
    assert_eq!(result["ips"][0]["address"], "10.244.1.4/24");
    assert_eq!(client.adds(), result);
    client.works("check");
    node::run(&sandbox.kernel, "ip route del default");
    client.fails("check", &sandbox.netns, "the route to 0.0.0.0/0 is gone");
    client.works("del");
    assert!(world.claims("a").is_empty());
    client.works("del");

    client.works("add");
    client.works("gc");
    assert!(world.claims("a").is_empty(), "the client keeps nothing, so nothing stays");
    client.works("gc");

    client.fails("add", "/run/netns/gone", "/run/netns/gone");
    world.readiness.send_replace(Readiness::NotReady("the zone is being set up".into()));
    client.fails("status", &sandbox.netns, "the zone is being set up");
}

/// A neighbour in a chain: writes down what it is asked. It has made an interface with an address, or passes on what
/// others made.
const NEIGHBOUR: &str = r#"#!/bin/sh
asked=$(tr -d '\n')
echo "${0##*/} $CNI_COMMAND $asked" >> "${0%/*}/asked"
[ "$CNI_COMMAND" = ADD ] || exit 0
version=$(echo "$asked" | sed 's/.*"cniVersion":"\([^"]*\)".*/\1/')
case ${0##*/} in
before) echo "{\"cniVersion\":\"$version\",\"interfaces\":[{\"name\":\"first0\",\"sandbox\":\"$CNI_NETNS\"}],
        \"ips\":[{\"version\":\"4\",\"interface\":0,\"address\":\"192.0.2.9/32\"}]}" ;;
behind) echo "$asked" | sed 's/.*"prevResult":\(.*\),"type":"behind".*/\1/' ;;
esac
"#;

/// Who was asked for what.
fn verbs(asked: &[String]) -> Vec<String> {
    asked.iter().map(|line| line.split(" {").next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_every_version_a_pod_is_attached_between_what_other_plugins_do() {
    let world = World::new().await;
    let uid = world.pod("a").await;
    let sandbox = world.sandbox("a", &uid);
    let dir = tempfile::tempdir().unwrap();
    let client = driven(dir.path(), &sandbox);
    std::fs::create_dir(&client.tool.configuration).unwrap();
    for name in ["before", "behind"] {
        let script = dir.path().join(name);
        std::fs::write(&script, NEIGHBOUR).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let asked = || {
        let file = dir.path().join("asked");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(&file, "").unwrap();
        text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    for version in Version::ALL.map(Version::as_str) {
        let list = json!({
            "cniVersion": version,
            "name": conflist::NETWORK,
            "plugins": [
                {"type": "before"},
                {"type": "netferry-cni", "socket": world.socket()},
                {"type": "behind"},
            ],
        });
        let file = client.tool.configuration.join("10-netferry.conflist");
        std::fs::write(file, list.to_string()).unwrap();

        let result = client.adds();
        assert_eq!(result["cniVersion"], version);
        let on =
            |ip: &Value| result["interfaces"][ip["interface"].as_u64().unwrap() as usize]["name"].clone();
        let ips = result["ips"].as_array().unwrap();
        let found: Vec<_> = ips.iter().map(|ip| (ip["address"].as_str().unwrap(), on(ip))).collect();
        assert_eq!(found[0], ("192.0.2.9/32", json!("first0")), "{version}: {result}");
        assert_eq!(found[1], ("10.244.1.4/24", json!("eth0")), "{version}: {result}");
        let last = asked().pop().unwrap();
        assert!(last.starts_with("behind ADD") && last.contains("10.244.1.4/24"), "{version}: {last}");

        client.works("check");
        node::run(&sandbox.kernel, "ip address del 10.244.1.4/24 dev eth0");
        client.fails("check", &sandbox.netns, "10.244.1.4/24");
        // One that fails ends the chain.
        assert_eq!(verbs(&asked()), ["before CHECK", "behind CHECK", "before CHECK"], "{version}");

        client.works("del");
        assert!(world.claims("a").is_empty(), "{version}");
        assert_eq!(verbs(&asked()), ["behind DEL", "before DEL"], "{version}");
        client.works("add");
        client.works("gc");
        assert!(world.claims("a").is_empty(), "{version}: nothing that is not kept stays");
        let collected = asked().iter().any(|line| line.starts_with("behind GC"));
        assert_eq!(collected, version == Version::V1_1.as_str(), "{version}");
    }
}
