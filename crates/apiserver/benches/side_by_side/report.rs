//! The table, and the page it is kept on.

use std::fmt::Write as _;
use std::time::Duration;

/// What was measured of one server.
#[derive(Default)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) start_up: Vec<Duration>,
    pub(crate) empty: u64,
    pub(crate) loaded: u64,
    pub(crate) creates: f64,
    pub(crate) list: Vec<Duration>,
    pub(crate) watch: Vec<Duration>,
}

impl Column {
    pub(crate) fn new(name: &'static str) -> Column {
        Column { name, ..Column::default() }
    }
}

/// What we hold ourselves to.
pub(crate) struct Goal {
    text: String,
    pub(crate) held: bool,
}

impl Goal {
    pub(crate) fn below_ms(what: &str, took: &[Duration], limit: u64) -> Goal {
        let median = at(took, 0.5);
        let held = median < Duration::from_millis(limit);
        Goal { text: format!("{what} below {limit} ms: {}", shown(median)), held }
    }

    pub(crate) fn ratio(what: &str, ours: u64, theirs: u64, at_least: f64) -> Goal {
        let ratio = theirs as f64 / ours as f64;
        Goal {
            text: format!("{what} at most 1/{at_least:.0} of the real one's: 1/{ratio:.1}"),
            held: ratio >= at_least,
        }
    }
}

/// The value so far up in the sorted list.
fn at(took: &[Duration], part: f64) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
}

fn shown(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        ms if ms >= 1000.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

/// The table, both servers and how many times better the first is.
pub(crate) fn table(ours: &Column, theirs: &Column, goals: &[Goal]) -> String {
    let time = |what: &str, ours: &[Duration], theirs: &[Duration], part: f64| {
        let (ours, theirs) = (at(ours, part), at(theirs, part));
        (what.to_owned(), shown(ours), shown(theirs), theirs.as_secs_f64() / ours.as_secs_f64())
    };
    let memory = |what: &str, ours: u64, theirs: u64| {
        (what.to_owned(), megabytes(ours), megabytes(theirs), theirs as f64 / ours as f64)
    };
    let rows = [
        time("start-up: process to first answer over TLS (median)", &ours.start_up, &theirs.start_up, 0.5),
        (
            "creating 10 000 Pods, 32 at once".to_owned(),
            format!("{:.0}/s", ours.creates),
            format!("{:.0}/s", theirs.creates),
            ours.creates / theirs.creates,
        ),
        time("listing 10 000 Pods (median)", &ours.list, &theirs.list, 0.5),
        time("create to watch event (median)", &ours.watch, &theirs.watch, 0.5),
        time("create to watch event (99 of 100)", &ours.watch, &theirs.watch, 0.99),
        memory("resident memory, empty", ours.empty, theirs.empty),
        memory("resident memory with 10 000 Pods", ours.loaded, theirs.loaded),
    ];
    let mut out =
        format!("| | {} | {} | times better |\n| --- | ---: | ---: | ---: |\n", ours.name, theirs.name);
    for (what, ours, theirs, ratio) in rows {
        let _ = writeln!(out, "| {what} | {ours} | {theirs} | {ratio:.1} |");
    }
    out.push('\n');
    for goal in goals {
        let _ = writeln!(out, "- {} ({})", goal.text, if goal.held { "held" } else { "MISSED" });
    }
    out
}

/// The page under `docs/`.
pub(crate) fn page(table: &str, versions: &[String], pods: usize) -> String {
    let mut out = String::from("# The embedded API server beside the real one\n\n");
    out.push_str(
        "Written by `make bench`. One run on one machine: what carries over to another is the ratio.\n\n",
    );
    out.push_str(table);
    out.push_str("\n## How it was measured\n\n");
    let _ = writeln!(
        out,
        "Both servers run as processes of their own, on loopback, and are asked over TLS by one kube client on the same\n\
         machine. The embedded one logs to a data file, etcd to its own without waiting for the disk (nor does the\n\
         embedded one). {pods} Pods with two containers each, created into one namespace. The real server's memory is\n\
         etcd's and kube-apiserver's; kube-controller-manager runs but is not counted. Start-up is the median of five,\n\
         certificates made before for the real server and by the process itself for the embedded one.\n"
    );
    out.push_str("## What it was measured on\n\n");
    for line in machine().iter().chain(versions) {
        let _ = writeln!(out, "- {line}");
    }
    out
}

fn machine() -> Vec<String> {
    let field = |file: &str, name: &str| -> Option<String> {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?.split_once(':')?.1.trim().to_owned();
        Some(line)
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "an unknown processor".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").and_then(|kb| kb.split(' ').next()?.parse::<u64>().ok());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    vec![
        format!("{cores} × {processor}, {} GB", memory.unwrap_or_default() / 1_000_000),
        format!("Linux {}", kernel.trim()),
    ]
}
