//! What a scenario has to say while it runs, and what of it is kept.

use std::time::Instant;

/// The notes of one scenario.
#[derive(Debug)]
pub(crate) struct Notes {
    name: &'static str,
    began: Instant,
    /// For the report, in Markdown.
    pub(crate) lines: Vec<String>,
    /// What did not hold.
    pub(crate) problems: Vec<String>,
}

impl Notes {
    pub(crate) fn new(name: &'static str) -> Notes {
        Notes { name, began: Instant::now(), lines: vec![], problems: vec![] }
    }

    /// Says how far it is.
    pub(crate) fn progress(&self, text: impl AsRef<str>) {
        println!("soak: {} {:>5.0} s  {}", self.name, self.began.elapsed().as_secs_f32(), text.as_ref());
    }

    /// A line for the report.
    pub(crate) fn line(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.progress(&text);
        self.lines.push(text);
    }

    /// Something did not hold. The scenario goes on and has failed.
    pub(crate) fn problem(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.progress(format!("FAILED: {text}"));
        self.problems.push(text);
    }
}
