//! Printing answers: one value, three forms.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

use crate::args::Format;
use crate::exit::Failure;

/// Writes text to standard output; unlike `println!`, a closed pipe is an error and not a panic.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("writing to standard output")?;
    Ok(())
}

/// Prints `value` as the format asks; `table` is only called for people.
pub(crate) fn answer<T: Serialize>(
    format: Format,
    value: &T,
    table: impl FnOnce(Paint) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table => table(Paint::for_stdout()),
        Format::Json => serde_json::to_string_pretty(value).context("writing the answer as JSON")? + "\n",
        Format::Yaml => serde_saphyr::to_string(value).context("writing the answer as YAML")?,
    };
    print(&text)
}

/// Colour, where it is wanted and can be seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Self { on: !refused && io::stdout().is_terminal() }
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        let mut painted = String::new();
        // Writing to a String cannot fail.
        let _ =
            if self.on { write!(painted, "\x1b[{code}m{text}\x1b[0m") } else { write!(painted, "{text}") };
        painted
    }
}
