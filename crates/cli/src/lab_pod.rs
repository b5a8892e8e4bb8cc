//! `netferry lab-pod`: what a pod of the lab runs when its manifest names nothing else, and the prober beside it.

use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use netferry_lab::programs::probe::{self, Outcome, Probe, Protocol};
use netferry_lab::programs::serve::{Options, Server};

use crate::args::Format;
use crate::exit::Failure;
use crate::time;

/// Serve as a pod of the lab: echo, and say who answers and who asked
#[derive(Debug, Args)]
#[command(
    long_about = "\
Serve as a pod of the lab: echo, and say who answers and who asked.

Every port speaks TCP and UDP. HTTP requests are answered: /who (JSON: name, peer and local address), /, /clientip,
/readyz (503 until ready and again after SIGTERM), /healthz. A datagram that starts with `who?` is answered like /who.
Everything else is echoed, datagrams from the address they were sent to.

Prints `serving` when every port listens. After SIGTERM it is not ready, serves for --linger, and ends.",
    after_help = "\
Examples:
  netferry lab-pod --port 80,81 --linger 5s
  netferry lab-pod probe 10.96.0.10:80
  netferry lab-pod probe --udp 10.96.0.10:80
  echo '{\"protocol\":\"tcp\",\"to\":\"10.96.0.10:80\"}' | netferry lab-pod probe -"
)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct LabPodArgs {
    #[command(subcommand)]
    mode: Option<Mode>,
    /// Ports to serve with both protocols
    #[arg(long, value_name = "PORT", env = "PORTS", value_delimiter = ',', default_values_t = [80, 8080])]
    port: Vec<u16>,
    /// Ports to serve with TCP alone
    #[arg(long, value_name = "PORT", env = "TCP_PORTS", value_delimiter = ',')]
    tcp: Vec<u16>,
    /// Ports to serve with UDP alone
    #[arg(long, value_name = "PORT", env = "UDP_PORTS", value_delimiter = ',')]
    udp: Vec<u16>,
    /// What to answer when asked who this is; without it, the host's name
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    name: Option<String>,
    /// Be ready only so long after the start
    #[arg(long, value_name = "TIME", env = "READY_AFTER", default_value = "0s", value_parser = time::read)]
    ready_after: Duration,
    /// Serve so long after SIGTERM, not ready
    #[arg(long, value_name = "TIME", env = "LINGER", default_value = "0s", value_parser = time::read)]
    linger: Duration,
}

#[derive(Debug, Subcommand)]
enum Mode {
    Probe(ProbeArgs),
}

/// Ask servers who they are; exit code 1 if nobody answers
#[derive(Debug, Args)]
struct ProbeArgs {
    /// ADDRESS:PORT, or - for one JSON object per line of standard input:
    /// {"id", "protocol": "tcp"|"udp", "to": "ADDRESS:PORT", "from", "timeoutMs"}
    #[arg(value_name = "ADDRESS:PORT|-")]
    to: String,
    /// Ask by UDP
    #[arg(long)]
    udp: bool,
    /// Ask from this address
    #[arg(long, value_name = "ADDRESS")]
    from: Option<IpAddr>,
    /// How long an attempt may take
    #[arg(long, value_name = "TIME", default_value = "1500ms", value_parser = time::read)]
    timeout: Duration,
    /// How many attempts run together
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    at_once: usize,
}

pub(crate) fn run(args: LabPodArgs, output: Format) -> Result<(), Failure> {
    match args.mode {
        Some(Mode::Probe(args)) => ask(&args, output),
        None => serve(args),
    }
}

fn serve(args: LabPodArgs) -> Result<(), Failure> {
    let mut options = Options {
        name: args.name.unwrap_or_else(host_name),
        tcp: [args.port.clone(), args.tcp].concat(),
        udp: [args.port, args.udp].concat(),
        ready_after: args.ready_after,
        linger: args.linger,
    };
    for ports in [&mut options.tcp, &mut options.udp] {
        ports.sort_unstable();
        ports.dedup();
    }
    let server = Server::listen(options).context("starting the pod's server")?;
    println!("serving");
    server.run().context("serving").map_err(Failure::Failed)
}

fn ask(args: &ProbeArgs, output: Format) -> Result<(), Failure> {
    if args.to == "-" {
        return ask_many(args);
    }
    let to: SocketAddr = args
        .to
        .parse()
        .map_err(|_| anyhow!("{:?} is not an address and port such as 10.96.0.10:80", args.to))?;
    let protocol = if args.udp { Protocol::Udp } else { Protocol::Tcp };
    let timeout_ms = u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX);
    let outcomes = probe::all(&[Probe { id: String::new(), protocol, to, from: args.from, timeout_ms }], 1);
    for outcome in &outcomes {
        match output {
            Format::Table => println!("{}", sentence(outcome)),
            Format::Json | Format::Yaml => println!("{}", line(outcome)?),
        }
    }
    match outcomes.iter().find_map(|outcome| outcome.silence) {
        None => Ok(()),
        Some(silence) => Err(Failure::Failed(anyhow!("{to}: {silence}"))),
    }
}

fn ask_many(args: &ProbeArgs) -> Result<(), Failure> {
    let probes = std::io::stdin()
        .lock()
        .lines()
        .enumerate()
        .map(|(number, line)| {
            let line = line.context("reading probes from standard input")?;
            serde_json::from_str(&line).with_context(|| format!("reading the probe in line {}", number + 1))
        })
        .collect::<anyhow::Result<Vec<Probe>>>()?;
    let mut out = std::io::stdout().lock();
    for outcome in probe::all(&probes, args.at_once) {
        writeln!(out, "{}", line(&outcome)?).context("printing outcomes")?;
    }
    Ok(())
}

fn line(outcome: &Outcome) -> anyhow::Result<String> {
    serde_json::to_string(outcome).context("printing an outcome")
}

fn sentence(outcome: &Outcome) -> String {
    match (&outcome.answer, outcome.silence) {
        (Some(answer), _) => {
            format!(
                "{}: {} answered, seen from {}, at {}",
                outcome.to, answer.name, answer.peer, answer.local
            )
        }
        (None, Some(silence)) => format!("{}: {silence}", outcome.to),
        (None, None) => format!("{}: nothing", outcome.to),
    }
}

/// A pod on the host's network has the host's name; whoever started it says its own in the environment.
fn host_name() -> String {
    if let Ok(name) = std::env::var("HOSTNAME")
        && !name.is_empty()
    {
        return name;
    }
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}
