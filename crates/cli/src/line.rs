//! Saying what is going on while something takes its time.

use std::io::{IsTerminal, Write};

/// One line on standard error: written over on a terminal, else only when it says something new.
#[derive(Debug)]
pub(crate) struct Line {
    over: bool,
    last: String,
}

impl Line {
    /// Nothing said yet.
    pub(crate) fn new() -> Line {
        Line { over: std::io::stderr().is_terminal(), last: String::new() }
    }

    /// Says it, if it is something else than the last time.
    pub(crate) fn show(&mut self, text: &str) {
        if text == self.last {
            return;
        }
        if self.over {
            eprint!("\r\x1b[2K{text}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{text}");
        }
        self.last = text.to_owned();
    }

    /// The same with how long it has been so, which is news on a terminal only.
    pub(crate) fn show_since(&mut self, text: &str, seconds: f64) {
        if self.over {
            self.show(&format!("{text} ({seconds:.0} s)"));
        } else {
            self.show(text);
        }
    }

    /// Takes it off the terminal, for something else to be printed.
    pub(crate) fn clear(&self) {
        if self.over && !self.last.is_empty() {
            eprint!("\r\x1b[2K");
        }
    }
}
