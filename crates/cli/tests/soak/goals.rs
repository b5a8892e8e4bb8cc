//! What a hundred nodes should cost; measured and told, and no reason to fail.

use std::time::Duration;

/// Until all are ready.
const READY: Duration = Duration::from_secs(120);
/// In mebibytes.
const MEMORY: u64 = 6 << 10;
/// What each of the most may cost, of what each of the fewest does: as in the operator's benchmark.
const EACH: f64 = 1.5;

/// A lab that was ready.
pub(crate) struct Measured {
    /// How many nodes it had.
    pub(crate) nodes: u16,
    /// How long it took.
    pub(crate) took: Duration,
    /// In bytes.
    pub(crate) memory: u64,
    /// Of processor.
    pub(crate) busy: Duration,
}

/// What was aimed at, and whether it was held.
pub(crate) fn goals(least: &Measured, most: &Measured) -> [String; 4] {
    let goal = |held: bool, text: String| format!("- {text} ({})", if held { "held" } else { "MISSED" });
    let each = |what: &str, of: fn(&Measured) -> f64| {
        let ratio = of(most) / f64::from(most.nodes) / (of(least) / f64::from(least.nodes));
        let (many, few) = (most.nodes, least.nodes);
        let text = format!(
            "{what} per node with {many} nodes at most {EACH} times that with {few}: {ratio:.2} times"
        );
        goal(ratio <= EACH, text)
    };
    let (nodes, seconds, mebibytes) = (most.nodes, most.took.as_secs_f64(), most.memory >> 20);
    [
        goal(most.took <= READY, format!("{nodes} nodes ready within {} s: {seconds:.1} s", READY.as_secs())),
        goal(mebibytes <= MEMORY, format!("{nodes} nodes in {MEMORY} MiB: {mebibytes} MiB")),
        each("memory", |lab| lab.memory as f64),
        each("processor", |lab| lab.busy.as_secs_f64()),
    ]
}
