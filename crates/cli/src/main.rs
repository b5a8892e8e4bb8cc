//! `netferry`: the one command an administrator types.

mod agent;
mod apiserver;
mod args;
mod cluster;
mod completions;
mod crds;
mod demo;
mod doctor;
mod exit;
mod host_init;
mod lab;
mod lab_pod;
mod line;
mod logs;
mod man;
mod mtu;
mod operator;
mod output;
mod path_pod;
mod solo;
mod time;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Doctor(args) => doctor::run(&args, cli.global.output),
        Command::Version(args) => version::run(&args, &cli.global),
        Command::Lab(args) => lab::run(&args, cli.global.output),
        Command::LabRun(args) => lab::run_lab(&args),
        Command::LabNode => lab::node(),
        Command::LabContainer(args) => lab::container(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Mtu(args) => mtu::run(&args, &cli.global),
        Command::Agent(args) => agent::run(&args, &cli.global),
        Command::Solo(args) => solo::run(&args, &cli.global),
        Command::Operator(args) => operator::run(&args, &cli.global),
        Command::Apiserver(args) => apiserver::run(&args),
        Command::HostInit(args) => host_init::run(&args, cli.global.output),
        Command::Crds(args) => crds::run(&args),
        Command::LabPod(args) => lab_pod::run(args, cli.global.output),
        Command::PathPod(args) => path_pod::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    exit::code(done)
}
