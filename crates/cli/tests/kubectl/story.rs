//! A story: commands as one types them, told to both servers.
//!
//! A line that begins with `$ ` is a command that must succeed, one that begins with `! ` a command that must not; what
//! follows up to the next such line (or a line that begins with `# `) belongs to it, so that here-documents work.
//! `~ PATTERN | REASON` after a command accepts that only one of the servers has lines like that.

use std::fmt::Write as _;
use std::path::Path;

use regex::Regex;

use crate::normal;
use crate::servers::{Kubectl, PREFIX, Scratch, Servers};

#[derive(Debug)]
struct Step {
    line: String,
    succeeds: bool,
    accepted: Vec<Regex>,
}

/// What came of a step.
#[derive(PartialEq, Eq, Debug)]
struct Said {
    code: Option<i32>,
    stdout: Vec<String>,
    stderr: Vec<String>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some((succeeds, command)) =
            line.strip_prefix("$ ").map(|c| (true, c)).or(line.strip_prefix("! ").map(|c| (false, c)))
        {
            steps.push(Step { line: command.to_owned(), succeeds, accepted: Vec::new() });
            open = true;
        } else if let Some(rest) = line.strip_prefix("~ ")
            && let Some(step) = steps.last_mut()
        {
            let (pattern, why) = rest.split_once(" | ").expect("an accepted difference says why");
            assert!(why.split_whitespace().count() > 3, "say why {pattern} may differ");
            step.accepted.push(Regex::new(pattern).expect("a pattern"));
            open = false;
        } else if line.starts_with("# ") {
            open = false;
        } else if open && let Some(step) = steps.last_mut() {
            step.line.push('\n');
            step.line.push_str(line);
        } else {
            assert!(line.trim().is_empty(), "a line of no command: {line}");
        }
    }
    steps
}

/// Tells a story of `stories/` to both servers and compares what they make of it.
pub(crate) fn tell(name: &str, kubectl: Kubectl) {
    if kubectl.path().is_none() {
        eprintln!("SKIPPED {name}: this machine has no kubectl of its own to try");
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kubectl/stories/{name}.txt"));
    let prefix = format!("{name}{}", if kubectl == Kubectl::Pinned { "" } else { "-m" });
    let text = std::fs::read_to_string(&file).expect("the story").replace(PREFIX, &prefix);
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{} tells nothing", file.display());
    let servers = Servers::shared();
    let [embedded, real] = servers.each(|which| {
        let scratch = Scratch::new(&servers, which, kubectl, &prefix);
        steps.iter().map(|step| run(&scratch, step)).collect::<Vec<Said>>()
    });
    let mut report = String::new();
    for ((step, embedded), real) in steps.iter().zip(&embedded).zip(&real) {
        judge(&mut report, step, embedded, real);
    }
    assert!(report.is_empty(), "{}, with {kubectl:?}:\n{report}", file.display());
}

fn run(scratch: &Scratch, step: &Step) -> Said {
    let output = scratch.shell(&step.line).output().expect("a shell runs");
    let lines = |bytes: &[u8]| normal::lines(&String::from_utf8_lossy(bytes), scratch.path(), &step.accepted);
    Said { code: output.status.code(), stdout: lines(&output.stdout), stderr: lines(&output.stderr) }
}

fn judge(report: &mut String, step: &Step, embedded: &Said, real: &Said) {
    let expected = |said: &Said| (said.code == Some(0)) == step.succeeds;
    if embedded == real && expected(real) {
        return;
    }
    let _ = writeln!(report, "\n── {}", step.line);
    if !expected(real) {
        // The story is wrong, or the machine: the real server is never wrong here.
        let _ = writeln!(report, "   unexpectedly, the real server's kubectl ends with {:?}:", real.code);
        for line in real.stdout.iter().chain(&real.stderr) {
            let _ = writeln!(report, "         {line}");
        }
    }
    if embedded.code != real.code {
        let _ = writeln!(report, "   ends with {:?}, with the real server {:?}", embedded.code, real.code);
    }
    for (name, ours, theirs) in
        [("stdout", &embedded.stdout, &real.stdout), ("stderr", &embedded.stderr, &real.stderr)]
    {
        if ours != theirs {
            let _ = writeln!(report, "   {name} (+ ours, - the real server's):");
            normal::difference(report, ours, theirs);
        }
    }
}
