//! The walks in ARCHITECTURE.md lead through functions that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The walks, by the beginning of their titles, and how many hops each may have.
const WALKS: [(&str, usize); 3] = [("A change of MTU", 60), ("A pod's ADD", 45), ("A route of ours", 45)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The hops of a walk, as file and function.
fn hops<'t>(text: &'t str, title: &str) -> Vec<(&'t str, &'t str)> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start_matches('*').starts_with(title)).skip(1);
    let is_in_walk = |line: &&str| !line.starts_with("**") && !line.starts_with("## ");
    let hop = |line: &'t str| line.split_once(". `")?.1.split_once('`')?.0.split_once(':');
    lines.by_ref().take_while(is_in_walk).filter_map(hop).collect()
}

#[test]
fn every_hop_of_a_walk_is_a_function_in_its_file() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut wrong = Vec::new();
    for (title, most) in WALKS {
        let hops = hops(&text, title);
        assert!(!hops.is_empty() && hops.len() <= most, "{title}: {} hops", hops.len());
        for (file, function) in hops {
            let source = fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
            let named = format!("fn {function}");
            let is_here = source
                .match_indices(&named)
                .any(|(at, _)| source[at + named.len()..].starts_with(['(', '<']));
            if !is_here {
                wrong.push(format!("{title}: {file}:{function}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not there: {wrong:#?}");
}
