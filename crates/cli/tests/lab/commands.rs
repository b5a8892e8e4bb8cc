//! `netferry lab` as it is typed: what each command prints, and how it ends.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use netferry_lab::{Lab, Name, Options};
use serde_json::{Value, json};

use crate::bench::options;
use crate::footprint::Footprint;

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    code: Option<i32>,
    pub(crate) out: String,
    pub(crate) errors: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A lab that is spoken to by commands.
pub(crate) struct Typed(pub(crate) Name);

impl Typed {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netferry"));
        command.args(["lab", "--name", self.0.as_str()]).args(arguments).env("SHELL", "sh");
        command
    }

    /// Types it; it must end with this code.
    pub(crate) fn ends(&self, code: i32, arguments: &[&str]) -> Ended {
        self.ends_given(code, arguments, "")
    }

    fn ends_given(&self, code: i32, arguments: &[&str], input: &str) -> Ended {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("netferry runs");
        // One that reads nothing may have ended.
        let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("netferry ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let ended =
            Ended { code: output.status.code(), out: text(output.stdout), errors: text(output.stderr) };
        assert_eq!(ended.code, Some(code), "netferry lab {arguments:?}: {ended:?}");
        ended
    }

    fn status(&self) -> Value {
        self.ends(0, &["status", "-o", "json"]).json()
    }

    /// Takes the lab down when our end of a pipe closes: however this test ends.
    fn guard(&self) -> Guard {
        let down = self.command(&["down"]);
        let guard = Command::new("sh")
            .args(["-c", r#"read _; exec "$@""#, "sh"])
            .arg(down.get_program())
            .args(down.get_args())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Guard(guard.expect("sh runs"))
    }
}

struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_lab_is_run_by_commands_alone() {
    let typed = Typed(options(2).name);
    let absent = typed.ends(3, &["status"]);
    assert!(absent.errors.contains("netferry lab up"), "{absent:?}");
    let _guard = typed.guard();
    let up = typed.ends(0, &["up", "--bare", "--nodes", "2", "--networks", "1", "-o", "json"]);
    assert_eq!((&up.json()["ready"], &up.json()["faults"]), (&json!(true), &json!([])), "{up:?}");
    assert!(up.errors.contains("is ready after"), "{up:?}");
    let again = typed.ends(3, &["up"]);
    assert!(again.errors.contains("netferry lab down"), "{again:?}");

    asked(&typed);
    entered(&typed);
    read(&typed);
    harmed(&typed);
    booted(&typed);

    let lab = Lab::attach(Options::ROOT.as_ref(), &typed.0).expect("it runs");
    let made = Footprint::of(&lab);
    assert!(typed.ends(0, &["down"]).errors.contains("is down"));
    assert_eq!(made.left(), Vec::<String>::new());
    assert!(typed.ends(0, &["down"]).errors.contains("was not there"));
}

fn asked(typed: &Typed) {
    let nodes = &typed.status()["nodes"];
    assert_eq!((&nodes[0]["name"], &nodes[1]["stage"]), (&json!("node-1"), &json!("not-ready")), "{nodes}");
    assert!(typed.ends(0, &["status", "-o", "yaml"]).out.contains("ready: true"));
    let table = typed.ends(0, &["status"]).out;
    assert!(table.contains(": ready") && table.contains("node-2  not ready"), "{table}");

    let env = typed.ends(0, &["env"]).out;
    let script = format!("{env}\nkubectl get nodes -o name");
    let listed = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "node/node-1\nnode/node-2\n", "{listed:?}");
}

fn entered(typed: &Typed) {
    assert_eq!(typed.ends(0, &["exec", "node-2", "--", "hostname"]).out, "node-2\n");
    assert_eq!(typed.ends_given(0, &["exec", "outside", "--", "cat"], "passed on").out, "passed on");
    typed.ends(7, &["exec", "node-1", "--", "sh", "-c", "exit 7"]);
    typed.ends(128 + 9, &["exec", "node-1", "--", "sh", "-c", "kill -9 $$"]);
    typed.ends(2, &["exec", "node-1"]);
    let nobody = typed.ends(3, &["exec", "node-9", "--", "true"]);
    assert!(nobody.errors.contains("node-9") && nobody.errors.contains("netferry lab status"), "{nobody:?}");

    assert_eq!(typed.ends_given(5, &["shell", "node-1"], "hostname; exit 5").out, "node-1\n");
    let here = typed.ends_given(6, &["shell"], "kubectl get node node-1 -o name; exit 6");
    assert_eq!(here.out, "node/node-1\n");
}

fn read(typed: &Typed) {
    let listed = typed.ends(0, &["logs"]).out;
    let path = |name: &str| {
        let named = listed.lines().filter_map(|line| line.split_once('\t')).find(|(log, _)| *log == name);
        named.unwrap_or_else(|| panic!("no log of {name} in {listed}")).1.to_owned()
    };
    let shown = |arguments: &[&str], log: &str| {
        let shown = typed.ends(0, &[&["logs"], arguments].concat()).out;
        let file = std::fs::read_to_string(path(log)).expect("a log");
        assert!(!shown.is_empty() && file.starts_with(&shown), "{arguments:?}: {shown}");
    };
    shown(&["apiserver"], "apiserver");
    shown(&["node-2", "vswitchd"], "node-2 openvswitch/ovs-vswitchd");
    let of_node = typed.ends(0, &["logs", "node-1"]).out;
    assert!(of_node.lines().count() > 1 && of_node.lines().all(|l| l.starts_with("node-1 ")), "{of_node}");
    for nothing in [&["node-9"][..], &["node-1", "nothing"]] {
        let none = typed.ends(3, &[&["logs"], nothing].concat());
        assert!(none.errors.contains("netferry lab logs"), "{none:?}");
    }
}

fn harmed(typed: &Typed) {
    let faults = || typed.status()["faults"].clone();
    let said = typed.ends(0, &["cut", "node-1", "node-2"]).errors;
    assert!(said.contains("node-1 and node-2") && said.contains("netferry lab heal"), "{said}");
    let parted = json!({"fault": "part", "a": "node-1", "b": "node-2", "network": 0});
    assert_eq!(faults(), json!([parted]));
    assert!(typed.ends(0, &["status"]).out.contains("fault: node-1 and node-2 do not hear each other"));
    typed.ends(0, &["lose", "0.5", "node-1", "node-2"]);
    let lost =
        json!({"fault": "lose", "end": "node-1", "peer": "node-2", "network": 0, "of_a_million": 5000});
    assert_eq!(faults(), json!([parted, lost]));
    typed.ends(0, &["heal", "node-2", "node-1"]);
    assert_eq!(faults(), json!([]), "whatever was wrong between the two");
    assert!(typed.ends(3, &["heal", "node-1", "node-2"]).errors.contains("nothing to heal"));

    typed.ends(0, &["cut", "node-2", "--network", "1"]);
    typed.ends(0, &["cut", "api"]);
    typed.ends(0, &["lose", "100", "outside"]);
    let all = faults();
    assert_eq!(all[0], json!({"fault": "cut", "end": "node-2", "network": 1}));
    typed.ends(0, &["heal", "api"]);
    assert_eq!(faults(), json!([all[0], all[2]]));
    typed.ends(0, &["heal"]);
    assert_eq!(faults(), json!([]));

    for refused in [&["cut", "node-9"][..], &["cut", "node-1", "--network", "4"], &["lose", "1", "node-9"]] {
        typed.ends(3, refused);
    }
    for wrong in [&["cut"][..], &["lose", "0", "node-1"], &["lose", "101", "node-1"]] {
        typed.ends(2, wrong);
    }
    assert_eq!(faults(), json!([]));
}

fn booted(typed: &Typed) {
    // Without the API a node never gets as far as it shall.
    typed.ends(0, &["cut", "node-2", "api"]);
    let late = typed.ends(4, &["reboot", "node-2", "--wait", "4"]);
    assert!(late.errors.contains("\nwaiting for node-2 ("), "it says what it waits for: {late:?}");
    typed.ends(0, &["heal"]);
    typed.ends(0, &["power-cut", "node-2"]);
    let node = &typed.status()["nodes"][1];
    assert_eq!((&node["stage"], &node["boots"]), (&json!("not-ready"), &json!(3)), "{node}");

    typed.ends(0, &["power-cut", "node-2", "--off"]);
    assert_eq!(typed.status()["nodes"][1]["stage"], "off");
    let off = typed.ends(3, &["exec", "node-2", "--", "true"]);
    assert!(off.errors.contains("netferry lab reboot node-2"), "{off:?}");
    typed.ends(0, &["reboot", "node-2", "--wait", "0"]);

    typed.ends(0, &["add-node", "edge", "--pool", "far", "--label", "zone=b", "--role", "control-plane"]);
    let status = typed.status();
    assert_eq!(status["ready"], true, "both that boot were waited for: {status}");
    assert_eq!((&status["nodes"][2]["name"], &status["nodes"][2]["pool"]), (&json!("edge"), &json!("far")));
    typed.ends(3, &["add-node", "edge"]);
    typed.ends(2, &["add-node", "--label", "zone"]);
    typed.ends(0, &["remove-node", "edge"]);
    typed.ends(3, &["remove-node", "edge"]);
    for gone in ["reboot", "power-cut"] {
        typed.ends(3, &[gone, "edge"]);
    }
    assert_eq!(typed.status()["nodes"].as_array().map(Vec::len), Some(2));
}

/// The meter, as it is typed in a lab with a pod network; the path between the first two nodes is harmed and healed.
pub(crate) fn metered(lab: &Lab) {
    let typed = Typed(lab.status().expect("a status").name);
    let meter = |code: i32, more: &[&str]| {
        let few = ["meter", "--for", "3s", "--rate", "10", "--kinds", "pod-pod-across", "--protocols", "udp"];
        typed.ends(code, &[&few, more].concat())
    };
    // How much a busy machine loses is not the question here.
    let clean = meter(0, &["--allow-lost", "1000000", "--keep", "--draw", "-o", "json"]);
    let report = clean.json();
    assert_eq!(report["verdict"], json!({"passed": true, "problems": []}), "{report}");
    let flow = &report["flows"][0];
    assert_eq!((&flow["kind"], &flow["family"]), (&json!("pod-pod-across"), &json!(4)), "{flow}");
    assert!(flow["forward"]["largestPassed"].as_u64() >= Some(1400), "{flow}");
    assert!(clean.errors.contains("node-1"), "it is drawn: {clean:?}");
    typed.ends(0, &["lose", "50", "node-1", "node-2"]);
    let lossy = meter(1, &["--keep"]);
    assert!(lossy.errors.contains(" lost") && lossy.out.contains("longest gap"), "{lossy:?}");
    typed.ends(0, &["heal"]);
    meter(3, &["--families", "6"]);
    meter(2, &["--kinds", "pod-moon"]);
}
