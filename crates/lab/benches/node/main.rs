//! `make bench`: what a node of a lab costs its users: attaching and detaching pods, and following changes.
//!
//! A lab of two nodes with the released programs; pods are attached through the real plugin executable, and changes
//! are seen by packets. Prints tables; with `--write FILE` puts them there too.

mod changes;
mod cni;
mod ground;
mod one_machine;

use std::path::PathBuf;

use anyhow::Context;

use ground::Ground;

fn main() -> anyhow::Result<()> {
    let (mut write, mut only) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo says to every benchmark.
            "--bench" => {}
            "--write" => write = Some(PathBuf::from(arguments.next().context("--write needs a file")?)),
            "cni" | "changes" | "one-machine" => only = Some(argument),
            other => {
                anyhow::bail!("unknown argument {other}; known: cni, changes, one-machine, --write FILE")
            }
        }
    }
    let program =
        std::env::var_os("NETFERRY").context("NETFERRY is not set: run this through `make bench`")?;
    let program = PathBuf::from(program);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut sections = Vec::new();
    if wanted("cni") || wanted("changes") {
        let ground = Ground::up(program.clone())?;
        if wanted("cni") {
            sections.push((cni::TITLE, cni::measure(&ground)?));
        }
        if wanted("changes") {
            sections.push((changes::TITLE, changes::measure(&ground)?));
        }
        ground.lab.down()?;
    }
    if wanted("one-machine") {
        sections.push((one_machine::TITLE, one_machine::measure(&program)?));
    }
    for (title, text) in sections {
        println!("## {title}\n\n{text}");
        if let Some(path) = &write {
            netferry_testkit::page::put(path, title, &text)
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}
