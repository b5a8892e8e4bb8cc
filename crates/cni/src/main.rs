//! `netferry-cni`: started by the runtime for every pod and verb, so it does little and ends soon.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use netferry_cni::protocol::Patience;
use netferry_cni::{CniError, Code, Version, plugin};

fn main() -> ExitCode {
    let variable = |name: &str| std::env::var(name).ok();
    let asked = std::env::args().nth(1);
    if asked.is_some() || (!plugin::called_by_runtime(variable) && std::io::stdin().is_terminal()) {
        eprintln!("{}", plugin::usage());
        let fine = asked.as_deref().is_some_and(|a| matches!(a, "--help" | "-h" | "--version" | "-V"));
        return if fine { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let mut input = Vec::new();
    let output = match std::io::stdin().lock().read_to_end(&mut input) {
        Ok(_) => plugin::run(variable, &input, Patience::default()),
        Err(error) => {
            let error =
                CniError::new(Code::Io, "the network configuration cannot be read from standard input")
                    .with_details(error.to_string());
            plugin::Output { print: Some(error.to_json(Version::NEWEST)), success: false }
        }
    };
    if let Some(value) = &output.print {
        // A runtime that closed its end has stopped listening; there is nobody left to tell.
        let _ = writeln!(std::io::stdout().lock(), "{value}");
    }
    if output.success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
