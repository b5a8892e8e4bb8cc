//! How a command ends: the exit codes scripts rely on, and the one place errors are printed.

use std::io;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
///
/// Code 2 is not here: a wrong command line never gets as far as a command.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Tried, and it did not work.
    Failed(anyhow::Error),
    /// Understood, and not done: it would break a promise.
    Refused(anyhow::Error),
    /// No answer in time; what was asked for may still happen.
    TimedOut(anyhow::Error),
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Refused(_) => 3,
            Self::TimedOut(_) => 4,
        }
    }

    pub(crate) fn cause(&self) -> &anyhow::Error {
        match self {
            Self::Failed(cause) | Self::Refused(cause) | Self::TimedOut(cause) => cause,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(cause: anyhow::Error) -> Self {
        Self::Failed(cause)
    }
}

/// Prints the error, if there is one, and turns the outcome into the exit code.
pub(crate) fn code(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // `netferry doctor | head` is not an error: the reader has what it wanted.
        Err(failure) if is_broken_pipe(failure.cause()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", chain(failure.cause()));
            ExitCode::from(failure.code())
        }
    }
}

/// `error: what we tried: what went wrong: its cause`, in one line.
fn chain(error: &anyhow::Error) -> String {
    let mut line = String::from("error");
    for cause in error.chain() {
        let text = cause.to_string();
        // Some libraries put the cause into their own text as well.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn an_error_is_printed_as_one_line_from_the_attempt_to_the_cause() {
        let error = anyhow!("no such file").context("reading pins").context("building assets");
        assert_eq!(chain(&error), "error: building assets: reading pins: no such file");
    }

    #[test]
    fn a_cause_its_error_already_mentions_is_not_repeated() {
        let error = anyhow!("no such file").context("cannot read pins: no such file");
        assert_eq!(chain(&error), "error: cannot read pins: no such file");
    }
}
