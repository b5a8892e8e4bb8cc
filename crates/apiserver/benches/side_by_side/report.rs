//! The table, and the section of the page it is kept on.

use std::fmt::Write as _;
use std::time::Duration;

use netferry_testkit::page::{at, goal, shown};

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
    for one in goals {
        out.push_str(&goal(&one.text, one.held));
    }
    out
}

/// What the section of the page says.
pub(crate) fn section(table: &str, versions: &[String], pods: usize) -> String {
    let mut out = table.to_owned();
    let _ = writeln!(
        out,
        "\nBoth servers run as processes of their own, on loopback, and are asked over TLS by one kube client on the same\n\
         machine. The embedded one logs to a data file, etcd to its own without waiting for the disk (nor does the\n\
         embedded one). {pods} Pods with two containers each, created into one namespace. The real server's memory is\n\
         etcd's and kube-apiserver's; kube-controller-manager runs but is not counted. Start-up is the median of five,\n\
         certificates made before for the real server and by the process itself for the embedded one.\n\n\
         Versions: {}.",
        versions.join("; ")
    );
    out
}
