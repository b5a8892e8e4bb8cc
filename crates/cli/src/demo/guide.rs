//! Showing a command, running it, showing its answer, and holding it to what was promised.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, anyhow};

use crate::exit::Failure;
use crate::output::{self, Paint};

/// What a step must come to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    /// It succeeds, and its answer contains these words.
    Done(&'static str),
    /// It is refused, and the refusal contains these words.
    Refused(&'static str),
}

/// Walks through the steps.
#[derive(Debug)]
pub(super) struct Guide {
    kubectl: PathBuf,
    dir: PathBuf,
    paint: Paint,
    passed: usize,
}

impl Guide {
    pub(super) fn new(kubectl: &Path, dir: &Path, paint: Paint) -> Self {
        Self { kubectl: kubectl.to_owned(), dir: dir.to_owned(), paint, passed: 0 }
    }

    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        output::print(&format!("{text}\n"))
    }

    /// Explains, runs and checks one command; returns what it printed.
    pub(super) fn step(&mut self, why: &str, args: &[&str], expect: Expect) -> Result<String, Failure> {
        self.say(&format!("\n{}", self.paint.bold(why)))?;
        self.run(args, expect)
    }

    /// The same without an explanation, for the second command of a step.
    pub(super) fn run(&mut self, args: &[&str], expect: Expect) -> Result<String, Failure> {
        self.say(&format!("  $ kubectl {}", typed(args)))?;
        let output =
            self.kubectl(args).output().with_context(|| format!("running {}", self.kubectl.display()))?;
        let answer =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        self.say(&indented(&answer))?;
        let (as_expected, words) = match expect {
            Expect::Done(words) => (output.status.success(), words),
            Expect::Refused(words) => (!output.status.success(), words),
        };
        if as_expected && answer.contains(words) {
            self.passed += 1;
            return Ok(answer);
        }
        Err(anyhow!("`kubectl {}` ended with {} where {expect:?} was promised", typed(args), output.status)
            .into())
    }

    /// Starts a command whose answer is read later.
    pub(super) fn beside(&self, args: &[&str]) -> Result<Child, Failure> {
        self.say(&format!("  $ kubectl {} &", typed(args)))?;
        let child = self.kubectl(args).stdout(Stdio::piped()).spawn();
        Ok(child.with_context(|| format!("running {}", self.kubectl.display()))?)
    }

    fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        // Its caches too: the tour must leave nothing behind.
        command.args(args).current_dir(&self.dir).env("KUBECONFIG", "kubeconfig").env("HOME", &self.dir);
        command.env("KUBECACHEDIR", self.dir.join("cache")).stdin(Stdio::null());
        command
    }
}

/// The arguments as one would type them.
fn typed(args: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,".contains(c);
    let quoted =
        args.iter().map(|arg| if arg.chars().all(plain) { (*arg).to_owned() } else { format!("'{arg}'") });
    quoted.collect::<Vec<_>>().join(" ")
}

pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn a_printed_command_can_be_pasted_into_a_shell() {
        let args = ["patch", "Network.config.openshift.io", "--type=merge", r#"{"a":"b"}"#, ""];
        assert_eq!(typed(&args), r#"patch Network.config.openshift.io --type=merge '{"a":"b"}' "#);
    }
}
