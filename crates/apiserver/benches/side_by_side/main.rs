//! `make bench`: the embedded API server and the real one, side by side on this machine.
//!
//! Both run as processes of their own and are asked over TLS by the same client. Prints a table; with `--write FILE`
//! writes it there too, with what it was measured on.

mod measure;
mod report;
mod servers;

use std::path::PathBuf;

use anyhow::Context;

use crate::report::{Column, Goal};
use crate::servers::{Embedded, Real};

/// How many Pods both hold when their memory is looked at.
const PODS: usize = 10_000;
/// How often each is started.
const STARTS: usize = 5;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let mut write = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo says to every benchmark.
            "--bench" => {}
            "--write" => write = Some(PathBuf::from(arguments.next().context("--write needs a file")?)),
            other => anyhow::bail!("unknown argument {other}; known: --write FILE"),
        }
    }
    let program =
        std::env::var_os("NETFERRY").context("NETFERRY is not set: run this through `make bench`")?;
    let program = PathBuf::from(program);
    let assets = netferry_testkit::assets()?;

    let mut embedded = Column::new("netferry apiserver");
    for nth in 0..STARTS {
        eprintln!("starting the embedded server ({} of {STARTS})", nth + 1);
        embedded.start_up.push(Embedded::start(&program).await?.answered_after);
    }
    let server = Embedded::start(&program).await?;
    measured(&mut embedded, &server.client().await?, || server.resident()).await?;
    drop(server);

    let mut real = Column::new("etcd + kube-apiserver");
    for nth in 0..STARTS {
        eprintln!("starting the real server ({} of {STARTS})", nth + 1);
        real.start_up.push(Real::start(&assets).await?.answered_after());
    }
    let server = Real::start(&assets).await?;
    measured(&mut real, &server.client().await?, || server.resident()).await?;
    drop(server);

    let versions = servers::versions(&program, &assets)?;
    let goals = [
        Goal::below_ms("start-up", &embedded.start_up, 100),
        Goal::ratio("memory at 10k Pods", embedded.loaded, real.loaded, 3.0),
    ];
    let text = report::table(&embedded, &real, &goals);
    println!("{text}");
    if let Some(path) = write {
        let text = report::section(&text, &versions, PODS);
        netferry_testkit::page::put(&path, "The embedded API server beside the real one", &text)
            .with_context(|| format!("writing {}", path.display()))?;
        eprintln!("written to {}", path.display());
    }
    Ok(())
}

async fn measured(
    column: &mut Column,
    client: &kube::Client,
    resident: impl Fn() -> anyhow::Result<u64>,
) -> anyhow::Result<()> {
    eprintln!("{}: memory when empty", column.name);
    column.empty = resident()?;
    eprintln!("{}: {PODS} Pods", column.name);
    column.creates = measure::creates(client, PODS).await?;
    column.loaded = resident()?;
    eprintln!("{}: lists", column.name);
    column.list = measure::lists(client, 5).await?;
    eprintln!("{}: watches", column.name);
    column.watch = measure::watch(client, 300).await?;
    Ok(())
}
