//! What may differ between two servers that behave the same: moments, ages, random names, addresses.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

static TOKENS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC", "<time>"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "<time>"),
        (r#"((?i)resource ?version\\*"?:\s*\\*"?)\d+"#, "${1}<revision>"),
        (r"^([IWE])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "$1 <log> "),
        (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"https://127\.0\.0\.1:\d+", "<server>"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<random>"),
        (r"kubectl-edit-\d+", "kubectl-edit-<random>"),
        (r"10\.96\.\d+\.\d+", "<service address>"),
        (r"fd00:96::[0-9a-f]+", "<service address>"),
        // An age, where tables show one: a word of its own, in seconds below two minutes, below an hour at all.
        (r"(^|\s)(1[01]\ds|\d{1,2}s|\d{1,2}m(\d{1,2}s)?)(\s|$)", "${1}<age>${4}"),
        (r"(\S) {2,}", "$1  "),
    ]
    .into_iter()
    .map(|(pattern, with)| (Regex::new(pattern).expect("a pattern"), with))
    .collect()
});

/// What is said of how things fell in time, and not of what a server does.
static BY_CHANCE: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    [
        // kubectl's own log of a watch that its `--timeout` ended within a second of its beginning: how long it took to
        // begin is a matter of how busy the machine is.
        r"^I\d{4} .*very short watch",
        // A real server looks over addresses of Services now and then, and repairs what it has not heard of yet: a Service
        // that was made at that moment.
        r"\sClusterIPNotAllocated\s.*; repairing$",
    ]
    .map(|pattern| Regex::new(pattern).expect("a pattern"))
});

/// The lines of an output, with what may differ replaced by what it is.
///
/// Lines that match one of `accepted` are dropped, and with them the blank lines around them but one.
pub(crate) fn lines(text: &str, directory: &Path, accepted: &[Regex]) -> Vec<String> {
    let text = text.replace(&directory.display().to_string(), "<here>");
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !accepted.iter().chain(&*BY_CHANCE).any(|pattern| pattern.is_match(line)))
        .map(|line| {
            let line = TOKENS.iter().fold(line.to_owned(), |line, (pattern, with)| {
                pattern.replace_all(&line, *with).into_owned()
            });
            line.trim_end().to_owned()
        })
        .collect();
    if !accepted.is_empty() {
        lines.dedup_by(|a, b| a.is_empty() && b.is_empty());
    }
    sort_owners(lines)
}

/// The entries of `managedFields` in one order: servers sort them by whole seconds, so that two writes within
/// one stand as it happens.
fn sort_owners(lines: Vec<String>) -> Vec<String> {
    let mut sorted = Vec::with_capacity(lines.len());
    let mut rest = lines.into_iter().peekable();
    while let Some(line) = rest.next() {
        let indent =
            line.strip_suffix("managedFields:").filter(|indent| indent.trim().is_empty()).map(str::to_owned);
        sorted.push(line);
        let Some(indent) = indent else { continue };
        let (first, more) = (format!("{indent}- "), format!("{indent}  "));
        let mut entries: Vec<Vec<String>> = Vec::new();
        while let Some(line) = rest.next_if(|line| line.starts_with(&first) || line.starts_with(&more)) {
            match entries.last_mut() {
                Some(entry) if !line.starts_with(&first) => entry.push(line),
                Some(_) | None => entries.push(vec![line]),
            }
        }
        entries.sort();
        sorted.extend(entries.into_iter().flatten());
    }
    sorted
}

/// Prints what one has and the other has not, by the longest run of lines they share.
pub(crate) fn difference(report: &mut String, ours: &[String], theirs: &[String]) {
    let (n, m) = (ours.len(), theirs.len());
    let mut common = vec![vec![0_usize; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            common[i][j] = if ours[i] == theirs[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < n || j < m {
        if i < n && j < m && ours[i] == theirs[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == m || (i < n && common[i + 1][j] >= common[i][j + 1]) {
            let _ = writeln!(report, "   {:>5} + {}", i + 1, ours[i]);
            i += 1;
        } else {
            let _ = writeln!(report, "   {:>5} - {}", j + 1, theirs[j]);
            j += 1;
        }
    }
}

#[test]
fn only_what_may_differ_is_hidden() {
    let said = |text: &str| lines(text, Path::new("/scratch/one"), &[]).join("\n");
    assert_eq!(said("node/a   Ready   <none>   12s"), said("node/a    Ready   <none>    3m4s"));
    assert_eq!(said("  resourceVersion: \"12\""), said("  resourceVersion: \"1345\""));
    assert_eq!(said("Resource Version:  7"), said("Resource Version:    71"));
    assert_eq!(said("node/a   Ready   <none>   9s"), said("node/a    Ready   <none>    119s"));
    let repaired = "2s  Warning  ClusterIPNotAllocated  service/one  Cluster IP [IPv4]: 10.96.0.9 is not allocated; repairing";
    assert_eq!(said(&format!("a\n{repaired}\nb")), said("a\nb"));
    assert_ne!(said("for 300s"), said("for 30s"));
    assert_ne!(said("  a: 1"), said("    a: 1"), "indentation means something");
    assert_eq!(said("wrote /scratch/one/x"), "wrote <here>/x");
}
