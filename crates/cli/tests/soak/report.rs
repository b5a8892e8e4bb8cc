//! `docs/soak.md`: a section for each scenario, with where and when its numbers come from.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What stands above all sections.
const HEAD: &str = "\
# Soak

What takes hours, and what came of it the last time each was run. `make soak` runs all of it and rewrites this page,
`make soak SCENARIOS=\"a b\"` runs these and rewrites their sections.
";

/// Where and when something was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
}

/// What came of one scenario.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    pub(crate) shows: &'a str,
    pub(crate) command: String,
    pub(crate) setting: Setting,
    pub(crate) took: Duration,
    pub(crate) lines: &'a [String],
    pub(crate) problems: &'a [String],
}

impl Setting {
    /// This machine, now.
    pub(crate) fn here() -> Setting {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes = memory.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Setting {
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: commit(),
            machine: format!(
                "{processors} processors, {} GiB, Linux {}",
                (kilobytes + (1 << 19)) >> 20,
                kernel.trim()
            ),
        }
    }
}

/// What was measured. It may be nobody's commit; then the reader has to know. Pages that measurements are written to do
/// not change what the next one measures.
fn commit() -> String {
    let at = said("git", &["describe", "--always", "--abbrev=10"]);
    let changed = said("git", &["status", "--porcelain", "--", ":/", ":(top,exclude)docs"]);
    if changed.is_empty() { at } else { format!("{at}, with changes") }
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output();
    output.map_or_else(|_| "?".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Section<'_> {
    fn text(&self) -> String {
        let Section { name, shows, command, setting, .. } = self;
        let mut text = format!("## {name}\n\n{shows}\n\n");
        let minutes = self.took.as_secs_f32() / 60.0;
        let verdict = if self.problems.is_empty() { "held".to_owned() } else { "**failed**".to_owned() };
        let _ = write!(
            text,
            "| | |\n| --- | --- |\n| command | `{command}` |\n| date | {} |\n| commit | {} |\n| machine | {} |\n\
             | took | {minutes:.1} min |\n| verdict | {verdict} |\n",
            setting.date, setting.commit, setting.machine
        );
        if !self.lines.is_empty() {
            let _ = write!(text, "\n{}\n", self.lines.join("\n"));
        }
        if !self.problems.is_empty() {
            text.push_str("\nWhat did not hold:\n\n");
            for problem in self.problems {
                let _ = writeln!(text, "- {}", problem.trim().replace('\n', "\n  "));
            }
        }
        text
    }
}

/// Writes a section into the page; those of the other `names` stay as they are, in this order.
pub(crate) fn put(path: &Path, names: &[&str], section: &Section<'_>) -> std::io::Result<()> {
    let page = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    std::fs::write(path, merged(&page, names, section))
}

/// The page with a section in place of the one of its name.
pub(crate) fn merged(page: &str, names: &[&str], section: &Section<'_>) -> String {
    let old: Vec<&str> = page.split("\n## ").skip(1).collect();
    let mut whole = HEAD.to_owned();
    for name in names {
        if *name == section.name {
            let _ = write!(whole, "\n{}", section.text());
        } else if let Some(kept) = old.iter().find(|text| text.lines().next() == Some(name)) {
            let _ = writeln!(whole, "\n## {}", kept.trim_end());
        }
    }
    whole
}
