//! How a lab is, and what its programs said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use netferry_lab::{Lab, NodeStatus, Stage, Status};

use crate::args::Format;
use crate::exit::Failure;
use crate::output::{self, Paint};

pub(super) fn status(lab: &Lab, format: Format) -> Result<(), Failure> {
    let status = lab.status()?;
    output::answer(format, &status, |paint| table(&status, paint))
}

fn table(status: &Status, paint: Paint) -> String {
    let mut text = String::new();
    let state = if status.ready { paint.green("ready") } else { paint.yellow("not ready") };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "lab {}: {state}, up for {:.0} s", status.name, status.seconds);
    let server = status.server.as_deref().unwrap_or("not there yet");
    let _ = writeln!(text, "API: {} ({})", server, status.control_plane);
    let _ = writeln!(text, "kubectl --kubeconfig {}", status.kubeconfig.display());
    for (name, program) in &status.programs {
        let state = if program.running { paint.green("running") } else { paint.red("not running") };
        let again =
            if program.starts > 1 { format!(", started {} times", program.starts) } else { String::new() };
        let last = program.last_end.as_ref().map(|end| format!(", last end: {end}")).unwrap_or_default();
        let _ = writeln!(text, "{name}: {state}{again}{last}");
    }
    let width = status.nodes.iter().map(|node| node.name.as_str().len()).max().unwrap_or(0).max(4);
    if !status.nodes.is_empty() {
        let header = format!(
            "\n{:width$}  {:<11}  {:>6}  {:>4}  {:>5}  ADDRESSES",
            "NODE", "STAGE", "SINCE", "PODS", "BOOTS"
        );
        let _ = writeln!(text, "{}", paint.bold(&header));
    }
    for node in &status.nodes {
        let _ = writeln!(text, "{}", row(node, width, paint));
    }
    for fault in &status.faults {
        let _ = writeln!(text, "{} {fault}", paint.yellow("fault:"));
    }
    for waiting in &status.waiting {
        let last = waiting.last.as_ref().map(|last| format!(": {last}")).unwrap_or_default();
        let _ = writeln!(text, "waiting for {} since {:.0} s{last}", waiting.what, waiting.seconds);
    }
    text
}

fn row(node: &NodeStatus, width: usize, paint: Paint) -> String {
    let padded = format!("{:<11}", node.stage.to_string());
    let stage = match node.stage {
        Stage::Ready => paint.green(&padded),
        Stage::Off => paint.red(&padded),
        Stage::Booting
        | Stage::Interfaces
        | Stage::Switch
        | Stage::HostInit
        | Stage::Registering
        | Stage::NotReady => paint.yellow(&padded),
    };
    let addresses: Vec<String> = node.addresses.iter().map(|address| address.addr().to_string()).collect();
    format!(
        "{:width$}  {stage}  {:>4.0} s  {:>4}  {:>5}  {}",
        node.name.as_str(),
        node.seconds,
        node.pods,
        node.boots,
        addresses.join(" ")
    )
}

pub(super) fn env(lab: &Lab) -> Result<(), Failure> {
    output::print(&format!("export KUBECONFIG={}\n", lab.state().kubeconfig().display()))
}

/// Show what a program of a lab said
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  netferry lab logs                     which logs there are
  netferry lab logs apiserver
  netferry lab logs node-1 agent
  netferry lab logs node-1 default_web  a pod's")]
pub(crate) struct LogsArgs {
    /// A program of the control plane, `lab`, or a node
    of: Option<String>,
    /// Part of the path of one of the node's logs
    part: Option<String>,
}

pub(super) fn logs(lab: &Lab, args: &LogsArgs) -> Result<(), Failure> {
    let found = matching(lab, args);
    match (&args.of, found.as_slice()) {
        (Some(of), []) => Err(Failure::Refused(anyhow!(
            "no log of {of}{}; netferry lab logs lists those that are there",
            args.part.as_ref().map(|part| format!(" {part}")).unwrap_or_default()
        ))),
        (Some(_), [(_, path)]) => {
            let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            output::print(&String::from_utf8_lossy(&text))
        }
        (_, all) => {
            let lines: String =
                all.iter().map(|(name, path)| format!("{name}\t{}\n", path.display())).collect();
            output::print(&lines)
        }
    }
}

/// Logs by what they are asked for with.
fn matching(lab: &Lab, args: &LogsArgs) -> Vec<(String, PathBuf)> {
    let state = lab.state();
    let mut all = vec![("lab".to_owned(), state.log())];
    let mut logs = vec![];
    walk(&state.control(), &mut logs);
    all.extend(logs.drain(..).map(|path| (stem(&path), path)));
    let nodes = state.path().join("nodes");
    for entry in std::fs::read_dir(&nodes).into_iter().flatten().flatten() {
        let node = entry.file_name().to_string_lossy().into_owned();
        let directory = entry.path();
        logs.push(directory.join("console.log"));
        walk(&directory.join("disk/var/log"), &mut logs);
        for path in logs.drain(..) {
            let inside =
                path.strip_prefix(directory.join("disk/var/log")).unwrap_or(Path::new("console.log"));
            let name = inside.with_extension("").display().to_string();
            all.push((format!("{node} {name}"), path));
        }
    }
    all.sort();
    let wanted = |name: &str| match (&args.of, &args.part) {
        (None, _) => true,
        (Some(of), None) => name == of || name.split(' ').next() == Some(of),
        (Some(of), Some(part)) => {
            name.split_once(' ').is_some_and(|(node, rest)| node == of && rest.contains(part.as_str()))
        }
    };
    let exact = |name: &str| match (&args.of, &args.part) {
        (Some(of), Some(part)) => {
            name.split_once(' ').is_some_and(|(node, rest)| node == of && stem(Path::new(rest)) == *part)
        }
        (Some(_) | None, _) => false,
    };
    if let Some(one) = all.iter().find(|(name, _)| exact(name)) {
        return vec![one.clone()];
    }
    all.into_iter().filter(|(name, _)| wanted(name)).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn walk(directory: &Path, logs: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, logs);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            logs.push(path);
        }
    }
}
