//! How long a pod takes to be attached and detached, and who takes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use netferry_testkit::page::{at, goal, shown};
use serde_json::json;

use crate::ground::{Ground, NODE};

pub(crate) const TITLE: &str = "Attaching and detaching pods";

/// How many are attached at once.
const AT_ONCE: [usize; 3] = [1, 10, 50];
/// How many are on the node at a time, at most: what a kubelet allows by default.
const BATCH: usize = 100;
/// How often that is done.
const BATCHES: usize = 2;
const NAMESPACE: &str = "default";

/// A container of a pod, as its runtime has it.
#[derive(Clone)]
struct Sandbox {
    pod: String,
    uid: String,
    container: String,
}

/// What one call took.
#[derive(Clone, Copy, Default)]
struct Took {
    /// From the plugin's start to its end, as the runtime sees it.
    whole: Duration,
    ovn: Duration,
    api: Duration,
}

impl Took {
    /// Neither OVN's nor the API's: the agent's, and the plugin's process.
    fn ours(&self) -> Duration {
        self.whole.saturating_sub(self.ovn).saturating_sub(self.api)
    }
}

pub(crate) fn measure(ground: &Ground) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    // The first of everything is different: pages of programs, connections, tables.
    batch(ground, "warm", 10, 2)?;
    for at_once in AT_ONCE {
        let (mut adds, mut dels) = (Vec::new(), Vec::new());
        for nth in 0..BATCHES {
            eprintln!("attaching {BATCH} pods, {at_once} at once ({} of {BATCHES})", nth + 1);
            let (added, deleted) = batch(ground, &format!("c{at_once}-{nth}"), BATCH, at_once)?;
            adds.extend(added);
            dels.extend(deleted);
        }
        rows.push((at_once, adds, dels));
    }
    Ok(report(&rows))
}

/// Makes pods, attaches them all, detaches them all.
fn batch(
    ground: &Ground,
    prefix: &str,
    count: usize,
    at_once: usize,
) -> anyhow::Result<(Vec<Took>, Vec<Took>)> {
    let api: Api<Pod> = Api::namespaced(ground.client.clone(), NAMESPACE);
    let made = futures::stream::iter(0..count).map(|nth| {
        let api = api.clone();
        async move {
            let name = format!("{prefix}-{nth}");
            // Of a runtime class the lab's kubelets leave to others: here that is us.
            let pod = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app": "bench"}},
                "spec": {"nodeName": NODE, "runtimeClassName": "bench", "containers": [{"name": "c", "image": "i"}]},
            }))?;
            let made = api.create(&PostParams::default(), &pod).await?;
            let uid = made.metadata.uid.context("a pod without a UID")?;
            let container = uid.replace('-', "").repeat(2);
            anyhow::Ok(Sandbox { pod: name, uid, container })
        }
    });
    let sandboxes: Vec<Sandbox> = ground.runtime.block_on(made.buffered(8).try_collect())?;
    let names: Vec<String> = sandboxes.iter().map(|sandbox| sandbox.container.clone()).collect();
    networks(ground, "add", &names)?;
    let added = all(ground, "ADD", &sandboxes, at_once);
    let deleted = all(ground, "DEL", &sandboxes, at_once);
    networks(ground, "delete", &names)?;
    let gone = futures::stream::iter(&sandboxes).map(|sandbox| {
        let api = api.clone();
        async move { api.delete(&sandbox.pod, &DeleteParams::default().grace_period(0)).await.map(drop) }
    });
    ground.runtime.block_on(gone.buffered(8).try_collect::<Vec<()>>())?;
    let (mut added, mut deleted) = (added?, deleted?);
    let said = spent(&ground.agent_log()?);
    for (sandbox, took) in sandboxes.iter().zip(&mut added) {
        let (ovn, api) =
            said.get(&("ADD", sandbox.container.clone())).context("the agent's log lacks an ADD")?;
        (took.ovn, took.api) = (*ovn, *api);
    }
    for (sandbox, took) in sandboxes.iter().zip(&mut deleted) {
        let (ovn, api) =
            said.get(&("DEL", sandbox.container.clone())).context("the agent's log lacks a DEL")?;
        (took.ovn, took.api) = (*ovn, *api);
    }
    Ok((added, deleted))
}

/// Makes or removes the networks of containers, as a runtime does before it calls a plugin.
fn networks(ground: &Ground, verb: &'static str, names: &[String]) -> anyhow::Result<()> {
    let names = names.to_vec();
    let done = ground.lab.way(NODE)?.run(move || {
        names.iter().try_for_each(|name| {
            let done = Command::new("ip").args(["netns", verb, &name[..32]]).output()?;
            ensure!(done.status.success(), "ip netns {verb}: {}", String::from_utf8_lossy(&done.stderr));
            Ok(())
        })
    });
    done?
}

/// One call of the plugin for each, so many at once; in the order of `sandboxes`.
fn all(
    ground: &Ground,
    verb: &'static str,
    sandboxes: &[Sandbox],
    at_once: usize,
) -> anyhow::Result<Vec<Took>> {
    let way = ground.lab.way(NODE)?;
    let queue = Arc::new(Mutex::new(sandboxes.iter().cloned().enumerate().collect::<Vec<_>>()));
    let workers: Vec<_> = (0..at_once)
        .map(|_| {
            let (way, queue) = (way.clone(), Arc::clone(&queue));
            std::thread::spawn(move || {
                way.run(move || {
                    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let mut took = Vec::new();
                    while let Some((nth, sandbox)) = next() {
                        took.push((nth, call(verb, &sandbox)?));
                    }
                    anyhow::Ok(took)
                })
            })
        })
        .collect();
    let mut took = BTreeMap::new();
    for worker in workers {
        let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        took.extend(done??);
    }
    Ok(took.into_values().map(|whole| Took { whole, ..Took::default() }).collect())
}

fn call(verb: &str, sandbox: &Sandbox) -> anyhow::Result<Duration> {
    let Sandbox { pod, uid, container } = sandbox;
    let config = json!({"cniVersion": "1.0.0", "name": "netferry", "type": "netferry-cni"}).to_string();
    let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={NAMESPACE};K8S_POD_NAME={pod};K8S_POD_UID={uid}");
    let began = Instant::now();
    let mut child = Command::new("/opt/cni/bin/netferry-cni")
        .env("CNI_COMMAND", verb)
        .env("CNI_PATH", "/opt/cni/bin")
        .env("CNI_CONTAINERID", container)
        .env("CNI_NETNS", format!("/run/netns/{}", &container[..32]))
        .env("CNI_IFNAME", "eth0")
        .env("CNI_ARGS", args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the plugin")?;
    child.stdin.take().context("its input")?.write_all(config.as_bytes())?;
    let done = child.wait_with_output()?;
    let took = began.elapsed();
    ensure!(done.status.success(), "{verb} of {pod}: {}", String::from_utf8_lossy(&done.stdout));
    Ok(took)
}

/// What the agent says it waited for, of each call: OVN and the API.
fn spent(log: &str) -> BTreeMap<(&'static str, String), (Duration, Duration)> {
    let mut all = BTreeMap::new();
    for line in log.lines() {
        let Some(about) = field(line, "about=\"") else { continue };
        let verb = match about.split(' ').next() {
            Some("ADD") => "ADD",
            Some("DEL") => "DEL",
            Some(_) | None => continue,
        };
        let micros = |name: &str| {
            let digits = field(line, name)?.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok().map(Duration::from_micros)
        };
        let Some(container) = field(about, "of container ").and_then(|rest| rest.split([' ', '"']).next())
        else {
            continue;
        };
        if let (Some(ovn), Some(api)) = (micros("ovn_us="), micros("api_us=")) {
            all.insert((verb, container.to_owned()), (ovn, api));
        }
    }
    all
}

fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.split_once(name).map(|(_, rest)| rest)
}

fn report(rows: &[(usize, Vec<Took>, Vec<Took>)]) -> String {
    let two = |took: &[Took], of: fn(&Took) -> Duration| {
        let all: Vec<Duration> = took.iter().map(of).collect();
        (at(&all, 0.5), at(&all, 0.99))
    };
    let text = |(half, most): (Duration, Duration)| format!("{} / {}", shown(half), shown(most));
    let mut out = String::from(
        "| at once | ADD | of it waiting for OVN | for the API | ours | DEL |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (at_once, adds, dels) in rows {
        let _ = writeln!(
            out,
            "| {at_once} | {} | {} | {} | {} | {} |",
            text(two(adds, |t| t.whole)),
            text(two(adds, |t| t.ovn)),
            text(two(adds, |t| t.api)),
            text(two(adds, Took::ours)),
            text(two(dels, |t| t.whole)),
        );
    }
    out.push('\n');
    if let Some((_, adds, _)) = rows.iter().find(|(at_once, _, _)| *at_once == 1) {
        let (whole, ours) = (two(adds, |t| t.whole).1, two(adds, Took::ours).1);
        let ms = Duration::from_millis;
        out.push_str(&goal(
            &format!("ADD, one at a time, 99 of 100 below 50 ms: {}", shown(whole)),
            whole < ms(50),
        ));
        out.push_str(&goal(&format!("our own part of it below 5 ms: {}", shown(ours)), ours < ms(5)));
    }
    let _ = write!(
        out,
        "\nHalf of the calls took less than the first time, 99 of 100 less than the second. {} calls of each kind, the\n\
         plugin executable started for each in a node of a lab, with up to {BATCH} pods on the node. *ADD* and *DEL* are\n\
         from the start of the plugin's process to its end; *OVN* is from the instant the pod's port is in both databases\n\
         until OVN says its flows are in the datapath, *the API* what the answer waited for the pod's object and its\n\
         annotation; *ours* is the rest: the plugin's process, the agent, the kernel and the databases. DEL waits for\n\
         neither.\n",
        BATCH * BATCHES
    );
    out
}
