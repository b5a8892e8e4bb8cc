//! The whole control plane and tens of machines, in virtual time, with whatever can happen to them: the operator and the
//! embedded API server that ship, and machines that decide with what ships ([`support::machine`]).
//!
//! A seed says what happens and when. A run that fails says how to repeat it:
//! `NETFERRY_SIMULATE="seed=17 nodes=12" cargo test -p netferry-operator --test simulation`. With `seeds=1000` so many
//! are tried, from `seed` on; `nodes` is how many machines there are.

#[path = "../support/mod.rs"]
mod support;
mod world;

use support::crowd::each;
use world::{Story, Sum, tell};

/// What is asked by the environment, or what `make test` can afford.
fn stories() -> Vec<Story> {
    let asked = std::env::var("NETFERRY_SIMULATE").unwrap_or_default();
    let mut values = std::collections::BTreeMap::new();
    for part in asked.split_whitespace() {
        let (key, value) =
            part.split_once('=').unwrap_or_else(|| panic!("NETFERRY_SIMULATE: {part:?} is not KEY=NUMBER"));
        let number: u64 =
            value.parse().unwrap_or_else(|_| panic!("NETFERRY_SIMULATE: {value:?} is not a number"));
        assert!(
            ["seed", "seeds", "nodes"].contains(&key),
            "NETFERRY_SIMULATE: {key:?} is not seed, seeds or nodes"
        );
        values.insert(key.to_owned(), number);
    }
    let get = |key: &str, usual: u64| values.get(key).copied().unwrap_or(usual);
    let alone = values.contains_key("seed") && !values.contains_key("seeds");
    let (first, count) = (get("seed", 1), get("seeds", if alone { 1 } else { 5 }));
    (first..first + count)
        .map(|seed| Story { seed, nodes: usize::try_from(get("nodes", 10)).expect("a number") })
        .collect()
}

/// So many are told one by one; of more, how far it is.
const FEW: usize = 20;

#[test]
fn whatever_happens_nothing_is_lost_and_everything_arrives() {
    let stories = stories();
    let (all, nodes) = (stories.len(), stories.first().map_or(0, |story| story.nodes));
    let began = std::time::Instant::now();
    let (mut done, mut sum, mut broken) = (0, Sum::default(), Vec::new());
    each(stories, tell, |story, told| {
        done += 1;
        match told {
            Ok(told) => {
                if all <= FEW {
                    eprintln!("seed {}: {told}", story.seed);
                }
                sum.add(&told);
            }
            Err(cause) => {
                let repeat = format!("NETFERRY_SIMULATE=\"seed={} nodes={}\"", story.seed, story.nodes);
                eprintln!("to repeat: {repeat}");
                broken.push(format!("{repeat}: {}", cause.lines().next().unwrap_or_default()));
            }
        }
        if done % 250 == 0 {
            eprintln!(
                "{done} of {all} after {:.0} s, {} broken",
                began.elapsed().as_secs_f64(),
                broken.len()
            );
        }
    });
    let took = began.elapsed().as_secs_f64();
    eprintln!(
        "- {all} schedules of {nodes} machines in {took:.0} s: {} broke a promise; {sum}",
        broken.len()
    );
    assert!(broken.is_empty(), "{broken:#?}");
}
