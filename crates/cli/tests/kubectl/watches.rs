//! `kubectl get --watch` on one object of every kind.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::kinds::documents;
use crate::normal;
use crate::servers::{Kubectl, PREFIX, Scratch, Servers};

/// How long the next line may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A kubectl that watches; ended with this.
struct Watcher {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Watcher {
    fn start(scratch: &Scratch, file: &str) -> Watcher {
        let mut child = scratch
            .kubectl(&["get", "-f", file, "--watch", "--output-watch-events", "--show-labels"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        let stdout = child.stdout.take().expect("a pipe");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Watcher { child, lines, seen: Vec::new() }
    }

    /// Reads on until a line begins with the word.
    fn until(&mut self, word: &str, file: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = line.starts_with(word);
                    self.seen.push(line);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{file}: no {word} in:\n{}", self.seen.join("\n"))
                }
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watch_shows_every_kind_come_change_and_go_as_on_a_real_server() {
    let servers = Servers::shared();
    let [embedded, real] = servers.each(|which| {
        let scratch = Scratch::new(&servers, which, Kubectl::Pinned, "watched");
        let ok = |line: &str| {
            let output = scratch.shell(line).output().expect("a shell runs");
            assert!(output.status.success(), "{which:?}: {line}: {output:?}");
        };
        let files: Vec<String> = (0..documents().len()).map(|n| format!("one-{n}.yaml")).collect();
        for (file, document) in files.iter().zip(documents()) {
            let text = document.replace(PREFIX, "watched");
            std::fs::write(scratch.path().join(file), text).expect("a file");
        }
        ok("kubectl create namespace watched");
        ok("kubectl apply -f built-in.yaml -f custom.yaml");
        let mut watchers: Vec<Watcher> = files.iter().map(|file| Watcher::start(&scratch, file)).collect();
        for (word, command) in [
            ("ADDED", "kubectl label -f built-in.yaml -f custom.yaml seen=yes"),
            ("MODIFIED", "kubectl delete -f built-in.yaml -f custom.yaml --wait=false"),
            ("DELETED", "true"),
        ] {
            for (watcher, file) in watchers.iter_mut().zip(&files) {
                watcher.until(word, file);
            }
            ok(command);
        }
        watchers.iter().map(|watcher| normal::lines(&watcher.seen.join("\n"), scratch.path(), &[])).collect()
    });
    let mut report = String::new();
    let embedded: Vec<Vec<String>> = embedded;
    for ((document, mut ours), mut theirs) in documents().into_iter().zip(embedded).zip(real) {
        // A controller that writes what is not shown makes a row like the one before.
        ours.dedup();
        theirs.dedup();
        if ours != theirs {
            report.push_str(document);
            report.push('\n');
            normal::difference(&mut report, &ours, &theirs);
        }
    }
    assert!(report.is_empty(), "{report}");
}
