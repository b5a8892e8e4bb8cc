//! Writes every CustomResourceDefinition into a directory: `cargo run -p netferry-api --example crds -- deploy/crds`.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let directory = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| "deploy/crds".into()));
    fs::create_dir_all(&directory)?;
    let wanted = netferry_api::crds();
    // A kind that is gone must not stay behind as a file that still gets applied.
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        let known = wanted.iter().any(|(name, _)| path.file_name().is_some_and(|file| file == name.as_str()));
        if path.extension().is_some_and(|extension| extension == "yaml") && !known {
            fs::remove_file(path)?;
        }
    }
    for (name, yaml) in wanted {
        fs::write(directory.join(name), yaml)?;
    }
    Ok(())
}
