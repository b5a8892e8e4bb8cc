//! Machine configurations that would break a host. Each of them is refused by name when it is rendered. One that reaches a
//! node nevertheless is refused or undone there, and the node boots and takes the next configuration.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;

use netferry_api::rollout::MachineConfig as Written;
use netferry_core::error::chain;
use netferry_core::rollout::config::{MachineConfig, Spec};
use netferry_core::rollout::epochs::Epochs;
use netferry_core::rollout::journal::INTENT;
use netferry_core::rollout::merge::{Rendered, merge};
use netferry_translate::machine_config::machine_config;
use nix::mount::{MsFlags, mount};
use serde_json::{Value, json};

use super::disk::Disk;
use super::store;
use super::tests::{host, rendered, tree};

/// One hostile configuration, and what its refusal has to name.
struct Hostile {
    spec: Value,
    names: String,
}

fn hostile(spec: Value, names: impl Into<String>) -> Hostile {
    Hostile { spec, names: names.into() }
}

fn ignition(part: &str, inside: Value) -> Value {
    json!({"config": {"ignition": {"version": "3.2.0"}, part: inside}})
}

fn file(path: &str) -> Value {
    ignition("storage", json!({"files": [{"path": path, "contents": {"source": "data:,x"}}]}))
}

fn unit(name: &str, contents: &str) -> Value {
    ignition("systemd", json!({"units": [{"name": name, "enabled": true, "contents": contents}]}))
}

/// As a refusal prints a text.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn paths() -> Vec<Hostile> {
    let mut all = Vec::new();
    let ours = ["/run", "/var/run", "/var/lock", "/proc", "/sys", "/dev", "/var/lib/netferry"];
    let below =
        ["", "/x", "/sys/kernel/core_pattern", "/machine/current", "/machine/intent", "/.x", "/a/b/c/d"];
    for ours in ours {
        all.extend(below.iter().map(|below| format!("{ours}{below}")));
    }
    for part in ["..", ".", ""] {
        for around in ["/etc/{}/x", "/{}/etc/x", "/etc/x/{}", "/etc/{}/{}/proc/x", "/etc/systemd/system/{}/x"]
        {
            all.push(around.replace("{}", part));
        }
    }
    for text in [
        "",
        "/",
        "etc/x",
        "./x",
        "../x",
        "C:\\x",
        "//",
        "/etc/a\nb",
        "/etc/a\0b",
        "/etc/a\tb",
        "/etc/\u{1b}[2J",
    ] {
        all.push(text.to_owned());
    }
    all.push(format!("/etc/{}", "a".repeat(201)));
    all.push(format!("/{}", ["deep"; 300].join("/")));
    for name in ["new", "old", "orig"] {
        all.push(format!("/etc/.hostname.netferry-{name}"));
    }
    all.into_iter().map(|path| hostile(file(&path), quoted(&path))).collect()
}

const NAMES: [&str; 16] = [
    "../../../proc/sys/x",
    "../../../../etc/passwd",
    "/etc/passwd",
    "multi-user.target/../../x",
    "..",
    ".",
    "multi-user",
    "%i.target",
    "a b.target/",
    "x.target;reboot",
    "$(reboot).target",
    "x.target\u{7f}",
    "ünit.target",
    "x.conf",
    ".target",
    "\\",
];

fn install_sections() -> Vec<Hostile> {
    let mut all = Vec::new();
    for key in ["WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also"] {
        for name in NAMES {
            // A list is of words; one that is wrong is enough.
            let wrong =
                name.split(' ').find(|word| !word.ends_with(".target") || word.contains('/')).unwrap_or(name);
            for contents in [
                format!("[Install]\n{key}={name}\nWantedBy=multi-user.target\n"),
                format!("[Service]\nExecStart=/bin/true\n[Install]\n {key} = good.target {name}\n"),
            ] {
                let wrong = if name.starts_with("a b") { "a" } else { wrong };
                all.push(hostile(unit("x.service", &contents), quoted(wrong)));
            }
        }
    }
    all
}

fn unit_names() -> Vec<Hostile> {
    let mut all = Vec::new();
    let long = format!("{}.service", "a".repeat(250));
    let more = [
        "../x.service",
        "/x.service",
        "x",
        ".service",
        "x.service/..",
        "x y.service",
        "x.service.d",
        "é.service",
    ];
    for name in more.into_iter().chain([long.as_str(), ".x.netferry-old.service", "x\n.service"]) {
        all.push(hostile(unit(name, "[Install]\nWantedBy=a.target\n"), quoted(name)));
        let masked = json!({"units": [{"name": name, "mask": true}]});
        all.push(hostile(ignition("systemd", masked), quoted(name)));
    }
    for name in ["../a.conf", "a", ".conf", "a/b.conf", "a.conf/..", "a b.conf", ".x.netferry-new.conf"] {
        let dropins = json!({"units": [{"name": "x.service", "dropins": [{"name": name, "contents": ""}]}]});
        all.push(hostile(ignition("systemd", dropins), quoted(name)));
    }
    let both = |file: &str, unit: Value| {
        let files = json!({"files": [{"path": file, "contents": {"source": "data:,x"}}]});
        json!({"config": {"ignition": {"version": "3.2.0"}, "storage": files, "systemd": {"units": [unit]}}})
    };
    let at = "/etc/systemd/system";
    let installed = json!({"name": "x.service", "enabled": true, "contents": "[Install]\nWantedBy=a.target\nAlias=y.service\n"});
    let dropin = json!({"name": "x.service", "dropins": [{"name": "a.conf", "contents": ""}]});
    for (file, unit) in [
        ("x.service", &installed),
        ("y.service", &installed),
        ("a.target.wants/x.service", &installed),
        ("a.target.wants", &installed),
        ("x.service.d", &dropin),
        ("x.service.d/a.conf", &dropin),
        ("x.service.d/a.conf/b", &dropin),
    ] {
        all.push(hostile(both(&format!("{at}/{file}"), unit.clone()), format!("{at}/{file}")));
    }
    all
}

fn arguments() -> Vec<Hostile> {
    let mut all = Vec::new();
    let wrong = ["", "a b", "a\"b", "a'b", "a`b`", "$(x)", "a\\b", "a\nb", "a\0b", "é", "\u{1b}[2J"];
    let boots = [
        "init=/bin/false",
        "rdinit=/x",
        "root=/dev/null",
        "rootfstype=x",
        "systemd.unit=rescue.target",
        "single",
        "emergency",
        "S",
        "rd.break",
        "initrd=x",
        "systemd.mask=kubelet.service",
    ];
    for argument in wrong.into_iter().chain(boots) {
        all.push(hostile(json!({"kernelArguments": [argument]}), quoted(argument)));
    }
    all.push(hostile(json!({"kernelArguments": ["a".repeat(5000)]}), "kernelArguments are 5001 bytes"));
    let path = "/etc/default/grub.d/90-netferry.cfg";
    let mut twice = file(path);
    twice["kernelArguments"] = json!(["quiet"]);
    all.push(hostile(twice, path));
    all
}

fn contents() -> Vec<Hostile> {
    let mut all = Vec::new();
    let files = |more: Value| {
        let mut file = json!({"path": "/etc/x"});
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ignition("storage", json!({"files": [file]}))
    };
    for source in
        ["data:", "data:x", "data:;base64,!", "data:;base64,AAA", "data:,%", "data:,%4", "data:,%zz"]
    {
        all.push(hostile(files(json!({"contents": {"source": source}})), "contents of /etc/x"));
    }
    for source in ["http://x/", "file:///etc/shadow", "DATA:,x", "s3://x/y", "/etc/passwd"] {
        all.push(hostile(files(json!({"contents": {"source": source}})), "contents.source other than data:"));
    }
    for compression in ["gzip", "bzip2", "GZIP", "zstd"] {
        let contents = json!({"source": "data:,notpacked", "compression": compression});
        all.push(hostile(files(json!({"contents": contents})), "contents of /etc/x"));
    }
    for mode in [0o10000, 0o100_644, 1 << 20, u32::MAX] {
        all.push(hostile(files(json!({"mode": mode})), "of /etc/x is not one of a file"));
    }
    for mode in [json!(-1), json!("0644"), json!(1.5), json!(1_u64 << 40), json!([])] {
        all.push(hostile(files(json!({"mode": mode})), "spec.config is not a configuration we know"));
    }
    all.push(hostile(files(json!({"user": {"name": "mallory"}})), "user or group"));
    all.push(hostile(files(json!({"append": [{"source": "data:,x"}]})), "append"));
    let both = json!({"files": [{"path": "/etc/x"}, {"path": "/etc/x/y"}]});
    all.push(hostile(ignition("storage", both), "/etc/x is a file"));
    let twice = json!({"files": [{"path": "/etc/x"}, {"path": "/etc/x"}]});
    all.push(hostile(ignition("storage", twice), "/etc/x is there twice"));
    for part in ["links", "directories", "disks", "filesystems", "raid", "luks"] {
        all.push(hostile(ignition("storage", json!({part: [{"path": "/etc/x"}]})), part));
    }
    all
}

fn corpus() -> Vec<Hostile> {
    [paths(), install_sections(), unit_names(), arguments(), contents()].into_iter().flatten().collect()
}

fn refusal(spec: &Value) -> Result<Spec, (Option<MachineConfig>, String)> {
    let spec = serde_json::from_value(spec.clone()).unwrap_or_else(|error| panic!("{spec}: {error}"));
    let written = machine_config(&Written::new("99-hostile", spec)).map_err(|error| (None, chain(&error)))?;
    merge("worker", std::slice::from_ref(&written)).map(|rendered| rendered.spec).map_err(|refusals| {
        let said: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        (Some(written), said.join("; "))
    })
}

/// A host as hosts are: with links, and file systems that take no files.
fn equipped() -> (tempfile::TempDir, std::path::PathBuf) {
    let (dir, root) = host("64m");
    for path in ["run/lock", "proc", "sys", "dev", "usr"] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    symlink("/run", root.join("var/run")).unwrap();
    symlink("/run/lock", root.join("var/lock")).unwrap();
    symlink("/proc/sys", root.join("etc/into-proc")).unwrap();
    symlink("../var/lib/netferry", root.join("etc/into-ours")).unwrap();
    let none: Option<&str> = None;
    mount(Some("proc"), &root.join("proc"), Some("proc"), MsFlags::empty(), none).unwrap();
    std::fs::write(root.join("etc/passwd"), "root").unwrap();
    (dir, root)
}

/// Everything on the host but its processes and our own files.
fn shown(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for dir in ["etc", "run", "usr", "dev", "sys"] {
        all.extend(tree(&root.join(dir)));
    }
    all
}

/// What a boot does before the kubelet; it must not fail.
fn boot(disk: &Disk, run: &Path, what: &str) {
    let _ = std::fs::remove_dir_all(run);
    std::fs::create_dir(run).unwrap();
    super::mend(disk, run)
        .unwrap_or_else(|error| panic!("{what}: the node does not boot: {}", chain(&error)));
}

#[test]
fn no_hostile_configuration_is_rendered_and_one_that_reaches_a_node_is_refused_or_undone_and_it_boots() {
    let all = corpus();
    assert!(all.len() >= 200, "{}", all.len());
    let (_dir, root) = equipped();
    let run = tempfile::tempdir().unwrap();
    let run = run.path().join("run");
    let disk = Disk::open(&root).unwrap();
    let good = rendered("rendered-worker-good", 1, &[("/etc/good", "good")], vec![]);
    store::take(&disk, &good).unwrap();
    let before = shown(&root);
    let mut outcomes = BTreeMap::new();
    for (number, Hostile { spec, names }) in all.iter().enumerate() {
        let Err((written, said)) = refusal(spec) else { panic!("{spec} is rendered") };
        assert!(said.contains("MachineConfig 99-hostile") && said.contains(names.as_str()), "{spec}: {said}");
        // As if an operator had rendered it: an older one, or one that was tampered with.
        let Some(written) = written else {
            *outcomes.entry("not understood").or_insert(0) += 1;
            continue;
        };
        let hostile = Rendered {
            name: format!("rendered-worker-{number}"),
            spec: written.spec,
            sources: vec![],
            epochs: Epochs::of("mtu", 2),
        };
        if store::check(&disk, &hostile).is_err() {
            let before = shown(&root);
            assert!(store::take(&disk, &hostile).is_err(), "{spec}");
            assert_eq!(shown(&root), before, "{spec}: refused");
            *outcomes.entry("refused by the node").or_insert(0) += 1;
        }
        // As if an agent that did not check had taken it.
        let taken = store::carry_out(&disk, &hostile);
        boot(&disk, &run, &spec.to_string());
        assert!(!disk.present(INTENT).unwrap(), "{spec}: something could not be undone");
        match taken {
            Ok(()) => {
                *outcomes.entry("taken, and given back").or_insert(0) += 1;
                assert_eq!(store::current(&disk).unwrap().unwrap().name, hostile.name);
            }
            Err(_) => {
                *outcomes.entry("undone").or_insert(0) += 1;
                assert_eq!(store::current(&disk).unwrap().as_ref(), Some(&good), "{spec}");
            }
        }
        store::take(&disk, &good).unwrap_or_else(|error| panic!("{spec}: {}", chain(&error)));
        boot(&disk, &run, &spec.to_string());
        let mut now = shown(&root);
        // Directories that were made for a file stay: another program may use them by now.
        now.retain(|line| before.contains(line) || !line.ends_with('/'));
        assert_eq!(now, before, "{spec}");
    }
    eprintln!("of {} configurations: {outcomes:?}", all.len());
    assert!(outcomes["refused by the node"] >= 100 && outcomes["undone"] >= 40, "{outcomes:?}");
}

#[test]
fn a_link_of_the_host_leads_no_configuration_to_where_none_may_write() {
    let (_dir, root) = equipped();
    let disk = Disk::open(&root).unwrap();
    let before = shown(&root);
    for (path, leads_to) in [
        ("/etc/into-proc/kernel/core_pattern", "/proc/sys/kernel/core_pattern"),
        ("/etc/into-ours/machine/current", "/var/lib/netferry/machine/current"),
        ("/etc/into-proc/new/x", "/proc/sys/new/x"),
    ] {
        let astray = rendered("rendered-worker-astray", 1, &[(path, "x")], vec![]);
        let said = chain(&store::take(&disk, &astray).unwrap_err());
        assert!(
            said.starts_with(&format!("{path} cannot be written: on this host it leads to {leads_to}")),
            "{said}"
        );
        assert_eq!(shown(&root), before);
    }
}

#[test]
fn what_cannot_be_undone_is_named_and_tried_again_and_the_node_boots_meanwhile() {
    let (_dir, root) = equipped();
    let run = tempfile::tempdir().unwrap();
    let run = run.path().join("run");
    let disk = Disk::open(&root).unwrap();
    std::fs::create_dir(root.join("etc/stuck")).unwrap();
    let taken = rendered(
        "rendered-worker-x",
        1,
        &[("/etc/a", "new"), ("/etc/stuck/b", "new"), ("/etc/z", "new")],
        vec![],
    );
    // The power failed when everything was in place but the name of the configuration.
    disk.done.lock().unwrap().clear();
    store::take(&disk, &taken).unwrap();
    let ops = disk.done.lock().unwrap().clone();
    store::leave(&disk).unwrap();
    let last = ops.iter().rposition(
        |op| matches!(op, netferry_core::rollout::journal::Op::Rename { to, .. } if to.ends_with("/current")),
    );
    disk.run(&ops[..last.unwrap()]).unwrap();
    // A file system that takes no changes any more, as after an error of its disk.
    let none: Option<&str> = None;
    let stuck = root.join("etc/stuck");
    mount(Some(&stuck), &stuck, none, MsFlags::MS_BIND, none).unwrap();
    mount(none, &stuck, none, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, none).unwrap();

    boot(&disk, &run, "a file that cannot be removed");
    assert!(!root.join("etc/a").exists() && !root.join("etc/z").exists(), "the others are undone");
    let said = chain(&store::take(&disk, &taken).unwrap_err());
    assert!(said.contains("could not be undone: removing /etc/stuck/b"), "{said}");
    assert!(!said.contains("/etc/a"), "{said}");
    nix::mount::umount(&stuck).unwrap();
    assert!(store::recover(&disk).unwrap().left.is_empty());
    assert!(!root.join("etc/stuck/b").exists());
    store::take(&disk, &taken).unwrap();
}
