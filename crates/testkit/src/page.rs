//! A page of measurements, a section for each benchmark.
//!
//! Benchmarks run one at a time and each knows its own numbers only: a section is put in place of what stood under its
//! title, and the others stay as they were.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;

const TITLE: &str = "# Benchmarks";
const INTRODUCTION: &str = "Written by `make bench`. One run on one machine: what carries over to another are ratios, \
and what does not grow.";

/// Puts a section into the page at `path`, which is made if there is none. The text ends with when it was measured, on
/// what machine, of which commit.
pub fn put(path: &Path, title: &str, text: &str) -> io::Result<()> {
    let page = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let date = Timestamp::now().strftime("%Y-%m-%d");
    let text = format!("{}\n\nMeasured on {date}: {}.\n", text.trim_end(), machine().join(", "));
    std::fs::write(path, with(&page, title, &text))
}

/// The page with a section in place of what stood under its title, or at the end.
fn with(page: &str, title: &str, text: &str) -> String {
    let mut sections: Vec<(&str, String)> = Vec::new();
    if page.starts_with(TITLE) {
        for section in page.split("\n## ").skip(1) {
            let (title, text) = section.split_once('\n').unwrap_or((section, ""));
            sections.push((title, text.trim().to_owned()));
        }
    }
    let text = text.trim().to_owned();
    match sections.iter_mut().find(|(known, _)| *known == title) {
        Some(section) => section.1 = text,
        None => sections.push((title, text)),
    }
    let mut page = format!("{TITLE}\n\n{INTRODUCTION}\n");
    for (title, text) in sections {
        page.push_str(&format!("\n## {title}\n\n{text}\n"));
    }
    page
}

/// The value so far up in the sorted list.
pub fn at(took: &[Duration], part: f64) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
}

/// A time as a reader takes it in.
pub fn shown(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        ms if ms >= 1000.0 => format!("{:.1} s", ms / 1000.0),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

/// Something that was aimed at, and what came of it, as a line of a list.
pub fn goal(text: &str, held: bool) -> String {
    format!("- {text} ({})\n", if held { "held" } else { "MISSED" })
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
    let mut machine = vec![
        format!("{cores} × {processor}"),
        format!("{} GB", memory.unwrap_or_default() / 1_000_000),
        format!("Linux {}", kernel.trim()),
    ];
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    machine.extend(commit.map(|c| format!("commit {}", String::from_utf8_lossy(&c.stdout).trim())));
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_takes_the_place_of_the_one_of_its_title_and_the_others_stay() {
        let one = with("", "First", "a\n\n### Detail\n\nb\n");
        let two = with(&one, "Second", "c");
        let again = with(&two, "First", "d");
        assert_eq!(two, format!("{one}\n## Second\n\nc\n"));
        assert_eq!(again, format!("{TITLE}\n\n{INTRODUCTION}\n\n## First\n\nd\n\n## Second\n\nc\n"));
    }

    #[test]
    fn a_page_of_something_else_is_begun_anew() {
        let page = with("# Something else\n\n## Old\n\nx\n", "New", "y");
        assert_eq!(page, format!("{TITLE}\n\n{INTRODUCTION}\n\n## New\n\ny\n"));
    }

    #[test]
    fn the_99th_of_a_hundred_is_found_in_any_order() {
        let times: Vec<Duration> = (0..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(
            (at(&times, 0.5), at(&times, 0.99)),
            (Duration::from_millis(50), Duration::from_millis(99))
        );
        assert_eq!(at(&[], 0.5), Duration::ZERO);
    }
}
